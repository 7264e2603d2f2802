//! `trigger`: starts a run in a CI system.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::time::Instant;

use super::ci_target::{self, Inputs, Target, fail, inputs};
use super::flags::{Flags, Selection, together};
use super::output::{complain, refuse};
use super::runtime::block_on;
use super::{kubernetes, logging};
use crate::exit::Exit;
use crate::screen::Screen;
use crate::settings::setting::{
    CA_BUNDLE, ENDPOINT, REQUEST_TIMEOUT, RUN_ID, SECRETS_DIR, TOKEN_FILE,
};
use crate::settings::{
    Arguments, Environment, Logging, Setting, SettingsError, TriggeredRun, trigger_settings,
};
use butler_base::secret::Redactor;
use butler_start::trigger::TriggerSettings;
use butler_start::trigger::{Order, Started};

/// How long it takes at most until the CI system says which run it is.
const LIMIT: Duration = Duration::from_mins(2);

/// What `--help` says of the exit codes.
const EXIT_CODES: &str = "Exit codes: 0 started, 1 unclear whether the CI system started a run, or no matching run was found: \
check the CI system before you retry, 2 usage, 4 the CI system is unreachable or rejects the request: nothing was started";

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Trigger {
    #[command(subcommand)]
    target: Where,
}

#[derive(Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one a process")]
enum Where {
    #[command(flatten)]
    Ci(Target<Wanted>),
    /// A Kubernetes cluster, with one Job for each run
    Kubernetes(Box<kubernetes::Start>),
}

#[derive(Args)]
struct Wanted {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    flags: Flags<TriggerFlags>,
}

/// The run that is handed on, and how the CI system is spoken to. The token is never an argument
/// here: what is handed on is not this machine's alone.
struct TriggerFlags;

impl Selection for TriggerFlags {
    fn has(setting: &Setting) -> bool {
        [&ENDPOINT, &RUN_ID, &TOKEN_FILE, &REQUEST_TIMEOUT, &SECRETS_DIR, &CA_BUNDLE]
            .contains(&setting)
    }
}

impl Trigger {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let target = match self.target {
            Where::Ci(target) => target,
            Where::Kubernetes(start) => return start.run(log, environment),
        };
        let redactor = Arc::new(Redactor::new());
        let (mut place, Wanted { inputs: given, flags }) = match target.split() {
            Ok(split) => split,
            Err(error) => return fail(&error, &redactor),
        };
        let arguments = together(log, flags.into_arguments());
        let (logging, settings, handed_on) = match settings(&arguments, environment) {
            Ok(settings) => settings,
            Err(error) => return refuse(&error),
        };
        let _log = logging::start(&logging, environment, &redactor, &Screen::default());
        redactor.register([&handed_on.token]);
        for warning in &handed_on.warnings {
            tracing::warn!("{warning}");
        }
        let started = block_on(async {
            let deadline = Instant::now() + place.timeout.unwrap_or(LIMIT);
            let mut config = place.config()?;
            config.inputs.extend(inputs(&given.inputs)?);
            let provider = place.provider(&config, &settings, deadline, &redactor)?;
            let TriggeredRun { endpoint, run_id, token, .. } = handed_on;
            provider.start(&Order { endpoint, run_id, token, inputs: config.inputs }).await
        });
        match started {
            Some(Ok(started)) => print(&started, &redactor),
            Some(Err(error)) => fail(&error, &redactor),
            None => Exit::Failed.code(),
        }
    }
}

fn settings(
    arguments: &Arguments,
    environment: &Environment,
) -> Result<(Logging, TriggerSettings, TriggeredRun), SettingsError> {
    Ok((
        Logging::resolve(arguments, environment)?,
        trigger_settings(arguments, environment)?,
        TriggeredRun::resolve(arguments, environment)?,
    ))
}

fn print(started: &Started, redactor: &Redactor) -> u8 {
    match ci_target::print(started, redactor) {
        Ok(()) => Exit::Success.code(),
        // Where it cannot be printed it must not be lost.
        Err(error) => {
            let id = &started.external_run_id;
            complain(
                &format!(
                    "the run was started, but cannot write its id to standard output: {error}"
                ),
                Some(&format!("its externalRunId is {id}; do not start it again")),
            );
            Exit::Failed.code()
        }
    }
}
