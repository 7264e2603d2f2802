//! The simulated world, and the invariants that are checked after each operation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use butler_server::controller::{ConfiguredLayer, Controller};
use butler_server::decision::Step;
use butler_server::model::{Commit, LayerName, Moment, PlanDigest, Run, RunId, Sighting};
use butler_server::store::{Keep, Store};
use futures_util::FutureExt;

use crate::alarms::Alarms;
use crate::breaker::Row;
use crate::conditions::Conditions;
use crate::configuration::configured;
use crate::executor::{SimulatedExecutor, key_of};
use crate::fates::Fates;
use crate::faulty_store::{Crash, FaultyStore};
use crate::inputs::{Inputs, KeyFile};
use crate::ops::{ChosenPlan, LayerKind, Op, Scenario};
use crate::passes::Rested;

/// A decision that a slow server has not executed yet.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) layer: usize,
    /// Its name and configuration at that time.
    pub(crate) name: LayerName,
    pub(crate) configured: Option<ConfiguredLayer>,
    pub(crate) step: Step,
}

/// Everything that is simulated.
pub(crate) struct World {
    pub(crate) store: FaultyStore,
    pub(crate) executor: SimulatedExecutor,
    pub(crate) layers: Vec<ConfiguredLayer>,
    /// The names that each layer has had.
    pub(crate) names: Vec<Vec<LayerName>>,
    /// The runs of each layer that had an attempt and were not removed.
    pub(crate) started: Vec<BTreeSet<RunId>>,
    pub(crate) kinds: Vec<LayerKind>,
    /// Whether each layer is in the configuration.
    pub(crate) present: Vec<bool>,
    /// What the repository contains for each layer.
    pub(crate) head: Vec<Sighting>,
    pub(crate) git_is_down: bool,
    slow_poll: Option<(u64, Vec<(LayerName, Sighting)>)>,
    pub(crate) decided: BTreeMap<usize, Decided>,
    pub(crate) conditions: Conditions,
    /// How each layer was at rest when it was looked at last.
    pub(crate) rested: Vec<Option<Rested>>,
    /// How far the clock of the store is from the time that has passed.
    pub(crate) clock: i64,
    pub(crate) commits: u64,
    /// The layer of each commit, and the number of its history.
    pub(crate) histories: BTreeMap<Commit, (usize, u64)>,
    /// The number of the history that each layer has now.
    pub(crate) history: Vec<u64>,
    pub(crate) plans: u64,
    pub(crate) drifts: u64,
    /// The checks that found drift.
    pub(crate) checks_with_drift: BTreeSet<RunId>,
    pub(crate) alarms: Alarms,
    pub(crate) row: Row,
    pub(crate) fates: Fates,
    /// What plans of each layer are made from.
    pub(crate) inputs: Vec<Inputs>,
    pub(crate) keys: KeyFile,
    /// How often an input was changed.
    pub(crate) changes: u64,
    /// How often a person asked for a plan.
    pub(crate) requests: u64,
    pub(crate) steps: u64,
    /// Plans whose apply has begun.
    pub(crate) begun: BTreeSet<PlanDigest>,
    /// The layers that were unlocked during an apply, and have not begun to plan since.
    pub(crate) unlocked: BTreeSet<usize>,
    /// Runs as they were before old ones were removed.
    pub(crate) removed: Vec<Run>,
    /// Whether the breaker was open when the runs were checked last.
    pub(crate) was_breaker_open: bool,
    /// The latest time of a decision.
    pub(crate) latest: Moment,
    /// How many writes the store had made when its runs were checked last.
    pub(crate) checked: u64,
    /// An invariant that was broken within an operation.
    pub(crate) violation: Option<String>,
}

/// The result of a future that never waits.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing waits in a simulation")
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
            names: layers.iter().map(|layer| vec![layer.layer.name.clone()]).collect(),
            started: vec![BTreeSet::new(); layers.len()],
            layers,
            git_is_down: false,
            slow_poll: None,
            decided: BTreeMap::new(),
            conditions: Conditions::new(scenario),
            rested: vec![None; scenario.layers.len()],
            clock: 10_000_000,
            commits: 0,
            histories: BTreeMap::new(),
            history: vec![0; scenario.layers.len()],
            plans: 0,
            drifts: 0,
            checks_with_drift: BTreeSet::new(),
            alarms: Alarms::default(),
            row: Row::default(),
            fates: Fates::default(),
            inputs: vec![Inputs::default(); scenario.layers.len()],
            keys: KeyFile::new(),
            changes: 0,
            requests: 0,
            steps: 0,
            begun: BTreeSet::new(),
            unlocked: BTreeSet::new(),
            removed: Vec::new(),
            was_breaker_open: false,
            latest: Moment::default(),
            checked: 0,
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

    pub(crate) fn controller(
        &self,
        layer: usize,
    ) -> Controller<'_, FaultyStore, SimulatedExecutor> {
        Controller::new(&self.store, &self.executor, self.limits(layer))
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

    /// Does `op`. What cannot be done now is skipped.
    #[expect(clippy::too_many_lines, reason = "one arm for each operation")]
    pub(crate) fn perform(&mut self, op: &Op) {
        let layers = self.layers.len();
        match *op {
            Op::Advance { seconds } => self.advance(seconds),
            Op::ClockJump { seconds } => {
                self.clock += seconds;
                self.set_clock();
                // A window that was removed because it was over would be in force again.
                self.conditions.version += u64::from(seconds < 0);
            }
            Op::Commit { layer, digest } => self.commit(layer % layers, digest),
            Op::Delete { layer, branch } => {
                let commit = self.next_commit(layer % layers);
                self.head[layer % layers] =
                    if branch { Sighting::RefMissing } else { Sighting::PathMissing { commit } };
            }
            Op::ReplaceHistory { layer, digest } => {
                self.history[layer % layers] += 1;
                self.commit(layer % layers, digest);
            }
            Op::Poll => self.poll(),
            Op::SlowPoll if !self.git_is_down => {
                if let Ok(readings) = now(self.store.readings("infra")) {
                    self.slow_poll = Some((readings, self.head()));
                }
            }
            Op::RecordSlowPoll => {
                if let Some((readings, head)) = self.slow_poll.take() {
                    let _ =
                        now(self.store.observe("infra", readings, &head, &self.unrelated(&head)));
                    self.restart();
                }
            }
            Op::SlowPoll => {}
            Op::Pass => self.pass(),
            Op::Decide { server, layer } => self.decide(server, layer % layers),
            Op::PerformDecided { server } => {
                if let Some(decided) = self.decided.remove(&server) {
                    self.execute(decided);
                }
            }
            Op::CrashAtWrite { writes, after } => {
                self.store.faults.lock().unwrap().crash = Some(Crash { writes, after });
            }
            Op::KillAttempt { attempt, left } => self.kill(attempt, left),
            Op::Rename { layer, back, crash } => self.rename(layer % layers, back, crash),
            Op::Unlock { layer, waits, meanwhile } => {
                self.unlock(layer % layers, waits, meanwhile);
            }
            Op::InterruptApply { layer, how, crash, reverts } => {
                self.interrupt_apply(layer, how, crash, reverts);
            }
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
            Op::DecideTogether => {
                self.poll();
                for layer in 0..layers {
                    self.decide(layer, layer);
                }
                for server in 0..layers {
                    self.perform(&Op::PerformDecided { server });
                }
            }
            Op::StoreDown { down } => self.store.faults.lock().unwrap().store_is_down = down,
            Op::GitDown { down } => self.git_is_down = down,
            Op::Approve { layer, plan } => {
                if let Some(plan) = self.chosen_plan(layer % layers, plan) {
                    self.approve(layer % layers, &plan);
                }
            }
            Op::ApproveAtCommit { layer, digest, is_read } => {
                self.approve_at_commit(layer % layers, digest, is_read);
            }
            Op::ApproveBehindWindow { layer, seconds } => {
                self.close_window(layer % layers, seconds);
                self.perform(&Op::Approve { layer, plan: ChosenPlan::Newest });
            }
            Op::ApproveLate { layer } => {
                let lifetime = self.layers[layer % layers].layer.plan_lifetime.as_secs();
                self.clock = self.clock.saturating_add_unsigned(lifetime);
                self.set_clock();
                self.perform(&Op::Approve { layer, plan: ChosenPlan::Newest });
            }
            Op::Discard { layer, plan, is_approved } => {
                if let Some(plan) = self.chosen_plan(layer % layers, plan) {
                    if is_approved {
                        self.approve(layer % layers, &plan);
                    }
                    self.discard(layer % layers, &plan);
                }
            }
            Op::CancelApply => self.cancel_apply(),
            Op::AskForDestroy { layer } => self.ask_for_plan(layer % layers, true),
            Op::Retry { layer } => self.retry(layer % layers),
            Op::ChangeInput { layer, input } => self.change_input(layer % layers, input),
            Op::Cancel { layer } => self.cancel(layer % layers),
            Op::AskForPlan { layer } => self.ask_for_plan(layer % layers, false),
            Op::CloseWindow { layer, seconds } => self.close_window(layer % layers, seconds),
            Op::ResetBreaker => self.reset_breaker(),
            Op::DiskFull { full } => self.set_disk_full(full),
            Op::Limit { concurrency } => self.limit_repository(concurrency),
            Op::Pause { layer, paused } => self.pause(layer % layers, paused),
            Op::Configure { layer, present } => {
                self.present[layer % layers] = present;
                self.conditions.version += 1;
            }
            Op::Prune { layer } => {
                // Processes of attempts that were lost can go on.
                self.removed.extend(self.store.inner.runs(&self.name(layer % layers)));
                let keep = Keep { runs: 0, age: Duration::ZERO };
                let pruned = now(self.store.prune(&self.name(layer % layers), keep));
                let mut machine = self.executor.machine.lock().unwrap();
                for attempt in pruned.unwrap_or_default() {
                    machine.files.remove(&key_of(&attempt));
                }
                drop(machine);
                self.forget_removed(layer % layers);
                self.restart();
            }
            Op::Drift { layer, kind } => self.change_outside(layer % layers, kind),
            Op::ApplyOutside { layer, removes } => self.apply_outside(layer % layers, removes),
            Op::CommitDrift { layer } => self.commit_drift(layer % layers),
            Op::Accept { layer } => self.accept_drift(layer % layers),
        }
    }

    /// Ends all faults.
    pub(crate) fn heal(&mut self) {
        *self.store.faults.lock().unwrap() = crate::faulty_store::Faults::default();
        self.executor.machine.lock().unwrap().node_is_down = false;
        self.git_is_down = false;
        self.reset_breaker();
        self.set_disk_full(false);
        self.decided.clear();
        self.slow_poll = None;
        for layer in 0..self.layers.len() {
            self.present[layer] = true;
            self.conditions.version += 1;
            // The history of an earlier name brings its pause.
            for name in &self.names[layer] {
                let _ = now(self.store.pause(name, None));
            }
        }
    }

    /// A server that has ended is started again.
    pub(crate) fn restart(&mut self) {
        if std::mem::take(&mut self.store.faults.lock().unwrap().crashed) {
            let mut machine = self.executor.machine.lock().unwrap();
            machine.count("the server ended at a write");
            let applies = machine.processes.iter().filter(|process| process.uses_state());
            let mut applies = applies.map(|process| self.run_of(&process.id));
            if applies.any(|run| run.action.changes_infrastructure()) {
                machine.count("the server ended during an apply");
            }
            drop(machine);
            self.begin_first_pass();
        }
    }
}
