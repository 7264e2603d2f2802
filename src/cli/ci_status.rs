//! `ci-status`: prints the status of a run that `trigger` started.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::time::Instant;

use super::ci_target::{self, Target, fail};
use super::flags::{Flags, Selection, merge_arguments};
use super::output::{complain, refuse};
use super::runtime::block_on;
use super::{kubernetes, logging};
use crate::exit::Exit;
use crate::screen::Screen;
use crate::settings::setting::{CA_BUNDLE, REQUEST_TIMEOUT, SECRETS_DIR};
use crate::settings::{Arguments, Environment, Logging, Setting, SettingsError, trigger_settings};
use butler_base::secret::Redactor;
use butler_start::trigger::TriggerSettings;
use butler_start::trigger::{RunState, RunStatus, follow};

/// The default timeout without `--wait`.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);

/// The default timeout with `--wait`.
const DEFAULT_TIMEOUT_WITH_WAIT: Duration = Duration::from_hours(24);

/// The exit code for a run that has not ended.
const NOT_ENDED: u8 = 5;

/// The exit codes, for `--help`.
const EXIT_CODES: &str = "Exit codes: 0 the run succeeded, 1 it failed or timed out, 2 usage, 3 it was cancelled or \
skipped, 4 the CI system is unreachable or rejects the request, 5 it has not ended";

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct CiStatus {
    #[command(subcommand)]
    target: StatusTarget,
}

#[derive(Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one a process")]
enum StatusTarget {
    #[command(flatten)]
    Ci(Target<StatusArguments>),
    /// A Job in a Kubernetes cluster
    Kubernetes(Box<kubernetes::KubernetesStatus>),
}

#[derive(Args)]
struct StatusArguments {
    /// The id of the run in the CI system: `externalRunId` of trigger
    #[arg(long, value_name = "ID")]
    external_run_id: String,
    /// Wait until the run has ended
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    flags: Flags<StatusFlags>,
}

/// The settings of the connection to the CI system.
struct StatusFlags;

impl Selection for StatusFlags {
    fn has(setting: &Setting) -> bool {
        [&REQUEST_TIMEOUT, &SECRETS_DIR, &CA_BUNDLE].contains(&setting)
    }
}

impl CiStatus {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let target = match self.target {
            StatusTarget::Ci(target) => target,
            StatusTarget::Kubernetes(status) => return status.run(&log, environment, NOT_ENDED),
        };
        let redactor = Arc::new(Redactor::new());
        let (mut target, StatusArguments { external_run_id, wait, flags }) =
            match target.into_parts() {
                Ok(split) => split,
                Err(error) => return fail(&error, &redactor),
            };
        // Settings come before the log, because they contain its filter and format.
        let arguments = merge_arguments(log, flags.into_arguments());
        let (logging, settings) = match settings(&arguments, environment) {
            Ok(settings) => settings,
            Err(error) => return refuse(&error),
        };
        let _log = logging::start(&logging, environment, &redactor, &Screen::default());
        let state = block_on(async {
            // One deadline for all requests, so that the command ends in time even if each of them is retried.
            let limit = if wait { DEFAULT_TIMEOUT_WITH_WAIT } else { DEFAULT_TIMEOUT };
            let deadline = Instant::now() + target.timeout.unwrap_or(limit);
            let config = target.config()?;
            let provider = target.provider(&config, &settings, deadline, &redactor)?;
            if wait {
                follow(&provider, &external_run_id, deadline).await
            } else {
                provider.state(&external_run_id).await
            }
        });
        match state {
            Some(Ok(state)) => print(&state, &redactor),
            Some(Err(error)) => fail(&error, &redactor),
            None => Exit::Failed.code(),
        }
    }
}

fn settings(
    arguments: &Arguments,
    environment: &Environment,
) -> Result<(Logging, TriggerSettings), SettingsError> {
    Ok((Logging::resolve(arguments, environment)?, trigger_settings(arguments, environment)?))
}

fn print(state: &RunState, redactor: &Redactor) -> u8 {
    if let Err(error) = ci_target::print(state, redactor) {
        complain(&format!("cannot write to standard output: {error}"), None);
        return Exit::Failed.code();
    }
    match state.status {
        RunStatus::Succeeded => Exit::Success.code(),
        RunStatus::Failed | RunStatus::TimedOut => Exit::Failed.code(),
        RunStatus::Cancelled | RunStatus::Skipped => Exit::Cancelled.code(),
        RunStatus::Pending | RunStatus::Queued | RunStatus::Running => NOT_ENDED,
    }
}
