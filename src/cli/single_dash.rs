//! Flags in Terraform's spelling: `-var`, `-out=FILE`, `-chdir=DIR`.
//!
//! The commands with the names of Terraform's accept this spelling too. For a flag of Terraform that does not exist
//! here, the error names the alternative.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The commands with the names of Terraform's.
const COMMANDS: [&str; 6] = ["plan", "apply", "destroy", "drift", "validate", "test"];

/// Flags that are accepted with one dash or two.
const TRANSLATED: [&str; 17] = [
    "auto-approve",
    "chdir",
    "destroy",
    "detailed-exitcode",
    "exclude",
    "exclude-file",
    "help",
    "invoke",
    "lock-timeout",
    "out",
    "parallelism",
    "refresh",
    "replace",
    "target",
    "target-file",
    "var",
    "var-file",
];

/// Flags that are ignored, because they request the runner's normal behaviour.
const IGNORED: [&str; 1] = ["input"];

/// Flags of Terraform and `OpenTofu` that these commands do not have, and the alternatives.
const ALTERNATIVES: [(&str, &str); 30] = [
    ("allow-deferral", "set TF_CLI_ARGS_plan=-allow-deferral"),
    ("backend-config", "write the backend's settings into a `backend` block, or into --settings"),
    ("backup", "name the file of the state in a `backend \"local\"` block"),
    ("cloud-run", "set TF_CLI_ARGS_test=-cloud-run=SOURCE"),
    ("compact-warnings", "set TF_CLI_ARGS_plan=-compact-warnings"),
    ("concise", "set TF_CLI_ARGS_plan=-concise"),
    ("consolidate-errors", "set TF_CLI_ARGS_plan=-consolidate-errors"),
    ("consolidate-warnings", "set TF_CLI_ARGS_plan=-consolidate-warnings=false"),
    ("deprecation", "set TF_CLI_ARGS_plan=-deprecation=module:all"),
    ("filter", "set TF_CLI_ARGS_test=-filter=FILE"),
    ("generate-config-out", "run `butler-runner tool exec -- plan -generate-config-out=FILE`"),
    ("json", "--report-dir DIR writes plan.json and result.json"),
    ("json-into", "--report-dir DIR writes plan.json and result.json"),
    ("junit-xml", "--report-dir DIR writes junit.xml"),
    ("lock", "the state is always locked; --lock-timeout waits for another run's lock"),
    ("migrate-state", "run `butler-runner tool exec -- init -migrate-state`"),
    ("no-color", "set NO_COLOR=1"),
    ("no-tests", "set TF_CLI_ARGS_validate=-no-tests"),
    ("query", "set TF_CLI_ARGS_validate=-query"),
    ("reconfigure", "run `butler-runner tool exec -- init -reconfigure`"),
    ("refresh-only", "`butler-runner drift` shows what changed outside of Terraform"),
    ("repair", "set TF_CLI_ARGS_test=-repair"),
    ("run-parallelism", "set TF_CLI_ARGS_test=-run-parallelism=N"),
    (
        "show-sensitive",
        "the runner masks sensitive values; run `butler-runner tool exec -- plan -show-sensitive`",
    ),
    ("state", "name the file of the state in a `backend \"local\"` block"),
    ("state-out", "name the file of the state in a `backend \"local\"` block"),
    ("suppress-forget-errors", "set TF_CLI_ARGS_apply=-suppress-forget-errors"),
    ("test-directory", "set TF_CLI_ARGS_test=-test-directory=DIR, and TF_CLI_ARGS_init too"),
    ("upgrade", "run `butler-runner tool exec -- init -upgrade`"),
    ("verbose", "set TF_CLI_ARGS_test=-verbose"),
];

/// A command line in the runner's spelling.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Translated {
    /// The words, without `-chdir`.
    pub(super) words: Vec<OsString>,
    /// The directory of `-chdir`.
    pub(super) directory: Option<PathBuf>,
    /// The command, if it is one of [`COMMANDS`].
    pub(super) command: Option<&'static str>,
}

/// A flag of Terraform that the command does not have.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct NoSuchFlag {
    /// The flag as the user wrote it, without its value.
    pub(super) flag: String,
    /// The alternative, for the hint.
    pub(super) instead: &'static str,
    /// The command.
    pub(super) command: &'static str,
}

/// Translates `words`, whose first one is the program's name.
pub(super) fn translate(words: Vec<OsString>) -> Result<Translated, NoSuchFlag> {
    let Some((at, command)) = find_command(&words) else {
        return Ok(Translated { words, directory: None, command: None });
    };
    let mut translated = Translated { words: Vec::new(), directory: None, command: Some(command) };
    let mut rest = words.into_iter().enumerate();
    while let Some((index, word)) = rest.next() {
        if index > at && word == "--" {
            translated.words.push(word);
            break;
        }
        match Flag::of(&word) {
            Some(Flag { name: "chdir", value: Some(directory) }) => {
                translated.directory = Some(directory.into());
            }
            Some(Flag { name: "chdir", value: None }) => {
                translated.directory = rest.next().map(|(_, directory)| directory.into());
            }
            Some(Flag { name, .. }) if IGNORED.contains(&name) => {}
            Some(Flag { name, .. }) if TRANSLATED.contains(&name) && !is_long(&word) => {
                let mut long = OsString::from("-");
                long.push(&word);
                translated.words.push(long);
            }
            Some(Flag { name, .. }) => {
                match ALTERNATIVES.iter().find(|(other, _)| *other == name) {
                    Some((_, instead)) => {
                        let dashes = if is_long(&word) { "--" } else { "-" };
                        return Err(NoSuchFlag {
                            flag: format!("{dashes}{name}"),
                            instead,
                            command,
                        });
                    }
                    None => translated.words.push(word),
                }
            }
            None => translated.words.push(word),
        }
    }
    translated.words.extend(rest.map(|(_, word)| word));
    Ok(translated)
}

/// The command and its index, if it is one of [`COMMANDS`].
fn find_command(words: &[OsString]) -> Option<(usize, &'static str)> {
    let mut before: &OsStr = "".as_ref();
    for (index, word) in words.iter().enumerate().skip(1) {
        let is_value = before == "--log" || before == "--log-format";
        before = word;
        if is_value || word.as_encoded_bytes().starts_with(b"-") {
            continue;
        }
        let command = COMMANDS.iter().find(|command| word == **command)?;
        return Some((index, command));
    }
    None
}

/// `-name`, `--name`, or one of these with `=value`.
struct Flag<'word> {
    name: &'word str,
    value: Option<&'word str>,
}

impl<'word> Flag<'word> {
    fn of(word: &'word OsStr) -> Option<Self> {
        let text = word.to_str()?;
        let rest = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
        Some(match rest.split_once('=') {
            Some((name, value)) => Self { name, value: Some(value) },
            None => Self { name: rest, value: None },
        })
    }
}

fn is_long(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"--")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::options_of;

    fn words(text: &str) -> Vec<OsString> {
        std::iter::once("butler-runner").chain(text.split(' ')).map(OsString::from).collect()
    }

    fn translated(text: &str) -> (String, Option<PathBuf>) {
        let Translated { words, directory, .. } = translate(words(text)).unwrap();
        let words: Vec<_> = words.iter().skip(1).map(|word| word.to_str().unwrap()).collect();
        (words.join(" "), directory)
    }

    #[test]
    fn each_command_on_a_directory_accepts_terraforms_spelling() {
        let command = crate::cli::command();
        let names: Vec<_> = command
            .get_subcommands()
            .filter(|command| {
                let has_flag = command.get_opts().any(|it| it.get_long() == Some("lock-timeout"));
                has_flag && command.get_positionals().any(|it| it.get_id() == "directory")
            })
            .map(clap::Command::get_name)
            .collect();
        assert_eq!(names, COMMANDS);
    }

    #[test]
    fn terraforms_spelling_is_translated() {
        for (given, expected) in [
            ("plan -out=x.plan -var a=-b", "plan --out=x.plan --var a=-b"),
            ("apply -auto-approve -target=a.b", "apply --auto-approve --target=a.b"),
            ("plan -refresh=false -input=false -v", "plan --refresh=false -v"),
            ("plan -exclude=a.b -target-file x", "plan --exclude=a.b --target-file x"),
            ("--log debug plan -var-file x", "--log debug plan --var-file x"),
            ("plan -vv -q -- -out", "plan -vv -q -- -out"),
            ("execute -var x", "execute -var x"),
            ("tool install plan", "tool install plan"),
        ] {
            assert_eq!(translated(given), (expected.to_owned(), None), "{given}");
        }
    }

    #[test]
    fn each_flag_of_both_tools_is_accepted_or_has_an_alternative() {
        // `destroy` has flags of `apply`.
        for flag in ["plan", "apply", "validate", "test"].into_iter().flat_map(options_of) {
            let is_accepted = TRANSLATED.contains(flag) || IGNORED.contains(flag);
            let has_alternative = ALTERNATIVES.iter().any(|(other, _)| other == flag);
            assert!(is_accepted != has_alternative, "{flag}");
        }
    }

    #[test]
    fn chdir_is_accepted_before_and_after_the_command() {
        let network = Some(PathBuf::from("network"));
        for given in ["-chdir=network plan x", "plan -chdir=network x", "plan --chdir network x"] {
            assert_eq!(translated(given), ("plan x".to_owned(), network.clone()), "{given}");
        }
    }

    #[test]
    fn error_about_a_missing_flag_names_the_alternative() {
        let refused = translate(words("plan -refresh-only")).unwrap_err();
        assert_eq!((&*refused.flag, refused.command), ("-refresh-only", "plan"));
        assert!(refused.instead.contains("drift"));
        assert_eq!(translate(words("apply --lock=false")).unwrap_err().flag, "--lock");
        assert!(translate(words("execute -refresh-only")).is_ok());
    }
}
