//! The result of a `tool` command: text and JSON, or an error with its exit code.

use serde::Serialize;

use crate::cli::output::complain;
use crate::exit::Exit;
use butler_base::error::{Advice, chain};

/// The result of a command.
pub(super) struct Answer {
    pub(super) json: serde_json::Value,
    pub(super) text: String,
    /// A problem to report after the result.
    pub(super) failure: Option<Failure>,
}

impl Answer {
    pub(super) fn new(value: &impl Serialize, text: String) -> Result<Self, Failure> {
        let json = serde_json::to_value(value).map_err(|error| Failure::usage(&error))?;
        Ok(Self { json, text, failure: None })
    }

    /// The same result, with a failure to report after it.
    pub(super) fn failed(self, message: String, advice: String) -> Self {
        Self {
            failure: Some(Failure { exit: Exit::Failed, message, advice: Some(advice) }),
            ..self
        }
    }
}

/// An error of a command, with its hint and exit code.
pub(super) struct Failure {
    pub(super) exit: Exit,
    pub(super) message: String,
    pub(super) advice: Option<String>,
}

impl Failure {
    /// A usage error without a hint.
    pub(super) fn usage(error: &(dyn std::error::Error + 'static)) -> Self {
        Self { exit: Exit::Usage, message: chain(error), advice: None }
    }

    /// Says it; returns the exit code.
    pub(super) fn report(self) -> u8 {
        complain(&self.message, self.advice.as_deref());
        self.exit.code()
    }

    /// A usage error with the hint of `error`.
    pub(super) fn misuse(error: &(impl Advice + 'static)) -> Self {
        Self { exit: Exit::Usage, message: chain(error), advice: error.advice() }
    }
}

impl<E: std::error::Error + Advice + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { exit: Exit::Failed, message: chain(&error), advice: error.advice() }
    }
}
