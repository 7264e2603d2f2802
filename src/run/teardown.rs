//! The end of a run, in one order, deaf to the stop and bounded by its own deadlines.
//!
//! Children are reaped and their pipes read before this begins. Then: reason to the log → log
//! closed → uploader and readers joined → plan → outputs → files wiped → secrets forgotten → final
//! status.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use zeroize::Zeroizing;

use super::outcome::{Exit, Failure, Outcome, StatusReport};
use super::phases::Findings;
use super::reports::{RegistryReports, ReportError, Reports, log_file};
use super::workspace::RunDirectory;
use super::{Terminal, guarded};
use crate::cancel::{Stop, StopReason};
use crate::error::{Advice, chain};
use crate::event::Phase;
use crate::registry::RegistryError;
use crate::report::{Receiver, RunLog, Sender, UploadEnd, UploadReport, channel, show, upload};
use crate::secret::{redact_json, zero_stack};
use crate::settings::Settings;
use crate::spec::{Operation, RunSpec};

/// How long the last log lines may take after the end of the run.
const LOG_DEADLINE: Duration = Duration::from_mins(2);

/// How long the steps of the teardown may take once a signal has come: the platform that sent it
/// kills soon, and the final status matters most.
const LOGS_AFTER_SIGNAL: Duration = Duration::from_secs(2);
const PLAN_AFTER_SIGNAL: Duration = Duration::from_secs(1);
const OUTPUTS_AFTER_SIGNAL: Duration = Duration::from_secs(2);
const STATUS_AFTER_SIGNAL: Duration = Duration::from_secs(4);

/// Why something was given up after a signal.
const TOO_LATE: &str = "the time after a signal was over";

/// How long a terminal or pipe that nobody reads may hold up the end.
const TERMINAL_DEADLINE: Duration = Duration::from_secs(30);

/// How much of the log each reader keeps in memory; what is more waits on the disk.
const MEMORY: usize = 2 * 1024 * 1024;

/// The log of a run and everything that reads it.
pub(super) struct Logs {
    pub(super) log: RunLog,
    upload: Option<(Arc<RegistryReports>, Receiver)>,
    uploader: Option<JoinHandle<UploadReport>>,
    readers: Vec<JoinHandle<bool>>,
}

impl Logs {
    /// Opens the log with all its readers. Lines wait in `directory` where memory does not do.
    pub(super) fn open(
        settings: &Settings,
        reports: &Reports,
        terminal: Terminal,
        directory: Option<&RunDirectory>,
    ) -> Self {
        // Without a directory the run ends at once, and what it says fits into memory.
        let directory =
            directory.map_or(settings.work_dir.as_path(), |directory| directory.private().path());
        let mut senders = Vec::new();
        let (sender, receiver) = spool(directory, "terminal");
        senders.push(sender.children_only());
        let mut readers =
            vec![tokio::spawn(show(receiver, terminal.stdout, terminal.stderr, TERMINAL_DEADLINE))];
        if let Some(reports) = &reports.directory {
            match log_file(reports).and_then(|file| {
                Ok((
                    file.try_clone()
                        .map_err(|source| ReportError::Write { path: reports.clone(), source })?,
                    file,
                ))
            }) {
                Ok((stdout, stderr)) => {
                    let (sender, receiver) = spool(directory, "file");
                    senders.push(sender);
                    readers.push(tokio::spawn(show(receiver, stdout, stderr, TERMINAL_DEADLINE)));
                }
                Err(error) => tracing::warn!(error = %chain(&error), "no log file"),
            }
        }
        let upload = reports.registry.as_ref().map(|registry| {
            let (sender, receiver) = spool(directory, "registry");
            senders.push(sender);
            (registry.clone(), receiver)
        });
        Self {
            log: RunLog::new(reports.redactor.clone(), senders),
            upload,
            uploader: None,
            readers,
        }
    }

    /// Begins to send lines to the registry. The run must have been reported as running before.
    pub(super) fn start(mut self, settings: &Settings, stop: &Stop) -> Self {
        let (interval, stop) = (settings.log_interval, stop.clone());
        self.uploader = self.upload.take().map(|(registry, receiver)| {
            tokio::spawn(async move {
                // Made when it is first polled, which is at the end of the log.
                let overdue = async {
                    hurried(&stop, LOGS_AFTER_SIGNAL, tokio::time::sleep(LOG_DEADLINE)).await;
                };
                upload(receiver, registry.as_ref(), interval, overdue).await
            })
        });
        self
    }

    /// Ends the log and waits until its readers have it all, or their deadlines are over. Says
    /// what the registry did not get.
    async fn close(self, stop: &Stop) -> Option<String> {
        self.log.close();
        let readers = futures_util::future::join_all(self.readers);
        let readers = hurried(stop, LOGS_AFTER_SIGNAL, readers);
        let uploader = async {
            match self.uploader {
                Some(uploader) => Some(uploader.await),
                None => None,
            }
        };
        let (shown, sent) = tokio::join!(readers, uploader);
        // A reader that panicked has lost its lines; the run has not.
        if !shown.unwrap_or_default().into_iter().all(|shown| shown.unwrap_or(false)) {
            tracing::warn!("the output was not shown to its end");
        }
        match sent? {
            Ok(
                UploadReport { end: UploadEnd::RunOver, .. }
                | UploadReport { undelivered: None, .. },
            ) => None,
            Ok(UploadReport { undelivered: Some(lines), .. }) => Some(format!(
                "log lines {} to {} did not reach the registry",
                lines.start(),
                lines.end()
            )),
            Err(error) => Some(format!("the log uploader failed (a bug): {error}")),
        }
    }
}

/// Waits for `work`, but not for long once a signal has come.
async fn hurried<T>(
    stop: &Stop,
    after_signal: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    let late = async {
        stop.signalled().await;
        tokio::time::sleep(after_signal).await;
    };
    tokio::select! {
        done = work => Some(done),
        () = late => None,
    }
}

fn spool(directory: &Path, name: &str) -> (Sender, Receiver) {
    channel(MEMORY, directory.join(format!("log-{name}.spool")))
}

/// What is left of a run when its work is done.
pub(super) struct Teardown<'run> {
    pub(super) settings: &'run Settings,
    pub(super) stop: Stop,
    pub(super) reports: Reports,
    pub(super) directory: Option<RunDirectory>,
    pub(super) spec: Option<RunSpec>,
}

/// A run of which only the final status is still to be reported.
struct Concluded<'run> {
    settings: &'run Settings,
    stop: Stop,
    reports: Reports,
    /// The exit code, provided that the status is delivered.
    exit: Exit,
    /// The status, masked.
    report: StatusReport,
}

/// Reports the final status. Returns the exit code.
async fn last_report(stop: &Stop, reports: &Reports, report: &StatusReport, exit: Exit) -> Exit {
    match hurried(stop, STATUS_AFTER_SIGNAL, reports.finish(report)).await {
        Some(Ok(())) => exit,
        Some(Err(ReportError::Registry(RegistryError::RunOver))) => Exit::Cancelled,
        None => {
            tracing::error!("the final status was not delivered in the time after a signal");
            Exit::Registry
        }
        Some(Err(error)) => {
            tracing::error!(
                advice = error.advice(),
                "the final status was not delivered: {}",
                chain(&error)
            );
            Exit::Registry
        }
    }
}

/// Zeroes the stack from a task of its own: while this one waits, nothing of it is on the stack.
async fn clean_stack() {
    // It has nothing to return, and nothing in it can fail.
    let _ = tokio::spawn(async { zero_stack() }).await;
}

impl<'run> Teardown<'run> {
    /// Reports how the run ended, after everything else was reported, wiped and forgotten.
    pub(super) fn finish(
        self,
        logs: Logs,
        findings: Findings,
        failure: Option<Failure>,
    ) -> impl Future<Output = Exit> {
        // In a box of its own, whose memory is zeroed when it is freed: values that were moved out
        // of a future stay behind in it.
        let concluded = Box::pin(self.conclude(logs, findings, failure));
        async move {
            let Concluded { settings, stop, reports, exit, report } = concluded.await;
            reports.redactor.forget_all_but(settings.own_secrets());
            clean_stack().await;
            if stop.run_is_over() {
                exit
            } else {
                last_report(&stop, &reports, &report, exit).await
            }
        }
    }

    /// Everything but the final status.
    async fn conclude(
        self,
        logs: Logs,
        findings: Findings,
        failure: Option<Failure>,
    ) -> Concluded<'run> {
        let failure = self.settle(failure);
        let mut outcome = Outcome {
            achievement: findings.achievement.clone(),
            failure,
            commit: findings.commit.clone(),
            tool: findings.tool.clone(),
        };
        let reported = guarded(async {
            self.rescue_state(&logs.log);
            outcome.say(&logs.log);
            let undelivered = logs.close(&self.stop).await;
            self.note(&mut outcome, undelivered);
            self.report_findings(&findings, &mut outcome).await;
            Ok(())
        });
        if let Err(failure) = reported.await {
            outcome.failure.get_or_insert(failure);
        }

        let Self { settings, stop, reports, directory, spec } = self;
        // Variables, credentials and outputs are zeroed where they lie.
        drop((spec, findings));
        if let Some(Err(error)) = directory.map(RunDirectory::wipe) {
            let text = format!("secrets may be left on the disk: {}", chain(&error));
            tracing::error!("{text}");
            outcome.remark(&text);
        }
        let mut exit = outcome.exit();
        if stop.run_is_over() && matches!(exit, Exit::Success | Exit::Failed | Exit::Registry) {
            exit = Exit::Cancelled;
        }
        // Parts of the report that are empty are filled with what lies on the stack.
        clean_stack().await;
        // What it quotes is masked with secrets that are forgotten before it is sent.
        let report = outcome.report(settings.plan_status).masked(&reports.redactor);
        Concluded { settings, stop, reports, exit, report }
    }

    /// What the registry ended failed because of that.
    fn settle(&self, failure: Option<Failure>) -> Option<Failure> {
        match (failure, self.stop.reason()) {
            (Some(failure), Some(reason @ StopReason::RunOver { .. }))
                if failure.stopped.is_none() =>
            {
                Some(Failure::stopped(failure.phase, &reason))
            }
            (failure, _) => failure,
        }
    }

    /// A state that Terraform could not store is the only copy there is: it is kept.
    fn rescue_state(&self, log: &RunLog) {
        let Some(directory) = &self.directory else { return };
        let text = match directory.rescue_state(&self.settings.recovery_dir) {
            Ok(None) => return,
            Ok(Some(kept)) => format!(
                "Terraform could not store the state; it is kept in {0}: run `terraform state push {0}` in the module",
                kept.display()
            ),
            Err(error) => format!(
                "Terraform could not store the state, and nor could the runner: {}",
                chain(&error)
            ),
        };
        tracing::error!("{text}");
        log.say(&text);
    }

    /// Why something was given up after a signal.
    fn too_late(&self) -> Failure {
        match self.stop.reason() {
            Some(reason) => Failure::stopped(Phase::Report, &reason),
            None => Failure::because(Phase::Report, TOO_LATE),
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
        if let Some(plan) = &findings.plan {
            let delivered = hurried(&self.stop, PLAN_AFTER_SIGNAL, self.report_plan(plan)).await;
            if let Err(reason) = delivered.unwrap_or_else(|| Err(TOO_LATE.to_owned())) {
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
            let delivered =
                hurried(&self.stop, OUTPUTS_AFTER_SIGNAL, self.reports.outputs(outputs)).await;
            let failure = match delivered {
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

    async fn report_plan(&self, plan: &crate::engine::Planned) -> Result<(), String> {
        let json =
            Zeroizing::new(fs_err::read_to_string(&plan.json).map_err(|error| chain(&error))?);
        let text = Zeroizing::new(fs_err::read(&plan.text).map_err(|error| chain(&error))?);
        let redactor = &self.reports.redactor;
        let json = redact_json(redactor, &json);
        match self.reports.plan(json.trim_end(), &redactor.redact(&text)).await {
            Ok(()) | Err(ReportError::Registry(RegistryError::RunOver)) => Ok(()),
            Err(error) => Err(chain(&error)),
        }
    }
}

impl Outcome {
    /// The last lines of the log: how the run ended, where people look for it.
    fn say(&self, log: &RunLog) {
        let lines = match &self.failure {
            Some(failure) => failure.lines(),
            None => self.achievement.summary.iter().cloned().collect(),
        };
        for line in lines {
            log.say(&line);
            if self.failure.is_some() {
                tracing::error!("{line}");
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
