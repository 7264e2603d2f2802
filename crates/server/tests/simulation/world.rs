//! The simulated world, and the invariants that are checked after each operation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use butler_server::controller::{ConfiguredLayer, Controller, Limits};
use butler_server::decision::Step;
use butler_server::model::{
    Action, Cause, Closed, Commit, Digest, DriftCheck, Layer, LayerName, NewRun, PlanDigest,
    Revision, Run, RunId, Sighting, StopReason, Strategy, Timeouts,
};
use butler_server::store::{AttemptId, Keep, Note, Outcome, Store};
use futures_util::FutureExt;

use crate::executor::SimulatedExecutor;
use crate::faulty_store::{Crash, FaultyStore};
use crate::ops::{LayerKind, Op, Scenario};

/// More steps of one layer without an event in between are a loop.
const MOST_STEPS: usize = 50;

/// A decision that a slow server has not executed yet.
type Decided = (usize, Step);

/// Everything that is simulated.
pub(crate) struct World {
    pub(crate) store: FaultyStore,
    pub(crate) executor: SimulatedExecutor,
    pub(crate) layers: Vec<ConfiguredLayer>,
    pub(crate) kinds: Vec<LayerKind>,
    /// Whether each layer is in the configuration.
    pub(crate) present: Vec<bool>,
    /// What the repository contains for each layer.
    head: Vec<Sighting>,
    git_is_down: bool,
    slow_poll: Option<(u64, Vec<(LayerName, Sighting)>)>,
    decided: BTreeMap<usize, Decided>,
    /// How far the clock of the store is from the time that has passed.
    clock: i64,
    commits: u64,
    pub(crate) plans: u64,
    drifts: u64,
    /// How often a person asked for a plan.
    requests: u64,
    steps: u64,
    /// Plans whose apply has begun.
    pub(crate) begun: BTreeSet<PlanDigest>,
    /// Runs as they were before old ones were removed.
    pub(crate) removed: Vec<Run>,
    /// An invariant that was broken within an operation.
    pub(crate) violation: Option<String>,
}

/// The result of a future that never waits.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing waits in a simulation")
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn configured(index: usize, kind: &LayerKind, kinds: &[LayerKind]) -> ConfiguredLayer {
    let name = |index: usize| -> LayerName { format!("layer-{index}").parse().unwrap() };
    // The configuration refuses layers that come after one that is never applied.
    let applied = |upstream: &&usize| kinds[**upstream].strategy != Strategy::PlanOnly;
    ConfiguredLayer {
        layer: Layer {
            name: name(index),
            strategy: kind.strategy,
            drift: kind.drift_repair.map(|repair| DriftCheck { every: secs(3600), repair }),
            destroy_limit: kind.destroy_limit,
            most_attempts: 3,
            timeouts: Timeouts { plan: secs(600), apply: secs(1200) },
            plan_lifetime: secs(6 * 3600),
            after: kind.after.iter().filter(applied).map(|upstream| name(*upstream)).collect(),
            has_backend: true,
            conflict: None,
        },
        state_key: format!("state-{}", index - usize::from(kind.shares_state && index > 0)),
    }
}

impl World {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let kinds = &scenario.layers;
        let layers: Vec<_> =
            kinds.iter().enumerate().map(|(index, kind)| configured(index, kind, kinds)).collect();
        let executor = SimulatedExecutor::default();
        executor.machine.lock().unwrap().random = fastrand::Rng::with_seed(scenario.seed);
        let mut world = Self {
            store: FaultyStore::new(),
            executor,
            present: vec![true; layers.len()],
            kinds: kinds.clone(),
            head: vec![Sighting::RefMissing; layers.len()],
            layers,
            git_is_down: false,
            slow_poll: None,
            decided: BTreeMap::new(),
            clock: 10_000_000,
            commits: 0,
            plans: 0,
            drifts: 0,
            requests: 0,
            steps: 0,
            begun: BTreeSet::new(),
            removed: Vec::new(),
            violation: None,
        };
        for layer in 0..world.layers.len() {
            world.commit(layer, 0);
        }
        world.set_clock();
        world
    }

    pub(crate) const fn steps(&self) -> u64 {
        self.steps
    }

    /// How many processes were started.
    pub(crate) fn attempts(&self) -> u64 {
        self.executor.machine.lock().unwrap().processes.len() as u64
    }

    /// How many plans began to be applied.
    pub(crate) fn applies(&self) -> u64 {
        self.begun.len() as u64
    }

    pub(crate) fn controller(&self) -> Controller<'_, FaultyStore, SimulatedExecutor> {
        Controller::new(&self.store, &self.executor, Limits::concurrency(2))
    }

    pub(crate) fn configured(&self, layer: usize) -> Option<&ConfiguredLayer> {
        self.present[layer].then(|| &self.layers[layer])
    }

    pub(crate) fn name(&self, layer: usize) -> LayerName {
        self.layers[layer].layer.name.clone()
    }

    pub(crate) fn set_clock(&self) {
        let elapsed = self.executor.machine.lock().unwrap().elapsed;
        let now = self.clock.saturating_add_unsigned(elapsed).unsigned_abs();
        self.store.clock.store(now * 1000, Ordering::Relaxed);
    }

    fn commit(&mut self, layer: usize, digest: u8) {
        self.commits += 1;
        let commit = Commit::new(format!("c{}", self.commits));
        let digest = Digest::new(format!("d{digest}"));
        self.head[layer] = Sighting::Found(Revision { commit, digest });
    }

    fn head(&self) -> Vec<(LayerName, Sighting)> {
        let names = self.layers.iter().map(|layer| layer.layer.name.clone());
        names.zip(self.head.iter().cloned()).collect()
    }

    /// Does `op`. What cannot be done now is skipped.
    pub(crate) fn perform(&mut self, op: &Op) {
        let layers = self.layers.len();
        match *op {
            Op::Advance { seconds } => self.advance(seconds),
            Op::ClockJump { seconds } => {
                self.clock += seconds;
                self.set_clock();
            }
            Op::Commit { layer, digest } => self.commit(layer % layers, digest),
            Op::Delete { layer, branch } => {
                self.commits += 1;
                let commit = Commit::new(format!("c{}", self.commits));
                self.head[layer % layers] =
                    if branch { Sighting::RefMissing } else { Sighting::PathMissing { commit } };
            }
            Op::Poll => self.poll(),
            Op::SlowPoll if !self.git_is_down => {
                if let Ok(readings) = now(self.store.readings("infra")) {
                    self.slow_poll = Some((readings, self.head()));
                }
            }
            Op::RecordSlowPoll => {
                if let Some((readings, head)) = self.slow_poll.take() {
                    let _ = now(self.store.observe("infra", readings, &head));
                    self.restart();
                }
            }
            Op::SlowPoll => {}
            Op::Pass => self.pass(),
            Op::Decide { server, layer } => self.decide(server, layer % layers),
            Op::PerformDecided { server } => {
                if let Some((layer, step)) = self.decided.remove(&server) {
                    self.execute(layer, step);
                }
            }
            Op::CrashAtWrite { writes, after } => {
                self.store.faults.lock().unwrap().crash = Some(Crash { writes, after });
            }
            Op::KillAttempt { attempt } => self.kill(attempt, false),
            Op::KillReporting { attempt } => self.kill(attempt, true),
            Op::RepeatReport { attempt } => self.repeat_report(attempt),
            Op::Partition { seconds } => {
                self.executor.machine.lock().unwrap().node_is_down = true;
                self.advance(seconds);
                self.pass();
                self.executor.machine.lock().unwrap().node_is_down = false;
            }
            Op::Race { layer, commit } => {
                self.decide(0, layer % layers);
                if commit {
                    for layer in 0..layers {
                        self.commit(layer, 9);
                    }
                    self.poll();
                }
                self.pass();
                self.perform(&Op::PerformDecided { server: 0 });
            }
            Op::StoreDown { down } => self.store.faults.lock().unwrap().store_is_down = down,
            Op::GitDown { down } => self.git_is_down = down,
            Op::Approve { layer, old } => self.approve(layer % layers, old),
            Op::Cancel { layer } => self.cancel(layer % layers),
            Op::AskForPlan { layer } => self.ask_for_plan(layer % layers),
            Op::Pause { layer, paused } => {
                let name = self.name(layer % layers);
                let _ = now(self.store.pause(&name, paused.then_some("ana")));
                self.restart();
            }
            Op::Configure { layer, present } => self.present[layer % layers] = present,
            Op::Prune { layer } => {
                // Processes of attempts that were lost can go on.
                self.removed.extend(self.store.inner.runs(&self.name(layer % layers)));
                let keep = Keep { runs: 0, age: Duration::ZERO };
                let _ = now(self.store.prune(&self.name(layer % layers), keep));
                self.restart();
            }
            Op::Drift { layer } => {
                self.drifts += 1;
                let key = self.layers[layer % layers].state_key.clone();
                let mut machine = self.executor.machine.lock().unwrap();
                machine.infrastructure.entry(key).or_default().drift = Some(self.drifts);
            }
        }
    }

    /// Ends all faults.
    pub(crate) fn heal(&mut self) {
        *self.store.faults.lock().unwrap() = crate::faulty_store::Faults::default();
        self.executor.machine.lock().unwrap().node_is_down = false;
        self.git_is_down = false;
        self.decided.clear();
        self.slow_poll = None;
        for layer in 0..self.layers.len() {
            self.present[layer] = true;
            let _ = now(self.store.pause(&self.layers[layer].layer.name, None));
        }
    }

    /// A server that has ended is started again.
    pub(crate) fn restart(&self) {
        self.store.faults.lock().unwrap().crashed = false;
    }

    pub(crate) fn poll(&mut self) {
        if !self.git_is_down
            && let Ok(readings) = now(self.store.readings("infra"))
        {
            let _ = now(self.store.observe("infra", readings, &self.head()));
            self.restart();
        }
    }

    /// Decides about each layer until nothing is left to do.
    pub(crate) fn pass(&mut self) {
        for layer in 0..self.layers.len() {
            let mut last = None;
            for count in 0.. {
                let name = self.name(layer);
                let Ok((_, decision)) =
                    now(self.controller().decide(&name, self.configured(layer)))
                else {
                    break;
                };
                let Some(step) = decision.step else { break };
                if count > MOST_STEPS {
                    self.violation = Some(format!("{name} makes steps for ever: {step:?}"));
                    break;
                }
                // A step that was refused or failed is tried again in the next pass.
                if last.as_ref() == Some(&step) {
                    break;
                }
                last = Some(step.clone());
                if !self.execute(layer, step) {
                    break;
                }
            }
        }
        self.restart();
    }

    fn decide(&mut self, server: usize, layer: usize) {
        let name = self.name(layer);
        if let Ok((_, decision)) = now(self.controller().decide(&name, self.configured(layer)))
            && let Some(step) = decision.step
        {
            self.decided.insert(server, (layer, step));
        }
    }

    /// Whether the step was executed.
    fn execute(&mut self, layer: usize, step: Step) -> bool {
        self.steps += 1;
        let name = self.name(layer);
        let before = self.store.inner.runs(&name);
        let made = now(self.controller().perform(&name, self.configured(layer), step));
        self.check_starts(layer, &before);
        self.restart();
        matches!(made, Ok(Outcome::Made))
    }

    /// As the API does it.
    fn cancel(&self, layer: usize) {
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

    fn ask_for_plan(&mut self, layer: usize) {
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

    fn approve(&mut self, layer: usize, old: bool) {
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
}
