//! Carries out a run from its first request to its exit code.
//!
//! The order is fixed: status → configuration → `running` → source and tool → variables and
//! backend → `init` → operation → last log lines → plan → outputs → files wiped → final status →
//! last lines on the terminal.
//! Whatever happens in between, a panic included, ends in exactly one final status, unless the
//! registry itself has ended the run: then nothing more is sent.

mod after_plan;
mod ambient;
mod approval;
mod backend_secrets;
mod collected;
mod demo;
mod descriptors;
mod documents;
mod earlier;
mod early_question;
mod final_status;
#[cfg(test)]
mod fuzz_tests;
mod init;
mod leftovers;
mod logs;
mod memory;
mod notices;
mod operations;
mod origin;
mod outcome;
mod outputs;
mod ownership;
mod part_writer;
mod phases;
mod plan_report;
mod plan_text;
mod recovery;
mod reports;
mod saved_plan;
mod secret_names;
mod secrets;
mod sources;
mod state_place;
mod teardown;
mod terraform_settings;
mod tools;
mod undelivered;
mod watch;
mod wiping;
mod workspace;
mod workspace_choice;

use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use secrecy::SecretString;

pub use demo::demo;
pub use leftovers::{Act, Finding, clean};
pub use memory::secret_place;
pub use outcome::Exit;
pub use secret_names::SECRET_VARIABLES;
pub use secrets::register_settings;
pub use tools::{tool_options, version_wish};
pub use watch::{Watch, signals};

use crate::ci;
use crate::screen::Screen;
use crate::settings::{RunSource, Settings};
use butler_base::cancel::{Stop, Times};
use butler_base::event::Phase;
use butler_base::process::{Grace, adopt_orphans};
use butler_base::secret::Redactor;
use butler_protocol::spec::{LocalOptions, RunSpec, TerraformSettings};
use butler_result::timeline::Span;
use descriptors::Reserve;
use early_question::EarlyQuestion;
use logs::Logs;
use notices::Notices;
use outcome::Failure;
use phases::{Context, Findings, perform};
use reports::Reports;
use teardown::Teardown;
use workspace::{Place, RunDirectory};

/// How long a report that is on its way may take to land once the run has to stop.
const RUNNING_ON_ITS_WAY: Duration = Duration::from_secs(2);

/// What to do when a run has nowhere to be.
const NO_DIRECTORY: &str = "check that --work-dir (BUTLER_WORK_DIR), and --tmpfs-dir (BUTLER_TMPFS_DIR) \
where it is set, are writable and have room";

/// Where the output of children is shown.
pub struct Terminal {
    /// Their standard output.
    pub stdout: Box<dyn Write + Send>,
    /// Their standard error.
    pub stderr: Box<dyn Write + Send>,
    /// Where the CI system reads commands that it does not show; none where somebody else may read
    /// them.
    pub commands: Option<Box<dyn Write + Send>>,
    /// What the runner itself shows at the end of a run.
    pub notices: Box<dyn Write + Send>,
    /// Where people see it, if any do.
    pub screen: Option<Screen>,
}

impl Default for Terminal {
    /// Shows nothing.
    fn default() -> Self {
        Self {
            stdout: Box::new(std::io::sink()),
            stderr: Box::new(std::io::sink()),
            commands: None,
            notices: Box::new(std::io::sink()),
            screen: None,
        }
    }
}

/// Carries out the run that `settings` describe. Its secrets are registered with `redactor`, which
/// should also stand before the process's own log.
pub async fn execute(settings: Settings, redactor: Arc<Redactor>, mut terminal: Terminal) -> Exit {
    if let Some(commands) =
        terminal.commands.take_if(|_| settings.job.system == ci::System::GitHubActions)
    {
        // Before anything is registered, so that no secret is known here but not there.
        match ci::Masks::start(commands) {
            Ok(masks) => redactor.observe(move |line| masks.register(line)),
            Err(error) => tracing::warn!(%error, "secrets are not registered as masks: no thread"),
        }
    }
    // What a user applies in place may be meant to stay, and the user's own daemons are there too.
    if !matches!(settings.source, RunSource::Local { .. }) {
        adopt_orphans();
    }
    let times =
        Times { grace: settings.grace_period, report: settings.report_period, ..Times::default() };
    let stop = Stop::with(times);
    let signals = watch::signals(&stop).and_then(|signals| Ok((signals, watch::chores()?)));
    let signals = match signals {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "cannot watch for signals");
            return Exit::Failed;
        }
    };
    let reserve = match Reserve::take() {
        Ok(reserve) => Some(reserve),
        Err(error) => {
            tracing::error!(%error, "there are too few file descriptors (ulimit -n)");
            return Exit::Usage;
        }
    };
    earlier::remove(&settings);
    leftovers::clean_before(&settings, &stop).await;
    let directory = settings.report_dir.clone();
    let output = std::mem::replace(&mut terminal.notices, Box::new(std::io::sink()));
    let notices = Arc::new(Notices::new(&settings, output, terminal.screen.take()));
    let reports = Reports { registry: None, directory, redactor, notices, reserve };
    let exit = Box::pin(sources::start(&settings, &stop, reports, terminal)).await;
    drop(signals);
    exit
}

/// A run whose origin is known, and all that it needs.
struct Run<'settings> {
    settings: &'settings Settings,
    stop: Stop,
    reports: Reports,
    /// The run, or why there is none.
    spec: Result<RunSpec, Failure>,
    /// What the run lays down for Terraform, as JSON text, until it is settled what counts.
    own_settings: Option<SecretString>,
    /// What to say about the configuration.
    warnings: Vec<String>,
    /// What somebody asks for who runs it by hand.
    options: Box<LocalOptions>,
    terminal: Terminal,
    /// Asks the registry whether the run goes on; none without a registry.
    watch: Option<watch::Watch>,
}

impl Run<'_> {
    /// Settles what of its own settings for Terraform and of the `file`'s counts.
    fn lay_down(&mut self, file: TerraformSettings) {
        let own = self.own_settings.take();
        let Ok(spec) = &mut self.spec else { return };
        match terraform_settings::settle(self.settings, spec, own, file) {
            Ok(warnings) => self.warnings.extend(warnings),
            Err(failure) => self.spec = Err(failure),
        }
    }

    /// Carries it out and reports how it ended. It has been begun once the registry was told so,
    /// which ends `asking`.
    async fn carry_out(mut self, asking: Span, version: EarlyQuestion) -> Exit {
        let directory =
            RunDirectory::create(&Place::from(self.settings), &mut self.reports.reserve);
        let terminal = std::mem::take(&mut self.terminal);
        let logs = Logs::open(self.settings, &self.reports, terminal, directory.as_ref().ok());
        for warning in &self.warnings {
            logs.log.warn(warning);
        }
        let mut findings = Findings::default();
        let begun = guarded(self.begin()).await;
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
                let failure = guarded(Box::pin(perform(&context, spec, &mut findings))).await.err();
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

/// Makes a failure of a panic, so that it is reported like any other.
async fn guarded<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    let failure = Failure::because(Phase::Report, format!("the runner failed (a bug): {text}"));
    Failure { advice: Some("please report it with the runner's version".to_owned()), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_failure_like_any_other() {
        let failure = guarded::<()>(async { panic!("index out of bounds") }).await.unwrap_err();
        assert_eq!(failure.reason, "the runner failed (a bug): index out of bounds");
        assert!(guarded(async { Ok(()) }).await.is_ok());
    }
}
