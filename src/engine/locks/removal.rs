//! Removes the lock that a person has named, if it is certainly the one that is held.
//!
//! The backend is asked first, because Terraform's `http` backend removes any lock, even one with another id
//! than `force-unlock` gets. Between the answer and the removal, another command can remove the lock and take a
//! new one, which `http` would remove too. Terraform has no command that could exclude that.

use super::lock_output::LockSeeker;
use super::locking::NoAnswer;
use crate::engine::arguments;
use crate::engine::error::{EngineError, FailedCommand, joined};
use crate::engine::failures::cause::FailureCause;
use crate::engine::failures::printed::PrintedFailure;
use crate::engine::invocation::{CommandEnd, Engine};
use crate::engine::watching::OutputWatch;
use butler_base::error::{Advice, FailureClass};
use butler_base::process::{Output, Sink};
use butler_protocol::backend::{LockId, StateLock};

/// The command.
const NAME: &str = "force-unlock";

/// What became of the lock that a person has named.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NamedLock {
    /// The state was not locked.
    Free,
    /// It was removed.
    Removed,
}

/// Why a lock that a person has named stays.
#[derive(Debug, thiserror::Error)]
pub enum LockNotRemoved {
    /// Another one is held.
    #[error("the state lock `{named}` is not removed, because another one is held: {held}")]
    Other {
        /// The lock that was to be removed.
        named: LockId,
        /// The lock that is held.
        held: StateLock,
    },
    /// A lock is held whose id the backend does not report.
    #[error(
        "the state lock `{named}` is not removed, because the backend does not report the id of the lock that \
         is held"
    )]
    Nameless {
        /// The lock that was to be removed.
        named: LockId,
        /// The lock that is held.
        held: StateLock,
    },
    /// The backend did not answer.
    #[error(
        "the state lock `{named}` is not removed, because the backend does not report which lock is held{}",
        problem.as_ref().map(|text| format!(": {text}")).unwrap_or_default()
    )]
    NoAnswer {
        /// The lock that was to be removed.
        named: LockId,
        /// The error of the tool.
        problem: Option<String>,
        /// Its cause.
        cause: FailureCause,
    },
    /// The tool could not remove it, or the run was stopped before that.
    #[error("the state lock `{named}` is not removed")]
    Failed {
        /// The lock that was to be removed.
        named: LockId,
        /// The lock that is held, if it is known.
        held: Option<StateLock>,
        /// The reason.
        #[source]
        source: EngineError,
    },
}

impl LockNotRemoved {
    /// The lock that is held, if it is known.
    #[must_use]
    pub const fn held(&self) -> Option<&StateLock> {
        match self {
            Self::Other { held, .. } | Self::Nameless { held, .. } => Some(held),
            Self::Failed { held, .. } => held.as_ref(),
            Self::NoAnswer { .. } => None,
        }
    }
}

impl Advice for LockNotRemoved {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Other { .. } => {
                Some("wait for its holder; if the holder has ended, remove this lock".to_owned())
            }
            Self::Nameless { .. } => Some("wait for its holder".to_owned()),
            Self::NoAnswer { .. } => Some(
                "check that the backend can be reached and lets this run lock the state".to_owned(),
            ),
            Self::Failed { source, .. } => source.advice(),
        }
    }

    fn class(&self) -> Option<FailureClass> {
        match self {
            Self::Other { .. } | Self::Nameless { .. } => Some(FailureClass::Lock),
            Self::NoAnswer { cause: FailureCause::Unknown, .. } => Some(FailureClass::Network),
            Self::NoAnswer { cause, .. } => Some(cause.class()),
            Self::Failed { source, .. } => source.class(),
        }
    }
}

impl<S: Sink> Engine<'_, S> {
    /// Removes the lock `named` if the backend reports that it is held.
    ///
    /// # Errors
    /// If another lock is held, if the backend does not report which one, or if the lock cannot be removed. All
    /// locks stay then.
    pub async fn remove_lock(&self, named: &LockId) -> Result<NamedLock, LockNotRemoved> {
        let held = match self.query_lock().await {
            Ok(None) => return Ok(NamedLock::Free),
            Ok(Some(held)) if held.has_id(named) => held,
            Ok(Some(held)) => {
                let named = named.clone();
                return Err(match held.id {
                    Some(_) => LockNotRemoved::Other { named, held },
                    None => LockNotRemoved::Nameless { named, held },
                });
            }
            Err(NoAnswer { errors }) => {
                let named = named.clone();
                return Err(if let Some(reason) = self.stop.reason() {
                    let source = self.stopped_error(NAME, reason, false);
                    LockNotRemoved::Failed { named, held: None, source }
                } else {
                    let PrintedFailure { headline, detail, cause } =
                        errors.into_failure(None, self.redactor);
                    let problem = joined(headline, detail);
                    LockNotRemoved::NoAnswer { named, problem, cause }
                });
            }
        };
        self.force_unlock(named).await.map_err(|source| LockNotRemoved::Failed {
            named: named.clone(),
            held: Some(held),
            source,
        })?;
        Ok(NamedLock::Removed)
    }

    async fn force_unlock(&self, id: &LockId) -> Result<(), EngineError> {
        if let Some(reason) = self.stop.reason() {
            return Err(self.stopped_error(NAME, reason, false));
        }
        let command = self.command(arguments::force_unlock(id.as_str()), Output::Lines);
        let (watch, seeker) = (OutputWatch::new(self.log, &self.remote_runs), LockSeeker::now());
        match self.run_in_time(NAME, &command, &watch).await? {
            Some(exit) => {
                let end = CommandEnd::of(watch.into_observed(), &seeker);
                self.check_exit(NAME, &exit, end)
            }
            None => Err(EngineError::Failed {
                product: self.program_name(),
                command: NAME,
                failed: Box::new(FailedCommand {
                    headline: Some("it took too long and was killed".to_owned()),
                    ..FailedCommand::default()
                }),
            }),
        }
    }
}
