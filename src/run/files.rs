//! The input of an operation's commands: files, options, and what decides before an apply.

use std::path::PathBuf;
use std::time::Duration;

use super::after_plan::Judge;
use super::approval::Approver;
use super::plan_report::PlanOptions;
use crate::engine::{PlanMode, PlanRequest};
use crate::workspace::VariableFiles;
use butler_protocol::spec::{Assignment, LocalOptions};
use butler_result::timeline::Timeline;

/// The files that commands are given, and how the plan that they make is reported.
pub(super) struct Files<'run> {
    pub(super) variables: Variables,
    /// Options of the typed commands.
    pub(super) options: LocalOptions,
    pub(super) backend: Option<PathBuf>,
    /// Whether the module's directory is the user's own.
    pub(super) in_place: bool,
    pub(super) plan: PlanOptions,
    /// What judges a plan before anything is applied.
    pub(super) judge: Option<Judge<'run>>,
    /// Whether a state may be lost at the end.
    pub(super) allow_ephemeral_state: bool,
    pub(super) providers: Providers,
    /// Where each command is noted.
    pub(super) timeline: Timeline,
    /// Who says whether a plan is applied; none where that is settled.
    pub(super) approver: Option<Approver>,
    /// What the run writes itself, and so no plan creates.
    pub(super) reports: Vec<PathBuf>,
    /// Terraform's own plan, where it was made before this run.
    pub(super) restored: Option<PathBuf>,
}

impl Files<'_> {
    /// How the plan is made.
    pub(super) fn request(&self, mode: PlanMode) -> PlanRequest<'_> {
        PlanRequest { mode, variables: &self.variables.plan, options: &self.options.planning }
    }
}

/// What commands are told of variables, in the order in which it counts.
pub(super) struct Variables {
    pub(super) plan: Vec<Assignment>,
    pub(super) apply: Vec<Assignment>,
}

impl From<VariableFiles> for Variables {
    fn from(files: VariableFiles) -> Self {
        let assignments = |files: Vec<_>| files.into_iter().map(Assignment::File).collect();
        Self { plan: assignments(files.plan), apply: assignments(files.apply) }
    }
}

/// Where packages of providers are kept.
pub(super) struct Providers {
    /// The cache; none where nothing is kept.
    pub(super) cache: Option<PathBuf>,
    /// How long other runs' inits are waited for.
    pub(super) patience: Duration,
}
