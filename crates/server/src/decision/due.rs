//! Which work is due when no run waits.

use std::time::Duration;

use super::gates;
use super::locks;
use super::progress::{Failure, Progress, fraction, progress};
use super::reported;
use super::types::{Decision, Input, Step};
use crate::model::{
    Action, Breaker, Cause, Closed, FailureClass, Gate, Layer, Moment, NewRun, Observation, Phase,
    Reason, Revision, Run, RunId, SavedPlan, Strategy,
};

/// The sentence about drift that is back after its repair.
const BACK_AFTER_REPAIR: &str = "the same drift was found again after its repair, so the repair is not repeated: check \
    whether the module writes files below its own directory or `~`, which are removed when an attempt ends; \
    `layer plan` plans the layer";

/// The layer at its current revision.
pub(super) struct Work<'a> {
    input: &'a Input<'a>,
    layer: &'a Layer,
    change: u64,
    revision: &'a Revision,
}

impl<'a> Work<'a> {
    pub(super) const fn new(
        input: &'a Input<'a>,
        layer: &'a Layer,
        observation: &'a Observation,
        revision: &'a Revision,
    ) -> Self {
        Self { input, layer, change: observation.change, revision }
    }

    /// Decides about the layer if none of its runs waits or runs, except checks for drift.
    pub(super) fn due(&self) -> Decision {
        let is_current = |run: &&Run| {
            run.change == self.change
                && matches!(run.action, Action::Plan | Action::Apply | Action::Destroy)
        };
        match self.input.facts.runs.iter().rev().find(is_current) {
            None if self.is_applied() => self.settled(Phase::Noop),
            None => self.create(Action::Plan, Cause::Commit { change: self.change }),
            Some(run) if run.action == Action::Plan => self.after_plan(run),
            Some(run) => self.after_apply(run),
        }
    }

    fn is_applied(&self) -> bool {
        let applied = self.input.facts.applied.as_ref();
        applied.is_some_and(|applied| applied.digest == self.revision.digest)
    }

    /// What follows the newest plan of this change, which does not wait.
    fn after_plan(&self, run: &Run) -> Decision {
        match progress(self.input, self.layer, run) {
            Progress::Succeeded => match &run.plan {
                Some(plan) if !plan.is_empty => self.after_changes(run, plan),
                _ => self.settled(Phase::Noop),
            },
            other => self.after_failure(run, other),
        }
    }

    /// What follows a plan that has changes.
    fn after_changes(&self, run: &Run, plan: &SavedPlan) -> Decision {
        if let Some(by) = &plan.discarded {
            return self.discarded(by);
        }
        if let Some(step) = self.after_upstream() {
            return step;
        }
        let destroys = run.destroys;
        if self.layer.strategy == Strategy::PlanOnly && !destroys {
            return self.settled(Phase::Succeeded);
        }
        // A plan that can no longer be applied is made again, and one that was made while the strategy was
        // `plan-only`.
        let expires = plan.saved + self.layer.plan_lifetime;
        if plan.stale.is_some() || !plan.is_stored || self.input.now >= expires {
            return self.replan(run);
        }
        let action = if destroys { Action::Destroy } else { Action::Apply };
        if let Some(text) = gates::no_backend(self.layer, action) {
            return Decision::blocked(Reason::new(Gate::Policy, text)).look_at(expires);
        }
        if let Some(why) = gates::why_approval(self.layer, &self.input.facts.runs, run) {
            let reason = Reason::new(Gate::Approval, why.describe(run, plan));
            let mut waits = Decision::rest(Phase::PendingTrigger).because(reason).look_at(expires);
            waits.reasons.extend(gates::made_before(self.input, run));
            return match reported::why_planned_again(run, &self.input.facts.runs) {
                Some(reason) => waits.because(reason),
                None => waits,
            };
        }
        if self.input.surroundings.breaker == Breaker::Open {
            let reason = Reason::new(Gate::Breaker, gates::BREAKER_OPEN);
            return Decision::blocked(reason).look_at(expires);
        }
        self.create(action, Cause::Plan { plan: plan.digest.clone() })
    }

    /// What follows the newest apply of this change, which does not wait.
    fn after_apply(&self, run: &Run) -> Decision {
        match progress(self.input, self.layer, run) {
            Progress::Succeeded if run.action == Action::Destroy => {
                let text = "the layer was destroyed; a new commit or `layer plan` plans it again";
                Decision::rest(Phase::Noop).because(Reason::new(Gate::Source, text))
            }
            Progress::Succeeded => self.settled(Phase::Noop),
            // Its plan was discarded, became stale or expired while it waited.
            Progress::Closed(Closed::Superseded) => match self.discarded_by(run) {
                Some(by) => self.discarded(by),
                None => self.after_upstream().unwrap_or_else(|| self.replan(run)),
            },
            other => self.after_failure(run, other),
        }
    }

    /// What follows a run that did not succeed.
    fn after_failure(&self, run: &Run, progress: Progress) -> Decision {
        let mut decision = self.without_success(run, progress);
        if decision.step.is_none()
            && let Some(gate) = decision.reasons.last().map(|reason| reason.gate)
            && let Some(reason) = reported::reason(run, gate)
        {
            decision = decision.because(reason);
        }
        match locks::reason(self.input.name, run) {
            Some(reason) if decision.step.is_none() => decision.because(reason),
            _ => decision,
        }
    }

    fn without_success(&self, run: &Run, progress: Progress) -> Decision {
        let action = run.action.as_str();
        match progress {
            Progress::NeedsPlan { not_before } if self.input.now >= not_before => self.replan(run),
            Progress::NeedsPlan { not_before } => {
                let text = match run.partly_applied(&self.input.facts.runs) {
                    Some(part) => format!("the {action} ended after {part}; it is planned again"),
                    None => format!("the {action} may have changed something; it is planned again"),
                };
                let reason = Reason::new(Gate::Retry, text);
                Decision::rest(Phase::Failed).because(reason).look_at(not_before)
            }
            Progress::Exhausted { failure, failed } => {
                let text = format!(
                    "the {action} failed {failed} times, the last time because {}; `layer plan` \
                     tries again",
                    failure.describe()
                );
                Decision::blocked(Reason::new(Gate::Retry, text))
            }
            Progress::Failed(failure) => {
                let part = run.partly_applied(&self.input.facts.runs);
                Decision::rest(Phase::Failed).because(failed(action, failure, part))
            }
            Progress::Closed(Closed::Cancelled) => {
                let part = run.partly_applied(&self.input.facts.runs);
                let after = part.map(|part| format!(" after {part}")).unwrap_or_default();
                let text = format!("the {action} was cancelled{after}; `layer plan` plans again");
                Decision::rest(Phase::Failed).because(Reason::new(Gate::Approval, text))
            }
            // A run of the current change is not superseded; should it be, it is planned again.
            Progress::Closed(Closed::Superseded) => self.replan(run),
            // These are handled before.
            Progress::Open { .. } | Progress::Running | Progress::Succeeded => {
                Decision::rest(Phase::Observed)
            }
        }
    }

    /// Nothing is left to do for this revision, except what others ask for.
    fn settled(&self, phase: Phase) -> Decision {
        let facts = self.input.facts;
        if let Some(decision) = self.after_upstream() {
            return decision;
        }
        if let Some(found) = &facts.drift
            && self.layer.drift.is_some_and(|check| check.repair)
            && let Some(difference) = &found.difference
            && self.is_applied()
        {
            let is_back = facts.repaired_drift.as_ref() == Some(difference);
            if is_back && found.seen.only_gone {
                let reason = Reason::new(Gate::Policy, BACK_AFTER_REPAIR);
                return Decision::rest(phase).because(reason);
            }
            let cause = Cause::Drift { run: found.run.clone(), change: self.change };
            if !self.is_planned(&cause) {
                return self.create(Action::Plan, cause);
            }
        }
        let rest = Decision::rest(phase);
        if self.layer.has_backend {
            rest
        } else {
            rest.because(Reason::new(Gate::Policy, gates::NO_BACKEND))
        }
    }

    /// A check for drift if one is due. Otherwise the layer waits as in `waits`, and is looked at
    /// when the next check is due.
    pub(super) fn check_for_drift(&self, waits: Decision) -> Decision {
        let Some((check, applied)) = self.layer.drift.zip(self.input.facts.applied.as_ref()) else {
            return waits;
        };
        let due = self.drift_due(check.every);
        if self.input.now < due {
            return waits.look_at(due);
        }
        // After a long time without a server, one check is enough.
        let every = u64::try_from(check.every.as_millis()).unwrap_or(u64::MAX).max(1);
        let late = u64::try_from(self.input.now.since(due).as_millis()).unwrap_or(u64::MAX);
        let due = Moment::from_millis(due.as_millis().saturating_add(late / every * every));
        self.create_at(Action::Drift, Cause::Schedule { due }, applied, false)
    }

    /// A plan after an upstream layer has changed.
    fn after_upstream(&self) -> Option<Decision> {
        let run = self.input.facts.upstream_apply.clone()?;
        Some(self.create(Action::Plan, Cause::Dependency { run, change: self.change }))
    }

    /// A new plan after `run`. What destroys goes on to destroy. What a person wanted to accept can have changed since.
    fn replan(&self, run: &Run) -> Decision {
        if self.accepts(run) && self.is_applied() {
            let text = "the plan that accepts what was changed outside of Terraform no longer fits; `layer \
                        accept` makes a new one";
            return self.settled(Phase::Succeeded).because(Reason::new(Gate::Approval, text));
        }
        let cause = Cause::Replan { run: run.id.clone() };
        self.create_at(Action::Plan, cause, self.revision, run.destroys)
    }

    /// Whether `run` accepts what was changed outside of Terraform, or applies the plan of a run that does.
    fn accepts(&self, run: &Run) -> bool {
        let runs = &self.input.facts.runs;
        run.accepts() || runs.iter().any(|planned| planned.accepts() && run.applies(planned))
    }

    /// Who discarded the plan that `run` applies.
    fn discarded_by(&self, run: &Run) -> Option<&str> {
        let Cause::Plan { plan } = &run.cause else { return None };
        Run::saved_plan(&self.input.facts.runs, plan)?.discarded.as_deref()
    }

    fn discarded(&self, by: &str) -> Decision {
        let text = format!("the plan was discarded by {by}; `layer plan` makes a new one");
        self.settled(Phase::Succeeded).because(Reason::new(Gate::Approval, text))
    }

    /// When the next check for drift is due: after the last one, or spread over the first interval
    /// by the layer's name, so that layers that were applied together are not checked together.
    fn drift_due(&self, every: Duration) -> Moment {
        let checks = self.input.facts.runs.iter().rev().filter_map(|run| match run.cause {
            Cause::Schedule { due } => Some(due),
            _ => None,
        });
        checks.max().map_or_else(
            || {
                let applied = self.input.facts.applied_at.unwrap_or_default();
                applied + every.mul_f64(fraction(&[self.input.name.as_str().as_bytes()]))
            },
            |last| last + every,
        )
    }

    /// Whether the current revision was planned for this cause.
    fn is_planned(&self, cause: &Cause) -> bool {
        let id = RunId::derived(self.input.name, &self.revision.digest, Action::Plan, cause);
        self.input.facts.runs.iter().any(|run| run.id == id)
    }

    fn create(&self, action: Action, cause: Cause) -> Decision {
        self.create_at(action, cause, self.revision, action == Action::Destroy)
    }

    fn create_at(
        &self,
        action: Action,
        cause: Cause,
        revision: &Revision,
        destroys: bool,
    ) -> Decision {
        let id = RunId::derived(self.input.name, &revision.digest, action, &cause);
        let (revision, change) = (revision.clone(), self.change);
        let run = NewRun { id, action, cause, revision, change, destroys };
        Decision::step(Phase::PendingTrigger, Step::Create(run))
    }
}

/// Why nothing follows a run that failed for good, `after` a part of its changes.
fn failed(action: &str, failure: Failure, after: Option<String>) -> Reason {
    let why = failure.describe();
    let text = match failure.reached_limit() {
        Some(advice) => {
            let after = after.map(|part| format!(" after {part}")).unwrap_or_default();
            format!(
                "the {action} failed{after} because {why}; it is not planned again by itself: {advice}, then use \
                 `layer plan`"
            )
        }
        None => format!(
            "the {action} failed because {why}; it is not retried: push a fix, or use `layer plan`"
        ),
    };
    let is_refused = matches!(failure, Failure::Class(FailureClass::Policy));
    Reason::new(if is_refused { Gate::Policy } else { Gate::Source }, text)
}
