//! Why a run did not succeed: phase, reason, hint, and the cause that decides status and exit code.

use crate::engine::{EngineError, LeftLock};
use crate::exit::Exit;
use butler_base::cancel::StopReason;
use butler_base::error::{Advice, FailureClass, chain};
use butler_base::event::Phase;
use butler_protocol::backend::StateLock;
use butler_result::{FinalStatus, Problem};

/// Why a run did not succeed. Its texts are not redacted.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) phase: Phase,
    pub(super) reason: String,
    /// The hint.
    pub(super) advice: Option<String>,
    pub(super) cause: Cause,
    /// What kind of failure it is, if that is known.
    pub(super) class: Option<FailureClass>,
    /// The state lock that was not released.
    pub(super) left: Option<Box<LeftLock>>,
    /// The lock of another command, because of which the run failed.
    pub(super) blocking: Option<Box<StateLock>>,
}

/// The cause of a failure. Status and exit code depend on nothing else of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Cause {
    /// A signal or the registry stopped the run.
    Stopped(StopReason),
    /// The registry was unreachable or rejected a request.
    Registry,
    /// Everything else: the module, the tool, the machine, or the runner.
    Run,
}

impl Cause {
    /// The exit code, provided that the final status is delivered.
    pub(super) const fn exit(&self) -> Exit {
        match self {
            Self::Stopped(StopReason::RunOver { .. }) => Exit::Cancelled,
            Self::Stopped(StopReason::Signal(signal)) => Exit::Signal(*signal),
            Self::Registry => Exit::Registry,
            Self::Run => Exit::Failed,
        }
    }

    /// The status of the run.
    pub(super) const fn status(&self) -> FinalStatus {
        match self {
            Self::Stopped(_) => FinalStatus::Cancelled,
            Self::Registry | Self::Run => FinalStatus::Failed,
        }
    }
}

impl Failure {
    /// A failure of `phase` because of `error`.
    pub(super) fn new(phase: Phase, error: &(impl Advice + 'static)) -> Self {
        Self { advice: error.advice(), class: error.class(), ..Self::because(phase, chain(error)) }
    }

    /// A failure of `phase` because of an error of the engine, with the state lock that it left.
    pub(super) fn of_engine(phase: Phase, error: &EngineError) -> Self {
        match error {
            EngineError::Stopped { reason, left, .. } => {
                let mut failure = Self::stopped(phase, reason);
                if let Some(left) = left {
                    failure.reason =
                        format!("{}; the tool had to be killed, and {left}", failure.reason);
                }
                Self { advice: error.advice(), left: left.clone(), ..failure }
            }
            error => Self {
                left: error.left().cloned().map(Box::new),
                blocking: error.blocking().cloned().map(Box::new),
                ..Self::new(phase, error)
            },
        }
    }

    /// A failure of `phase` without an error value.
    pub(super) fn because(phase: Phase, reason: impl Into<String>) -> Self {
        Self {
            phase,
            reason: reason.into(),
            advice: None,
            cause: Cause::Run,
            class: None,
            left: None,
            blocking: None,
        }
    }

    /// A run that was stopped in `phase`.
    pub(super) fn stopped(phase: Phase, reason: &StopReason) -> Self {
        Self {
            cause: Cause::Stopped(reason.clone()),
            class: Some(FailureClass::Stopped),
            ..Self::because(phase, format!("stopped because {reason}"))
        }
    }

    /// The state lock that is held, as far as it is known.
    fn lock(&self) -> Option<StateLock> {
        let left = || self.left.as_ref().and_then(|left| left.lock());
        self.blocking.as_deref().cloned().or_else(left)
    }

    /// The failure as users read it, not redacted.
    pub(super) fn problem(&self) -> Problem {
        Problem {
            phase: self.phase,
            message: self.reason.clone(),
            advice: self.advice.clone(),
            class: self.class,
            lock: self.lock(),
        }
    }

    /// Sets the hint.
    pub(super) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// Sets the class.
    pub(super) fn classed(self, class: FailureClass) -> Self {
        Self { class: Some(class), ..self }
    }

    /// Sets the cause.
    pub(super) fn caused_by(self, cause: Cause) -> Self {
        Self { cause, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use butler_base::platform::Signal;

    #[test]
    fn each_cause_has_its_exit_code_and_status() {
        let signal = StopReason::Signal(Signal::SIGTERM);
        let over = StopReason::RunOver { status: "cancelled".to_owned() };
        for (failure, code, status) in [
            (Failure::because(Phase::Plan, "no"), 1, FinalStatus::Failed),
            (Failure::stopped(Phase::Plan, &over), 3, FinalStatus::Cancelled),
            (
                Failure::because(Phase::Config, "no").caused_by(Cause::Registry),
                4,
                FinalStatus::Failed,
            ),
            (Failure::stopped(Phase::Apply, &signal), 143, FinalStatus::Cancelled),
        ] {
            assert_eq!((failure.cause.exit().code(), failure.cause.status()), (code, status));
        }
    }
}
