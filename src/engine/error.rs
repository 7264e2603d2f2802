//! Why an operation did not get to its end.

use std::path::PathBuf;

use super::lock::{LeftLock, StateLock};
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
    /// The lock that kept it from its work.
    pub lock: Option<StateLock>,
    /// What became of its own lock, where something killed it and its lock outlives it.
    pub left: Option<LeftLock>,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(formatter, "failed with exit code {code}")?,
            (None, Some(signal)) => write!(formatter, "was killed by signal {signal}")?,
            (None, None) => write!(formatter, "failed")?,
        }
        match (&self.lock, &self.headline) {
            (Some(lock), _) => write!(formatter, ": {lock}")?,
            (None, Some(headline)) => write!(formatter, ": {headline}")?,
            (None, None) => {}
        }
        self.left.as_ref().map_or(Ok(()), |left| write!(formatter, "; {left}"))
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
        failed: Box<Failed>,
    },
    /// The run was stopped.
    #[error("`{command}` was stopped because {reason}")]
    Stopped {
        /// The command that was running.
        command: &'static str,
        /// Why it had to stop.
        reason: StopReason,
        /// The tool.
        product: &'static str,
        /// Whether it had to be killed.
        killed: bool,
        /// What became of its state lock, where it was killed and its lock outlives it.
        left: Option<Box<LeftLock>>,
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
            Self::Failed { product, failed, .. } => failed.advice(product),
            Self::Stopped { product, left: Some(left), .. } => left.advice(product),
            Self::Stopped { killed: true, .. } => Some(
                "the state lock has ended with the tool, but what it was doing may be missing in the state"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

impl Failed {
    fn advice(&self, product: &str) -> Option<String> {
        if let Some(lock) = &self.lock {
            let wait = "wait for it with --lock-timeout (BUTLER_LOCK_TIMEOUT)";
            return Some(match &lock.id {
                Some(id) => format!(
                    "{wait}; only when its holder is gone for good, run `{product} force-unlock {id}` in the module"
                ),
                None => format!("{wait}; it ends with the connection of its holder"),
            });
        }
        let killed = (self.signal == Some(9)).then(|| {
            "SIGKILL mostly comes from the OOM killer: give the job more memory".to_owned()
        });
        let left = self.left.as_ref().and_then(|left| left.advice(product));
        match (killed, left) {
            (Some(killed), Some(left)) => Some(format!("{killed}; {left}")),
            (killed, left) => killed.or(left),
        }
    }
}
