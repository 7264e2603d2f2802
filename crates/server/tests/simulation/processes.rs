//! What the processes of attempts do as time passes.

use butler_server::model::{Cause, Ending, FailureClass, Run, StalePlan};
use butler_server::store::{AttemptId, AttemptResult, Note, Outcome, Store};

use crate::executor::{Stage, key_of};
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
            self.deliver_reports();
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
    pub(crate) fn go_on(&mut self, index: usize) {
        let (process, elapsed, is_cut_off) = {
            let machine = self.executor.machine.lock().unwrap();
            (machine.processes[index].clone(), machine.elapsed, machine.node_is_down)
        };
        let is_cut_off = is_cut_off || self.store.faults.lock().unwrap().store_is_down;
        let id = &self.current(&process.id);
        // Terraform goes on while the server cannot be reached, but nothing is reported.
        if let Stage::Working(work) = &process.stage {
            self.apply_next(id, work.changes);
        }
        let ends = matches!(&process.stage, Stage::Working(work) if elapsed >= work.until);
        if process.is_gone() || (is_cut_off && !ends) {
            return;
        }
        let stage = match process.stage {
            Stage::Booting => self.boot(id, elapsed),
            // A process that was started late has missed the signal. The answer to each request
            // says it again.
            Stage::Working(_) if process.stop_requested || (!is_cut_off && self.is_stopped(id)) => {
                let result = self.interrupted(id);
                Stage::Reporting(result)
            }
            Stage::Working(work) if elapsed >= work.until => Stage::Reporting(self.work(id, &work)),
            working @ Stage::Working(_) => {
                // Attempts that are no longer current go on; only their reports are refused.
                let _ = now(self.store.inner.note(id, Note::Heartbeat));
                working
            }
            // The next request can fail, or its process can be killed before it.
            Stage::Reporting(result) if self.upload(id, &result) => Stage::Reporting(result),
            Stage::Reporting(result) => {
                let _ = now(self.store.inner.finish(id, result.clone()));
                self.executor.machine.lock().unwrap().processes[index].reported = Some(result);
                Stage::Gone(None)
            }
            gone @ Stage::Gone(_) => gone,
        };
        self.executor.machine.lock().unwrap().processes[index].stage = stage;
    }

    pub(crate) fn run_of(&self, id: &AttemptId) -> Run {
        if let Some((_, run)) = now(self.store.inner.run(&id.run)).unwrap() {
            return run;
        }
        self.removed.iter().find(|run| run.id == id.run).unwrap().clone()
    }

    /// What the server answers to a request of the attempt.
    fn is_stopped(&self, id: &AttemptId) -> bool {
        let run = self.run_of(id);
        run.running().is_some_and(|attempt| attempt.number == id.number && attempt.stop.is_some())
    }

    /// The state that an attempt uses. It stays if the layer gets another name.
    pub(crate) fn state_key(&self, id: &AttemptId) -> String {
        self.executor.machine.lock().unwrap().states[&key_of(id)].clone()
    }

    /// A process asks for its configuration, and for the plan that it applies; one whose attempt is not current
    /// ends.
    fn boot(&mut self, id: &AttemptId, elapsed: u64) -> Stage {
        let run = self.run_of(id);
        if now(self.store.inner.note(id, Note::Heartbeat)).unwrap() == Outcome::Refused {
            return Stage::Gone(None);
        }
        let layer = self.index_of(&id.layer);
        if self.name(layer) != id.layer {
            self.executor
                .machine
                .lock()
                .unwrap()
                .count("an attempt of an earlier name was refused");
            let result = AttemptResult::ended(Ending::Failed(FailureClass::Configuration));
            let _ = now(self.store.inner.finish(id, result));
            return Stage::Gone(None);
        }
        if let Some(file) = self.applied_file(&run) {
            let is_missing = !self.executor.machine.lock().unwrap().files.contains(&file.attempt);
            let missing = is_missing.then_some(StalePlan::File);
            if let Some(why) = self.why_stale(layer, &file.recorded).or(missing) {
                self.executor.machine.lock().unwrap().count(match why {
                    StalePlan::Tool => "a plan was stale: Tool",
                    StalePlan::Variables => "a plan was stale: Variables",
                    StalePlan::Secrets => "a plan was stale: Secrets",
                    StalePlan::State => "a plan was stale: State",
                    StalePlan::File => "a plan was stale: File",
                    StalePlan::Renamed => "a plan was stale: Renamed",
                });
                let ended = AttemptResult::ended(Ending::StalePlan);
                let _ =
                    now(self.store.inner.finish(id, AttemptResult { stale: Some(why), ..ended }));
                return Stage::Gone(None);
            }
            if now(self.store.inner.note(id, Note::Begins)).unwrap() == Outcome::Refused {
                return Stage::Gone(None);
            }
            if file.name != id.layer {
                self.violation = Some(format!("{} applies a plan of {}", run.id, file.name));
            }
            if !self.are_current(layer, file.inputs) {
                self.violation = Some(format!("{} applies a plan from other inputs", run.id));
            }
        }
        if let Cause::Plan { plan } = &run.cause
            && !self.begun.insert(plan.clone())
        {
            self.violation = Some(format!("plan {plan} is applied twice"));
        }
        let inputs = self.current_inputs(layer);
        let known = now(self.store.inner.snapshot(&id.layer, "", &[])).unwrap().facts.state;
        let mut machine = self.executor.machine.lock().unwrap();
        machine.configured.insert(key_of(id), inputs);
        machine.known.insert(key_of(id), known);
        machine.states.insert(key_of(id), self.layers[layer].state_key.clone());
        drop(machine);
        Stage::Working(self.new_work(id, elapsed))
    }

    /// A process sends the file of its plan. Whether it was taken.
    pub(crate) fn upload(&self, id: &AttemptId, result: &AttemptResult) -> bool {
        let is_stored = result.plan.as_ref().is_some_and(|plan| plan.is_stored);
        let is_taken =
            is_stored && now(self.store.inner.note(id, Note::Heartbeat)).unwrap() == Outcome::Made;
        is_taken && self.executor.machine.lock().unwrap().files.insert(key_of(id))
    }

    pub(crate) fn repeat_report(&self, attempt: usize) {
        let reported: Vec<_> = {
            let machine = self.executor.machine.lock().unwrap();
            let reports = machine.processes.iter();
            reports.filter_map(|one| Some((one.id.clone(), one.reported.clone()?))).collect()
        };
        if let Some((id, result)) = reported.get(attempt % reported.len().max(1)) {
            let again = now(self.store.inner.finish(&self.current(id), result.clone()));
            assert!(!matches!(again, Ok(Outcome::Made)), "a report was taken twice");
        }
    }
}
