//! What must hold at every moment.

use std::collections::{BTreeMap, HashSet};

use butler_server::model::{Action, Attempt, Cause, Ending, LayerName, Run, StopReason, Strategy};
use butler_server::store::{AttemptId, Store};

use crate::executor::key_of;
use crate::fates::lease_of;
use crate::world::{World, now};

impl World {
    /// Invariant 2, at the start: what starts was approved if it has to be, is not superseded, and
    /// what it depends on is applied.
    pub(crate) fn check_starts(&mut self, name: &LayerName, before: &[Run], is_breaker_open: bool) {
        let layer = self.index_of(name);
        let configured = &self.layers[layer];
        let after = self.store.inner.runs(name);
        let current = now(self.store.inner.snapshot(name, "", &configured.layer.after)).unwrap();
        for run in &after {
            let started = before
                .iter()
                .find(|known| known.id == run.id)
                .is_some_and(|known| known.attempts.len() < run.attempts.len());
            if !started || run.action == Action::Drift {
                continue;
            }
            if is_breaker_open && run.is_automatic_apply() {
                self.violation = Some(format!("apply {} starts: the breaker is open", run.id));
            }
            for upstream in &current.upstreams {
                // A person can have a plan before that, but not apply it.
                if !upstream.satisfied && !run.is_requested_plan() {
                    self.violation = Some(format!("{} starts before {}", run.id, upstream.name));
                }
            }
            if !run.action.changes_infrastructure() {
                self.unlocked.remove(&layer);
                continue;
            }
            if self.unlocked.contains(&layer) {
                self.violation = Some(format!("apply {} starts after an unlock", run.id));
            }
            let newest = current.observation.as_ref().map(|observation| observation.change);
            if newest != Some(run.change) {
                self.violation = Some(format!("apply {} starts for an older change", run.id));
            }
            let changed = current.upstreams.iter().find(|upstream| upstream.has_changed);
            if let Some(upstream) = changed {
                let text =
                    format!("{} applies a plan from before {} changed", run.id, upstream.name);
                self.violation = Some(text);
            }
            let Cause::Plan { plan } = &run.cause else { continue };
            let planned = after.iter().find_map(|run| {
                run.plan.as_ref().filter(|saved| saved.digest == *plan).map(|saved| (run, saved))
            });
            let Some((planned, saved)) = planned else {
                self.violation = Some(format!("apply {} has no plan", run.id));
                continue;
            };
            // One that has expired is gone, also if the clock is set back then.
            let has_expired = self.latest >= saved.saved + configured.layer.plan_lifetime;
            let machine = self.executor.machine.lock().unwrap();
            let is_removed = planned.attempts.last().is_some_and(|attempt| {
                machine.removed_plans.contains(&(planned.id.clone(), attempt.number))
            });
            drop(machine);
            if is_removed && !has_expired {
                self.violation = Some(format!("apply {} starts without its plan file", run.id));
            }
            if !saved.is_valid() {
                self.violation =
                    Some(format!("apply {} starts for a plan that is not valid", run.id));
            }
            if let Some(failed) = last_interrupted(&after)
                && planned.attempts.last().is_none_or(|attempt| attempt.sequence < failed)
            {
                let text =
                    format!("apply {} starts without a new plan after one that failed", run.id);
                self.violation = Some(text);
            }
            let limit = configured.layer.destroy_limit;
            let needs_approval = configured.layer.strategy != Strategy::Auto
                || planned.destroys
                || follows_failed_apply(&after, planned)
                || self.is_of_another_history(&after, planned)
                || limit.is_some_and(|limit| saved.counts.removed() > limit);
            if needs_approval && run.approved_by.is_none() {
                self.violation = Some(format!("apply {} was not approved", run.id));
            }
            if planned.digest() != run.digest() || saved.is_empty {
                self.violation = Some(format!("apply {} applies another plan", run.id));
            }
        }
    }

    /// Whether the last apply that succeeded was of a history without a common commit.
    fn is_of_another_history(&self, runs: &[Run], planned: &Run) -> bool {
        let history = |run: &Run| self.histories.get(&run.revision.commit);
        let mut applied = runs.iter().rev();
        applied
            .find(|run| run.action.changes_infrastructure() && run.has_succeeded())
            .is_some_and(|applied| history(applied) != history(planned))
    }

    /// Checks what must hold at every moment.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        if let Some(violation) = self.violation.take() {
            return Err(violation);
        }
        // Invariant 1.
        let machine = self.executor.machine.lock().unwrap();
        let mut users: BTreeMap<String, &AttemptId> = BTreeMap::new();
        for process in machine.processes.iter().filter(|process| process.uses_state()) {
            let key = machine.states[&key_of(&process.id)].clone();
            if let Some(other) = users.insert(key.clone(), &process.id) {
                return Err(format!("two attempts use {key}: {other:?} and {:?}", process.id));
            }
        }
        drop(machine);
        let writes = self.store.inner.writes();
        if std::mem::replace(&mut self.checked, writes) == writes {
            return Ok(());
        }
        let is_open = self.is_breaker_open();
        if !std::mem::replace(&mut self.was_breaker_open, is_open) && is_open {
            self.executor.machine.lock().unwrap().count("the breaker opened");
        }
        self.hear_alarms()?;
        self.check_breaker()?;
        let mut leases = Vec::new();
        // Invariant 4.
        for index in 0..self.layers.len() {
            let runs = self.checked_runs(index);
            self.check_history(index, &runs)?;
            let mut identities = HashSet::new();
            for run in &runs {
                let identity = (run.digest(), run.action, &run.cause);
                if !identities.insert(identity) {
                    return Err(format!("run {} exists twice: {identity:?}", run.id));
                }
                let running =
                    run.running().and_then(|_| now(self.store.inner.run(&run.id)).unwrap());
                leases.extend(running.and_then(|(name, run)| lease_of(&name, &run)));
                self.check_fates(&self.name(index), run)?;
                check_stops(&runs, run)?;
                self.check_repair(index, run)?;
                if run.attempts.iter().rev().skip(1).any(|attempt| attempt.end.is_none()) {
                    return Err(format!("run {} has two attempts at the same time", run.id));
                }
            }
        }
        self.check_leases(&leases)
    }
}

/// When the last attempt was started that may have changed a part, as the number of its start.
fn last_interrupted(runs: &[Run]) -> Option<u64> {
    let applies = runs.iter().filter(|run| run.action.changes_infrastructure());
    let attempts = applies.flat_map(|run| &run.attempts).filter(|attempt| is_interrupted(attempt));
    attempts.map(|attempt| attempt.sequence).max()
}

/// Whether the attempt of an apply has ended after it may have changed a part.
fn is_interrupted(attempt: &Attempt) -> bool {
    let is_whole = matches!(
        attempt.end,
        None | Some((Ending::Succeeded | Ending::StalePlan | Ending::NeverStarted, _))
    );
    !is_whole && (attempt.began || matches!(attempt.end, Some((Ending::Lost | Ending::Job(_), _))))
}

/// Whether an apply has failed after it may have changed a part, for the same change as the plan of `planned`, and
/// neither an apply has succeeded nor a person has asked for a run since.
fn follows_failed_apply(runs: &[Run], planned: &Run) -> bool {
    let end = runs.iter().position(|run| run.id == planned.id).map_or(0, |position| position + 1);
    let of_change = runs[..end].iter().filter(|run| run.change == planned.change);
    of_change.fold(false, |has_failed, run| {
        let is_apply = run.action.changes_infrastructure();
        let fails = is_apply && run.attempts.iter().any(is_interrupted);
        let ends = run.cause.is_person() || (is_apply && run.has_succeeded());
        fails || (has_failed && !ends)
    })
}

/// What was asked to stop, and did not succeed, is not tried again by itself. After a person
/// cancelled an apply, nothing is planned by itself either.
fn check_stops(runs: &[Run], run: &Run) -> Result<(), String> {
    let was_stopped = |attempt: &&Attempt| {
        attempt.stop.is_some() && !matches!(attempt.end, None | Some((Ending::Succeeded, _)))
    };
    let Some(stopped) = run.attempts.iter().find(was_stopped) else { return Ok(()) };
    if stopped.number as usize != run.attempts.len() {
        return Err(format!("run {} was stopped, and got another attempt", run.id));
    }
    let again = Cause::Replan { run: run.id.clone() };
    if matches!(stopped.stop, Some((StopReason::Cancelled, _)))
        && runs.iter().any(|run| run.cause == again)
    {
        return Err(format!("run {} was cancelled, and is planned again", run.id));
    }
    Ok(())
}
