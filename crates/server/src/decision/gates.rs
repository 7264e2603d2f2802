//! The gates before a start. All of them are asked, so that a person sees every closed one.

use std::time::{Duration, UNIX_EPOCH};

use super::locks;
use super::progress::follows_failed_apply;
use super::reported;
use super::types::{Decision, Input, NeededSlot, Step};
use crate::model::{
    Action, Breaker, Cause, Commit, Gate, Layer, Moment, Phase, Reason, RepositorySlots, Run,
    SavedPlan, Strategy,
};

/// A closed gate, and when it opens by itself.
struct ClosedGate {
    reason: Reason,
    opens: Option<Moment>,
}

impl ClosedGate {
    fn until_an_event(gate: Gate, text: impl Into<String>) -> Self {
        Self { reason: Reason::new(gate, text), opens: None }
    }

    fn until(gate: Gate, moment: Moment, text: impl Into<String>) -> Self {
        Self { reason: Reason::new(gate, text), opens: Some(moment) }
    }

    /// Whether only a person or a change can open the gate.
    fn needs_person(&self) -> bool {
        match self.reason.gate {
            Gate::Breaker | Gate::Policy | Gate::Source | Gate::Pause => true,
            Gate::Approval
            | Gate::Concurrency
            | Gate::Dependency
            | Gate::Lease
            | Gate::Platform
            | Gate::Rate
            | Gate::Retry
            | Gate::Window => false,
        }
    }
}

/// Starts `run` if all gates are open.
pub(super) fn start(input: &Input<'_>, layer: &Layer, run: &Run, not_before: Moment) -> Decision {
    let mut closed = Vec::new();
    let gates =
        [policy, approval, breaker, window, dependency, lease, capacity, repository, platform];
    for gate in gates {
        closed.extend(gate(input, layer, run));
    }
    let is_wait = input.now < not_before && !run.attempts.is_empty();
    if is_wait {
        let text = "the last attempt failed; it is retried after a wait";
        closed.push(ClosedGate::until(Gate::Retry, not_before, text));
        let failure = reported::reason(run, Gate::Retry);
        closed.extend(failure.map(|reason| ClosedGate { reason, opens: Some(not_before) }));
        let lock = locks::reason(input.name, run);
        closed.extend(lock.map(|reason| ClosedGate { reason, opens: Some(not_before) }));
    }
    if closed.is_empty() {
        let attempt = run.attempts.last().map_or(1, |attempt| attempt.number + 1);
        let changes = run.action.changes_infrastructure();
        let timeout = if changes { layer.timeouts.apply } else { layer.timeouts.plan };
        let step = Step::Start { run: run.id.clone(), attempt, timeout };
        return Decision::step(Phase::Triggering, step);
    }
    let phase = if closed.iter().any(ClosedGate::needs_person) {
        Phase::Blocked
    } else if is_wait {
        Phase::Failed
    } else {
        Phase::PendingTrigger
    };
    let rest = Decision { needs_slot: needed_slot(input, run.action), ..Decision::rest(phase) };
    let expires = applied_plan(input, run).map(|saved| saved.saved + layer.plan_lifetime);
    let opens = closed.iter().filter_map(|gate| gate.opens).chain(expires).min();
    let waits = closed.into_iter().fold(rest, |waits, gate| waits.because(gate.reason));
    // A plan that expires while its apply waits is made again.
    match opens {
        Some(moment) => waits.look_at(moment),
        None => waits,
    }
}

/// The plan that `run` applies.
fn applied_plan<'a>(input: &Input<'a>, run: &Run) -> Option<&'a SavedPlan> {
    let Cause::Plan { plan } = &run.cause else { return None };
    Run::saved_plan(&input.facts.runs, plan)
}

/// Without a backend, an apply would lose its state with the attempt's directory.
fn policy(_: &Input<'_>, layer: &Layer, run: &Run) -> Option<ClosedGate> {
    let plan_only = layer.strategy == Strategy::PlanOnly && run.action == Action::Apply;
    let text = if plan_only {
        Some("the layer's strategy is `plan-only`: its plans are not applied")
    } else {
        no_backend(layer, run.action)
    };
    text.map(|text| ClosedGate::until_an_event(Gate::Policy, text))
}

/// The configuration can have changed since the apply was created without an approval.
fn approval(input: &Input<'_>, layer: &Layer, run: &Run) -> Option<ClosedGate> {
    if run.approved_by.is_some() {
        return None;
    }
    let runs = &input.facts.runs;
    let planned = runs.iter().rev().find(|planned| run.applies(planned))?;
    let (saved, why) = (planned.plan.as_ref()?, why_approval(layer, runs, planned)?);
    Some(ClosedGate::until_an_event(Gate::Approval, why.describe(planned, saved)))
}

/// Why a person must approve a plan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WhyApproval {
    /// It destroys everything.
    Destroys,
    /// The strategy of the layer applies nothing by itself.
    Strategy,
    /// It deletes, replaces or forgets more resources than this limit.
    DestroyLimit(u64),
    /// Its commit has no known ancestor in common with those that were read before.
    UnrelatedHistory,
    /// It executes actions, and the layer has a limit for deletions: it is unknown what an action deletes.
    Actions,
    /// The apply before it has failed after it may have changed something.
    FailedApply,
}

impl WhyApproval {
    /// The sentence about the plan that `planned` has saved, which waits.
    pub(super) fn describe(self, planned: &Run, plan: &SavedPlan) -> String {
        let counts = plan.counts;
        let summary = if planned.accepts() {
            format!(
                "waiting for approval: writes what was changed outside of Terraform into the state: {} changed, \
                 {} deleted",
                counts.change, counts.forget
            )
        } else {
            format!("waiting for approval: {counts}")
        };
        match self {
            Self::Destroys | Self::Strategy => summary,
            Self::DestroyLimit(limit) => format!("{summary}; `destroy-limit` is {limit}"),
            Self::UnrelatedHistory => {
                let before = planned.unrelated_to.as_ref().map_or("?", Commit::as_str);
                format!(
                    "{summary}; commit {} has no known ancestor in common with commit {before}, which was read before: \
                     check that the address still leads to the same repository",
                    planned.revision.commit
                )
            }
            Self::Actions => format!(
                "{summary}; `destroy-limit` cannot count what actions destroy, so a person must look at them"
            ),
            Self::FailedApply => format!(
                "{summary}; the apply before it failed and may have changed something, so it is not repeated \
                 without a person"
            ),
        }
    }
}

/// Why the plan that `planned` has saved must be approved by a person, if it must. `runs` are those of the layer, the
/// oldest first, with `planned` or up to it.
pub(crate) fn why_approval(layer: &Layer, runs: &[Run], planned: &Run) -> Option<WhyApproval> {
    let plan = planned.plan.as_ref()?;
    let over_limit = layer.destroy_limit.filter(|limit| plan.counts.removed() > *limit);
    let has_uncounted = layer.destroy_limit.is_some() && plan.counts.actions > 0;
    match (layer.strategy, over_limit) {
        _ if planned.destroys => Some(WhyApproval::Destroys),
        _ if planned.unrelated_to.is_some() => Some(WhyApproval::UnrelatedHistory),
        (Strategy::Approve | Strategy::PlanOnly, _) => Some(WhyApproval::Strategy),
        (Strategy::Auto, Some(limit)) => Some(WhyApproval::DestroyLimit(limit)),
        (Strategy::Auto, None) if has_uncounted => Some(WhyApproval::Actions),
        (Strategy::Auto, None) => {
            follows_failed_apply(runs, planned).then_some(WhyApproval::FailedApply)
        }
    }
}

/// Why a layer without a backend is not applied.
pub(super) fn no_backend(layer: &Layer, action: Action) -> Option<&'static str> {
    (!layer.has_backend && action.changes_infrastructure()).then_some(NO_BACKEND)
}

/// The sentence about a layer without a backend.
pub(super) const NO_BACKEND: &str =
    "no state backend: every plan starts from nothing; set `backend` or add one to the module";

/// An approval by a person goes through an open breaker.
fn breaker(input: &Input<'_>, _: &Layer, run: &Run) -> Option<ClosedGate> {
    (run.is_automatic_apply() && input.surroundings.breaker == Breaker::Open)
        .then(|| ClosedGate::until_an_event(Gate::Breaker, BREAKER_OPEN))
}

/// The sentence about an open breaker.
pub(super) const BREAKER_OPEN: &str = "automatic applies of all layers are stopped because those of several \
    in a row have failed; approve the plan, or let an administrator reset the breaker";

fn window(input: &Input<'_>, _: &Layer, run: &Run) -> Option<ClosedGate> {
    if run.window_override.is_some() {
        return None;
    }
    let mut windows = input.surroundings.closed_windows.iter();
    let (_, end) = windows.find(|(action, _)| *action == run.action)?;
    let until =
        humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(end.as_millis()));
    let text = format!("a window forbids `{}` until {until}", run.action.as_str());
    Some(ClosedGate::until(Gate::Window, *end, text))
}

/// A check for drift does not depend on the layers that come first, nor does a plan that a person has asked for.
fn dependency(input: &Input<'_>, _: &Layer, run: &Run) -> Option<ClosedGate> {
    if run.action == Action::Drift || run.is_requested_plan() {
        return None;
    }
    let missing = input.surroundings.upstreams.iter().filter(|upstream| !upstream.satisfied);
    let described = missing.map(|upstream| match &upstream.waits {
        Some(why) => format!("{} ({why})", upstream.name),
        None => upstream.name.to_string(),
    });
    let described: Vec<String> = described.collect();
    (!described.is_empty()).then(|| {
        let advice = if run.action == Action::Plan {
            format!("; `layer plan {}` plans it before that", input.name)
        } else {
            String::new()
        };
        let text = format!("not applied yet at this commit: {}{advice}", described.join(", "));
        ClosedGate::until_an_event(Gate::Dependency, text)
    })
}

/// The reason of a plan that was made before layers that come first are applied.
pub(super) fn made_before(input: &Input<'_>, planned: &Run) -> Option<Reason> {
    let missing = input.surroundings.upstreams.iter().filter(|upstream| !upstream.satisfied);
    let missing = missing.filter(|upstream| planned.made_before.contains(&upstream.name));
    let names: Vec<String> = missing.map(|upstream| format!("`{}`", upstream.name)).collect();
    (!names.is_empty()).then(|| {
        let is = if names.len() == 1 { "is" } else { "are" };
        let text = format!(
            "the plan was made before {} {is} applied; it is made again if that changes something",
            names.join(", ")
        );
        Reason::new(Gate::Dependency, text)
    })
}

fn lease(input: &Input<'_>, _: &Layer, _: &Run) -> Option<ClosedGate> {
    let holder = input.facts.lease.as_ref()?;
    let text = format!(
        "attempt {} of run {} of layer {} uses the state",
        holder.fence, holder.run, holder.layer
    );
    Some(ClosedGate::until_an_event(Gate::Lease, text))
}

fn capacity(input: &Input<'_>, _: &Layer, run: &Run) -> Option<ClosedGate> {
    let surroundings = input.surroundings;
    if is_server_full(input, run.action) {
        let text = "as many attempts run as `concurrency` allows";
        return Some(ClosedGate::until_an_event(Gate::Concurrency, text));
    }
    // After a restart, the runs of all layers must not start at the same time. A layer without an attempt is new.
    let is_known = run.change > 1 || input.facts.runs.iter().any(|run| !run.attempts.is_empty());
    let is_limited = run.action == Action::Drift || (surroundings.is_first_pass && is_known);
    (is_limited && surroundings.starts_left == 0).then(|| {
        let text = "as many attempts were started this minute as `starts-per-minute` allows";
        ClosedGate::until(Gate::Rate, surroundings.starts_again, text)
    })
}

fn repository(input: &Input<'_>, _: &Layer, run: &Run) -> Option<ClosedGate> {
    let RepositorySlots { name, concurrency, .. } = full_repository(input, run.action)?;
    let what = if run.action == Action::Drift { "checks for drift" } else { "attempts" };
    let text = format!(
        "as many {what} of the repository `{name}` run as its `concurrency` of {concurrency} allows"
    );
    Some(ClosedGate::until_an_event(Gate::Concurrency, text))
}

/// The slot that a run with this action waits for, if a limit is reached.
fn needed_slot(input: &Input<'_>, action: Action) -> Option<NeededSlot> {
    let is_server_full = is_server_full(input, action);
    let is_repository_full = full_repository(input, action).is_some();
    let waits = is_server_full || is_repository_full;
    waits.then_some(NeededSlot { action, is_server_full, is_repository_full })
}

fn is_server_full(input: &Input<'_>, action: Action) -> bool {
    is_full(action, input.surroundings.free_slots, input.surroundings.free_drift_slots)
}

/// The layer's repository, if as many of its attempts run as it allows.
fn full_repository<'a>(input: &Input<'a>, action: Action) -> Option<&'a RepositorySlots> {
    let limited = input.surroundings.repository.as_ref();
    limited.filter(|slots| is_full(action, slots.free, slots.free_drift))
}

/// Whether no slot is free for a run with this action.
fn is_full(action: Action, free: u32, free_drift: u32) -> bool {
    free == 0 || (action == Action::Drift && free_drift == 0)
}

fn platform(input: &Input<'_>, _: &Layer, _: &Run) -> Option<ClosedGate> {
    let why = input.surroundings.no_starts.as_ref()?;
    Some(ClosedGate::until_an_event(Gate::Platform, why))
}
