//! The output of a `tool` command, as text and as JSON, or an error with its exit code.

use serde::Serialize;

use crate::cli::output::complain;
use crate::exit::Exit;
use butler_base::error::{Advice, chain};

/// The output of a command.
pub(super) struct CommandOutput {
    pub(super) json: serde_json::Value,
    pub(super) text: String,
    /// A problem to report after the output.
    pub(super) failure: Option<CommandFailure>,
}

impl CommandOutput {
    pub(super) fn new(value: &impl Serialize, text: String) -> Result<Self, CommandFailure> {
        let json = serde_json::to_value(value).map_err(|error| CommandFailure::usage(&error))?;
        Ok(Self { json, text, failure: None })
    }

    /// The same output, with a failure to report after it.
    pub(super) fn failed(self, message: String, advice: String) -> Self {
        Self {
            failure: Some(CommandFailure { exit: Exit::Failed, message, advice: Some(advice) }),
            ..self
        }
    }
}

/// An error of a command, with its hint and exit code.
pub(super) struct CommandFailure {
    pub(super) exit: Exit,
    pub(super) message: String,
    pub(super) advice: Option<String>,
}

impl CommandFailure {
    /// A usage error without a hint.
    pub(super) fn usage(error: &(dyn std::error::Error + 'static)) -> Self {
        Self { exit: Exit::Usage, message: chain(error), advice: None }
    }

    /// Prints it; returns the exit code.
    pub(super) fn report(self) -> u8 {
        complain(&self.message, self.advice.as_deref());
        self.exit.code()
    }

    /// A usage error with the hint of `error`.
    pub(super) fn misuse(error: &(impl Advice + 'static)) -> Self {
        Self { exit: Exit::Usage, message: chain(error), advice: error.advice() }
    }
}

impl<E: std::error::Error + Advice + 'static> From<E> for CommandFailure {
    fn from(error: E) -> Self {
        Self { exit: Exit::Failed, message: chain(&error), advice: error.advice() }
    }
}
