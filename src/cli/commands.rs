//! `plan`, `apply`, `destroy`, `drift`, `validate` and `test`: a run in a directory of one's own.
//!
//! Each is a form of [`LocalRequest`]; from there on they are what `execute --local` is.

mod error;
mod options;
mod plan_file;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use self::error::CommandError;
use self::options::{Consent, Place, Planning, RunFlags};
use self::plan_file::{Word, plan_to_save, saved_plan, saved_request};
use super::assignments::Assignments;
use super::execute::carry_out;
use super::flags::{Flags, together};
use super::output::complain;
use super::place::module_directory;
use crate::exit::Exit;
use crate::settings::{Arguments, Environment, LocalRequest, Settings};
use butler_base::error::{Advice, chain};
use butler_protocol::spec::{
    ChangesExit, LocalOptions, Operation, PlanFile, PlanningOptions, Purpose,
};

/// How `drift`, and `plan` with `--detailed-exitcode`, end when the command line is wrong: 2 says
/// that there are changes. It is `EX_USAGE` of sysexits.h.
const USAGE_BESIDE_CHANGES: u8 = 64;

/// What `--help` says of exit codes.
const EXIT_CODES: &str =
    "Exit codes: 0 success, 1 the run failed, 2 usage, 128+n stopped by signal n";
const PLAN_EXIT_CODES: &str = "Exit codes: 0 success, 1 the run failed, 2 usage, 128+n stopped by signal n; \
with --detailed-exitcode: 0 no changes, 1 the run failed, 2 there are changes, 64 usage";
const DRIFT_EXIT_CODES: &str = "Exit codes: 0 no drift, 1 the run failed, 2 there is drift, 64 usage, 128+n stopped by signal n";

#[derive(Args)]
#[command(after_help = PLAN_EXIT_CODES)]
pub(super) struct Plan {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    planning: Planning,
    /// Plan to destroy all resources
    #[arg(long, help_heading = "Plan")]
    destroy: bool,
    /// Exit with 2 if there are changes, with 0 without changes, and with 64 after a usage error
    #[arg(long, help_heading = "Plan")]
    detailed_exitcode: bool,
    /// Save the plan to this file, for `apply FILE`; the file contains secrets in clear text
    #[arg(long, value_name = "FILE", help_heading = "Plan")]
    out: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Apply {
    /// A plan that `plan --out` saved, or the directory of the module; by default the current one
    #[arg(value_name = "PLAN|DIR")]
    plan_or_directory: Option<PathBuf>,
    /// The directory of the saved plan; by default the current one
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    planning: Planning,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Destroy {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    planning: Planning,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

#[derive(Args)]
#[command(after_help = DRIFT_EXIT_CODES)]
pub(super) struct Drift {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    planning: Planning,
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Validate {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Test {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    assignments: Assignments,
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

impl Plan {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let usage = if self.detailed_exitcode { USAGE_BESIDE_CHANGES } else { Exit::Usage.code() };
        let request = || {
            let mut options = self.planning.into_options()?;
            if self.detailed_exitcode {
                options.changes = ChangesExit::Detailed;
            }
            if self.destroy {
                options.purpose = Purpose::Destroy;
            }
            if let Some(out) = &self.out {
                options.plan_file = PlanFile::Save(plan_to_save(out)?);
            }
            request(&self.place, Operation::Plan, options)
        };
        let request = request();
        Start { request, flags: together(log, self.flags.into_arguments()), usage }.run(environment)
    }
}

impl Apply {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let flags = together(log, self.flags.into_arguments());
        let Self { plan_or_directory, directory, planning, consent, .. } = self;
        let request = || match saved_plan(plan_or_directory, directory)? {
            Word::Plan { file, place } => saved_request(file, &place, planning, &flags),
            Word::Directory(place) => {
                let request = request(&place, Operation::Apply, planning.into_options()?)?;
                approved(request, &consent, "apply")
            }
        };
        let request = request();
        Start::new(request, flags).run(environment)
    }
}

impl Destroy {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let request = || {
            let options = self.planning.into_options()?;
            let request = request(&self.place, Operation::Destroy, options)?;
            approved(request, &self.consent, "destroy")
        };
        let request = request();
        Start::new(request, together(log, self.flags.into_arguments())).run(environment)
    }
}

impl Drift {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let request = self.planning.into_options().and_then(|options| {
            let options = LocalOptions { changes: ChangesExit::Detailed, ..options };
            request(&self.place, Operation::DriftCheck, options)
        });
        let flags = together(log, self.flags.into_arguments());
        Start { request, flags, usage: USAGE_BESIDE_CHANGES }.run(environment)
    }
}

impl Validate {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let request = request(&self.place, Operation::Validate, LocalOptions::default());
        Start::new(request, together(log, self.flags.into_arguments())).run(environment)
    }
}

impl Test {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let request = self.assignments.0.map_err(CommandError::from).and_then(|assignments| {
            let planning = PlanningOptions { assignments, ..PlanningOptions::default() };
            let options = LocalOptions { planning, ..LocalOptions::default() };
            request(&self.place, Operation::Test, options)
        });
        Start::new(request, together(log, self.flags.into_arguments())).run(environment)
    }
}

fn request(
    place: &Place,
    operation: Operation,
    options: LocalOptions,
) -> Result<LocalRequest, CommandError> {
    let directory = module_directory(place.directory.as_deref())?;
    Ok(LocalRequest { directory, operation, tool: None, options })
}

fn approved(
    mut request: LocalRequest,
    consent: &Consent,
    command: &'static str,
) -> Result<LocalRequest, CommandError> {
    request.options.approval = consent.approval(command)?;
    Ok(request)
}

/// Whether a command line that cannot be read is one of a command that ends with 2 for changes.
pub(super) fn usage_code(command: Option<&str>, words: &[OsString]) -> u8 {
    let is_detailed = |word: &OsString| word == "--detailed-exitcode";
    match command {
        Some("drift") => USAGE_BESIDE_CHANGES,
        Some("plan") if words.iter().any(is_detailed) => USAGE_BESIDE_CHANGES,
        _ => Exit::Usage.code(),
    }
}

/// A command that was read.
struct Start {
    request: Result<LocalRequest, CommandError>,
    flags: Arguments,
    /// The exit code for what is wrong with the command line or the environment.
    usage: u8,
}

impl Start {
    fn new(request: Result<LocalRequest, CommandError>, flags: Arguments) -> Self {
        Self { request, flags, usage: Exit::Usage.code() }
    }

    /// Carries it out; returns the exit code.
    fn run(self, environment: &Environment) -> u8 {
        let Self { request, flags, usage } = self;
        let settings = request.and_then(|request| {
            Settings::resolve_local(request, &flags, environment).map_err(CommandError::from)
        });
        let settings = match settings {
            Ok(settings) => settings,
            Err(error) => {
                complain(&chain(&error), error.advice().as_deref());
                return usage;
            }
        };
        match carry_out(settings, environment) {
            Exit::Usage => usage,
            exit => exit.code(),
        }
    }
}
