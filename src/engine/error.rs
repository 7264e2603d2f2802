//! Why an operation did not get to its end.

use std::path::PathBuf;

use crate::cancel::StopReason;
use crate::process::{OutOfMemory, ProcessError};

/// What the OOM killer sends; the runner's own is part of a stop and no failure.
const SIGKILL: i32 = nix::sys::signal::Signal::SIGKILL as i32;

/// How a command failed.
#[derive(Debug, Eq, PartialEq)]
pub struct Failed {
    /// The exit code, if it has one.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Whether the kernel killed it, or one of its plugins, for want of memory, where that is known.
    pub out_of_memory: Option<OutOfMemory>,
    /// The first error that it printed.
    pub headline: Option<String>,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal, self.out_of_memory) {
            (Some(code), _, None) => write!(formatter, "failed with exit code {code}")?,
            (Some(code), _, Some(killer)) => write!(
                formatter,
                "failed with exit code {code} after a process that it needs was killed by {killer}"
            )?,
            (None, Some(SIGKILL), Some(killer)) => write!(formatter, "was killed by {killer}")?,
            (None, Some(SIGKILL), None) => {
                write!(formatter, "was killed by signal {SIGKILL}, probably by the OOM killer")?;
            }
            (None, Some(signal), _) => write!(formatter, "was killed by signal {signal}")?,
            (None, None, _) => write!(formatter, "failed")?,
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
            Self::Failed {
                failed: Failed { signal: Some(SIGKILL), .. } | Failed { out_of_memory: Some(_), .. },
                ..
            } => Some("give the job more memory".to_owned()),
            Self::Stopped { killed: true, .. } => Some(
                "the state lock may be left: the next run names it, `force-unlock` removes it"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Advice;

    #[test]
    fn a_kill_for_want_of_memory_is_called_that() {
        let known = Some(OutOfMemory { limit: Some(512 << 20) });
        for (code, signal, out_of_memory, expected, advice) in [
            (Some(1), None, None, "failed with exit code 1", false),
            (None, Some(9), known, "was killed by the OOM killer (memory limit 512 MiB)", true),
            (None, Some(9), None, "was killed by signal 9, probably by the OOM killer", true),
            (None, Some(11), None, "was killed by signal 11", false),
            (
                Some(1),
                None,
                known,
                "failed with exit code 1 after a process that it needs was killed by the OOM killer (memory limit 512 MiB)",
                true,
            ),
        ] {
            let failed = Failed { code, signal, out_of_memory, headline: None };
            assert_eq!(failed.to_string(), expected);
            let error = EngineError::Failed { product: "terraform", command: "plan", failed };
            assert_eq!(error.advice().is_some(), advice, "{expected}");
        }
    }
}
