//! The log of a run with everything that reads it: terminal, log file, uploader.
//!
//! Each reader has its own queue, so that none waits for another. [`Logs::close`] waits for the uploader
//! and the log file, as long as there is time, and keeps the lines that the registry did not get. The
//! teardown joins the terminal later, because a terminal can block.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::notices::Notices;
use super::report_error::ReportError;
use super::report_files::log_file;
use super::reports::{RegistryReports, Reports};
use super::undelivered::{RecoveryDirectories, keep_undelivered};
use crate::ci;
use crate::report::{
    LiveOutput, PlanHint, Receiver, RunLog, Sender, Undelivered, UploadReport, channel, copy_log,
    show, upload,
};
use crate::run::directory::run_directory::RunDirectory;
use crate::run::terminal::Terminal;
use crate::settings::{RunSource, Settings};
use butler_base::cancel::{Step, Stop};
use butler_base::error::chain;
use butler_result::{LogCopy, UndeliveredLogs};

/// How long the last log lines may take after the end of the run; no longer than the final status.
const LOG_DEADLINE: Duration = Duration::from_mins(2);

/// How long a blocked terminal or pipe may delay the end.
const STALL: Duration = Duration::from_secs(5);

/// How much of the log each reader keeps in memory, in bytes; the rest is on the disk.
const MEMORY: usize = 2 * 1024 * 1024;

/// The log of a run and everything that reads it.
pub(in crate::run) struct Logs {
    pub(in crate::run) log: RunLog,
    upload: Option<(Arc<RegistryReports>, Receiver)>,
    uploader: Option<JoinHandle<(UploadReport, Undelivered)>>,
    file: Option<JoinHandle<bool>>,
    /// The copy of the log for the page.
    copy: Option<(JoinHandle<std::io::Result<LogCopy>>, Arc<Notices>)>,
    pub(in crate::run) terminal: TerminalReader,
    recovery: RecoveryDirectories,
}

/// Shows the log on the terminal.
pub(in crate::run) struct TerminalReader {
    task: JoinHandle<bool>,
    /// The file for lines that do not fit into memory.
    spool: PathBuf,
}

impl Logs {
    /// Opens the log with all its readers. `directory` is for lines that do not fit into memory.
    pub(in crate::run) fn open(
        settings: &Settings,
        reports: &Reports,
        terminal: Terminal,
        directory: Option<&RunDirectory>,
    ) -> Self {
        // Without a directory, the run ends at once, and its few lines fit into memory.
        let directory =
            directory.map_or(settings.work_dir.as_path(), |directory| directory.private().path());
        let mut senders = Vec::new();
        let (sender, receiver) = spool(directory, "terminal");
        let plan_hint = match settings.source {
            RunSource::Local { .. } => PlanHint::Hidden { is_within: false },
            RunSource::Registry { .. } | RunSource::File { .. } => PlanHint::LiveOutput,
        };
        let shown = LiveOutput { sender, notation: ci::notation(settings.job.system), plan_hint };
        let terminal = TerminalReader {
            task: tokio::spawn(show(receiver, terminal.stdout, terminal.stderr, STALL)),
            spool: spool_file(directory, "terminal"),
        };
        let mut file = None;
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
                    file = Some(tokio::spawn(show(receiver, stdout, stderr, STALL)));
                }
                Err(error) => tracing::warn!(error = %chain(&error), "no log file"),
            }
        }
        let copy = settings.report.as_ref().map(|_| {
            let (sender, receiver) = spool(directory, "page");
            senders.push(sender);
            (tokio::spawn(copy_log(receiver, directory.to_owned())), reports.notices.clone())
        });
        let upload = reports.registry.as_ref().map(|registry| {
            let (sender, receiver) = spool(directory, "registry");
            senders.push(sender);
            (registry.clone(), receiver)
        });
        let log = RunLog::new(reports.redactor.clone(), senders, Some(shown));
        reports.notices.timeline.watch(Box::new(log.clone()));
        Self {
            log,
            upload,
            uploader: None,
            file,
            copy,
            terminal,
            recovery: RecoveryDirectories {
                recovery: settings.recovery_dir.clone(),
                work: settings.work_dir.clone(),
            },
        }
    }

    /// Starts the uploader. `running` must have been reported before.
    pub(in crate::run) fn start(mut self, settings: &Settings, stop: &Stop) -> Self {
        let (interval, stop) = (settings.log_interval, stop.clone());
        let deadline = LOG_DEADLINE.min(settings.registry_timeout);
        self.uploader = self.upload.take().map(|(registry, receiver)| {
            tokio::spawn(async move {
                // The uploader polls it first at the end of the log, and the time begins then.
                let overdue = async {
                    stop.within(Step::Logs, tokio::time::sleep(deadline)).await;
                };
                upload(receiver, registry.as_ref(), interval, overdue).await
            })
        });
        self
    }

    /// Ends the log and waits until the registry and the log file have all lines, or their deadlines
    /// are over. Keeps the lines that the registry did not get.
    pub(in crate::run) async fn close(
        &mut self,
        stop: &Stop,
    ) -> Result<Option<UndeliveredLogs>, String> {
        self.log.close();
        let file = async {
            match self.file.take() {
                Some(file) => stop.within(Step::Files, file).await,
                None => Some(Ok(true)),
            }
        };
        let copied = async {
            let Some((copy, notices)) = self.copy.take() else { return };
            let redactor = self.log.redactor().clone();
            let masked = async {
                let copy = copy.await.map_err(std::io::Error::other)??;
                let masked = tokio::task::spawn_blocking(move || copy.masked(&redactor)).await;
                masked.map_err(std::io::Error::other)?
            };
            match stop.within(Step::Files, masked).await {
                Some(Ok(copy)) => notices.keep_log(copy),
                Some(Err(error)) => tracing::warn!("the report has no log: {error}"),
                None => tracing::warn!("the report has no log: there was no time left"),
            }
        };
        let uploader = async {
            match self.uploader.take() {
                Some(uploader) => Some(uploader.await),
                None => None,
            }
        };
        let (written, (), sent) = tokio::join!(file, copied, uploader);
        // Not a failure of the run: only this reader has lost lines.
        if !matches!(written, Some(Ok(true))) {
            tracing::warn!("the log file is not complete");
        }
        let failed = |error| format!("the log uploader failed (a bug): {error}");
        let Some((report, left)) = sent.transpose().map_err(failed)? else { return Ok(None) };
        if stop.run_is_over() {
            return Ok(None);
        }
        let kept = keep_undelivered(report, left, self.recovery.clone(), stop).await;
        kept.map_err(|error| format!("keeping the log failed (a bug): {error}"))
    }
}

impl TerminalReader {
    /// Unlinks the spool, so that the wipe does not overwrite it: its lines are redacted and may not be
    /// shown yet. Its space is freed when the reader closes it.
    pub(in crate::run) fn detach_spool(&self) {
        if let Err(error) = std::fs::remove_file(&self.spool)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "the output may not be shown to its end");
        }
    }

    /// Waits until all lines are shown, or the terminal blocks. Returns whether they were shown.
    pub(in crate::run) async fn join(self, stop: &Stop) -> bool {
        let shown = matches!(stop.within(Step::Terminal, self.task).await, Some(Ok(true)));
        if !shown {
            tracing::warn!("the output was not shown to its end");
        }
        shown
    }
}

fn spool(directory: &Path, name: &str) -> (Sender, Receiver) {
    channel(MEMORY, spool_file(directory, name))
}

fn spool_file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("log-{name}.spool"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn broken<T>() -> T {
        std::future::ready(()).await;
        panic!("a bug in a task")
    }

    #[tokio::test]
    async fn panic_in_a_reader_is_reported_and_does_not_block_the_end() {
        let mut logs = Logs {
            log: RunLog::new(Arc::default(), Vec::new(), None),
            upload: None,
            uploader: Some(tokio::spawn(broken())),
            file: Some(tokio::spawn(broken())),
            copy: Some((tokio::spawn(broken()), Arc::default())),
            terminal: TerminalReader { task: tokio::spawn(broken()), spool: "/nowhere".into() },
            recovery: RecoveryDirectories { recovery: "/nowhere".into(), work: "/nowhere".into() },
        };
        let stop = Stop::new();
        let problem = logs.close(&stop).await.unwrap_err();
        assert!(problem.contains("the log uploader failed (a bug)"), "{problem}");
        assert!(!logs.terminal.join(&stop).await);
    }
}
