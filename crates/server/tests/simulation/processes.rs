//! What the processes of attempts do as time passes.

use std::sync::atomic::Ordering;

use butler_server::model::{
    Action, Cause, ChangeCounts, Ending, FailureClass, Moment, PlanDigest, Run, SavedPlan,
};
use butler_server::store::{AttemptId, AttemptResult, Note, Outcome, Store};

use crate::executor::{PlanFile, Stage};
use crate::ops::Fails;
use crate::world::{World, now};

impl World {
    /// Lets time pass in steps of five seconds, after each of which the invariants are checked.
    pub(crate) fn advance(&mut self, seconds: u64) {
        for step in (0..seconds).step_by(5) {
            self.executor.machine.lock().unwrap().elapsed += 5.min(seconds - step);
            self.set_clock();
            self.remove_old_windows();
            let late: Vec<AttemptId> = {
                let mut machine = self.executor.machine.lock().unwrap();
                let elapsed = machine.elapsed;
                let due: Vec<_> = machine.late.extract_if(.., |(at, _)| *at <= elapsed).collect();
                due.into_iter().map(|(_, id)| id).collect()
            };
            for id in late {
                self.executor.machine.lock().unwrap().start(&id);
            }
            let living: Vec<usize> = {
                let machine = self.executor.machine.lock().unwrap();
                let processes = machine.processes.iter().enumerate();
                processes
                    .filter(|(_, process)| !process.is_gone())
                    .map(|(index, _)| index)
                    .collect()
            };
            for process in living {
                self.go_on(process);
            }
            self.restart();
            if let Err(violation) = self.check() {
                self.violation = Some(violation);
                return;
            }
        }
    }

    /// Lets one process do what it can do now.
    fn go_on(&mut self, index: usize) {
        let (process, elapsed, is_cut_off) = {
            let machine = self.executor.machine.lock().unwrap();
            (machine.processes[index].clone(), machine.elapsed, machine.node_is_down)
        };
        let is_cut_off = is_cut_off || self.store.faults.lock().unwrap().store_is_down;
        // Terraform goes on while the server cannot be reached, but nothing is reported.
        let ends = matches!(process.stage, Stage::Working { until } if elapsed >= until);
        if process.is_gone() || (is_cut_off && !ends) {
            return;
        }
        let id = &process.id;
        let stage = match process.stage {
            Stage::Booting => self.boot(id, elapsed),
            // A process that was started late has missed the signal. The answer to each request
            // says it again.
            Stage::Working { .. }
                if process.stop_requested || (!is_cut_off && self.is_stopped(id)) =>
            {
                let result = self.interrupted(id);
                Stage::Reporting(result)
            }
            Stage::Working { until } if elapsed >= until => Stage::Reporting(self.work(id)),
            Stage::Working { until } => {
                // Attempts that are no longer current go on; only their reports are refused.
                let _ = now(self.store.inner.note(id, Note::Heartbeat));
                Stage::Working { until }
            }
            Stage::Reporting(result) => {
                let _ = now(self.store.inner.finish(id, result.clone()));
                self.executor.machine.lock().unwrap().processes[index].reported = Some(result);
                Stage::Gone(None)
            }
            gone @ Stage::Gone(_) => gone,
        };
        self.executor.machine.lock().unwrap().processes[index].stage = stage;
    }

    fn run_of(&self, id: &AttemptId) -> Run {
        let runs = self.store.inner.runs(&id.layer);
        let mut runs = runs.iter().chain(&self.removed);
        runs.find(|run| run.id == id.run).unwrap().clone()
    }

    /// What the server answers to a request of the attempt.
    fn is_stopped(&self, id: &AttemptId) -> bool {
        let run = self.run_of(id);
        run.running().is_some_and(|attempt| attempt.number == id.number && attempt.stop.is_some())
    }

    pub(crate) fn state_key(&self, id: &AttemptId) -> String {
        let layer = self.layers.iter().find(|layer| layer.layer.name == id.layer).unwrap();
        layer.state_key.clone()
    }

    /// A process asks for its configuration; one whose attempt is not current ends.
    fn boot(&mut self, id: &AttemptId, elapsed: u64) -> Stage {
        let run = self.run_of(id);
        let note = if run.action.changes_infrastructure() { Note::Begins } else { Note::Heartbeat };
        if now(self.store.inner.note(id, note)).unwrap() == Outcome::Refused {
            return Stage::Gone(None);
        }
        if let Cause::Plan { plan } = &run.cause
            && !self.begun.insert(plan.clone())
        {
            self.violation = Some(format!("plan {plan} is applied twice"));
        }
        let work = {
            let mut machine = self.executor.machine.lock().unwrap();
            // Some hang until they are stopped.
            if machine.random.u8(..30) == 0 {
                machine.count("an attempt hangs");
                u64::MAX / 2
            } else {
                machine.random.u64(1..400)
            }
        };
        Stage::Working { until: elapsed + work }
    }

    /// Terraform was asked to stop. An apply has done a part of its work. Some providers report the
    /// request as a failure of their own.
    fn interrupted(&self, id: &AttemptId) -> AttemptResult {
        if self.run_of(id).action.changes_infrastructure() {
            self.apply_in_part(id);
        }
        let classes = [FailureClass::Platform, FailureClass::Network, FailureClass::Module];
        let mut machine = self.executor.machine.lock().unwrap();
        machine.count("an attempt was stopped");
        let class = machine.random.choice(classes).unwrap();
        drop(machine);
        AttemptResult::ended(Ending::Failed(class))
    }

    fn apply_in_part(&self, id: &AttemptId) {
        let key = self.state_key(id);
        let mut machine = self.executor.machine.lock().unwrap();
        let infrastructure = machine.infrastructure.entry(key).or_default();
        infrastructure.serial += 1;
        infrastructure.applied = None;
        drop(machine);
    }

    /// Terraform ends by itself.
    fn work(&mut self, id: &AttemptId) -> AttemptResult {
        let run = self.run_of(id);
        let key = self.state_key(id);
        let chance = self.executor.machine.lock().unwrap().random.u32(..100);
        let layer = self.layers.iter().position(|layer| layer.layer.name == id.layer).unwrap();
        let class = match chance {
            _ if self.kinds[layer].fails == Fails::Always => Some(FailureClass::Network),
            _ if self.kinds[layer].fails == Fails::Applies
                && run.action.changes_infrastructure() =>
            {
                Some(FailureClass::Module)
            }
            0..8 => Some(FailureClass::Network),
            8..16 => Some(FailureClass::Module),
            16 => Some(FailureClass::Credentials),
            _ => None,
        };
        if let Some(class) = class {
            self.executor.machine.lock().unwrap().count(match class {
                FailureClass::Network => "the network failed",
                FailureClass::Module => "the module failed",
                _ => "credentials were refused",
            });
            if run.action.changes_infrastructure() {
                self.apply_in_part(id);
            }
            return AttemptResult::ended(Ending::Failed(class));
        }
        self.plans += 1;
        let number = self.plans;
        let saved = Moment::from_millis(self.store.clock.load(Ordering::Relaxed));
        let mut machine = self.executor.machine.lock().unwrap();
        let infrastructure = machine.infrastructure.entry(key).or_default().clone();
        let mut result = AttemptResult::ended(Ending::Succeeded);
        match run.action {
            Action::Plan => {
                let digest = PlanDigest::new(format!("p{number}"));
                let is_empty = infrastructure.applied.as_ref() == Some(run.digest())
                    && infrastructure.drift.is_none();
                let file = PlanFile { serial: infrastructure.serial, digest: run.digest().clone() };
                machine.plans.insert(digest.clone(), file);
                let destroy = machine.random.u64(..2);
                result.plan = Some(SavedPlan {
                    digest,
                    counts: ChangeCounts { add: 1, change: 0, destroy },
                    is_stored: true,
                    is_empty,
                    saved,
                    discarded: None,
                    stale: None,
                });
            }
            Action::Drift => {
                result.difference = infrastructure.drift.map(|drift| drift.to_string());
            }
            Action::Apply | Action::Destroy | Action::Trigger => {
                let Cause::Plan { plan } = &run.cause else { return result };
                let file = machine.plans[plan].clone();
                let key = self.state_key(id);
                let state = machine.infrastructure.entry(key).or_default();
                if file.serial != state.serial {
                    machine.count("a plan was stale");
                    result.ending = Ending::StalePlan;
                    return result;
                }
                state.serial += 1;
                state.applied = Some(file.digest.clone());
                state.drift = None;
                result.changed = true;
                if file.digest != *run.digest() {
                    drop(machine);
                    self.violation = Some(format!("{} applied another digest", run.id));
                }
            }
        }
        result
    }

    /// Kills the process that is the `attempt`-th one that lives.
    pub(crate) fn kill(&mut self, attempt: usize, leaves_result: bool) {
        let living: Vec<usize> = {
            let machine = self.executor.machine.lock().unwrap();
            let processes = machine.processes.iter().enumerate();
            processes.filter(|(_, process)| !process.is_gone()).map(|(index, _)| index).collect()
        };
        if living.is_empty() {
            return;
        }
        let index = living[attempt % living.len()];
        let process = self.executor.machine.lock().unwrap().processes[index].clone();
        let is_apply = self.run_of(&process.id).action.changes_infrastructure();
        let left = match process.stage {
            Stage::Reporting(result) if leaves_result => Some(result),
            Stage::Working { .. } if leaves_result => Some(self.work(&process.id)),
            Stage::Working { .. } if is_apply => {
                self.apply_in_part(&process.id);
                None
            }
            _ => None,
        };
        let mut machine = self.executor.machine.lock().unwrap();
        machine.count(if left.is_some() { "a result was left" } else { "an attempt was killed" });
        machine.processes[index].stage = Stage::Gone(left);
        drop(machine);
    }

    pub(crate) fn repeat_report(&self, attempt: usize) {
        let reported: Vec<_> = {
            let machine = self.executor.machine.lock().unwrap();
            let reports = machine.processes.iter();
            reports.filter_map(|one| Some((one.id.clone(), one.reported.clone()?))).collect()
        };
        if let Some((id, result)) = reported.get(attempt % reported.len().max(1)) {
            let again = now(self.store.inner.finish(id, result.clone()));
            assert!(!matches!(again, Ok(Outcome::Made)), "a report was taken twice");
        }
    }
}
