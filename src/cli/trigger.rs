//! `trigger`: starts a run in a CI system.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::time::Instant;

use super::ci_target::{self, Inputs, Target, fail, parse_inputs};
use super::flags::{Flags, Selection, merge_arguments};
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
use butler_start::trigger::{RunnerAccess, StartRequest, StartedRun};

/// The default time limit until the CI system names the run.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);

/// The exit codes, for `--help`.
const EXIT_CODES: &str = "Exit codes: 0 started, 1 unclear whether the CI system started a run, or no matching run was found: \
check the CI system before you retry, 2 usage, 4 the CI system is unreachable or rejects the request: nothing was started";

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Trigger {
    #[command(subcommand)]
    target: TriggerTarget,
}

#[derive(Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one a process")]
enum TriggerTarget {
    #[command(flatten)]
    Ci(Target<StartArguments>),
    /// A Kubernetes cluster, with one Job for each run
    Kubernetes(Box<kubernetes::StartJob>),
}

#[derive(Args)]
struct StartArguments {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    flags: Flags<TriggerFlags>,
}

/// The settings of the run, and of the connection to the CI system. The token is not a flag, because the
/// process list would show it.
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
            TriggerTarget::Ci(target) => target,
            TriggerTarget::Kubernetes(start) => return start.run(log, environment),
        };
        let redactor = Arc::new(Redactor::new());
        let (mut target, StartArguments { inputs: given, flags }) = match target.into_parts() {
            Ok(split) => split,
            Err(error) => return fail(&error, &redactor),
        };
        // Settings come before the log, because they contain its filter and format.
        let arguments = merge_arguments(log, flags.into_arguments());
        let (logging, settings, handed_on) = match settings(&arguments, environment) {
            Ok(settings) => settings,
            Err(error) => return refuse(&error),
        };
        let _log = logging::start(&logging, environment, &redactor, &Screen::default());
        // Before the first message that could contain the token.
        redactor.register([&handed_on.token]);
        for warning in &handed_on.warnings {
            tracing::warn!("{warning}");
        }
        let started = block_on(async {
            // One deadline for all requests, so that the command ends in time even if each of them is retried.
            let deadline = Instant::now() + target.timeout.unwrap_or(DEFAULT_TIMEOUT);
            let mut config = target.config()?;
            config.inputs.extend(parse_inputs(&given.inputs)?);
            let provider = target.provider(&config, &settings, deadline, &redactor)?;
            let TriggeredRun { endpoint, run_id, token, .. } = handed_on;
            let runner = Some(RunnerAccess { endpoint, token });
            provider.start(&StartRequest { run_id, runner, inputs: config.inputs }).await
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

fn print(started: &StartedRun, redactor: &Redactor) -> u8 {
    match ci_target::print(started, redactor) {
        Ok(()) => Exit::Success.code(),
        // The user must get the id even if standard output is closed.
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
