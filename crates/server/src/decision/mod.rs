//! Decides what happens next to one layer.
//!
//! [`decide`] is pure and total: it knows neither git, SQL, HTTP nor Kubernetes, and it takes the
//! time as an argument. It returns at most one [`Step`]. A step is one transaction of the store, or
//! one request to an attempt that can be repeated; after each step, the facts are read again. So a
//! crash between two steps loses nothing, and a step that was decided on old facts is refused by
//! the store, which compares them in the same transaction.

mod attempts;
mod due;
mod gates;
mod locks;
mod plan_files;
mod progress;
mod rename;
mod reported;
mod told;
mod types;

#[cfg(test)]
mod table_tests;

use crate::model::{
    Action, Attempt, Cause, Closed, Facts, Gate, Layer, Moment, Observation, Phase, Reason,
    Revision, Run, Sighting,
};

pub(crate) use gates::WhyApproval;
pub use plan_files::needed_plan_files;
pub(crate) use progress::fraction;
pub(crate) use told::{final_failure, needs_approval};
pub use types::{Decision, Input, NeededSlot, Step};

/// Decides what happens next to a layer.
#[must_use]
pub fn decide(input: &Input<'_>) -> Decision {
    // An attempt that runs comes first, also if the layer is paused or gone: it holds the lease.
    if let Some((run, attempt)) = running(input.facts) {
        return attempts::watch(input, run, attempt);
    }
    let Some(layer) = input.layer else {
        if let Some(namespace) = &input.surroundings.unlisted {
            let text = format!(
                "the custom resources of the namespace `{namespace}` cannot be listed, so it is not known what the layer \
                 wants; nothing is started until they are listed"
            );
            return Decision::blocked(Reason::new(Gate::Source, text));
        }
        // Runs that wait stay open, so that a layer that comes back goes on with them.
        let text = "the layer is no longer in the configuration; its infrastructure is left alone";
        return Decision::rest(Phase::Skipped).because(Reason::new(Gate::Source, text));
    };
    let Some(observation) = input.observation else {
        let text = "the repository has not been read yet";
        return Decision::rest(Phase::Observed).because(Reason::new(Gate::Source, text));
    };
    if let Some(decision) = rename::first(input, layer) {
        return decision;
    }
    // Before the pause: what a newer digest took over can never start again.
    if let Some(run) =
        input.facts.runs.iter().find(|run| is_overtaken(input, layer, observation, run))
    {
        let step = Step::Close { run: run.id.clone(), why: Closed::Superseded };
        return Decision::step(Phase::Superseded, step);
    }
    if let Some(by) = &input.facts.paused_by {
        let text = format!("paused by {by}; `butler-runner layer resume` continues");
        return Decision::rest(Phase::Skipped).because(Reason::new(Gate::Pause, text));
    }
    let revision = match usable(observation) {
        Ok(revision) => revision,
        Err(reason) => return Decision::blocked(reason),
    };
    if let Some(why) = &layer.conflict {
        return Decision::blocked(Reason::new(Gate::Source, why.clone()));
    }
    let work = due::Work::new(input, layer, observation, revision);
    let open = open_runs(input, layer);
    let is_drift = |(run, _): &(&Run, Moment)| run.action == Action::Drift;
    let is_checked = open.iter().any(is_drift);
    let mut waiting = Vec::new();
    // A check for drift that waits must not keep a commit from being planned, and must not hide what
    // the layer waits for otherwise.
    if open.iter().all(is_drift) {
        let due = work.due();
        if due.step.is_some() {
            return due;
        }
        if open.is_empty() || !due.reasons.is_empty() {
            waiting.push(due);
        }
    }
    // The first run whose gates are open starts. If there is none, all of them wait.
    for (run, not_before) in open {
        let decision = gates::start(input, layer, run, not_before);
        if decision.step.is_some() {
            return decision;
        }
        waiting.push(decision);
    }
    let waits = waiting.into_iter().reduce(Decision::and).unwrap_or_else(|| work.due());
    // A failed plan, or one that waits for an approval, can stay for weeks. What is applied is
    // checked meanwhile.
    if is_checked { waits } else { work.check_for_drift(waits) }
}

/// Whether `run` gets no further attempt, as far as these facts say.
#[must_use]
pub fn is_over(input: &Input<'_>, run: &Run) -> bool {
    let is_read = input.facts.runs.iter().any(|known| known.id == run.id);
    match input.layer {
        Some(layer) if is_read => !matches!(
            progress::progress(input, layer, run),
            progress::Progress::Open { .. } | progress::Progress::Running
        ),
        // Facts leave out the runs of earlier changes that had an attempt. For a layer that is not
        // configured, nothing is started.
        _ => run.running().is_none() && (run.closed.is_some() || !run.attempts.is_empty()),
    }
}

/// The runs that wait for their first or next attempt. A layer that is paused, or not configured, waits
/// for nothing.
pub fn waiting_runs<'a>(input: &Input<'a>) -> impl Iterator<Item = &'a Run> + use<'a> {
    let layer = input.layer.filter(|_| input.facts.paused_by.is_none());
    let open = layer.map(|layer| open_runs(input, layer)).unwrap_or_default();
    open.into_iter().map(|(run, _)| run)
}

/// The run that has an attempt without an end, and this attempt.
fn running(facts: &Facts) -> Option<(&Run, &Attempt)> {
    facts.runs.iter().rev().find_map(|run| run.running().map(|attempt| (run, attempt)))
}

/// The revision, or why there is none.
pub(crate) fn usable(observation: &Observation) -> Result<&Revision, Reason> {
    let text = match &observation.sighting {
        Sighting::Found(revision) => return Ok(revision),
        Sighting::RefMissing => {
            "the repository does not have the layer's ref; push it, or change `ref`".to_owned()
        }
        Sighting::PathMissing { commit } => {
            format!("commit {commit} does not have the layer's path; nothing is destroyed")
        }
        Sighting::Invalid { why, .. } => why.clone(),
    };
    Err(Reason::new(Gate::Source, text))
}

/// Whether `run` can still start, but must not.
fn is_overtaken(input: &Input<'_>, layer: &Layer, observation: &Observation, run: &Run) -> bool {
    if !matches!(progress::progress(input, layer, run), progress::Progress::Open { .. }) {
        return false;
    }
    // While the path is missing, nothing is newer.
    let is_older = observation.revision().is_some() && run.change != observation.change;
    match run.action {
        Action::Plan => is_older || is_planned_already(input, run),
        Action::Trigger => is_older,
        Action::Apply | Action::Destroy => {
            let mut upstreams = input.surroundings.upstreams.iter();
            is_older
                || upstreams.any(|upstream| upstream.has_changed)
                || !applies_a_valid_plan(input, layer, run)
        }
        // A check belongs to what is applied, also if something newer was pushed.
        Action::Drift => {
            input.facts.applied.as_ref().map(|applied| &applied.digest) != Some(run.digest())
        }
    }
}

/// Whether a newer run, which a person has asked for, has made the plan that `run` still waits to make.
fn is_planned_already(input: &Input<'_>, run: &Run) -> bool {
    let newer = input.facts.runs.iter().rev().take_while(|other| other.id != run.id);
    let mut asked = newer.filter(|other| other.is_requested_plan() && other.change == run.change);
    run.attempts.is_empty() && !run.is_requested_plan() && asked.any(|other| other.plan.is_some())
}

/// Whether the plan that `run` applies is the newest one, and was neither discarded, voided nor has
/// expired.
fn applies_a_valid_plan(input: &Input<'_>, layer: &Layer, run: &Run) -> bool {
    let Cause::Plan { plan } = &run.cause else { return false };
    let mut plans = input.facts.runs.iter().rev().filter_map(|run| run.plan.as_ref());
    plans.next().is_some_and(|newest| {
        let is_fresh = input.now < newest.saved + layer.plan_lifetime;
        newest.digest == *plan && newest.is_valid() && is_fresh
    })
}

/// The runs that wait, and the time before which each must not start: applies before plans, and
/// both before checks for drift.
fn open_runs<'a>(input: &Input<'a>, layer: &Layer) -> Vec<(&'a Run, Moment)> {
    let open =
        input.facts.runs.iter().filter_map(|run| match progress::progress(input, layer, run) {
            progress::Progress::Open { not_before } => Some((run, not_before)),
            _ => None,
        });
    let mut open: Vec<_> = open.collect();
    open.sort_by_key(|(run, _)| match run.action {
        Action::Apply | Action::Destroy | Action::Trigger => 0,
        Action::Plan => 1,
        Action::Drift => 2,
    });
    open
}
