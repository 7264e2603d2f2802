//! The end of a run. The teardown ignores the stop signal; each of its steps has its own deadline.
//!
//! When it begins, all children are reaped and their pipes are at end of file. Its order:
//! reason to the log → log closed and redactor flushed → log uploader and log file joined → plan →
//! outputs → files wiped → secrets forgotten → final status → terminal joined → documents.
//! The wipe of files that no report needs begins first and runs while reports are sent.

use std::pin::Pin;

use super::concluded_run::ConcludedRun;
use super::directory::run_directory::RunDirectory;
use super::directory::wiping::{Wiped, Wiping};
use super::failure::{Cause, Failure};
use super::findings::Findings;
use super::panic::catch_panic;
use super::plan::plan_report::PlanReport;
use super::reporting::logs::Logs;
use super::reporting::report_error::ReportError;
use super::reporting::reports::Reports;
use super::rescued_state::RescuedState;
use super::result::build_result;
use super::watch::Watch;
use crate::engine::{PlanFiles, Planned};
use crate::exit::Exit;
use crate::registry::RegistryError;
use crate::settings::Settings;
use butler_base::cancel::{Step, Stop, StopReason};
use butler_base::error::chain;
use butler_base::event::Phase;
use butler_protocol::spec::{Operation, RunSpec};
use butler_result::UndeliveredLogs;

/// Why a report was not delivered after a signal.
const TOO_LATE: &str = "the time after a signal was over";

/// A run whose phases have ended.
pub(super) struct Teardown<'run> {
    pub(super) settings: &'run Settings,
    pub(super) stop: Stop,
    pub(super) reports: Reports,
    pub(super) directory: Option<RunDirectory>,
    pub(super) spec: Option<RunSpec>,
    /// Requests the status until the end: a registry that has ended the run accepts no reports.
    pub(super) watch: Option<Watch>,
}

/// The problems of the run and of the teardown.
struct RunProblems {
    /// The first failure: later ones are its consequences.
    failure: Option<Failure>,
    /// Lines for the summary, because the log is closed.
    remarks: Vec<String>,
    undelivered_logs: Option<UndeliveredLogs>,
}

impl<'run> Teardown<'run> {
    /// Reports how the run ended and wipes its files. Returns the exit code of the process.
    pub(super) fn finish(
        self,
        logs: Logs,
        findings: Findings,
        failure: Option<Failure>,
    ) -> impl Future<Output = Exit> {
        // In a box, because a future keeps the bytes of values that were moved out of it. The box is
        // freed, and so zeroed, before the final status is sent. Its type is hidden, so that a poll is a call, whose
        // part of the stack can be wiped.
        let concluding: Pin<Box<dyn Future<Output = ConcludedRun<'run>> + 'run>> =
            Box::pin(self.conclude(logs, findings, failure));
        async move {
            let concluded = concluding.await;
            // What masked the result has left parts of secrets there.
            butler_base::secret::wipe_stack();
            concluded.finish().await
        }
    }

    /// Reports everything but the final status, wipes files, and masks the result.
    async fn conclude(
        mut self,
        mut logs: Logs,
        findings: Findings,
        failure: Option<Failure>,
    ) -> ConcludedRun<'run> {
        let reporting = self.reports.notices.timeline.begin(Phase::Report);
        // If a phase was dropped half-way, its child was killed but not reaped. No child may write
        // files while they are wiped.
        butler_base::process::end_orphans().await;
        if let Some(Err(error)) = self.directory.as_ref().map(RunDirectory::end_user) {
            logs.log.warn(&format!("processes of the run's user are left, and may change files of the run while these are wiped: {error}"));
        }
        let failure = failure.map(|failure| self.blame_stop(failure));
        let mut problems = RunProblems { failure, remarks: Vec::new(), undelivered_logs: None };

        // Before the wipe, which removes the clone.
        let rescued = self.rescue_state(&findings, problems.failure.as_ref());
        // Wiping takes time on slow disks, so it runs while reports are sent. It begins with the files
        // that no report needs.
        let in_clone = rescued.as_ref().is_some_and(|state| state.in_clone);
        let unused = findings.plan.as_ref().map(|Planned { files, .. }| {
            let PlanFiles { file, json, text } = files;
            [file, json, text].map(Clone::clone)
        });
        let unused = unused.into_iter().flatten().collect();
        let directory = self.directory.take();
        let wiping = catch_panic(async {
            Ok(directory.map(|directory| Wiping::start(directory, unused, in_clone)))
        })
        .await;

        let rescued = rescued.map(|state| state.text);
        let reported = catch_panic(async {
            self.log_ending(&logs, &findings, problems.failure.as_ref(), rescued.as_deref());
            // The log before plan and outputs: the registry needs all lines even if the rest is late.
            self.close_log(&mut logs, &mut problems).await;
            self.report_findings(&findings, &mut problems).await;
            Ok(())
        });
        if let Err(failure) = reported.await {
            problems.fail(failure);
        }
        problems.remarks.extend(rescued.clone());

        // All reports but the final status are sent, so their data is dropped, and freed memory is
        // zeroed. `spec` and `findings` contain variables, credentials, outputs, and the plan.
        let Self { settings, stop, reports, spec, watch, .. } = self;
        let timings = reports.notices.timeline.timings();
        let failure = problems.failure.as_ref();
        let (mut result, exit) =
            build_result(settings, spec.as_ref(), findings, failure, &reports.redactor, timings);
        drop(spec);

        // The terminal may still need lines that are on the disk.
        logs.terminal.detach_spool();
        // The final status contains a failed wipe, so the wipe must end first, or run out of time.
        let wiped = catch_panic(async {
            Ok(match wiping? {
                Some(wiping) => wiping.finish(&stop).await,
                None => Wiped::Done,
            })
        });
        let wiped = wiped.await.unwrap_or_else(|failure| Wiped::Failed(failure.reason));
        if let Some(problem) = wiped.problem() {
            tracing::error!("{problem}");
            problems.remarks.push(problem);
        }

        for remark in &problems.remarks {
            result.add_to_summary(remark);
        }
        result.undelivered_logs = problems.undelivered_logs;
        result.warnings = [settings.warnings.clone(), logs.log.warnings()].concat();
        result.diagnostics = logs.log.diagnostics();
        // All texts are complete, and the redactor forgets the secrets next.
        result.mask(&reports.redactor);
        ConcludedRun {
            settings,
            stop,
            reports,
            watch,
            terminal: logs.terminal,
            last_line: rescued,
            wiping: wiped.unfinished(),
            result,
            exit,
            reporting,
        }
    }

    /// The failure, or the stop if the registry has ended the run: the failure is its consequence.
    fn blame_stop(&self, failure: Failure) -> Failure {
        match (&failure.cause, self.stop.reason()) {
            (Cause::Registry | Cause::Run, Some(reason @ StopReason::RunOver { .. })) => {
                let (left, blocking) = (failure.left, failure.blocking);
                Failure { left, blocking, ..Failure::stopped(failure.phase, &reason) }
            }
            (Cause::Registry | Cause::Run, Some(StopReason::Signal(_)) | None)
            | (Cause::Stopped(_), _) => failure,
        }
    }

    fn rescue_state(&self, findings: &Findings, failure: Option<&Failure>) -> Option<RescuedState> {
        let lock = failure.and_then(|failure| failure.left.as_deref());
        let recovery_dir = &self.settings.recovery_dir;
        RescuedState::move_from(
            self.directory.as_ref()?,
            recovery_dir,
            findings.tool.as_deref(),
            lock,
        )
    }

    /// Writes the last lines of the log: users look there for the reason of a failure.
    fn log_ending(
        &self,
        logs: &Logs,
        findings: &Findings,
        failure: Option<&Failure>,
        rescued: Option<&str>,
    ) {
        match failure {
            Some(failure) => {
                for line in failure.problem().lines() {
                    logs.log.write_lines(&line);
                    if !self.reports.notices.shows_failure() {
                        // The line's level shows that it is an error.
                        tracing::error!("{}", line.strip_prefix("Error: ").unwrap_or(&line));
                    }
                }
            }
            None => {
                if let Some(line) = &findings.summary {
                    logs.log.write_lines(line);
                    tracing::info!("{line}");
                }
            }
        }
        if let Some(text) = rescued {
            logs.log.write_lines(text);
        }
    }

    /// Closes the log and waits until its lines are delivered.
    async fn close_log(&self, logs: &mut Logs, problems: &mut RunProblems) {
        let problem = match logs.close(&self.stop).await {
            Ok(undelivered) => {
                problems.undelivered_logs = undelivered;
                problems.undelivered_logs.as_ref().map(ToString::to_string)
            }
            Err(problem) => Some(problem),
        };
        // A registry that has ended the run does not need the lines.
        if let Some(problem) = problem
            && !self.stop.run_is_over()
        {
            tracing::error!("{problem}");
            problems.remarks.push(problem);
        }
    }

    /// Reports the plan and its check, outputs and test results.
    async fn report_findings(&self, findings: &Findings, problems: &mut RunProblems) {
        if self.stop.run_is_over() {
            return;
        }
        if let Some(check) = &findings.plan_check
            && let Err(error) = self.reports.plan_check(check)
        {
            tracing::warn!(error = %chain(&error), "no verdict about the plan in the report directory");
        }
        if let Some(plan) = &findings.plan_report {
            self.report_plan(plan, problems).await;
            if self.stop.run_is_over() {
                return;
            }
        }
        if let Some(outputs) = &findings.outputs {
            self.report_outputs(outputs, problems).await;
        }
        if let Some(junit) = &findings.junit
            && let Err(error) = self.reports.junit(junit)
        {
            tracing::warn!(error = %chain(&error), "no JUnit file in the report directory");
        }
    }

    async fn report_plan(&self, plan: &Result<PlanReport, String>, problems: &mut RunProblems) {
        let delivery = async {
            match self.reports.plan(plan.as_ref().map_err(Clone::clone)?).await {
                Ok(left_out) => Ok(left_out),
                Err(ReportError::Registry(RegistryError::RunOver)) => Ok(None),
                Err(error) => Err(chain(&error)),
            }
        };
        let delivered = self.stop.within(Step::Plan, delivery).await;
        if self.stop.run_is_over() {
            return;
        }
        match delivered.unwrap_or_else(|| Err(TOO_LATE.to_owned())) {
            Ok(left_out) => problems.remarks.extend(left_out.map(str::to_owned)),
            Err(reason) => {
                let text = format!("the plan was not delivered: {reason}");
                tracing::error!("{text}");
                // The plan is the only result of this operation.
                if matches!(&self.spec, Some(spec) if spec.operation == Operation::Plan) {
                    problems.fail(self.undelivered(text));
                } else {
                    problems.remarks.push(text);
                }
            }
        }
    }

    async fn report_outputs(&self, outputs: &[u8], problems: &mut RunProblems) {
        // What depends on this module may still have to be destroyed, and its plan needs the outputs of before.
        let is_destroyed =
            self.spec.as_ref().is_some_and(|spec| spec.operation == Operation::Destroy);
        let is_reported = !is_destroyed || self.settings.report_outputs_after_destroy;
        let delivery = async {
            if is_reported {
                self.reports.outputs(outputs).await
            } else {
                self.reports.keep_outputs(outputs)
            }
        };
        let delivered = self.stop.within(Step::Outputs, delivery).await;
        if self.stop.run_is_over() {
            return;
        }
        let failure = match delivered {
            Some(Ok(()) | Err(ReportError::Registry(RegistryError::RunOver))) => return,
            Some(Err(error)) => Failure::new(Phase::Report, &error).caused_by(Cause::Registry),
            None => self.undelivered(TOO_LATE),
        };
        tracing::error!("the outputs were not delivered: {}", failure.reason);
        // Not a remark: modules downstream would use the outputs of an older run.
        problems.fail(failure);
    }

    /// The failure of a report that was not delivered: the stop of the run, if there is one.
    fn undelivered(&self, reason: impl Into<String>) -> Failure {
        match self.stop.reason() {
            Some(reason) => Failure::stopped(Phase::Report, &reason),
            None => Failure::because(Phase::Report, reason).caused_by(Cause::Registry),
        }
    }
}

impl RunProblems {
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }
}
