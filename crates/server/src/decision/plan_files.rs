//! Which files of saved plans are needed.

use super::progress::{Progress, progress};
use super::types::Input;
use crate::model::{Action, Run, RunId, SavedPlan};

/// The attempts whose files of saved plans are needed: the run, and the number of the attempt. All other such
/// files of the layer can be removed. The facts have the newest runs of the layer, not only those that decisions
/// read.
#[must_use]
pub fn needed_plan_files(input: &Input<'_>) -> Vec<(RunId, u32)> {
    let plans = input.facts.runs.iter().filter(|run| run.action == Action::Plan);
    let needed = plans.filter(|run| run.running().is_some() || is_needed(input, run));
    needed.filter_map(|run| Some((run.id.clone(), run.attempts.last()?.number))).collect()
}

/// Whether the plan that `planned` has made can still be applied, or is applied now.
fn is_needed(input: &Input<'_>, planned: &Run) -> bool {
    let Some(saved) = &planned.plan else { return false };
    let runs = &input.facts.runs;
    let mut applies = runs.iter().filter(|run| run.applies(planned));
    // Perhaps it has not fetched the file yet. A newer digest does not stop it.
    if applies.clone().any(|run| run.running().is_some()) {
        return true;
    }
    let newest = runs.iter().rev().find(|run| run.plan.is_some());
    let is_newest = newest.is_some_and(|run| run.id == planned.id);
    let is_current = input.observation.is_some_and(|read| read.change == planned.change);
    let lifetime = input.layer.map_or(SavedPlan::LIFETIME, |layer| layer.plan_lifetime);
    let is_fresh = input.now < saved.saved + lifetime;
    let can_be_applied = saved.is_stored && !saved.is_empty && saved.is_valid() && is_fresh;
    is_newest && is_current && can_be_applied && !applies.any(|run| is_over(input, run))
}

/// Whether an apply gets no further attempt. That of a layer which is not in the configuration can go on when the
/// layer comes back.
fn is_over(input: &Input<'_>, run: &Run) -> bool {
    let Some(layer) = input.layer else { return run.is_over() };
    !matches!(progress(input, layer, run), Progress::Open { .. } | Progress::Running)
}
