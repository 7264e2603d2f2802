//! The end of a run, in one order, deaf to the stop and bounded by its own deadlines.
//!
//! Children are reaped and their pipes read before this begins. Then: reason to the log → log
//! closed → uploader and log file joined → plan → outputs → files wiped → secrets forgotten → final
//! status → terminal joined. What no report is made of is wiped from the first of these on. The
//! terminal comes last because nobody may read it; it shows the lines meanwhile.

use std::path::Path;

use secrecy::ExposeSecret;

use super::context::run_id;
use super::directory::run_directory::RunDirectory;
use super::directory::wiping::{UnfinishedWipe, Wiped, Wiping};
use super::findings::Findings;
use super::masking::secrets::register_settings;
use super::panic::catch_panic;
use super::plan::plan_report::PlanReport;
use super::reporting::final_status::{Undelivered, deliver};
use super::reporting::logs::{Logs, TerminalReader};
use super::reporting::notices::Notices;
use super::reporting::outcome::{Failure, Outcome, StatusReport};
use super::reporting::outputs;
use super::reporting::report_error::ReportError;
use super::reporting::reports::Reports;
use super::reporting::undelivered::UndeliveredLogs;
use super::watch::Watch;
use crate::engine::{Planned, Saved};
use crate::exit::Exit;
use crate::registry::RegistryError;
use crate::report::RunLog;
use crate::settings::Settings;
use butler_base::cancel::{Step, Stop, StopReason};
use butler_base::error::chain;
use butler_base::event::Phase;
use butler_protocol::spec::{Operation, Product, RunSpec, Source};
use butler_result::RunResult;
use butler_result::timeline::Span;
use butler_source::git::shown_repository;

/// Why something was given up after a signal.
const TOO_LATE: &str = "the time after a signal";

/// What is left of a run when its work is done.
pub(super) struct Teardown<'run> {
    pub(super) settings: &'run Settings,
    pub(super) stop: Stop,
    pub(super) reports: Reports,
    pub(super) directory: Option<RunDirectory>,
    pub(super) spec: Option<RunSpec>,
    /// Asks the registry to the end whether it has ended the run: it takes no reports then.
    pub(super) watch: Option<Watch>,
}

/// A run of which only the final status is still to be reported.
struct Concluded<'run> {
    settings: &'run Settings,
    stop: Stop,
    reports: Reports,
    watch: Option<Watch>,
    terminal: TerminalReader,
    /// What is to be the last that people read.
    last_words: Option<String>,
    /// What is still being wiped.
    wiping: Option<UnfinishedWipe>,
    /// The exit code, provided that the status is delivered.
    exit: Exit,
    /// The status, masked.
    report: StatusReport,
    /// The same for everybody else, masked.
    result: RunResult,
    /// Goes on until the status is delivered.
    reporting: Span,
}

impl<'run> Teardown<'run> {
    /// Reports how the run ended, after everything else was reported, wiped and forgotten.
    pub(super) fn finish(
        self,
        logs: Logs,
        findings: Findings,
        failure: Option<Failure>,
    ) -> impl Future<Output = Exit> {
        // Boxed, because values that were moved out of a future leave their bytes in it: the box is
        // freed, and so zeroed, before the final status is sent.
        let concluded = Box::pin(self.conclude(logs, findings, failure));
        async move {
            let concluded = concluded.await;
            let Concluded { settings, stop, reports, watch, terminal, .. } = concluded;
            // The job's own stay masked: they are in the environment, and the token is needed.
            reports.redactor.forget();
            register_settings(&reports.redactor, settings);
            let (mut report, mut result) = (concluded.report, concluded.result);
            let mut exit = concluded.exit;
            let delivered = catch_panic(async { Ok(deliver(&stop, &reports, &report).await) });
            let delivered =
                delivered.await.unwrap_or_else(|failure| Err(Undelivered::lost(failure.reason)));
            if let Err(undelivered) = delivered {
                exit = undelivered.settle(exit, &mut report, &mut result, &reports.redactor);
                reports.keep_status(&report);
            }
            drop((watch, concluded.reporting));
            let shown = terminal.join(&stop).await;
            if let Some(wiping) = concluded.wiping {
                wiping.join(&stop).await;
            }
            result.exit_code = exit.code();
            reports.notices.publish(result, shown, &stop).await;
            if let Some(text) = concluded.last_words {
                tracing::error!("{text}");
            }
            exit
        }
    }

    /// Everything but the final status.
    async fn conclude(
        mut self,
        mut logs: Logs,
        mut findings: Findings,
        failure: Option<Failure>,
    ) -> Concluded<'run> {
        let reporting = self.reports.notices.timeline.begin(Phase::Report);
        // What was dropped half-way has been killed; nothing may write while its files are wiped.
        butler_base::process::end_orphans().await;
        let failure = self.settle(failure);
        let mut outcome = Outcome {
            achievement: findings.achievement.clone(),
            failure,
            commit: findings.commit.clone(),
            tool: findings.tool.clone(),
            undelivered: None,
        };
        let rescued = self.rescue_state(&outcome);
        let in_clone = rescued.as_ref().is_some_and(|state| state.in_clone);
        let plan = findings.plan.as_ref();
        let unused = plan.map(|Planned { saved: Saved { file, json, text }, .. }| {
            [file, json, text].map(Clone::clone)
        });
        let unused = unused.into_iter().flatten().collect();
        let directory = self.directory.take();
        let wiping = catch_panic(async {
            Ok(directory.map(|directory| Wiping::start(directory, unused, in_clone)))
        })
        .await;
        let reported = catch_panic(async {
            outcome.say(&logs.log, &self.reports.notices);
            if let Some(state) = &rescued {
                logs.log.say(&state.text);
            }
            let closed = logs.close(&self.stop).await;
            let undelivered =
                closed.as_ref().map(|lines| lines.as_ref().map(UndeliveredLogs::text));
            self.note(&mut outcome, undelivered.unwrap_or_else(|text| Some(text.clone())));
            outcome.undelivered = closed.ok().flatten();
            self.report_findings(&findings, &mut outcome).await;
            Ok(())
        });
        if let Err(failure) = reported.await {
            outcome.failure.get_or_insert(failure);
        }

        if let Some(state) = &rescued {
            outcome.remark(&state.text);
        }

        let Self { settings, stop, reports, spec, watch, .. } = self;
        // Variables, credentials and outputs are zeroed where they lie.
        let changes = findings.plan_report.take().and_then(Result::ok).map(|plan| plan.changes);
        let mut changes = changes.unwrap_or_default();
        if let Some(outcomes) = &findings.achievement.outcomes {
            outcomes.mark(&mut changes.planned);
        }
        let mut result = outcome.result(settings.plan_status, reports.notices.timeline.timings());
        result.run_id = run_id(settings);
        if let Some(spec) = &spec {
            describe(spec, &mut result);
        }
        let looks_for_drift = spec.as_ref().is_some_and(|spec| {
            matches!(spec.operation, Operation::Refresh | Operation::DriftCheck)
        });
        result.plan_changes = findings.plan.as_ref().map(|Planned { summary, .. }| {
            summary.has_changes() || looks_for_drift && !summary.drift.is_empty()
        });
        let outputs = findings.outputs.as_deref();
        result.outputs =
            outputs.map(|json| outputs::shown(json, &reports.redactor)).unwrap_or_default();
        drop((spec, findings));
        logs.terminal.detach_spool();
        let wiped = catch_panic(async {
            Ok(match wiping? {
                Some(wiping) => wiping.finish(&stop).await,
                None => Wiped::Done,
            })
        });
        let wiped = wiped.await.unwrap_or_else(|failure| Wiped::Failed(failure.reason));
        let problem = wiped.problem();
        if let Some(problem) = problem {
            tracing::error!("{problem}");
            outcome.remark(&problem);
        }
        result.summary.clone_from(&outcome.achievement.summary);
        result.warnings = [settings.warnings.clone(), logs.log.warnings()].concat();
        result.mask(&reports.redactor);
        result.set_changes(changes);
        result.diagnostics = logs.log.diagnostics();
        Concluded {
            settings,
            stop,
            watch,
            terminal: logs.terminal,
            last_words: rescued.map(|state| state.text),
            wiping: wiped.unfinished(),
            exit: outcome.exit(),
            // What it quotes is masked with secrets that are forgotten before it is sent.
            report: outcome.report(settings.plan_status).masked(&reports.redactor),
            result,
            reporting,
            reports,
        }
    }

    /// What the registry ended failed because of that.
    fn settle(&self, failure: Option<Failure>) -> Option<Failure> {
        match (failure, self.stop.reason()) {
            (Some(failure), Some(reason @ StopReason::RunOver { .. }))
                if failure.stopped.is_none() =>
            {
                Some(Failure { left: failure.left, ..Failure::stopped(failure.phase, &reason) })
            }
            (failure, _) => failure,
        }
    }

    /// A state that Terraform could not store is the only copy there is: it is kept.
    fn rescue_state(&self, outcome: &Outcome) -> Option<Rescued> {
        let named = |product: &Product| {
            outcome.tool.as_ref().is_some_and(|tool| tool.starts_with(product.name()))
        };
        let product = Product::ALL.into_iter().find(named).unwrap_or(Product::Terraform);
        let product = product.executable();
        let left = outcome.failure.as_ref().and_then(|failure| failure.left.as_ref());
        let lock =
            left.and_then(|left| Some(format!("; {left}: {}, then", left.removal(product)?)));
        let push = |state: &Path| {
            format!(
                "{} run `{product} state push {}` in the module",
                lock.as_deref().unwrap_or(":"),
                state.display()
            )
        };
        match self.directory.as_ref()?.rescue_state(&self.settings.recovery_dir) {
            Ok(None) => None,
            Ok(Some(kept)) => Some(Rescued {
                text: format!(
                    "The state could not be stored; it is kept in {}{}",
                    kept.display(),
                    push(&kept)
                ),
                in_clone: false,
            }),
            Err((state, error)) => Some(Rescued {
                text: format!(
                    "The state could not be stored, and the runner could not move it ({}); it stays in {}{}, or have the next run or `butler-runner clean` move it to {}",
                    chain(&error),
                    state.display(),
                    push(&state),
                    self.settings.recovery_dir.display()
                ),
                in_clone: true,
            }),
        }
    }

    /// Why something was given up after a signal.
    fn too_late(&self) -> Failure {
        match self.stop.reason() {
            Some(reason) => Failure::stopped(Phase::Report, &reason),
            None => Failure::because(Phase::Report, format!("{TOO_LATE} was over")),
        }
    }

    fn note(&self, outcome: &mut Outcome, undelivered: Option<String>) {
        if let Some(text) = undelivered
            && !self.stop.run_is_over()
        {
            tracing::error!("{text}");
            outcome.remark(&text);
        }
    }

    async fn report_findings(&self, findings: &Findings, outcome: &mut Outcome) {
        if self.stop.run_is_over() {
            return;
        }
        if let Some(plan) = &findings.plan_report {
            let delivered = self.stop.within(Step::Plan, self.report_plan(plan)).await;
            if self.stop.run_is_over() {
                return;
            }
            let delivered = delivered.unwrap_or_else(|| Err(format!("{TOO_LATE} was over")));
            if let Ok(Some(left_out)) = delivered {
                outcome.remark(left_out);
            }
            if let Err(reason) = delivered {
                let text = format!("the plan was not delivered: {reason}");
                tracing::error!("{text}");
                if matches!(&self.spec, Some(spec) if spec.operation == Operation::Plan) {
                    // A plan that nobody can see is no plan.
                    let failure = match self.stop.reason() {
                        Some(reason) => Failure::stopped(Phase::Report, &reason),
                        None => Failure { registry: true, ..Failure::because(Phase::Report, text) },
                    };
                    outcome.failure.get_or_insert(failure);
                } else {
                    outcome.remark(&text);
                }
            }
        }
        if let Some(outputs) = &findings.outputs {
            let delivered = self.stop.within(Step::Outputs, self.reports.outputs(outputs)).await;
            let failure = match delivered {
                _ if self.stop.run_is_over() => None,
                Some(Ok(()) | Err(ReportError::Registry(RegistryError::RunOver))) => None,
                Some(Err(error)) => Some(Failure::new(Phase::Report, &error)),
                None => Some(self.too_late()),
            };
            if let Some(failure) = failure {
                tracing::error!("the outputs were not delivered: {}", failure.reason);
                // Modules downstream would go on with the outputs of an older run.
                outcome.failure.get_or_insert(Failure { registry: true, ..failure });
            }
        }
        if let Some(junit) = &findings.junit
            && let Err(error) = self.reports.junit(junit)
        {
            tracing::warn!(error = %chain(&error), "no JUnit file in the report directory");
        }
    }

    /// Says what was left out.
    async fn report_plan(
        &self,
        plan: &Result<PlanReport, String>,
    ) -> Result<Option<&'static str>, String> {
        match self.reports.plan(plan.as_ref().map_err(Clone::clone)?).await {
            Ok(left_out) => Ok(left_out),
            Err(ReportError::Registry(RegistryError::RunOver)) => Ok(None),
            Err(error) => Err(chain(&error)),
        }
    }
}

/// A state that Terraform could not store.
struct Rescued {
    /// Where it is and what to do with it.
    text: String,
    /// Whether it is still in the clone, which must not be wiped then.
    in_clone: bool,
}

/// What was to be done, and where the module is.
fn describe(spec: &RunSpec, result: &mut RunResult) {
    result.operation = Some(spec.operation.to_string());
    match &spec.source {
        Source::Git(git) => {
            result.source_repository = shown_repository(git.repository.expose_secret());
            let directory = git.working_directory.trim_matches('/');
            result.source_directory = Some(directory.to_owned());
        }
        Source::Directory(directory) => {
            result.source_directory = Some(directory.display().to_string());
        }
    }
}

impl Outcome {
    /// The last lines of the log: how the run ended, where people look for it.
    fn say(&self, log: &RunLog, notices: &Notices) {
        let lines = match &self.failure {
            Some(failure) => failure.lines(),
            None => self.achievement.summary.iter().cloned().collect(),
        };
        for line in lines {
            log.say(&line);
            if self.failure.is_some() {
                if !notices.tell_failure() {
                    // The line's level says that it is an error.
                    tracing::error!("{}", line.strip_prefix("Error: ").unwrap_or(&line));
                }
            } else {
                tracing::info!("{line}");
            }
        }
    }

    /// Adds a line to the summary, because the log is closed already.
    fn remark(&mut self, text: &str) {
        let summary = self.achievement.summary.get_or_insert_default();
        if !summary.is_empty() {
            summary.push('\n');
        }
        summary.push_str(text);
    }
}
