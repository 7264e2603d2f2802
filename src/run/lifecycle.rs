//! One run from the moment its origin is known: begin, phases, teardown.

use std::time::Duration;

use secrecy::SecretString;

use super::context::Context;
use super::directory::run_directory::{RunDirectory, RunDirectoryOptions};
use super::findings::Findings;
use super::panic::catch_panic;
use super::reporting::logs::Logs;
use super::reporting::outcome::Failure;
use super::reporting::reports::Reports;
use super::steps::early_question::EarlyQuestion;
use super::steps::phases::perform;
use super::steps::terraform_settings;
use super::teardown::Teardown;
use super::terminal::Terminal;
use super::watch;
use crate::exit::Exit;
use crate::settings::Settings;
use butler_base::cancel::{Stop, Times};
use butler_base::event::Phase;
use butler_base::process::Grace;
use butler_protocol::spec::{LocalOptions, RunSpec, TerraformSettings};
use butler_result::timeline::Span;

/// How long a report that is on its way may take to land once the run has to stop.
const RUNNING_ON_ITS_WAY: Duration = Duration::from_secs(2);

/// What to do when a run has nowhere to be.
const NO_DIRECTORY: &str = "check that --work-dir (BUTLER_WORK_DIR), and --tmpfs-dir (BUTLER_TMPFS_DIR) \
where it is set, are writable and have room";

/// A run whose origin is known, and all that it needs.
pub(super) struct Run<'settings> {
    pub(super) settings: &'settings Settings,
    pub(super) stop: Stop,
    pub(super) reports: Reports,
    /// The run, or why there is none.
    pub(super) spec: Result<RunSpec, Failure>,
    /// What the run lays down for Terraform, as JSON text, until it is settled what counts.
    pub(super) own_settings: Option<SecretString>,
    /// What to say about the configuration.
    pub(super) warnings: Vec<String>,
    /// What somebody asks for who runs it by hand.
    pub(super) options: Box<LocalOptions>,
    pub(super) terminal: Terminal,
    /// Asks the registry whether the run goes on; none without a registry.
    pub(super) watch: Option<watch::Watch>,
}

impl Run<'_> {
    /// Settles what of its own settings for Terraform and of the `file`'s counts.
    pub(super) fn apply_terraform_settings(&mut self, file: TerraformSettings) {
        let own = self.own_settings.take();
        let Ok(spec) = &mut self.spec else { return };
        match terraform_settings::settle(self.settings, spec, own, file) {
            Ok(warnings) => self.warnings.extend(warnings),
            Err(failure) => self.spec = Err(failure),
        }
    }

    /// Executes the run and reports how it ended. `asking` ends when the registry knows that the run
    /// has begun.
    pub(super) async fn execute(mut self, asking: Span, version: EarlyQuestion) -> Exit {
        let directory = RunDirectory::create(
            &RunDirectoryOptions::from(self.settings),
            &mut self.reports.reserve,
        );
        let terminal = std::mem::take(&mut self.terminal);
        let logs = Logs::open(self.settings, &self.reports, terminal, directory.as_ref().ok());
        for warning in &self.warnings {
            logs.log.warn(warning);
        }
        let mut findings = Findings::default();
        let begun = catch_panic(self.begin()).await;
        drop(asking);
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
                    version: &version,
                    grace: Grace { normal: grace, urgent },
                    options: &self.options,
                };
                let failure =
                    catch_panic(Box::pin(perform(&context, spec, &mut findings))).await.err();
                (Some(directory), failure)
            }
            (Ok(directory), Err(failure)) => (Some(directory), Some(failure)),
            (Err(error), _) => {
                let failure = Failure::because(Phase::Config, butler_base::error::chain(&error));
                (None, Some(Failure { advice: Some(NO_DIRECTORY.to_owned()), ..failure }))
            }
        };
        let Self { settings, stop, mut reports, spec, watch, .. } = self;
        reports.reserve.take();
        let teardown = Teardown { settings, stop, reports, directory, spec: spec.ok(), watch };
        teardown.finish(logs, findings, failure).await
    }

    /// Says that the run has begun, if there is one.
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
                // One that is given up on its way may arrive after the final status, and reopen the run.
                let _ = tokio::time::timeout(RUNNING_ON_ITS_WAY, running).await;
                return Err(Failure::stopped(Phase::Config, &reason));
            }
        };
        match running {
            Ok(()) => Ok(spec),
            Err(error) => Err(match self.stop.reason() {
                Some(reason) => Failure::stopped(Phase::Config, &reason),
                None => Failure { registry: true, ..Failure::new(Phase::Config, &error) },
            }),
        }
    }
}
