//! `plan`, `apply`, `destroy`, `drift`, `validate` and `test`: runs in a local directory.
//!
//! Each command creates a [`LocalRequest`], which is then executed like `execute --local`.

mod error;
mod options;
mod plan_file;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use self::error::CommandError;
use self::options::{ConsentFlags, InvokingFlags, ModuleArgument, PlanningFlags, RunFlags};
use self::plan_file::{ApplyArgument, parse_apply_argument, plan_to_save, saved_plan_request};
use super::assignments::Assignments;
use super::execute::{Shown, execute_run};
use super::flags::{Flags, merge_arguments};
use super::module_directory::module_directory;
use super::output::complain;
use crate::exit::Exit;
use crate::settings::{Arguments, Environment, LocalRequest, Settings};
use butler_base::error::{Advice, chain};
use butler_protocol::spec::{
    ChangesExit, LocalOptions, Operation, PlanFile, PlanPurpose, PlanningOptions,
};

/// The exit code of `drift`, and of `plan` with `--detailed-exitcode`, after a usage error, because their 2 means
/// changes. It is `EX_USAGE` of sysexits.h.
const USAGE_BESIDE_CHANGES: u8 = 64;

/// The exit codes, for `--help`.
const EXIT_CODES: &str =
    "Exit codes: 0 success, 1 the run failed, 2 usage, 128+n stopped by signal n";
const PLAN_EXIT_CODES: &str = "Exit codes: 0 success, 1 the run failed, 2 usage, 128+n stopped by signal n; \
with --detailed-exitcode: 0 no changes, 1 the run failed, 2 there are changes, 64 usage";
const DRIFT_EXIT_CODES: &str = "Exit codes: 0 no drift, 1 the run failed, 2 there is drift, 64 usage, 128+n stopped by signal n";

#[derive(Args)]
#[command(after_help = PLAN_EXIT_CODES)]
pub(super) struct Plan {
    #[command(flatten)]
    module: ModuleArgument,
    #[command(flatten)]
    planning: InvokingFlags,
    /// Plan to destroy all resources
    #[arg(long, conflicts_with = "invocation", help_heading = "Plan")]
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
    planning: InvokingFlags,
    #[command(flatten)]
    consent: ConsentFlags,
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Destroy {
    #[command(flatten)]
    module: ModuleArgument,
    #[command(flatten)]
    planning: PlanningFlags,
    #[command(flatten)]
    consent: ConsentFlags,
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

#[derive(Args)]
#[command(after_help = DRIFT_EXIT_CODES)]
pub(super) struct Drift {
    #[command(flatten)]
    module: ModuleArgument,
    #[command(flatten)]
    planning: PlanningFlags,
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Validate {
    #[command(flatten)]
    module: ModuleArgument,
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Test {
    #[command(flatten)]
    module: ModuleArgument,
    #[command(flatten)]
    assignments: Assignments,
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

impl Plan {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let usage_code =
            if self.detailed_exitcode { USAGE_BESIDE_CHANGES } else { Exit::Usage.code() };
        let request = || {
            let mut options = self.planning.into_options()?;
            if self.detailed_exitcode {
                options.changes = ChangesExit::Detailed;
            }
            if self.destroy {
                options.purpose = PlanPurpose::Destroy;
            }
            if let Some(out) = &self.out {
                options.plan_file = PlanFile::Save(plan_to_save(out)?);
            }
            local_request(&self.module, Operation::Plan, options)
        };
        let request = request();
        LocalRun { request, flags: merge_arguments(log, self.flags.into_arguments()), usage_code }
            .run(environment)
    }
}

impl Apply {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let flags = merge_arguments(log, self.flags.into_arguments());
        let Self { plan_or_directory, directory, planning, consent, .. } = self;
        let request = || match parse_apply_argument(plan_or_directory, directory)? {
            ApplyArgument::Plan { file, module } => {
                saved_plan_request(file, &module, planning, &flags)
            }
            ApplyArgument::Directory(module) => {
                let request = local_request(&module, Operation::Apply, planning.into_options()?)?;
                with_approval(request, &consent, "apply")
            }
        };
        let request = request();
        LocalRun::new(request, flags).run(environment)
    }
}

impl Destroy {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let request = || {
            let options = self.planning.into_options()?;
            let request = local_request(&self.module, Operation::Destroy, options)?;
            with_approval(request, &self.consent, "destroy")
        };
        let request = request();
        LocalRun::new(request, merge_arguments(log, self.flags.into_arguments())).run(environment)
    }
}

impl Drift {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let request = self.planning.into_options().and_then(|options| {
            let options = LocalOptions { changes: ChangesExit::Detailed, ..options };
            local_request(&self.module, Operation::DriftCheck, options)
        });
        let flags = merge_arguments(log, self.flags.into_arguments());
        LocalRun { request, flags, usage_code: USAGE_BESIDE_CHANGES }.run(environment)
    }
}

impl Validate {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let request = local_request(&self.module, Operation::Validate, LocalOptions::default());
        LocalRun::new(request, merge_arguments(log, self.flags.into_arguments())).run(environment)
    }
}

impl Test {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let request = self.assignments.0.map_err(CommandError::from).and_then(|assignments| {
            let planning = PlanningOptions { assignments, ..PlanningOptions::default() };
            let options = LocalOptions { planning, ..LocalOptions::default() };
            local_request(&self.module, Operation::Test, options)
        });
        LocalRun::new(request, merge_arguments(log, self.flags.into_arguments())).run(environment)
    }
}

fn local_request(
    module: &ModuleArgument,
    operation: Operation,
    options: LocalOptions,
) -> Result<LocalRequest, CommandError> {
    let directory = module_directory(module.directory.as_deref())?;
    Ok(LocalRequest { directory, operation, tool: None, options })
}

fn with_approval(
    mut request: LocalRequest,
    consent: &ConsentFlags,
    command: &'static str,
) -> Result<LocalRequest, CommandError> {
    request.options.approval = consent.approval(command)?;
    Ok(request)
}

/// The exit code for a command line that cannot be parsed.
pub(super) fn usage_code(command: Option<&str>, words: &[OsString]) -> u8 {
    let is_detailed = |word: &OsString| word == "--detailed-exitcode";
    match command {
        Some("drift") => USAGE_BESIDE_CHANGES,
        Some("plan") if words.iter().any(is_detailed) => USAGE_BESIDE_CHANGES,
        _ => Exit::Usage.code(),
    }
}

/// A parsed command.
struct LocalRun {
    request: Result<LocalRequest, CommandError>,
    flags: Arguments,
    /// The exit code for usage errors.
    usage_code: u8,
}

impl LocalRun {
    fn new(request: Result<LocalRequest, CommandError>, flags: Arguments) -> Self {
        Self { request, flags, usage_code: Exit::Usage.code() }
    }

    /// Executes the run. Returns the exit code.
    fn run(self, environment: &Environment) -> u8 {
        // Errors of the command line and of settings end the command before a run begins, with the usage code.
        let Self { request, flags, usage_code } = self;
        let settings = request.and_then(|request| {
            Settings::resolve_local(request, &flags, environment).map_err(CommandError::from)
        });
        let settings = match settings {
            Ok(settings) => settings,
            Err(error) => {
                complain(&chain(&error), error.advice().as_deref());
                return usage_code;
            }
        };
        match execute_run(settings, environment, Shown::Log) {
            Exit::Usage => usage_code,
            exit => exit.code(),
        }
    }
}
