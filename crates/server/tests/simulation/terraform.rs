//! What Terraform does to the simulated infrastructure.

use std::sync::atomic::Ordering;

use butler_server::model::{
    Action, Cause, ChangeCounts, Digest, DriftKind, Ending, FailureClass, Moment, PlanDigest, Run,
    SavedPlan, StalePlan, Strategy,
};
use butler_server::plans::PlanInputs;
use butler_server::store::{AttemptId, AttemptResult};

use crate::inputs::Inputs;
use crate::ops::Fails;
use crate::world::World;

/// How many resources a layer has.
pub(crate) const RESOURCES: usize = 5;

/// A change that another program made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Drift {
    /// Which change it is.
    pub(crate) number: u64,
    pub(crate) kind: DriftKind,
}

/// The state and the infrastructure behind one state key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Infrastructure {
    /// Counts the writes of the state.
    pub(crate) serial: u64,
    /// The digest that each resource was made from.
    resources: [Option<Digest>; RESOURCES],
    /// What was changed outside.
    pub(crate) drift: Option<Drift>,
    /// When that was, or when it was undone.
    pub(crate) drift_changed: Moment,
}

impl Infrastructure {
    /// What is applied completely.
    pub(crate) fn applied(&self) -> Option<&Digest> {
        let first = self.resources[0].as_ref();
        first.filter(|digest| self.resources.iter().all(|it| it.as_ref() == Some(*digest)))
    }

    /// The number of the drift that a check tells.
    pub(crate) fn told_drift(&self) -> Option<u64> {
        self.drift.filter(|drift| drift.kind == DriftKind::Changes).map(|drift| drift.number)
    }

    /// Applies a plan to this many resources.
    fn apply(&mut self, file: &PlanFile, resources: usize) {
        for resource in &mut self.resources[..resources] {
            self.serial += 1;
            *resource = (!file.destroys).then(|| file.digest.clone());
        }
        if resources == RESOURCES {
            self.drift = None;
        }
    }
}

/// A plan file.
#[derive(Clone, Debug)]
pub(crate) struct PlanFile {
    /// Who made it.
    pub(crate) attempt: AttemptId,
    pub(crate) digest: Digest,
    pub(crate) destroys: bool,
    pub(crate) serial: u64,
    /// What it was made from.
    pub(crate) inputs: Inputs,
    /// What the server has recorded about that.
    pub(crate) recorded: PlanInputs,
}

impl World {
    pub(crate) fn now(&self) -> Moment {
        Moment::from_millis(self.store.clock.load(Ordering::Relaxed))
    }

    /// The file of the plan that a run applies.
    pub(crate) fn applied_file(&self, run: &Run) -> Option<PlanFile> {
        let Cause::Plan { plan } = &run.cause else { return None };
        self.executor.machine.lock().unwrap().plans.get(plan).cloned()
    }

    /// Terraform ends before an apply is complete. It can have changed nothing.
    pub(crate) fn apply_in_part(&mut self, id: &AttemptId) {
        let run = self.run_of(id);
        let Some(file) = self.applied_file(&run) else { return };
        let key = self.state_key(id);
        let mut machine = self.executor.machine.lock().unwrap();
        let resources = machine.random.usize(..RESOURCES);
        let infrastructure = machine.infrastructure.entry(key).or_default();
        // The runner compares this before Terraform applies anything.
        if infrastructure.serial != file.serial {
            return;
        }
        infrastructure.apply(&file, resources);
        if resources > 0 {
            machine.count("an apply changed only a part");
        }
    }

    fn why_it_fails(&self, id: &AttemptId, run: &Run) -> Option<FailureClass> {
        let chance = self.executor.machine.lock().unwrap().random.u32(..100);
        let layer = self.layers.iter().position(|layer| layer.layer.name == id.layer).unwrap();
        match chance {
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
        }
    }

    /// Terraform ends by itself.
    pub(crate) fn work(&mut self, id: &AttemptId) -> AttemptResult {
        let run = self.run_of(id);
        if let Some(class) = self.why_it_fails(id, &run) {
            self.executor.machine.lock().unwrap().count(match class {
                FailureClass::Network => "the network failed",
                FailureClass::Module => "the module failed",
                _ => "credentials were refused",
            });
            self.apply_in_part(id);
            return AttemptResult::ended(Ending::Failed(class));
        }
        match run.action {
            Action::Plan => self.plan(id, &run),
            Action::Drift => self.check_drift(id, &run),
            Action::Apply | Action::Destroy | Action::Trigger => self.apply(id, &run),
        }
    }

    fn plan(&mut self, id: &AttemptId, run: &Run) -> AttemptResult {
        self.plans += 1;
        let (key, digest) = (self.state_key(id), PlanDigest::new(format!("p{}", self.plans)));
        let layer = self.layers.iter().find(|layer| layer.layer.name == id.layer).unwrap();
        let is_stored = layer.layer.strategy != Strategy::PlanOnly || run.destroys;
        let saved = self.now();
        let mut machine = self.executor.machine.lock().unwrap();
        let infrastructure = machine.infrastructure.entry(key).or_default().clone();
        let is_empty = if run.destroys {
            infrastructure.resources.iter().all(Option::is_none)
        } else {
            infrastructure.applied() == Some(run.digest()) && infrastructure.told_drift().is_none()
        };
        let (inputs, recorded) = machine.configured[id].clone();
        let file = PlanFile {
            attempt: id.clone(),
            digest: run.digest().clone(),
            destroys: run.destroys,
            serial: infrastructure.serial,
            inputs,
            recorded,
        };
        machine.plans.insert(digest.clone(), file);
        let destroy = if run.destroys { RESOURCES as u64 } else { machine.random.u64(..2) };
        drop(machine);
        let counts = ChangeCounts { add: 1, change: 0, destroy };
        let (discarded, stale) = (None, None);
        let plan = SavedPlan { digest, counts, is_stored, is_empty, saved, discarded, stale };
        AttemptResult { plan: Some(plan), ..AttemptResult::ended(Ending::Succeeded) }
    }

    fn check_drift(&mut self, id: &AttemptId, run: &Run) -> AttemptResult {
        let key = self.state_key(id);
        let mut machine = self.executor.machine.lock().unwrap();
        let infrastructure = machine.infrastructure.entry(key).or_default();
        let found = infrastructure.told_drift();
        let mut result = AttemptResult::ended(Ending::Succeeded);
        result.drift_kind = infrastructure.drift.map_or(DriftKind::None, |drift| drift.kind);
        result.difference = found.map(|number| number.to_string());
        drop(machine);
        if found.is_some() {
            self.checks_with_drift.insert(run.id.clone());
        }
        result
    }

    fn apply(&mut self, id: &AttemptId, run: &Run) -> AttemptResult {
        let mut result = AttemptResult::ended(Ending::Succeeded);
        let Some(file) = self.applied_file(run) else { return result };
        let (key, now) = (self.state_key(id), self.now());
        let mut machine = self.executor.machine.lock().unwrap();
        let state = machine.infrastructure.entry(key).or_default();
        if file.serial != state.serial {
            machine.count("a plan was stale: State");
            (result.ending, result.stale) = (Ending::StalePlan, Some(StalePlan::State));
            return result;
        }
        if state.drift.is_some() {
            state.drift_changed = now;
        }
        state.apply(&file, RESOURCES);
        machine.count(if file.destroys { "a layer was destroyed" } else { "a plan was applied" });
        result.changed = true;
        drop(machine);
        if file.digest != *run.digest() {
            self.violation = Some(format!("{} applied another digest", run.id));
        }
        if file.destroys != (run.action == Action::Destroy) {
            self.violation = Some(format!("{} is not what its plan says", run.id));
        }
        result
    }
}
