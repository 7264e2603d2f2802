//! Variables that users assign in `TF_CLI_ARGS` and `TF_CLI_ARGS_COMMAND`, so that their values can be masked.

use butler_protocol::spec::Assignment;
use butler_source::unparsed;
use secrecy::SecretString;

use super::cli_arguments::{ALL, split};

/// The options that assign variables, without dashes.
const VALUE: &str = "var";
const FILE: &str = "var-file";

/// The assignments in arguments of commands.
#[derive(Debug, Default)]
pub struct GivenAssignments {
    /// Values and files. Paths are relative to the module's directory.
    pub assignments: Vec<Assignment>,
    /// The possible values in arguments that cannot be split as a shell does. The tool quotes them in its error.
    pub texts: Vec<SecretString>,
}

/// The variables that the tool's arguments in `environment` assign, whatever the command is.
pub fn given_assignments<'text>(
    environment: impl IntoIterator<Item = (&'text str, &'text str)>,
) -> GivenAssignments {
    let mut given = GivenAssignments::default();
    for (name, text) in environment {
        let is_of_command = |rest: &str| rest.is_empty() || rest.starts_with('_');
        if !name.strip_prefix(ALL).is_some_and(is_of_command) {
            continue;
        }
        let words = split(text).unwrap_or_else(|| {
            given.texts.extend(unparsed::values([text]).into_iter().map(SecretString::from));
            let quotes = ['"', '\''];
            text.split_whitespace().map(|word| word.replace(quotes, "")).collect()
        });
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let option = word.trim_start_matches('-');
            let (name, value) =
                option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
            if option.len() == word.len() || ![VALUE, FILE].contains(&name) {
                continue;
            }
            let Some(value) = value.or_else(|| words.next().map(String::as_str)) else { break };
            if name == FILE {
                given.assignments.push(Assignment::File(value.into()));
            } else {
                given.assignments.extend(Assignment::parse(value));
            }
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn found(name: &str, text: &str) -> Vec<String> {
        let given = given_assignments([(name, text)]);
        let shown = given.assignments.iter().map(|assignment| match assignment {
            Assignment::Value { name, value } => format!("{name}: {}", value.expose_secret()),
            Assignment::File(path) => path.display().to_string(),
        });
        shown.collect()
    }

    #[test]
    fn each_form_of_an_assignment_is_found() {
        for (text, expected) in [
            ("-var pin=hunter2", &["pin: hunter2"][..]),
            ("-var=pin=hunter2", &["pin: hunter2"]),
            ("--var='pin=a b' -no-color", &["pin: a b"]),
            ("-var \"pin=a=\\\"b\\\"\"", &["pin: a=\"b\""]),
            ("-var 'pin'=x", &["pin: x"]),
            (
                "-input=false -var-file=../a.tfvars -var-file 'b c.tfvars'",
                &["../a.tfvars", "b c.tfvars"],
            ),
            ("-target=x -var a=1 -var b=2", &["a: 1", "b: 2"]),
            ("-variable=x -var", &[]),
            ("var pin=x", &[]),
            // Terraform takes what stands in front of a character that is special in a shell.
            ("-var pin=hunter2;x -var b=$(x)", &["pin: hunter2;x", "b: $(x)"]),
        ] {
            for name in ["TF_CLI_ARGS", "TF_CLI_ARGS_plan", "TF_CLI_ARGS_apply", "TF_CLI_ARGS_x"] {
                assert_eq!(found(name, text), expected, "{text}");
            }
        }
        for name in ["TF_CLI_ARGSX", "TF_CLI", "X"] {
            assert_eq!(found(name, "-var pin=x"), [""; 0], "{name}");
        }
    }

    #[test]
    fn arguments_that_cannot_be_split_are_quoted_by_the_tool() {
        let texts = |text: &str| {
            let given = given_assignments([("TF_CLI_ARGS_plan", text)]);
            given.texts.iter().map(|text| text.expose_secret().to_owned()).collect::<Vec<_>>()
        };
        for text in
            ["-var pin=hunter2;", "-var 'pin=hunter2", "-var pin=hunter2 `x", "-var=pin=(hunter2"]
        {
            assert!(
                texts(text).iter().any(|it| it.trim_matches(';') == "hunter2"),
                "{text}: {:?}",
                texts(text)
            );
        }
        assert_eq!(texts("-var pin=hunter2"), [""; 0]);
    }
}
