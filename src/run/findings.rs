//! What a run has found so far: everything that the teardown reports.

use std::path::PathBuf;

use super::plan::plan_report::PlanReport;
use super::reporting::outcome::Achievement;
use crate::engine::Planned;

/// The results of the phases, whether or not the run succeeded. They hold secrets and cannot be printed.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) achievement: Achievement,
    pub(super) plan: Option<Planned>,
    /// The plan's report, or why there is none.
    pub(super) plan_report: Option<Result<PlanReport, String>>,
    pub(super) outputs: Option<Vec<u8>>,
    pub(super) junit: Option<PathBuf>,
    pub(super) commit: Option<String>,
    pub(super) tool: Option<String>,
}
