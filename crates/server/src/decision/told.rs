//! What people are told about runs: by the same rules by which runs are started.

use super::gates;
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

/// Whether the plan that `run` has made waits until a person approves it, if nothing else has happened.
pub(crate) fn needs_approval(layer: &Layer, run: &Run) -> bool {
    let Some(plan) = &run.plan else { return false };
    let action = if run.destroys { Action::Destroy } else { Action::Apply };
    let is_applied = layer.strategy != Strategy::PlanOnly || run.destroys;
    is_applied
        && !plan.is_empty
        && plan.is_stored
        && gates::no_backend(layer, action).is_none()
        && gates::why_approval(layer, plan, run.destroys).is_some()
}
