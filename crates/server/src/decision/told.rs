//! What people are told about runs: by the same rules by which runs are started.

use super::gates::{self, WhyApproval};
use super::progress::{Failure, Progress, progress};
use super::types::Input;
use crate::model::{Action, Layer, Run, Strategy};

/// What went wrong with `run`, for a sentence, if it failed and gets no further attempt because of that. The
/// facts of `input` are those from the time when its last attempt ended. A plan that became stale is made
/// again, which is not a failure.
pub(crate) fn final_failure(input: &Input<'_>, run: &Run) -> Option<&'static str> {
    let (ending, _) = run.last_end()?;
    let failure = Failure::of(ending)?;
    let is_final = match input.layer.map(|layer| progress(input, layer, run)) {
        Some(Progress::Failed(_) | Progress::Exhausted { .. }) => true,
        // Nothing is started for a layer that is not configured.
        Some(Progress::NeedsPlan { .. }) | None => failure != Failure::Stale,
        Some(_) => false,
    };
    is_final.then(|| failure.describe())
}

/// Why the plan that `run` has made waits until a person approves it, if it does and nothing else has happened.
/// `older` are the runs of the layer before it, the oldest first.
pub(crate) fn needs_approval(layer: &Layer, older: &[Run], run: &Run) -> Option<WhyApproval> {
    let plan = run.plan.as_ref()?;
    let action = if run.destroys { Action::Destroy } else { Action::Apply };
    let is_applied = layer.strategy != Strategy::PlanOnly || run.destroys;
    let can_be_applied = is_applied
        && !plan.is_empty
        && plan.is_stored
        && gates::no_backend(layer, action).is_none();
    gates::why_approval(layer, older, run).filter(|_| can_be_applied)
}
