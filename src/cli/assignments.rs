//! Parses `--var` and `--var-file` in the order of the command line, because a later one takes precedence.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

use butler_protocol::spec::Assignment;

const VALUE: &str = "var";
const FILE: &str = "var-file";

/// The assignments, or the error for a `--var`. The error does not contain the text, which may be a secret.
pub(super) struct Assignments(pub(super) Result<Vec<Assignment>, InvalidAssignment>);

/// A `--var` that is not `NAME=VALUE`.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`--var` number {position} is not NAME=VALUE")]
pub(super) struct InvalidAssignment {
    /// The position among all `--var`, counted from 1.
    position: usize,
}

impl Assignments {
    fn read(matches: &ArgMatches) -> Self {
        let words = |id| {
            let indices = matches.indices_of(id).into_iter().flatten();
            indices.zip(matches.get_many::<OsString>(id).into_iter().flatten())
        };
        let mut found = Vec::new();
        for (position, (index, text)) in words(VALUE).enumerate() {
            match text.to_str().and_then(Assignment::parse) {
                Some(assignment) => found.push((index, assignment)),
                None => return Self(Err(InvalidAssignment { position: position + 1 })),
            }
        }
        let files = words(FILE).map(|(index, file)| (index, Assignment::File(PathBuf::from(file))));
        found.extend(files);
        found.sort_by_key(|(index, _)| *index);
        Self(Ok(found.into_iter().map(|(_, assignment)| assignment).collect()))
    }
}

impl clap::FromArgMatches for Assignments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::read(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::read(matches);
        Ok(())
    }
}

impl clap::Args for Assignments {
    fn augment_args(command: Command) -> Command {
        let arg = |id: &'static str, value: &'static str, help: &'static str| {
            Arg::new(id)
                .long(id)
                .action(ArgAction::Append)
                .value_name(value)
                .value_parser(clap::value_parser!(OsString))
                .allow_hyphen_values(id == VALUE)
                .help(help)
                .help_heading("Plan")
        };
        let value = arg(
            VALUE,
            "NAME=VALUE",
            "Set a variable of the module; a flag is visible in the process list, so pass secrets as TF_VAR_NAME or in a file",
        );
        let file = arg(
            FILE,
            "FILE",
            "Read variables from a file; a later --var or --var-file overrides an earlier one [BUTLER_VAR_FILE]",
        );
        command.arg(value).arg(file)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn read(words: &[&str]) -> Result<Vec<String>, InvalidAssignment> {
        let command = Assignments::augment_args(Command::new("plan"));
        let words = std::iter::once("plan").chain(words.iter().copied());
        let matches = command.try_get_matches_from(words).unwrap();
        let shown = |assignment: &Assignment| match assignment {
            Assignment::Value { name, .. } => name.clone(),
            Assignment::File(file) => file.display().to_string(),
        };
        let read = Assignments::from_arg_matches(&matches).unwrap().0?;
        Ok(read.iter().map(shown).collect())
    }

    #[test]
    fn values_and_files_keep_the_order_of_the_command_line() {
        let words = ["--var", "a=1", "--var-file", "x", "--var=b=-2", "--var-file=y"];
        assert_eq!(read(&words).unwrap(), ["a", "x", "b", "y"]);
        let error = read(&["--var", "a=1", "--var", "hunter2"]).unwrap_err();
        assert_eq!(error.to_string(), "`--var` number 2 is not NAME=VALUE");
    }
}
