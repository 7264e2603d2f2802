//! Decisions, and what must hold after each of them.

use butler_server::decision::{Decision, Step};
use butler_server::model::{Action, Former, Gate, Moment, Phase, Run, Sighting};
use butler_server::store::{Outcome, Snapshot, Store};

use crate::world::{Decided, World, now};

/// More steps of one layer without an event in between are a loop.
const MOST_STEPS: usize = 50;

/// A layer about which nothing could be done when it was looked at.
#[derive(Clone, Debug)]
pub(crate) struct Rested {
    snapshot: Snapshot,
    former: Option<Former>,
    next_look: Option<Moment>,
    /// The version of the conditions.
    version: u64,
}

impl World {
    /// Decides about each layer until nothing is left to do.
    pub(crate) fn pass(&mut self) {
        for layer in 0..self.layers.len() {
            self.drive(layer);
        }
        self.restart();
    }

    /// Decides about the earlier names of a layer that have facts: no layer has these names.
    fn drive_earlier(&mut self, layer: usize) {
        let Ok(known) = now(self.store.layers()) else { return };
        let current = self.name(layer);
        let mut earlier = self.names[layer].clone();
        earlier.retain(|name| *name != current && known.contains(name));
        for name in earlier {
            for _ in 0..MOST_STEPS {
                let decided = now(self.controller(layer).decide(&name, None));
                let Ok((_, Decision { step: Some(step), .. })) = decided else { break };
                if !self.execute(Decided { layer, name: name.clone(), configured: None, step }) {
                    break;
                }
            }
        }
    }

    fn drive(&mut self, layer: usize) {
        self.drive_earlier(layer);
        let name = self.name(layer);
        let mut last = None;
        for count in 0.. {
            let decided = now(self.controller(layer).decide(&name, self.configured(layer)));
            let Ok((snapshot, decision)) = decided else { return };
            self.check_look(layer, &snapshot, &decision);
            let Some(step) = decision.step.clone() else {
                self.latest = self.latest.max(snapshot.now);
                let configured = self.configured(layer);
                let _ = now(self.controller(layer).remove_plans(&name, configured, &snapshot));
                let is_limited = is_closed(&decision, Gate::Rate);
                if decision.phase != Phase::PendingTrigger && !is_limited {
                    self.end_first_pass(layer);
                }
                self.check_rest(layer, &snapshot, &decision);
                let version = self.conditions.version;
                let next_look = decision.next_look;
                // A layer that is paused or missing is looked at when it is back. What expires
                // meanwhile is closed then.
                let is_out = decision.phase == Phase::Skipped
                    || (decision.phase == Phase::Blocked && is_closed(&decision, Gate::Source));
                let former = self.former(&self.layers[layer]);
                let rested = Rested { snapshot, former, next_look, version };
                self.rested[layer] = Some(rested).filter(|_| !is_out);
                return;
            };
            if count > MOST_STEPS {
                self.violation = Some(format!("{name} makes steps for ever: {step:?}"));
                return;
            }
            // A step that was refused or failed is tried again in the next pass.
            if last.as_ref() == Some(&step) {
                return;
            }
            self.check_conditions(layer, &snapshot, &step);
            last = Some(step.clone());
            let configured = self.configured(layer).cloned();
            if !self.execute(Decided { layer, name: name.clone(), configured, step }) {
                return;
            }
        }
    }

    pub(crate) fn decide(&mut self, server: usize, layer: usize) {
        let name = self.name(layer);
        let decided = now(self.controller(layer).decide(&name, self.configured(layer)));
        if let Ok((_, Decision { step: Some(step), .. })) = decided {
            let configured = self.configured(layer).cloned();
            self.decided.insert(server, Decided { layer, name, configured, step });
        }
    }

    /// Whether the step was executed.
    pub(crate) fn execute(&mut self, decided: Decided) -> bool {
        self.steps += 1;
        let Decided { layer, name, configured, step } = decided;
        let moved = match &step {
            Step::TakeOver { from } => Some(self.before_move(from)),
            _ => None,
        };
        let snapshot = now(self.store.inner.snapshot(&name, "", &[])).unwrap();
        let waits = configured.as_ref().is_some_and(|it| self.waits_for_history(it));
        let was_moved = !waits && snapshot.facts.files_of.is_empty();
        let before = self.store.inner.runs(&name);
        let is_start = matches!(step, Step::Start { .. });
        let is_breaker_open = self.is_breaker_open();
        let made = now(self.controller(layer).perform(&name, configured.as_ref(), step));
        // After an error, only the store knows whether it was made: the server can have ended before or after the write.
        let attempts = |runs: &[Run]| runs.iter().map(|run| run.attempts.len()).sum::<usize>();
        if is_start && attempts(&self.store.inner.runs(&name)) > attempts(&before) {
            self.count_start();
            self.check_limits(layer);
            self.check_name(&name, was_moved);
        }
        if let Some(moved) = moved {
            self.check_move(&name, &moved);
        }
        self.check_starts(&name, &before, is_breaker_open);
        self.restart();
        matches!(made, Ok(Outcome::Made))
    }

    /// Invariant 2, for what is outside of the layer.
    fn check_conditions(&mut self, layer: usize, snapshot: &Snapshot, step: &Step) {
        let Step::Start { run, .. } = step else { return };
        let Some(run) = snapshot.facts.runs.iter().find(|known| known.id == *run) else { return };
        if let Some(why) = self.forbids(layer, &snapshot.facts.runs, run) {
            self.violation =
                Some(format!("{} {} starts although {why}", run.action.as_str(), run.id));
        }
        if run.action == Action::Drift && snapshot.running.total().drift > 0 {
            self.violation = Some(format!("{} is one check for drift too many", run.id));
        }
    }

    /// Invariants 5 and 6: if nothing has happened, nothing is done before the time of the next look
    /// that was announced. So what waits is looked at in time, and what rests costs nothing.
    fn check_look(&mut self, layer: usize, snapshot: &Snapshot, decision: &Decision) {
        let Some(rested) = &self.rested[layer] else { return };
        // A clock that was set back can make a silent attempt one that has just reported.
        let is_same = rested.version == self.conditions.version
            && rested.snapshot.now <= snapshot.now
            && rested.snapshot.observation == snapshot.observation
            && rested.snapshot.facts == snapshot.facts
            && rested.snapshot.upstreams == snapshot.upstreams
            && rested.snapshot.running == snapshot.running
            && rested.snapshot.breaker == snapshot.breaker
            && rested.former == self.former(&self.layers[layer]);
        let is_announced = rested.next_look.is_some_and(|next| next <= snapshot.now);
        if let Some(step) = decision.step.as_ref().filter(|_| is_same && !is_announced) {
            let name = self.name(layer);
            self.violation = Some(format!("{name} would not have been looked at: {step:?}"));
        }
    }

    /// Invariants 3 and 5 of a layer about which nothing can be done now: it has a way out, and no
    /// digest is forgotten.
    fn check_rest(&mut self, layer: usize, snapshot: &Snapshot, decision: &Decision) {
        let name = self.name(layer);
        let facts = &snapshot.facts;
        let is_done = matches!(decision.phase, Phase::Noop | Phase::Succeeded);
        let is_looked_at = decision.next_look.is_some_and(|next| next > snapshot.now);
        if !is_done && !is_looked_at && decision.reasons.is_empty() {
            self.violation = Some(format!("{name} has no way out: {decision:?}"));
        }
        if is_closed(decision, Gate::Concurrency) && snapshot.running.total().attempts == 0 {
            self.violation = Some(format!("{name} waits for a slot, and nothing runs"));
        }
        let is_running = facts.runs.iter().any(|run| run.running().is_some());
        if self.waits_for_history(&self.layers[layer]) {
            return;
        }
        let Some(observation) = &snapshot.observation else { return };
        let Sighting::Found(revision) = &observation.sighting else { return };
        if is_running || self.configured(layer).is_none() {
            return;
        }
        let is_old = |run: &Run| run.change != observation.change && run.action != Action::Drift;
        let runs = self.store.inner.runs(&name);
        let mut waiting = runs.iter().filter(|run| run.attempts.is_empty() && run.closed.is_none());
        if let Some(run) = waiting.find(|run| is_old(run)) {
            self.violation = Some(format!("run {} of an earlier change waits", run.id));
        }
        let is_applied =
            facts.applied.as_ref().is_some_and(|applied| applied.digest == revision.digest);
        let mut planned = facts.runs.iter().filter(|run| run.action != Action::Drift);
        let is_planned = planned.any(|run| run.change == observation.change);
        if !is_applied && !is_planned && facts.paused_by.is_none() {
            self.violation = Some(format!("{revision:?} of {name} was forgotten"));
        }
    }
}

fn is_closed(decision: &Decision, gate: Gate) -> bool {
    decision.reasons.iter().any(|reason| reason.gate == gate)
}
