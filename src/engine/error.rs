//! Why an operation did not get to its end.

use std::path::PathBuf;

use crate::cancel::StopReason;
use crate::process::ProcessError;

/// How a command failed.
#[derive(Debug, Eq, PartialEq)]
pub struct Failed {
    /// The exit code, if it has one.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// The first error that it printed.
    pub headline: Option<String>,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(formatter, "failed with exit code {code}")?,
            (None, Some(signal)) => write!(formatter, "was killed by signal {signal}")?,
            (None, None) => write!(formatter, "failed")?,
        }
        self.headline.as_ref().map_or(Ok(()), |headline| write!(formatter, ": {headline}"))
    }
}

/// Why an operation did not get to its end.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The command could not be run.
    #[error("cannot run `{command}`")]
    Process {
        /// The command, `plan` for example.
        command: &'static str,
        /// Why.
        #[source]
        source: ProcessError,
    },
    /// The command ran and failed.
    #[error("`{product} {command}` {failed}")]
    Failed {
        /// The tool.
        product: &'static str,
        /// The command, `plan` for example.
        command: &'static str,
        /// How.
        failed: Failed,
    },
    /// The run was stopped.
    #[error("`{command}` was stopped because {reason}")]
    Stopped {
        /// The command that was running.
        command: &'static str,
        /// Why it had to stop.
        reason: StopReason,
        /// Whether it had to be killed, so that its state lock may be left.
        killed: bool,
    },
    /// A file that the command wrote cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// What the command wrote is not what it promises.
    #[error("cannot understand what `{command}` wrote")]
    Answer {
        /// The command.
        command: &'static str,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

impl crate::error::Advice for EngineError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Process { source, .. } => source.advice(),
            Self::Failed { failed: Failed { signal: Some(9), .. }, .. } => Some(
                "SIGKILL mostly comes from the OOM killer: give the job more memory".to_owned(),
            ),
            Self::Stopped { killed: true, .. } => Some(
                "the state lock may be left: the next run names it, `force-unlock` removes it"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}
