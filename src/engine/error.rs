//! Why a command of an operation failed.

use std::path::PathBuf;

use super::failures::cause::FailureCause;
use super::locks::lock::LeftLock;
use butler_base::cancel::StopReason;
use butler_base::error::FailureClass;
use butler_base::process::{OutOfMemory, ProcessError};
use butler_protocol::backend::StateLock;

/// The signal of the OOM killer. The runner's own SIGKILL belongs to a stop, which is a different error.
const SIGKILL: i32 = butler_base::platform::Signal::SIGKILL as i32;

/// How a command failed.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct FailedCommand {
    /// The exit code, if it has one.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Whether the OOM killer killed it or one of its plugins, if that is known.
    pub out_of_memory: Option<OutOfMemory>,
    /// The summary of the error that it failed of.
    pub headline: Option<String>,
    /// The first sentence of the detail of this error, redacted.
    pub detail: Option<String>,
    /// The cause of this error.
    pub cause: FailureCause,
    /// The lock of another command, because of which it failed.
    pub lock: Option<StateLock>,
    /// Its own lock, if it was killed and the lock does not end with it.
    pub left: Option<LeftLock>,
}

impl std::fmt::Display for FailedCommand {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal, self.out_of_memory) {
            (Some(code), _, None) => write!(formatter, "failed with exit code {code}")?,
            (Some(code), _, Some(killer)) => write!(
                formatter,
                "failed with exit code {code}; meanwhile {killer} killed a process of this job or machine"
            )?,
            (None, Some(SIGKILL), Some(killer)) => write!(formatter, "was killed by {killer}")?,
            (None, Some(SIGKILL), None) => {
                write!(formatter, "was killed by signal {SIGKILL}, probably by the OOM killer")?;
            }
            (None, Some(signal), _) => write!(formatter, "was killed by signal {signal}")?,
            (None, None, _) => write!(formatter, "failed")?,
        }
        if let Some(lock) = &self.lock {
            write!(formatter, ": {lock}")?;
        } else if let Some(problem) = joined(self.headline.clone(), self.detail.clone()) {
            write!(formatter, ": {problem}")?;
        }
        self.left.as_ref().map_or(Ok(()), |left| write!(formatter, "; {left}"))
    }
}

/// The summary of an error and the first sentence of its detail.
pub(super) fn joined(headline: Option<String>, detail: Option<String>) -> Option<String> {
    match (headline, detail) {
        (Some(headline), Some(detail)) => {
            // The tool may have wrapped a long summary.
            let between = if headline.ends_with(',') { " " } else { ": " };
            Some(format!("{}{between}{detail}", headline.trim_end_matches(['.', ':'])))
        }
        (headline, detail) => headline.or(detail),
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The command could not be run.
    #[error("cannot run `{command}`")]
    Process {
        /// The command, such as `plan`.
        command: &'static str,
        /// The reason.
        #[source]
        source: ProcessError,
    },
    /// The command ran and failed.
    #[error("`{product} {command}` {failed}")]
    Failed {
        /// The program that users run for the same command.
        product: &'static str,
        /// The command, such as `plan`.
        command: &'static str,
        /// The exit and its reason.
        failed: Box<FailedCommand>,
    },
    /// The run was stopped.
    #[error("`{command}` was stopped because {reason}")]
    Stopped {
        /// The command that was running.
        command: &'static str,
        /// The reason of the stop.
        reason: StopReason,
        /// The program that users run for the same command.
        product: &'static str,
        /// Whether it had to be killed.
        killed: bool,
        /// Its own state lock, if it was killed and the lock does not end with it.
        left: Option<Box<LeftLock>>,
    },
    /// A file that the command wrote cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The output of the command does not have the documented format.
    #[error("cannot parse the output of `{command}`")]
    Malformed {
        /// The command.
        command: &'static str,
        /// The first mismatch.
        #[source]
        source: serde_json::Error,
    },
}

impl EngineError {
    /// The command's own state lock, if it was queried.
    #[must_use]
    pub fn left(&self) -> Option<&LeftLock> {
        match self {
            Self::Failed { failed, .. } => failed.left.as_ref(),
            Self::Stopped { left, .. } => left.as_deref(),
            _ => None,
        }
    }

    /// The lock of another command, because of which it failed.
    #[must_use]
    pub fn blocking(&self) -> Option<&StateLock> {
        match self {
            Self::Failed { failed, .. } => failed.lock.as_ref(),
            _ => None,
        }
    }

    /// Stores what is known about the command's own state lock.
    pub(super) fn set_left(&mut self, lock: LeftLock) {
        match self {
            Self::Failed { failed, .. } => failed.left = Some(lock),
            Self::Stopped { left, .. } => *left = Some(Box::new(lock)),
            _ => {}
        }
    }
}

impl butler_base::error::Advice for EngineError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Process { source, .. } => source.advice(),
            Self::Failed { product, failed, .. } => failed.advice(product),
            Self::Stopped { command: "apply", left: Some(left), .. }
                if **left == LeftLock::Ended =>
            {
                Some(
                    "the state lock has ended with the tool, but what it was doing may be missing in the state"
                        .to_owned(),
                )
            }
            Self::Stopped { left: Some(left), .. } if **left == LeftLock::Ended => {
                Some("the state lock has ended with the tool".to_owned())
            }
            Self::Stopped { product, left: Some(left), .. } => left.advice(product),
            Self::Stopped { command: "test", killed: true, .. } => Some(
                "resources that the tests created may still exist: they are not in a state, so look for them manually"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    fn class(&self) -> Option<FailureClass> {
        match self {
            Self::Failed { command, failed, .. } => Some(failed.class(command)),
            Self::Stopped { .. } => None,
            Self::Process { .. } | Self::Read { .. } | Self::Malformed { .. } => {
                Some(FailureClass::Platform)
            }
        }
    }
}

impl FailedCommand {
    fn class(&self, command: &str) -> FailureClass {
        if self.lock.is_some() {
            return FailureClass::Lock;
        }
        if self.out_of_memory.is_some() {
            return FailureClass::OutOfMemory;
        }
        // Who has sent it is not known.
        if self.signal == Some(SIGKILL) {
            return FailureClass::Platform;
        }
        match self.cause {
            FailureCause::Unknown if command == "validate" => FailureClass::Syntax,
            cause => cause.class(),
        }
    }

    fn advice(&self, product: &str) -> Option<String> {
        if let Some(lock) = &self.lock {
            let wait = "wait for it with --lock-timeout (BUTLER_LOCK_TIMEOUT)";
            return Some(match &lock.id {
                Some(id) => format!(
                    "{wait}; only when its holder is gone for good, run `{product} force-unlock {id}` in the module"
                ),
                None => format!(
                    "{wait}; the backend does not report its holder, so look there if it stays"
                ),
            });
        }
        let for_memory = self.signal == Some(SIGKILL) || self.out_of_memory.is_some();
        let killed = for_memory.then(|| "give the job more memory".to_owned());
        let left = self.left.as_ref().and_then(|left| left.advice(product));
        match (killed, left) {
            (Some(killed), Some(left)) => Some(format!("{killed}; {left}")),
            (killed, left) => killed.or(left).or_else(|| self.cause.advice(product)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use butler_base::error::Advice;

    #[test]
    fn hint_about_the_lock_depends_on_the_killed_command() {
        let advice = |command, left: Option<LeftLock>| {
            let reason = StopReason::RunOver { status: "cancelled".to_owned() };
            let left = left.map(Box::new);
            EngineError::Stopped { command, reason, product: "terraform", killed: true, left }
                .advice()
        };
        for command in ["init", "show", "validate"] {
            assert_eq!(advice(command, None), None, "{command}");
        }
        assert!(advice("test", None).unwrap().contains("may still exist"));
        let plan = advice("plan", Some(LeftLock::Ended)).unwrap();
        assert!(!plan.contains("missing in the state"), "{plan}");
        let apply = advice("apply", Some(LeftLock::Ended)).unwrap();
        assert!(apply.contains("has ended with the tool"), "{apply}");
    }

    #[test]
    fn kill_by_the_oom_killer_is_named_in_the_message() {
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
                "failed with exit code 1; meanwhile the OOM killer (memory limit 512 MiB) killed a process of this job or machine",
                true,
            ),
        ] {
            let failed = FailedCommand { code, signal, out_of_memory, ..FailedCommand::default() };
            assert_eq!(failed.to_string(), expected);
            let error = EngineError::Failed {
                product: "terraform",
                command: "plan",
                failed: Box::new(failed),
            };
            assert_eq!(error.advice().is_some(), advice, "{expected}");
            let is_known = error.class() == Some(FailureClass::OutOfMemory);
            assert_eq!(is_known, out_of_memory.is_some(), "{expected}");
        }
    }
}
