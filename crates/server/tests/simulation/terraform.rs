//! What Terraform does to the simulated infrastructure.

use std::sync::atomic::Ordering;

use butler_server::model::{
    Action, Cause, ChangeCounts, Digest, DriftKind, Ending, FailureClass, LayerName, Moment,
    PlanDigest, Run, SavedPlan, StalePlan, StateVersion, Strategy,
};
use butler_server::plans::PlanInputs;
use butler_server::store::{AttemptId, AttemptResult};

use crate::executor::{AttemptKey, Work, key_of};
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
    /// The digest of which the code says that the infrastructure is as this drift has made it.
    pub(crate) accepted: Option<(Digest, u64)>,
    /// The number of the last apply by another program, if this server has applied nothing since.
    pub(crate) outside: Option<u64>,
    /// Whether the state has what a person has accepted, and the code does not say that.
    has_accepted: bool,
}

impl Infrastructure {
    /// What is applied completely.
    pub(crate) fn applied(&self) -> Option<&Digest> {
        let first = self.resources[0].as_ref();
        first.filter(|digest| self.resources.iter().all(|it| it.as_ref() == Some(*digest)))
    }

    /// Whether a normal plan of this digest is empty.
    pub(crate) fn is_what_code_says(&self, digest: &Digest) -> bool {
        let told = self.told_drift();
        match &self.accepted {
            Some((code, number)) if code == digest => told == Some(*number),
            _ => self.applied() == Some(digest) && told.is_none() && !self.has_accepted,
        }
    }

    /// Whether this digest is applied, or what is applied is what its code says.
    pub(crate) fn is_applied(&self, digest: &Digest) -> bool {
        let is_accepted = self.accepted.as_ref().is_some_and(|(code, _)| code == digest);
        is_accepted || self.applied() == Some(digest)
    }

    /// The version of the state.
    pub(crate) fn version(&self) -> Option<StateVersion> {
        let lineage = "lineage".to_owned();
        (self.serial > 0).then_some(StateVersion { lineage, serial: self.serial })
    }

    /// The difference that a check for drift tells which compares the code with the state.
    pub(crate) fn difference_of_code(&self, digest: &Digest) -> Option<String> {
        let what = match (self.outside, self.told_drift()) {
            _ if self.is_what_code_says(digest) => return None,
            (Some(outside), _) if self.applied() != Some(digest) => format!("outside {outside}"),
            (_, Some(drift)) => format!("code {drift}"),
            _ => format!("code of {digest}"),
        };
        Some(what)
    }

    /// What the last resource was made from. Applies change it last.
    pub(crate) fn last(&self) -> Option<&Digest> {
        self.resources.last()?.as_ref()
    }

    /// The number of the drift that a check tells.
    pub(crate) fn told_drift(&self) -> Option<u64> {
        self.drift.filter(|drift| drift.kind == DriftKind::Changes).map(|drift| drift.number)
    }

    /// Makes the next change of a plan, or writes the one before into the state.
    fn apply_next(&mut self, file: &PlanFile, progress: &mut Progress) {
        if progress.written < progress.changed {
            self.serial += 1;
            progress.written += 1;
        } else {
            // The state gets what the infrastructure is.
            if !file.accepts {
                self.resources[progress.changed] = (!file.destroys).then(|| file.digest.clone());
            }
            progress.changed += 1;
        }
    }
}

/// How far an apply has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// How many resources it has changed.
    pub(crate) changed: usize,
    /// How many of these changes are in the state.
    written: usize,
}

impl Progress {
    pub(crate) const fn is_part(self) -> bool {
        self.changed > 0 && self.changed < RESOURCES
    }

    const fn has_made(self, changes: usize) -> bool {
        self.changed >= changes && self.written == self.changed
    }
}

/// A plan file.
#[derive(Clone, Debug)]
pub(crate) struct PlanFile {
    /// Who made it.
    pub(crate) attempt: AttemptKey,
    /// The name of the layer then, which paths in the plan contain.
    pub(crate) name: LayerName,
    pub(crate) digest: Digest,
    pub(crate) destroys: bool,
    /// Whether it only writes what was changed outside into the state.
    accepts: bool,
    pub(crate) serial: u64,
    /// What it was made from.
    pub(crate) inputs: Inputs,
    /// What the server has recorded about that.
    pub(crate) recorded: PlanInputs,
    /// How many of its resources it replaces.
    replaces: u32,
}

impl PlanFile {
    /// What the first `resources` changes of the plan are.
    pub(crate) fn counts(&self, resources: usize) -> ChangeCounts {
        let all = u32::try_from(resources).unwrap();
        if self.destroys {
            ChangeCounts { destroy: all, ..ChangeCounts::default() }
        } else if self.accepts {
            ChangeCounts { change: all, ..ChangeCounts::default() }
        } else {
            ChangeCounts { add: all, destroy: all.min(self.replaces), ..ChangeCounts::default() }
        }
    }
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

    /// An apply makes its next step, if it is one and has not made all `changes`.
    pub(crate) fn apply_next(&mut self, id: &AttemptId, changes: usize) {
        let Some(file) = self.applied_file(&self.run_of(id)) else { return };
        let (key, now) = (self.state_key(id), self.now());
        let mut machine = self.executor.machine.lock().unwrap();
        let mut progress = machine.progress.get(&key_of(id)).copied().unwrap_or_default();
        let infrastructure = machine.infrastructure.entry(key).or_default();
        // The runner compares this before Terraform applies anything.
        let is_stale = progress.changed == 0 && infrastructure.serial != file.serial;
        if is_stale || progress.has_made(changes) {
            return;
        }
        infrastructure.apply_next(&file, &mut progress);
        if progress.has_made(RESOURCES) {
            let drift = infrastructure.told_drift();
            if infrastructure.drift.take().is_some() {
                infrastructure.drift_changed = now;
            }
            if file.accepts {
                // Of this digest, the code says what is in the state now.
                let is_said = infrastructure
                    .accepted
                    .as_ref()
                    .is_some_and(|(_, number)| Some(*number) == drift);
                infrastructure.has_accepted |= drift.is_some() && !is_said;
            } else {
                (infrastructure.outside, infrastructure.has_accepted) = (None, false);
                infrastructure.accepted = None;
            }
        }
        machine.progress.insert(key_of(id), progress);
    }

    /// An apply makes all `changes` that it has not made.
    fn apply_all(&mut self, id: &AttemptId, changes: usize) {
        for _ in 0..2 * changes {
            self.apply_next(id, changes);
        }
    }

    /// How far an apply has come.
    pub(crate) fn progress(&self, id: &AttemptId) -> Progress {
        self.executor.machine.lock().unwrap().progress.get(&key_of(id)).copied().unwrap_or_default()
    }

    /// What an attempt reports that failed or was stopped, or that an apply reports.
    fn ended(&self, id: &AttemptId, ending: Ending) -> AttemptResult {
        let file = self.applied_file(&self.run_of(id));
        let applied = file.map(|file| file.counts(self.progress(id).changed));
        let state = applied.and_then(|_| self.version_of(id));
        AttemptResult { applied, state, ..AttemptResult::ended(ending) }
    }

    /// The version of the state that an attempt uses.
    fn version_of(&self, id: &AttemptId) -> Option<StateVersion> {
        let key = self.state_key(id);
        let machine = self.executor.machine.lock().unwrap();
        machine.infrastructure.get(&key).and_then(Infrastructure::version)
    }

    /// Terraform was asked to stop. It ends the change that it is making, and writes the state. Some
    /// providers report the request as a failure of their own.
    pub(crate) fn interrupted(&mut self, id: &AttemptId) -> AttemptResult {
        let progress = self.progress(id);
        self.apply_all(id, progress.changed);
        let classes = [FailureClass::Platform, FailureClass::Network, FailureClass::Module];
        let mut machine = self.executor.machine.lock().unwrap();
        machine.count("an attempt was stopped");
        if progress.is_part() {
            machine.count("an apply was stopped after a part");
        }
        let class = machine.random.choice(classes).unwrap();
        drop(machine);
        self.ended(id, Ending::Failed(class))
    }

    /// What Terraform will do in an attempt that begins now.
    pub(crate) fn new_work(&mut self, id: &AttemptId, elapsed: u64) -> Work {
        let failure = self.why_it_fails(id, &self.run_of(id));
        let mut machine = self.executor.machine.lock().unwrap();
        // Some hang until they are stopped.
        let hangs = machine.random.u8(..30) == 0;
        if hangs {
            machine.count("an attempt hangs");
        }
        let changes =
            if hangs || failure.is_some() { machine.random.usize(..RESOURCES) } else { RESOURCES };
        let until = if hangs { u64::MAX } else { elapsed + machine.random.u64(1..400) };
        drop(machine);
        Work { until, failure, changes }
    }

    /// Another program changes the infrastructure of a layer in one of six ways, or undoes that.
    pub(crate) fn change_outside(&mut self, layer: usize, kind: Option<u8>) {
        self.drifts += 1;
        let (number, now) = (self.drifts, self.now());
        let key = self.place_of_state(layer);
        let mut machine = self.executor.machine.lock().unwrap();
        let infrastructure = machine.infrastructure.entry(key).or_default();
        infrastructure.drift_changed = now;
        infrastructure.drift = kind.map(|kind| {
            let kind = match kind {
                0 => DriftKind::MovedOnly,
                1 => DriftKind::OutputsOnly,
                2 => DriftKind::WithoutEffect,
                _ => DriftKind::Changes,
            };
            Drift { number, kind }
        });
    }

    /// Whether an apply works on the state with this key.
    fn is_applied_now(&self, key: &str) -> bool {
        let processes = self.executor.machine.lock().unwrap().processes.clone();
        processes.iter().filter(|process| process.uses_state()).any(|process| {
            let id = &process.id;
            self.run_of(id).action.changes_infrastructure() && self.state_key(id) == key
        })
    }

    /// Another program applies something else to a layer, or removes its resources from the state.
    pub(crate) fn apply_outside(&mut self, layer: usize, removes: bool) {
        self.drifts += 1;
        let (number, now) = (self.drifts, self.now());
        let key = self.place_of_state(layer);
        // An apply of this server has locked the state.
        if self.is_applied_now(&key) {
            return;
        }
        let mut machine = self.executor.machine.lock().unwrap();
        let infrastructure = machine.infrastructure.entry(key).or_default();
        // No other program can begin a state while an apply of this server does.
        if infrastructure.serial == 0 {
            return;
        }
        let made_from = (!removes).then(|| Digest::new(format!("outside-{number}")));
        infrastructure.resources =
            [const { None }; RESOURCES].map(|_: Option<Digest>| made_from.clone());
        infrastructure.serial += 1;
        (infrastructure.outside, infrastructure.drift_changed) = (Some(number), now);
        (infrastructure.accepted, infrastructure.has_accepted) = (None, false);
        machine.count("another program applied something");
    }

    /// A commit says what another program has changed.
    pub(crate) fn commit_drift(&mut self, layer: usize) {
        let key = self.place_of_state(layer);
        let drift = {
            let machine = self.executor.machine.lock().unwrap();
            machine
                .infrastructure
                .get(&key)
                .and_then(|found| found.applied().is_some().then(|| found.told_drift()).flatten())
        };
        let Some(number) = drift else { return };
        let digest = Digest::new(format!("accepts-{number}"));
        self.commit_digest(layer, digest.clone());
        let mut machine = self.executor.machine.lock().unwrap();
        machine.count("a commit accepted drift");
        machine.infrastructure.entry(key).or_default().accepted = Some((digest, number));
    }

    fn why_it_fails(&self, id: &AttemptId, run: &Run) -> Option<FailureClass> {
        let chance = self.executor.machine.lock().unwrap().random.u32(..100);
        let layer = self.index_of(&id.layer);
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
    pub(crate) fn work(&mut self, id: &AttemptId, work: &Work) -> AttemptResult {
        let run = self.run_of(id);
        if let Some(class) = work.failure {
            self.apply_all(id, work.changes);
            let is_part = self.progress(id).is_part();
            let mut machine = self.executor.machine.lock().unwrap();
            machine.count(match class {
                FailureClass::Network => "the network failed",
                FailureClass::Module => "the module failed",
                _ => "credentials were refused",
            });
            if is_part {
                machine.count("an apply failed after a part");
            }
            drop(machine);
            return self.ended(id, Ending::Failed(class));
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
        let layer = &self.layers[self.index_of(&id.layer)];
        let is_stored = layer.layer.strategy != Strategy::PlanOnly || run.destroys;
        let saved = self.now();
        let mut machine = self.executor.machine.lock().unwrap();
        let infrastructure = machine.infrastructure.entry(key).or_default().clone();
        let is_empty = if run.destroys {
            infrastructure.resources.iter().all(Option::is_none)
        } else if run.accepts() {
            infrastructure.told_drift().is_none()
        } else {
            infrastructure.is_what_code_says(run.digest())
        };
        let (inputs, recorded) = machine.configured[&key_of(id)].clone();
        let replaces = machine.random.u32(..2);
        let file = PlanFile {
            attempt: key_of(id),
            name: id.layer.clone(),
            digest: run.digest().clone(),
            destroys: run.destroys,
            accepts: run.accepts(),
            serial: infrastructure.serial,
            inputs,
            recorded,
            replaces,
        };
        let counts = file.counts(RESOURCES);
        machine.plans.insert(digest.clone(), file);
        drop(machine);
        let (discarded, stale) = (None, None);
        let plan = SavedPlan { digest, counts, is_stored, is_empty, saved, discarded, stale };
        AttemptResult {
            plan: Some(plan),
            state_difference: infrastructure.told_drift().map(|number| number.to_string()),
            state: infrastructure.version(),
            ..AttemptResult::ended(Ending::Succeeded)
        }
    }

    fn check_drift(&mut self, id: &AttemptId, run: &Run) -> AttemptResult {
        let key = self.state_key(id);
        let mut machine = self.executor.machine.lock().unwrap();
        let known = machine.known.get(&key_of(id)).cloned().flatten();
        let infrastructure = machine.infrastructure.entry(key).or_default();
        let told = infrastructure.told_drift().map(|number| number.to_string());
        let mut result = AttemptResult::ended(Ending::Succeeded);
        result.state = infrastructure.version();
        result.state_difference.clone_from(&told);
        // The runner compares the code with a state that another program has written.
        result.compares_code = known.is_some() && known != result.state;
        if result.compares_code {
            result.difference = infrastructure.difference_of_code(run.digest());
            let differs = result.difference.is_some();
            result.drift_kind = if differs { DriftKind::ChangedOutside } else { DriftKind::None };
        } else {
            result.drift_kind = infrastructure.drift.map_or(DriftKind::None, |drift| drift.kind);
            result.difference = told;
        }
        // If it is undone what a commit has accepted, the server tells it.
        let may_be_undone = infrastructure.accepted.is_some();
        drop(machine);
        if result.difference.is_some() || may_be_undone {
            self.checks_with_drift.insert(run.id.clone());
        }
        result
    }

    fn apply(&mut self, id: &AttemptId, run: &Run) -> AttemptResult {
        let Some(file) = self.applied_file(run) else {
            return AttemptResult::ended(Ending::Succeeded);
        };
        self.apply_all(id, RESOURCES);
        let is_stale = !self.progress(id).has_made(RESOURCES);
        let mut machine = self.executor.machine.lock().unwrap();
        if is_stale {
            machine.count("a plan was stale: State");
            drop(machine);
            let result = self.ended(id, Ending::StalePlan);
            return AttemptResult { stale: Some(StalePlan::State), ..result };
        }
        machine.count(if file.destroys { "a layer was destroyed" } else { "a plan was applied" });
        drop(machine);
        if file.digest != *run.digest() {
            self.violation = Some(format!("{} applied another digest", run.id));
        }
        if file.destroys != (run.action == Action::Destroy) {
            self.violation = Some(format!("{} is not what its plan says", run.id));
        }
        AttemptResult { changed: true, ..self.ended(id, Ending::Succeeded) }
    }
}
