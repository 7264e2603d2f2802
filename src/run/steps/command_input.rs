//! The input of an operation's commands: files, options, and the checks before an apply.

use std::path::PathBuf;
use std::time::Duration;

use super::after_plan::AfterPlanProgram;
use super::approval::Approver;
use super::fixed_variables::FixedVariable;
use super::handover::Handover;
use super::remote_runs::RemoteAccess;
use crate::engine::{PlanMode, PlanRequest};
use crate::run::plan::plan_report::PlanOptions;
use crate::run::reporting::reports::RegistryReports;
use crate::workspace::VariableFiles;
use butler_base::secret::PrivateDirectory;
use butler_protocol::spec::{Assignment, LocalOptions};
use butler_result::timeline::Timeline;
use butler_source::module::LocalStateBlock;

/// The input of an operation's commands.
pub(in crate::run) struct CommandInput<'run> {
    pub(in crate::run) variables: CommandVariables,
    /// Options of the typed commands.
    pub(in crate::run) options: LocalOptions,
    /// The file with the backend's settings.
    pub(in crate::run) backend: Option<PathBuf>,
    /// Whether the module's directory belongs to the user.
    pub(in crate::run) in_place: bool,
    /// The files that the user of the tools gets before `init`, if the tools have one.
    pub(in crate::run) handover: Option<Handover>,
    /// Local states of other modules that the module reads.
    pub(in crate::run) local_states: Vec<LocalStateBlock>,
    /// How the plan is reported.
    pub(in crate::run) plan: PlanOptions,
    /// The program that checks a plan before an apply.
    pub(in crate::run) after_plan: Option<AfterPlanProgram<'run>>,
    /// Whether the run may lose its state at the end (`--allow-ephemeral-state`).
    pub(in crate::run) allow_ephemeral_state: bool,
    pub(in crate::run) providers: ProviderCacheOptions,
    /// Records the duration of each command.
    pub(in crate::run) timeline: Timeline,
    /// None if the user does not have to approve the plan.
    pub(in crate::run) approver: Option<Approver>,
    /// Files that the run itself writes, which are not files of the plan.
    pub(in crate::run) reports: Vec<PathBuf>,
    /// The settings for requests to a server that executes a run in place of the tool.
    pub(in crate::run) remote: RemoteAccess,
    /// The directory for files with secrets.
    pub(in crate::run) secrets: &'run PrivateDirectory,
    /// The directory for files that outlive the run.
    pub(in crate::run) recovery: PathBuf,
    /// The registry of the run; absent without one.
    pub(in crate::run) registry: Option<&'run RegistryReports>,
    /// The registry's saved plan, if the run applies one.
    pub(in crate::run) fetched: Option<PathBuf>,
    /// Terraform's own plan, if it was made before this run.
    pub(in crate::run) restored: Option<PathBuf>,
}

impl CommandInput<'_> {
    /// The arguments of `plan`.
    pub(in crate::run) fn plan_request(&self, mode: PlanMode) -> PlanRequest<'_> {
        PlanRequest { mode, variables: &self.variables.plan, options: &self.options.planning }
    }
}

/// The variables of commands. A later assignment overrides an earlier one.
pub(in crate::run) struct CommandVariables {
    pub(in crate::run) plan: Vec<Assignment>,
    pub(in crate::run) apply: Vec<Assignment>,
    /// What the user has assigned to variables that a saved plan contains.
    pub(in crate::run) fixed: Vec<FixedVariable>,
}

impl From<VariableFiles> for CommandVariables {
    fn from(files: VariableFiles) -> Self {
        let assignments = |files: Vec<_>| files.into_iter().map(Assignment::File).collect();
        Self { plan: assignments(files.plan), apply: assignments(files.apply), fixed: Vec::new() }
    }
}

/// How the provider cache is used.
pub(in crate::run) struct ProviderCacheOptions {
    /// Its directory; none if packages are not cached.
    pub(in crate::run) cache: Option<PathBuf>,
    /// How long to wait for another run's `init`.
    pub(in crate::run) patience: Duration,
}
