//! `ci-status`: prints the status of a run that `trigger` started.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::time::Instant;

use super::ci_target::{self, Target, fail};
use super::flags::{Flags, Selection, together};
use super::output::{complain, refuse};
use super::runtime::block_on;
use super::{kubernetes, logging};
use crate::exit::Exit;
use crate::screen::Screen;
use crate::settings::setting::{CA_BUNDLE, REQUEST_TIMEOUT, SECRETS_DIR};
use crate::settings::{Arguments, Environment, Logging, Setting, SettingsError, trigger_settings};
use butler_base::secret::Redactor;
use butler_start::trigger::TriggerSettings;
use butler_start::trigger::{RunState, State, follow};

/// How long one look takes at most.
const LIMIT: Duration = Duration::from_mins(2);

/// How long a run is followed at most.
const LIMIT_WITH_WAIT: Duration = Duration::from_hours(24);

/// The run is not over yet.
const NOT_OVER: u8 = 5;

/// What `--help` says of the exit codes.
const EXIT_CODES: &str = "Exit codes: 0 the run succeeded, 1 it failed or timed out, 2 usage, 3 it was cancelled or \
skipped, 4 the CI system is unreachable or rejects the request, 5 it has not ended";

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct CiStatus {
    #[command(subcommand)]
    target: Where,
}

#[derive(Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one a process")]
enum Where {
    #[command(flatten)]
    Ci(Target<Wanted>),
    /// A Job in a Kubernetes cluster
    Kubernetes(Box<kubernetes::Look>),
}

#[derive(Args)]
struct Wanted {
    /// The id of the run in the CI system: `externalRunId` of trigger
    #[arg(long, value_name = "ID")]
    external_run_id: String,
    /// Wait until the run has ended
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    flags: Flags<StatusFlags>,
}

/// How the CI system is spoken to.
struct StatusFlags;

impl Selection for StatusFlags {
    fn has(setting: &Setting) -> bool {
        [&REQUEST_TIMEOUT, &SECRETS_DIR, &CA_BUNDLE].contains(&setting)
    }
}

impl CiStatus {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let target = match self.target {
            Where::Ci(target) => target,
            Where::Kubernetes(look) => return look.run(&log, environment, NOT_OVER),
        };
        let redactor = Arc::new(Redactor::new());
        let (mut place, Wanted { external_run_id, wait, flags }) = match target.split() {
            Ok(split) => split,
            Err(error) => return fail(&error, &redactor),
        };
        let arguments = together(log, flags.into_arguments());
        let (logging, settings) = match settings(&arguments, environment) {
            Ok(settings) => settings,
            Err(error) => return refuse(&error),
        };
        let _log = logging::start(&logging, environment, &redactor, &Screen::default());
        let state = block_on(async {
            let limit = if wait { LIMIT_WITH_WAIT } else { LIMIT };
            let deadline = Instant::now() + place.timeout.unwrap_or(limit);
            let config = place.config()?;
            let provider = place.provider(&config, &settings, deadline, &redactor)?;
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
        State::Succeeded => Exit::Success.code(),
        State::Failed | State::TimedOut => Exit::Failed.code(),
        State::Cancelled | State::Skipped => Exit::Cancelled.code(),
        State::Pending | State::Queued | State::Running => NOT_OVER,
    }
}
