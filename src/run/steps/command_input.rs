//! The input of an operation's commands: files, options, and what decides before an apply.

use std::path::PathBuf;
use std::time::Duration;

use super::after_plan::Judge;
use super::approval::Approver;
use crate::engine::{PlanMode, PlanRequest};
use crate::run::plan::plan_report::PlanOptions;
use crate::workspace::VariableFiles;
use butler_protocol::spec::{Assignment, LocalOptions};
use butler_result::timeline::Timeline;

/// The files that commands are given, and how the plan that they make is reported.
pub(in crate::run) struct Files<'run> {
    pub(in crate::run) variables: Variables,
    /// Options of the typed commands.
    pub(in crate::run) options: LocalOptions,
    pub(in crate::run) backend: Option<PathBuf>,
    /// Whether the module's directory is the user's own.
    pub(in crate::run) in_place: bool,
    pub(in crate::run) plan: PlanOptions,
    /// What judges a plan before anything is applied.
    pub(in crate::run) judge: Option<Judge<'run>>,
    /// Whether a state may be lost at the end.
    pub(in crate::run) allow_ephemeral_state: bool,
    pub(in crate::run) providers: Providers,
    /// Where each command is noted.
    pub(in crate::run) timeline: Timeline,
    /// Who says whether a plan is applied; none where that is settled.
    pub(in crate::run) approver: Option<Approver>,
    /// What the run writes itself, and so no plan creates.
    pub(in crate::run) reports: Vec<PathBuf>,
    /// Terraform's own plan, where it was made before this run.
    pub(in crate::run) restored: Option<PathBuf>,
}

impl Files<'_> {
    /// How the plan is made.
    pub(in crate::run) fn request(&self, mode: PlanMode) -> PlanRequest<'_> {
        PlanRequest { mode, variables: &self.variables.plan, options: &self.options.planning }
    }
}

/// What commands are told of variables, in the order in which it counts.
pub(in crate::run) struct Variables {
    pub(in crate::run) plan: Vec<Assignment>,
    pub(in crate::run) apply: Vec<Assignment>,
}

impl From<VariableFiles> for Variables {
    fn from(files: VariableFiles) -> Self {
        let assignments = |files: Vec<_>| files.into_iter().map(Assignment::File).collect();
        Self { plan: assignments(files.plan), apply: assignments(files.apply) }
    }
}

/// Where packages of providers are kept.
pub(in crate::run) struct Providers {
    /// The cache; none where nothing is kept.
    pub(in crate::run) cache: Option<PathBuf>,
    /// How long other runs' inits are waited for.
    pub(in crate::run) patience: Duration,
}
