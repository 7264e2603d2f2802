//! Arguments that users give to the tool in its environment (`TF_CLI_ARGS` and `TF_CLI_ARGS_COMMAND`).
//!
//! The tool inserts `TF_CLI_ARGS` into every command, and rejects options that a command does not know. Users set
//! it for `init`, `plan` and `apply`, and do not see the other commands that a run needs. So each command gets
//! the options that it knows. An option that no command knows reaches the main commands, which report it.
//! The arguments of one command are unchanged, except for what would change what the runner reads of it.

use std::ffi::OsString;

use butler_base::process::Environment;

/// The variable for all commands.
pub(super) const ALL: &str = "TF_CLI_ARGS";

/// Options of commands, without dashes. The commands of the runner that are not here know none of them.
const OPTIONS: [(&str, &[&str]); 9] = [
    (
        "init",
        &[
            "backend",
            "backend-config",
            "compact-warnings",
            "force-copy",
            "from-module",
            "get",
            "ignore-remote-version",
            "input",
            "json",
            "json-into",
            "lock",
            "lock-timeout",
            "lockfile",
            "migrate-state",
            "no-color",
            "plugin-dir",
            "reconfigure",
            "test-directory",
            "upgrade",
            "var",
            "var-file",
        ],
    ),
    ("plan", PLANNING),
    ("apply", PLANNING),
    (
        "test",
        &[
            "cloud-run",
            "filter",
            "json",
            "json-into",
            "junit-xml",
            "no-color",
            "parallelism",
            "repair",
            "run-parallelism",
            "test-directory",
            "var",
            "var-file",
            "verbose",
        ],
    ),
    ("validate", &["no-color", "no-tests", "query", "test-directory"]),
    ("show", &["no-color"]),
    ("output", &["no-color", "state"]),
    ("state rm", STATE),
    ("state push", STATE),
];

/// The options of `plan` and `apply`.
const PLANNING: &[&str] = &[
    "allow-deferral",
    "auto-approve",
    "backup",
    "compact-warnings",
    "concise",
    "consolidate-errors",
    "consolidate-warnings",
    "deprecation",
    "destroy",
    "detailed-exitcode",
    "exclude",
    "exclude-file",
    "generate-config-out",
    "input",
    "invoke",
    "json",
    "json-into",
    "lock",
    "lock-timeout",
    "no-color",
    "out",
    "parallelism",
    "refresh",
    "refresh-only",
    "replace",
    "show-sensitive",
    "state",
    "state-out",
    "suppress-forget-errors",
    "target",
    "target-file",
    "var",
    "var-file",
];

/// The options of the commands that change the state.
const STATE: &[&str] = &["ignore-remote-version", "lock", "lock-timeout", "no-color"];

/// Options of `apply` only.
const APPLY_ONLY: [&str; 4] = ["auto-approve", "backup", "state-out", "suppress-forget-errors"];

/// Options of `plan` only.
const PLAN_ONLY: [&str; 3] = ["detailed-exitcode", "generate-config-out", "out"];

/// Options whose value can be the next word.
const WITH_VALUE: [&str; 25] = [
    "backend-config",
    "backup",
    "cloud-run",
    "deprecation",
    "exclude",
    "exclude-file",
    "filter",
    "from-module",
    "generate-config-out",
    "invoke",
    "json-into",
    "junit-xml",
    "lock-timeout",
    "lockfile",
    "out",
    "parallelism",
    "plugin-dir",
    "replace",
    "run-parallelism",
    "state",
    "state-out",
    "target",
    "target-file",
    "test-directory",
    "var",
];

/// Commands whose arguments are the user's own affair.
const MAIN: [&str; 5] = ["init", "plan", "apply", "test", "validate"];

/// Fits the variables in `environment` to the command with these `arguments`.
pub(super) fn fit(environment: &mut Environment, arguments: &[OsString]) {
    let mut words = arguments.iter().filter_map(|argument| argument.to_str());
    let first = words.next().unwrap_or_default();
    let command = match (first, words.next()) {
        ("state" | "workspace", Some(second)) => format!("{first} {second}"),
        _ => first.to_owned(),
    };
    let own = format!("{ALL}_{}", command.replace(['-', ' '], "_"));
    let is_main = MAIN.contains(&command.as_str());
    let keeps_given =
        |option: &str| is_known(&command, option) || (is_main && !is_known_anywhere(option));
    let keeps_own = |option: &str| {
        // The runner has an exit code of its own for changes, and reads `output` and `show` as JSON.
        if is_main { option != "detailed-exitcode" } else { is_known(&command, option) }
    };
    change(environment, ALL, |words| {
        filtered(words, is_main, |it| keeps_given(it) && keeps_own(it))
    });
    change(environment, &own, |words| filtered(words, is_main, keeps_own));
}

fn is_known(command: &str, option: &str) -> bool {
    let is_of_another = match command {
        "plan" => APPLY_ONLY.contains(&option),
        "apply" => PLAN_ONLY.contains(&option),
        _ => false,
    };
    !is_of_another && options_of(command).contains(&option)
}

/// The options of a command, without dashes; none for a command that is not in the table.
pub(crate) fn options_of(command: &str) -> &'static [&'static str] {
    let found = OPTIONS.iter().find(|(name, _)| *name == command);
    found.map_or(&[], |(_, options)| *options)
}

fn is_known_anywhere(option: &str) -> bool {
    OPTIONS.iter().any(|(_, options)| options.contains(&option))
}

/// Replaces the value of a variable if `filter` removes words of it. A value that cannot be split is unchanged.
fn change(environment: &mut Environment, name: &str, filter: impl Fn(&[String]) -> Vec<String>) {
    let Some(value) = environment.value(name).and_then(|value| value.to_str()) else { return };
    let Some(words) = split(value) else { return };
    let kept = filter(&words);
    if kept.len() == words.len() {
        return;
    }
    if kept.is_empty() {
        environment.remove(name);
    } else {
        let quoted: Vec<_> = kept.iter().map(|word| quote(word)).collect();
        environment.set(name, quoted.join(" "));
    }
}

/// The options for which `keeps` is true, with their values, and other words if `keeps_words`.
fn filtered(words: &[String], keeps_words: bool, keeps: impl Fn(&str) -> bool) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let option = word.trim_start_matches('-');
        if option.len() == word.len() {
            kept.extend(keeps_words.then(|| word.clone()));
            continue;
        }
        let (name, has_value) =
            option.split_once('=').map_or((option, false), |(name, _)| (name, true));
        let takes_next = !has_value && (WITH_VALUE.contains(&name) || name == "var-file");
        let value = if takes_next { words.next() } else { None };
        if keeps(name) {
            kept.push(word.clone());
            kept.extend(value.cloned());
        }
    }
    kept
}

/// The words of `text` by the rules of a shell for quotes and backslashes, as the tool splits them. None if the
/// text has other characters that are special in a shell, or an open quote.
pub(super) fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', Some('\'')) => word.get_or_insert_default().push(character),
            ('\\', _) => word.get_or_insert_default().push(characters.next()?),
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (_, Some(open)) if character == open => quote = None,
            (' ' | '\t' | '\r' | '\n', None) => words.extend(word.take()),
            (';' | '&' | '|' | '<' | '>' | '(' | ')' | '`' | '$', None) => return None,
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

fn quote(word: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "-_=./:,@%+[]".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variables that a command gets.
    fn fitted(command: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let given = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let mut environment: Environment = given.collect();
        let arguments: Vec<OsString> = command.split(' ').map(OsString::from).collect();
        fit(&mut environment, &arguments);
        environment
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect()
    }

    #[test]
    fn each_command_gets_the_options_that_it_knows() {
        let main = ["init", "plan", "apply"];
        let commands = [
            "init",
            "plan",
            "apply",
            "test",
            "validate",
            "show -json",
            "output -json",
            "state rm -dry-run",
            "state push",
            "workspace list",
            "force-unlock -force",
        ];
        for (value, getting) in [
            ("-input=false", &main[..]),
            ("-lock-timeout=60s", &["init", "plan", "apply", "state rm -dry-run", "state push"]),
            ("--lock=true", &["init", "plan", "apply", "state rm -dry-run", "state push"]),
            ("-parallelism 3", &["plan", "apply", "test"]),
            ("-upgrade", &["init"]),
            ("-suppress-forget-errors", &["apply"]),
            ("-query", &["validate"]),
            ("-run-parallelism 2", &["test"]),
            ("-out=x", &["plan"]),
            ("-auto-approve", &["apply"]),
            ("-detailed-exitcode", &[]),
            ("-state=x", &["plan", "apply", "output -json"]),
            ("-var=a=b", &["init", "plan", "apply", "test"]),
            ("-no-such-option", &["init", "plan", "apply", "test", "validate"]),
            // All but the last two.
            ("-no-color", &commands[..9]),
        ] {
            for command in commands {
                let gets = !fitted(command, &[(ALL, value)]).is_empty();
                assert_eq!(gets, getting.contains(&command), "{command} with {value}");
            }
        }
    }

    #[test]
    fn values_and_quotes_are_kept() {
        for (value, expected) in [
            ("-input=false -lock-timeout 60s -target 'a[\"b c\"]'", "-target 'a[\"b c\"]'"),
            ("-input=false -target=a\\ b -target=\"it's\"", "'-target=a b' '-target=it'\\''s'"),
            ("-upgrade -var-file x.tfvars", "-var-file x.tfvars"),
        ] {
            let fitted = fitted("test", &[(ALL, &value.replace("target", "filter"))]);
            assert_eq!(fitted, [format!("{ALL}={}", expected.replace("target", "filter"))]);
        }
        // What cannot be split is the user's own affair.
        for value in ["-input=false 'open", "-input=false;", "-input=false $X", "-input=false \\"] {
            assert_eq!(fitted("show", &[(ALL, value)]), [format!("{ALL}={value}")]);
        }
        assert_eq!(
            fitted("plan", &[(ALL, "-input=false   -lock=true")]),
            [format!("{ALL}=-input=false   -lock=true")]
        );
    }

    #[test]
    fn arguments_of_one_command_are_unchanged_unless_they_change_its_output() {
        for (command, name, value, expected) in [
            ("plan", "TF_CLI_ARGS_plan", "-detailed-exitcode", None),
            ("plan", "TF_CLI_ARGS_plan", "-detailed-exitcode -lock=false", Some("-lock=false")),
            ("plan", "TF_CLI_ARGS_plan", "-destroy -x y", Some("-destroy -x y")),
            ("apply", "TF_CLI_ARGS_plan", "-detailed-exitcode", Some("-detailed-exitcode")),
            ("output -json", "TF_CLI_ARGS_output", "-raw", None),
            ("output -json", "TF_CLI_ARGS_output", "-raw address", None),
            ("output -json", "TF_CLI_ARGS_output", "-state=x -raw", Some("-state=x")),
            ("show -json", "TF_CLI_ARGS_show", "-json plan", None),
            (
                "state rm -dry-run",
                "TF_CLI_ARGS_state_rm",
                "-lock=false -backup=x",
                Some("-lock=false"),
            ),
        ] {
            let expected: Vec<_> = expected.iter().map(|it| format!("{name}={it}")).collect();
            assert_eq!(fitted(command, &[(name, value)]), expected, "{command} {value}");
        }
    }
}
