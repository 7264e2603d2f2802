//! The results that the phases of a run have produced so far.

use std::path::PathBuf;

use super::plan::plan_report::PlanReport;
use crate::engine::Planned;
use butler_protocol::backend::StateVersion;
use butler_result::{ChangeCounts, ChangeOutcome, Changes, Incomplete, PlanCheck, TestCounts};

/// The results of the phases. They contain secrets, so the type does not implement `Debug`.
#[derive(Default)]
pub(super) struct Findings {
    /// The tool that was used, such as `terraform 1.11.4`.
    pub(super) tool: Option<String>,
    /// The commit that was checked out.
    pub(super) commit: Option<String>,
    pub(super) plan: Option<Planned>,
    /// The report of the plan, or why it could not be made.
    pub(super) plan_report: Option<Result<PlanReport, String>>,
    /// What the program has said that checks the plan (`--after-plan`).
    pub(super) plan_check: Option<PlanCheck>,
    /// Whether the plan contains changes, or a run that looks for drift found some.
    pub(super) plan_changes: Option<bool>,
    /// The version of the state: that of the plan, or the one that the run has left. `None` if it is not known.
    pub(super) state: Option<StateVersion>,
    /// Whether a check for drift compares the code with the state.
    pub(super) compares_code: bool,
    /// Whether the plan has changes that a user can be asked to confirm.
    pub(super) awaits_confirmation: bool,
    /// Whether the run found changes or drift and ends with the exit code for them.
    pub(super) ends_with_changes: bool,
    /// Resources by action: planned actions, or after an apply the completed ones.
    pub(super) counts: Option<ChangeCounts>,
    /// The outcome of the plan's changes; absent if nothing was applied, and if it is unknown.
    pub(super) apply_outcome: Option<ApplyOutcome>,
    /// The number of resource instances after an apply.
    pub(super) resources_after: Option<u32>,
    /// The outputs after an apply, a JSON object.
    pub(super) outputs: Option<Vec<u8>>,
    /// Tests by result.
    pub(super) tests: Option<TestCounts>,
    /// The `JUnit` file of a test.
    pub(super) junit: Option<PathBuf>,
    /// One line for users.
    pub(super) summary: Option<String>,
}

/// The outcome of the changes of a plan that was applied.
#[derive(Clone, Debug)]
pub(super) enum ApplyOutcome {
    /// All changes are complete.
    Complete,
    /// The apply ended early.
    Incomplete {
        /// The counts of the plan.
        planned: ChangeCounts,
        /// The outcome of each change, in the order of the plan's list.
        changes: Vec<Option<ChangeOutcome>>,
    },
}

impl ApplyOutcome {
    /// Sets the outcome of each planned change. The actions that an incomplete apply has executed are not known.
    pub(super) fn mark(&self, changes: &mut Changes) {
        let Changes { actions, planned, .. } = changes;
        match self {
            Self::Complete => {
                for change in actions.iter_mut().chain(planned) {
                    change.outcome = Some(ChangeOutcome::Done);
                }
            }
            Self::Incomplete { changes, .. } => {
                for (change, outcome) in planned.iter_mut().zip(changes) {
                    change.outcome = *outcome;
                }
            }
        }
    }

    /// The changes that are not complete, if there are any.
    pub(super) fn incomplete(&self) -> Option<Incomplete> {
        match self {
            Self::Complete => None,
            Self::Incomplete { planned, changes } => Incomplete::of(*planned, changes),
        }
    }
}
