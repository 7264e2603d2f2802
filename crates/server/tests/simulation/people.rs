//! What people ask the server for, as the API does it.

use butler_server::model::{
    Action, Cause, Closed, NewRun, Phase, PlanDigest, Run, RunId, StopReason, Strategy,
};
use butler_server::store::{AttemptId, Note, Outcome, Store};

use crate::ops::ChosenPlan;
use crate::world::{World, now};

impl World {
    pub(crate) fn cancel(&mut self, layer: usize) {
        let runs = self.runs_of(layer);
        let Some(run) = runs.iter().rev().find(|run| !run.is_over()) else { return };
        let Some((name, _)) = now(self.store.inner.run(&run.id)).unwrap() else { return };
        if let Some(attempt) = run.running() {
            let attempt = AttemptId { layer: name, run: run.id.clone(), number: attempt.number };
            let _ = now(self.store.note(&attempt, Note::StopRequested(StopReason::Cancelled)));
        } else {
            let _ = now(self.store.close_run(&name, &run.id, Closed::Cancelled));
        }
        self.restart();
    }

    /// A person cancels an apply that runs.
    pub(crate) fn cancel_apply(&mut self) {
        let runs = self.names.iter().flatten().flat_map(|name| {
            self.store.inner.runs(name).into_iter().map(move |run| (name.clone(), run))
        });
        let mut applies = runs.filter(|(_, run)| run.action.changes_infrastructure());
        let running = applies.find_map(|(layer, run)| {
            let number = run.running().filter(|attempt| attempt.began)?.number;
            Some(AttemptId { layer, run: run.id, number })
        });
        if let Some(attempt) = running {
            self.cancel_attempt(&attempt);
        }
    }

    /// A person asks for a plan, or for one that destroys everything.
    pub(crate) fn ask_for_plan(&mut self, layer: usize, destroys: bool) {
        self.ask_for(layer, |request| {
            if destroys { Cause::Destroy { request } } else { Cause::Person { request } }
        });
    }

    /// A person asks for a plan with this cause.
    fn ask_for(&mut self, layer: usize, cause: impl FnOnce(String) -> Cause) {
        if self.waits_for_history(&self.layers[layer]) {
            return;
        }
        let name = self.name(layer);
        let snapshot = now(self.store.inner.snapshot(&name, "", &[])).unwrap();
        let Some(observation) = snapshot.observation else { return };
        let Some(revision) = observation.revision().cloned() else { return };
        self.requests += 1;
        let cause = cause(self.requests.to_string());
        let destroys = matches!(cause, Cause::Destroy { .. });
        let (action, change) = (Action::Plan, observation.change);
        let id = RunId::derived(&name, &revision.digest, action, &cause);
        let run = NewRun { id, action, cause, revision, change, destroys };
        // The request is sent twice.
        let _ = now(self.store.insert_run(&name, run.clone()));
        let _ = now(self.store.insert_run(&name, run));
        self.restart();
    }

    /// A person accepts the drift of a layer, which is refused unless drift of the newest commit is known.
    pub(crate) fn accept_drift(&mut self, layer: usize) {
        let snapshot = now(self.store.inner.snapshot(&self.name(layer), "", &[])).unwrap();
        let has_drift = snapshot.facts.drift.is_some_and(|found| found.difference.is_some());
        let read = snapshot.observation.as_ref().and_then(|read| read.revision());
        let is_applied = snapshot.facts.applied.as_ref().map(|applied| &applied.digest)
            == read.map(|revision| &revision.digest);
        if has_drift && is_applied && self.layers[layer].layer.strategy != Strategy::PlanOnly {
            self.executor.machine.lock().unwrap().count("drift was accepted");
            self.ask_for(layer, |request| Cause::Accept { request });
        }
    }

    /// A person asks for another try, which is refused unless something has failed.
    pub(crate) fn retry(&mut self, layer: usize) {
        let decided = now(self.controller(layer).decide(&self.name(layer), self.configured(layer)));
        let has_failed = |phase| matches!(phase, Phase::Failed | Phase::Blocked);
        if decided.is_ok_and(|(_, decision)| has_failed(decision.phase)) {
            self.executor.machine.lock().unwrap().count("a failure was retried");
            self.ask_for_plan(layer, false);
        }
    }

    /// The digest of a plan of a layer.
    pub(crate) fn chosen_plan(&self, layer: usize, plan: ChosenPlan) -> Option<PlanDigest> {
        let runs = self.store.inner.runs(&self.name(layer));
        let mut plans = runs.iter().filter_map(|run| run.plan.as_ref().map(|plan| &plan.digest));
        match plan {
            ChosenPlan::Newest => plans.next_back().cloned(),
            ChosenPlan::Previous => plans.rev().nth(1).cloned(),
            ChosenPlan::First => plans.next().cloned(),
            ChosenPlan::Another => Some(PlanDigest::new("another")),
        }
    }

    /// Two people approve a plan at the same time.
    pub(crate) fn approve(&mut self, layer: usize, plan: &PlanDigest) {
        let name = self.name(layer);
        let runs = self.store.inner.runs(&name);
        let observation = now(self.store.inner.snapshot(&name, "", &[])).unwrap().observation;
        let change = observation.map(|read| read.change);
        let newest = runs.iter().rev().find(|run| run.plan.is_some());
        let can_be_approved = newest.is_some_and(|run| {
            let saved = run.plan.as_ref().filter(|saved| saved.digest == *plan);
            Some(run.change) == change && saved.is_some_and(|it| it.is_valid() && !it.is_empty)
        });
        let first = matches!(now(self.store.approve(&name, plan, "ana")), Ok(Outcome::Made));
        let second = matches!(now(self.store.approve(&name, plan, "ben")), Ok(Outcome::Made));
        if (first || second) && !can_be_approved {
            self.violation = Some(format!("plan {plan} of {name} was approved"));
        }
        if first && second {
            self.violation = Some(format!("plan {plan} of {name} was approved twice"));
        }
        let what =
            if first || second { "an approval was taken" } else { "an approval was refused" };
        self.executor.machine.lock().unwrap().count(what);
        self.restart();
    }

    /// A person approves the newest plan that they see, and a commit comes first.
    pub(crate) fn approve_at_commit(&mut self, layer: usize, digest: u8, is_read: bool) {
        let seen = self.chosen_plan(layer, ChosenPlan::Newest);
        self.commit(layer, digest);
        if is_read {
            self.poll();
        }
        if let Some(seen) = seen {
            self.approve(layer, &seen);
        }
        self.poll();
    }

    /// A person discards a plan.
    pub(crate) fn discard(&mut self, layer: usize, plan: &PlanDigest) {
        let name = self.name(layer);
        let runs = self.store.inner.runs(&name);
        let applies = |run: &&Run| matches!(&run.cause, Cause::Plan { plan: of } if of == plan);
        let has_started = runs.iter().filter(applies).any(|run| !run.attempts.is_empty());
        if let Ok(Outcome::Made) = now(self.store.discard(&name, plan, "ana")) {
            self.executor.machine.lock().unwrap().count("a plan was discarded");
            if has_started {
                self.violation = Some(format!("plan {plan} of {name} was discarded too late"));
            }
        }
        self.restart();
    }

    pub(crate) fn pause(&mut self, layer: usize, paused: bool) {
        let _ = now(self.store.pause(&self.name(layer), paused.then_some("ana")));
        self.restart();
    }
}
