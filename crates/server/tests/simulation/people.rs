//! What people ask the server for, as the API does it.

use butler_server::model::{Action, Cause, Closed, NewRun, RunId, StopReason};
use butler_server::store::{AttemptId, Note, Store};

use crate::world::{World, now};

impl World {
    pub(crate) fn cancel(&mut self, layer: usize) {
        let name = self.name(layer);
        let runs = self.store.inner.runs(&name);
        let Some(run) = runs.iter().rev().find(|run| !run.is_over()) else { return };
        if let Some(attempt) = run.running() {
            let attempt = AttemptId { layer: name, run: run.id.clone(), number: attempt.number };
            let _ = now(self.store.note(&attempt, Note::StopRequested(StopReason::Cancelled)));
        } else {
            let _ = now(self.store.close_run(&name, &run.id, Closed::Cancelled));
        }
        self.restart();
    }

    pub(crate) fn ask_for_plan(&mut self, layer: usize) {
        let name = self.name(layer);
        let snapshot = now(self.store.inner.snapshot(&name, "", &[])).unwrap();
        let Some(observation) = snapshot.observation else { return };
        let Some(revision) = observation.revision().cloned() else { return };
        self.requests += 1;
        let cause = Cause::Person { request: self.requests.to_string() };
        let (action, change) = (Action::Plan, observation.change);
        let id = RunId::derived(&name, &revision.digest, action, &cause);
        let run = NewRun { id, action, cause, revision, change, destroys: false };
        // The request is sent twice.
        let _ = now(self.store.insert_run(&name, run.clone()));
        let _ = now(self.store.insert_run(&name, run));
        self.restart();
    }

    pub(crate) fn approve(&mut self, layer: usize, old: bool) {
        let name = self.name(layer);
        let runs = self.store.inner.runs(&name);
        let mut plans = runs.iter().filter_map(|run| run.plan.as_ref());
        let plan = if old { plans.next() } else { plans.next_back() };
        if let Some(plan) = plan {
            let _ = now(self.store.approve(&name, &plan.digest, "ana"));
            // The click is sent twice.
            let _ = now(self.store.approve(&name, &plan.digest, "ana"));
            self.restart();
        }
    }

    pub(crate) fn pause(&mut self, layer: usize, paused: bool) {
        let _ = now(self.store.pause(&self.name(layer), paused.then_some("ana")));
        self.restart();
    }
}
