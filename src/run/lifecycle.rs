//! One run from the moment its origin is known: first report, phases, teardown.

use std::time::Duration;

use secrecy::SecretString;

use super::context::Context;
use super::directory::leftovers::remove_leftover;
use super::directory::run_directory::{RunDirectory, RunDirectoryOptions};
use super::failure::{Cause, Failure};
use super::findings::Findings;
use super::panic::catch_panic;
use super::reporting::logs::Logs;
use super::reporting::reports::Reports;
use super::steps::phases::run_phases;
use super::steps::terraform_settings;
use super::steps::version_query::EarlyVersionQuery;
use super::teardown::Teardown;
use super::terminal::Terminal;
use super::watch;
use crate::exit::Exit;
use crate::settings::Settings;
use butler_base::cancel::{Stop, Times};
use butler_base::error::FailureClass;
use butler_base::event::Phase;
use butler_base::process::Grace;
use butler_protocol::spec::{LocalOptions, RunSpec, TerraformSettings};
use butler_result::timeline::Span;

/// How long the runner waits for the response to `running` when the run has to stop.
const RUNNING_RESPONSE: Duration = Duration::from_secs(2);

/// The hint if the run's directory cannot be created.
const NO_DIRECTORY: &str = "check that --work-dir (BUTLER_WORK_DIR), and --tmpfs-dir (BUTLER_TMPFS_DIR) \
if it is set, are writable and have room";

/// The hint if the directory that the configuration names cannot be created.
const NO_NAMED_DIRECTORY: &str =
    "end what uses it, or name another `workDirectory` in the configuration of the run";

/// A run whose origin is known.
pub(super) struct Run<'settings> {
    pub(super) settings: &'settings Settings,
    pub(super) stop: Stop,
    pub(super) reports: Reports,
    /// The configuration, or why it cannot be used.
    pub(super) spec: Result<RunSpec, Failure>,
    /// The configuration's own settings for Terraform, as JSON text, until they are merged with those of
    /// the settings file.
    pub(super) own_settings: Option<SecretString>,
    /// Warnings about the configuration.
    pub(super) warnings: Vec<String>,
    /// The options of commands such as `butler-runner plan`.
    pub(super) options: Box<LocalOptions>,
    pub(super) terminal: Terminal,
    /// Polls the status of the run; absent without a registry.
    pub(super) watch: Option<watch::Watch>,
}

impl Run<'_> {
    /// Merges the configuration's own settings for Terraform with those of the settings `file`.
    pub(super) fn apply_terraform_settings(&mut self, file: TerraformSettings) {
        let own = self.own_settings.take();
        let Ok(spec) = &mut self.spec else { return };
        match terraform_settings::merge(self.settings, spec, own, file) {
            Ok(warnings) => self.warnings.extend(warnings),
            Err(failure) => self.spec = Err(failure),
        }
    }

    /// Executes the run and reports how it ended. `config_span` is the phase that ends when `running` is
    /// reported.
    pub(super) async fn execute(mut self, config_span: Span, version: EarlyVersionQuery) -> Exit {
        // Before the log, which needs room for lines that do not fit into memory.
        let path = self.spec.as_ref().ok().and_then(|spec| spec.work_directory.as_ref());
        let path = path.map(|path| self.settings.work_dir.join(path));
        let path = path.as_deref();
        let options = RunDirectoryOptions::new(self.settings, path);
        let free = path.map_or(Ok(()), |path| remove_leftover(path, &self.settings.recovery_dir));
        let directory =
            free.and_then(|()| RunDirectory::create(&options, &mut self.reports.reserve));
        let terminal = std::mem::take(&mut self.terminal);
        let logs = Logs::open(self.settings, &self.reports, terminal, directory.as_ref().ok());
        for warning in &self.warnings {
            logs.log.warn(warning);
        }
        let mut findings = Findings::default();
        // Before the uploader starts, because a registry may reject log lines of a run that does not run.
        let begun = catch_panic(self.begin()).await;
        drop(config_span);
        let logs = logs.start(self.settings, &self.stop);
        let (directory, failure) = match (directory, begun) {
            (Ok(directory), Ok(spec)) => {
                let Times { grace, urgent, .. } = self.stop.times();
                let context = Context {
                    settings: self.settings,
                    directory: &directory,
                    log: &logs.log,
                    stop: &self.stop,
                    notices: &self.reports.notices,
                    registry: self.reports.registry.as_deref(),
                    version: &version,
                    grace: Grace { normal: grace, urgent },
                    options: &self.options,
                };
                let failure =
                    catch_panic(Box::pin(run_phases(&context, spec, &mut findings))).await.err();
                (Some(directory), failure)
            }
            (Ok(directory), Err(failure)) => (Some(directory), Some(failure)),
            (Err(error), _) => {
                let failure = Failure::because(Phase::Config, butler_base::error::chain(&error));
                let advice = if path.is_some() { NO_NAMED_DIRECTORY } else { NO_DIRECTORY };
                // The wipe of an earlier run can still be under way, and a full disk can have room again.
                (None, Some(failure.advise(advice).classed(FailureClass::Platform)))
            }
        };
        // The teardown runs on each path, also if the phases could not begin or panicked.
        let Self { settings, stop, mut reports, spec, watch, .. } = self;
        // The teardown needs the reserved file descriptors if the phases have used up all others.
        reports.reserve.take();
        let teardown = Teardown { settings, stop, reports, directory, spec: spec.ok(), watch };
        teardown.finish(logs, findings, failure).await
    }

    /// Reports that the run has begun.
    async fn begin(&self) -> Result<&RunSpec, Failure> {
        let spec = self.spec.as_ref().map_err(Failure::clone)?;
        if let Some(reason) = self.stop.reason() {
            return Err(Failure::stopped(Phase::Config, &reason));
        }
        let running = self.reports.running();
        tokio::pin!(running);
        let running = tokio::select! {
            running = &mut running => running,
            reason = self.stop.requested() => {
                // If the runner drops the request, the registry may still receive it after the final
                // status, which opens the run again.
                let _ = tokio::time::timeout(RUNNING_RESPONSE, running).await;
                return Err(Failure::stopped(Phase::Config, &reason));
            }
        };
        match running {
            Ok(()) => Ok(spec),
            Err(error) => Err(match self.stop.reason() {
                Some(reason) => Failure::stopped(Phase::Config, &reason),
                None => Failure::new(Phase::Config, &error).caused_by(Cause::Registry),
            }),
        }
    }
}
