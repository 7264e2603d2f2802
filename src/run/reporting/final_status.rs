//! The final status on its way to the registry, and what becomes of a run whose end it did not get.
//!
//! Such a run has not ended well, however well its work has: nobody who asks the registry knows of
//! it. So its result says so, wherever it is shown.

use super::outcome::StatusReport;
use super::report_error::ReportError;
use super::reports::Reports;
use crate::exit::Exit;
use crate::registry::RegistryError;
use butler_base::cancel::{Step, Stop, StopReason};
use butler_base::error::{Advice, chain};
use butler_base::event::Phase;
use butler_base::secret::Redactor;
use butler_result::{Problem, RunResult};

/// Why the registry did not get the final status.
#[derive(Debug)]
pub(in crate::run) enum Undelivered {
    /// It had ended the run: with this status, where that is known.
    Over(Option<String>),
    /// It could not be reached, refused, or took too long.
    Lost { reason: String, advice: Option<String> },
}

impl Undelivered {
    /// A registry that has ended the run before.
    fn over(stop: &Stop) -> Self {
        Self::Over(match stop.reason() {
            Some(StopReason::RunOver { status }) => Some(status),
            _ => None,
        })
    }

    /// The same for a failure to send.
    pub(in crate::run) fn lost(reason: impl Into<String>) -> Self {
        Self::Lost { reason: reason.into(), advice: None }
    }

    /// What the process ends with instead of `exit`.
    const fn exit(&self, exit: Exit) -> Exit {
        match (self, exit) {
            // What came first counts.
            (Self::Over(_), Exit::Signal(_)) => exit,
            (Self::Over(_), _) => Exit::Cancelled,
            (Self::Lost { .. }, _) => Exit::Registry,
        }
    }

    fn problem(self, redactor: &Redactor) -> Problem {
        let masked = |text: String| redactor.redact(text.as_bytes()).into_owned();
        let (message, advice) = match self {
            Self::Over(status) => {
                let status = status.map(|status| format!(" ({status})")).unwrap_or_default();
                let message =
                    format!("the registry had ended the run{status} before its end was reported");
                (message, None)
            }
            Self::Lost { reason, advice } => {
                (format!("the final status was not delivered: {reason}"), advice)
            }
        };
        Problem { phase: Phase::Report, message: masked(message), advice: advice.map(masked) }
    }

    /// Says it in the log, in `result`, and in the `report` that nobody got. Returns what the process
    /// ends with instead of `exit`.
    pub(in crate::run) fn settle(
        self,
        exit: Exit,
        report: &mut StatusReport,
        result: &mut RunResult,
        redactor: &Redactor,
    ) -> Exit {
        let ends_with = self.exit(exit);
        // A run that was stopped because the registry has ended it has said so.
        if matches!(self, Self::Over(_)) && exit == Exit::Cancelled {
            return ends_with;
        }
        let status = match self {
            Self::Over(_) => "cancelled",
            Self::Lost { .. } => "failed",
        };
        let problem = self.problem(redactor);
        tracing::error!(advice = problem.advice, "{}", problem.message);
        report.undelivered(status, &problem);
        if result.error.is_some() {
            // What it failed or was stopped for before says more.
            result.warnings.push(problem.message);
        } else {
            status.clone_into(&mut result.status);
            result.error = Some(problem);
        }
        ends_with
    }
}

/// Delivers the final status.
pub(in crate::run) async fn deliver(
    stop: &Stop,
    reports: &Reports,
    report: &StatusReport,
) -> Result<(), Undelivered> {
    if stop.run_is_over() {
        return Err(Undelivered::over(stop));
    }
    let doubtful = reports.has_doubtful_running();
    // The same again is no second status; a registry that was silent may hear this one.
    for step in [Step::Status, Step::StatusAgain] {
        match stop.within(step, reports.finish(report)).await {
            Some(Ok(())) => {
                if doubtful {
                    close_again(stop, reports, report).await;
                }
                return Ok(());
            }
            Some(Err(ReportError::Registry(RegistryError::RunOver))) => {
                return Err(Undelivered::over(stop));
            }
            Some(Err(error)) => {
                let (reason, advice) = (chain(&error), error.advice());
                return Err(Undelivered::Lost { reason, advice });
            }
            None if stop.run_is_over() => return Err(Undelivered::over(stop)),
            None => {}
        }
    }
    Err(Undelivered::lost("the time after a signal was over"))
}

/// Sends the very same final status again where a `running` that was never answered was stored after
/// it and has opened the run again: that cannot be prevented, because the registry may take its time.
async fn close_again(stop: &Stop, reports: &Reports, report: &StatusReport) {
    let again = async {
        if reports.is_open().await {
            tracing::warn!(
                "the registry has stored `running` late; the final status is sent again"
            );
            if reports.finish(report).await.is_err() {
                tracing::error!("the run may be shown as running in the registry");
            }
        }
    };
    stop.within(Step::StatusAgain, again).await;
}
