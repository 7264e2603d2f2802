//! Flags as people write them for Terraform: `-var`, `-out=FILE`, `-chdir=DIR`.
//!
//! The commands that are called as Terraform's take its spelling too. What Terraform has and this
//! program has not is answered with what to do instead, before anything is started.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The commands that are called as Terraform's.
const COMMANDS: [&str; 6] = ["plan", "apply", "destroy", "drift", "validate", "test"];

/// Flags that may be written with one dash or with two.
const UNDERSTOOD: [&str; 13] = [
    "auto-approve",
    "chdir",
    "destroy",
    "detailed-exitcode",
    "help",
    "lock-timeout",
    "out",
    "parallelism",
    "refresh",
    "replace",
    "target",
    "var",
    "var-file",
];

/// Flags that request the runner's normal behaviour.
const MEANINGLESS: [&str; 1] = ["input"];

/// Flags of Terraform's that these commands do not have, and what to do instead.
const INSTEAD: [(&str, &str); 13] = [
    ("backend-config", "write the backend's settings into a `backend` block, or into --settings"),
    ("backup", "name the file of the state in a `backend \"local\"` block"),
    ("generate-config-out", "run `butler-runner tool exec -- plan -generate-config-out=FILE`"),
    ("json", "--report-dir DIR writes plan.json and result.json"),
    ("lock", "the state is always locked; --lock-timeout waits for another run's lock"),
    ("migrate-state", "run `butler-runner tool exec -- init -migrate-state`"),
    ("no-color", "set NO_COLOR=1"),
    ("reconfigure", "run `butler-runner tool exec -- init -reconfigure`"),
    ("refresh-only", "`butler-runner drift` shows what changed outside of Terraform"),
    ("state", "name the file of the state in a `backend \"local\"` block"),
    ("state-out", "name the file of the state in a `backend \"local\"` block"),
    ("upgrade", "run `butler-runner tool exec -- init -upgrade`"),
    ("compact-warnings", "--log warn shows less of what the runner says itself"),
];

/// A command line in this program's own spelling.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Translated {
    /// The words, without `-chdir`.
    pub(super) words: Vec<OsString>,
    /// The directory to go to first (`-chdir`).
    pub(super) directory: Option<PathBuf>,
    /// Which of [`COMMANDS`] it is.
    pub(super) command: Option<&'static str>,
}

/// A flag of Terraform's that the command does not have.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct NoSuchFlag {
    /// As it was written, without its value.
    pub(super) flag: String,
    /// What to do instead.
    pub(super) instead: &'static str,
    /// Which of [`COMMANDS`] it was given to.
    pub(super) command: &'static str,
}

/// Reads `words`, the first of which is the program's name.
pub(super) fn translate(words: Vec<OsString>) -> Result<Translated, NoSuchFlag> {
    let Some((at, command)) = command(&words) else {
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
            Some(Flag { name, .. }) if MEANINGLESS.contains(&name) => {}
            Some(Flag { name, .. }) if UNDERSTOOD.contains(&name) && !is_long(&word) => {
                let mut long = OsString::from("-");
                long.push(&word);
                translated.words.push(long);
            }
            Some(Flag { name, .. }) => match INSTEAD.iter().find(|(other, _)| *other == name) {
                Some((_, instead)) => {
                    let dashes = if is_long(&word) { "--" } else { "-" };
                    return Err(NoSuchFlag { flag: format!("{dashes}{name}"), instead, command });
                }
                None => translated.words.push(word),
            },
            None => translated.words.push(word),
        }
    }
    translated.words.extend(rest.map(|(_, word)| word));
    Ok(translated)
}

/// Which of [`COMMANDS`] the words are about, and where it stands.
fn command(words: &[OsString]) -> Option<(usize, &'static str)> {
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

    fn words(text: &str) -> Vec<OsString> {
        std::iter::once("butler-runner").chain(text.split(' ')).map(OsString::from).collect()
    }

    fn translated(text: &str) -> (String, Option<PathBuf>) {
        let Translated { words, directory, .. } = translate(words(text)).unwrap();
        let words: Vec<_> = words.iter().skip(1).map(|word| word.to_str().unwrap()).collect();
        (words.join(" "), directory)
    }

    #[test]
    fn terraforms_spelling_becomes_this_programs() {
        for (given, expected) in [
            ("plan -out=x.plan -var a=-b", "plan --out=x.plan --var a=-b"),
            ("apply -auto-approve -target=a.b", "apply --auto-approve --target=a.b"),
            ("plan -refresh=false -input=false -v", "plan --refresh=false -v"),
            ("--log debug plan -var-file x", "--log debug plan --var-file x"),
            ("plan -vv -q -- -out", "plan -vv -q -- -out"),
            ("execute -var x", "execute -var x"),
            ("tool install plan", "tool install plan"),
        ] {
            assert_eq!(translated(given), (expected.to_owned(), None), "{given}");
        }
    }

    #[test]
    fn the_directory_to_go_to_may_stand_anywhere() {
        let network = Some(PathBuf::from("network"));
        for given in ["-chdir=network plan x", "plan -chdir=network x", "plan --chdir network x"] {
            assert_eq!(translated(given), ("plan x".to_owned(), network.clone()), "{given}");
        }
    }

    #[test]
    fn what_there_is_not_is_answered_with_what_there_is() {
        let refused = translate(words("plan -refresh-only")).unwrap_err();
        assert_eq!((&*refused.flag, refused.command), ("-refresh-only", "plan"));
        assert!(refused.instead.contains("drift"));
        assert_eq!(translate(words("apply --lock=false")).unwrap_err().flag, "--lock");
        assert!(translate(words("execute -refresh-only")).is_ok());
    }
}
