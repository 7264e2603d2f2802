//! Delivers the final status, and changes the result of a run whose final status was not delivered.
//!
//! Such a run has not succeeded, even if its operation has: the registry does not show the result. All
//! documents contain the changed result.

use super::report_error::ReportError;
use super::reports::Reports;
use crate::exit::Exit;
use crate::registry::RegistryError;
use butler_base::cancel::{Step, Stop, StopReason};
use butler_base::error::{Advice, FailureClass, chain};
use butler_base::event::Phase;
use butler_base::secret::Redactor;
use butler_result::{FinalStatus, Problem, RunResult};

/// Why the registry did not get the final status.
#[derive(Debug)]
pub(in crate::run) enum UndeliveredStatus {
    /// The registry had ended the run before, with this status if it is known.
    RunOver(Option<String>),
    /// The registry was unreachable, rejected the status, or took too long.
    Lost { reason: String, advice: Option<String> },
}

impl UndeliveredStatus {
    fn run_over(stop: &Stop) -> Self {
        Self::RunOver(match stop.reason() {
            Some(StopReason::RunOver { status }) => Some(status),
            Some(StopReason::Signal(_)) | None => None,
        })
    }

    /// The status could not be sent for this reason.
    pub(in crate::run) fn lost(reason: impl Into<String>) -> Self {
        Self::Lost { reason: reason.into(), advice: None }
    }

    /// Changes `result` and logs the problem. Returns the exit code of the process, which would have
    /// been `exit` if the status had been delivered.
    pub(in crate::run) fn apply_to(
        self,
        result: &mut RunResult,
        exit: Exit,
        redactor: &Redactor,
    ) -> Exit {
        let (new_exit, status) = match (&self, exit) {
            // The signal came first.
            (Self::RunOver(_), Exit::Signal(_)) => (exit, FinalStatus::Cancelled),
            // The failure of the run is that the registry has ended it: the result contains that.
            (Self::RunOver(_), Exit::Cancelled) => return exit,
            (Self::RunOver(_), _) => (Exit::Cancelled, FinalStatus::Cancelled),
            (Self::Lost { .. }, _) => (Exit::Registry, FinalStatus::Failed),
        };
        result.exit_code = new_exit.code();
        let mut problem = self.problem();
        // The result was masked before.
        problem.mask(redactor);
        tracing::error!(advice = problem.advice, "{}", problem.message);
        // An earlier error is kept because it is the root cause.
        if result.error.is_some() {
            result.warnings.push(problem.message);
        } else {
            result.status = status;
            result.error = Some(problem);
        }
        new_exit
    }

    fn problem(self) -> Problem {
        let (message, advice) = match self {
            Self::RunOver(status) => {
                let status = status.map(|status| format!(" ({status})")).unwrap_or_default();
                let message =
                    format!("the registry had ended the run{status} before its end was reported");
                (message, None)
            }
            Self::Lost { reason, advice } => {
                (format!("the final status was not delivered: {reason}"), advice)
            }
        };
        Problem {
            phase: Phase::Report,
            message,
            advice,
            class: Some(FailureClass::Network),
            lock: None,
        }
    }
}

/// Delivers the final status.
pub(in crate::run) async fn deliver(
    stop: &Stop,
    reports: &Reports,
    result: &RunResult,
) -> Result<(), UndeliveredStatus> {
    if stop.run_is_over() {
        return Err(UndeliveredStatus::run_over(stop));
    }
    let has_unanswered_running = reports.has_unanswered_running();
    // A registry that did not answer gets the same request again: it changes nothing if the first one
    // was stored.
    for step in [Step::Status, Step::StatusAgain] {
        match stop.within(step, reports.finish(result)).await {
            Some(Ok(())) => {
                if has_unanswered_running {
                    close_again(stop, reports, result).await;
                }
                return Ok(());
            }
            Some(Err(ReportError::Registry(RegistryError::RunOver))) => {
                return Err(UndeliveredStatus::run_over(stop));
            }
            Some(Err(error)) => {
                let (reason, advice) = (chain(&error), error.advice());
                return Err(UndeliveredStatus::Lost { reason, advice });
            }
            None if stop.run_is_over() => return Err(UndeliveredStatus::run_over(stop)),
            None => {}
        }
    }
    Err(UndeliveredStatus::lost("the time after a signal was over"))
}

/// Sends the same final status again if the registry stored an unanswered `running` after it, which has
/// opened the run again. The runner cannot prevent that, because the registry may be slow.
async fn close_again(stop: &Stop, reports: &Reports, result: &RunResult) {
    let again = async {
        if reports.is_open().await {
            tracing::warn!(
                "the registry has stored `running` late; the final status is sent again"
            );
            if reports.finish(result).await.is_err() {
                tracing::error!("the run may be shown as running in the registry");
            }
        }
    };
    stop.within(Step::StatusAgain, again).await;
}
