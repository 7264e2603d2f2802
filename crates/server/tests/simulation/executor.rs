//! Processes of attempts, as the real runner behaves: they ask the server before they do anything,
//! report until they are answered, and go on when the server is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use butler_server::controller::{Executor, ExecutorError, Probe};
use butler_server::model::{
    AttemptToken, FailureClass, LayerName, Liveness, PlanDigest, RunId, StateVersion,
};
use butler_server::plans::PlanInputs;
use butler_server::store::{AttemptId, AttemptResult};

use crate::inputs::Inputs;
use crate::renames::local_state;
use crate::terraform::{Infrastructure, PlanFile, Progress};

/// How far a process is.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// It was started, and has not been answered yet.
    Booting,
    /// Terraform runs.
    Working(Work),
    /// Terraform has ended, and the server has not answered the report.
    Reporting(AttemptResult),
    /// The process is gone, and left this.
    Gone(Option<AttemptResult>),
}

/// What Terraform does unless it is interrupted.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// The simulated second at which it ends.
    pub(crate) until: u64,
    /// How it fails then, if it does.
    pub(crate) failure: Option<FailureClass>,
    /// How many changes an apply makes.
    pub(crate) changes: usize,
}

/// A report that was sent, and has not reached the server.
#[derive(Clone, Debug)]
pub(crate) struct SentReport {
    /// The simulated second at which it arrives.
    pub(crate) at: u64,
    pub(crate) attempt: AttemptId,
    pub(crate) result: AttemptResult,
}

/// A process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) id: AttemptId,
    pub(crate) stage: Stage,
    pub(crate) stop_requested: bool,
    /// What was reported and answered, to be sent again.
    pub(crate) reported: Option<AttemptResult>,
}

impl Process {
    pub(crate) const fn is_gone(&self) -> bool {
        matches!(self.stage, Stage::Gone(_))
    }

    /// Whether it may use the state.
    pub(crate) const fn uses_state(&self) -> bool {
        matches!(self.stage, Stage::Working(_))
    }
}

/// A run and the number of its attempt. Unlike the name of the layer, they stay.
pub(crate) type AttemptKey = (RunId, u32);

pub(crate) fn key_of(attempt: &AttemptId) -> AttemptKey {
    (attempt.run.clone(), attempt.number)
}

/// What the attempts work on.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) processes: Vec<Process>,
    pub(crate) infrastructure: BTreeMap<String, Infrastructure>,
    pub(crate) plans: BTreeMap<PlanDigest, PlanFile>,
    /// What attempts were given that may save a plan, and what the server has recorded about that.
    pub(crate) configured: BTreeMap<AttemptKey, (Inputs, PlanInputs)>,
    /// The version of the state that the server knew when each attempt began.
    pub(crate) known: BTreeMap<AttemptKey, Option<StateVersion>>,
    /// The key of the state that each attempt was given.
    pub(crate) states: BTreeMap<AttemptKey, String>,
    /// How far each apply has come.
    pub(crate) progress: BTreeMap<AttemptKey, Progress>,
    /// The attempts whose plan files are on the disk.
    pub(crate) files: BTreeSet<AttemptKey>,
    /// The attempts whose plan files were removed.
    pub(crate) removed_plans: BTreeSet<AttemptKey>,
    pub(crate) node_is_down: bool,
    /// Starts that a slow server makes later, by the simulated second.
    pub(crate) late: Vec<(u64, AttemptId)>,
    /// Reports that arrive after their process has ended.
    pub(crate) sent: Vec<SentReport>,
    pub(crate) elapsed: u64,
    pub(crate) random: fastrand::Rng,
    /// How often each fault happened that is not an operation.
    pub(crate) happened: BTreeMap<&'static str, u64>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            processes: Vec::new(),
            infrastructure: BTreeMap::new(),
            plans: BTreeMap::new(),
            configured: BTreeMap::new(),
            known: BTreeMap::new(),
            states: BTreeMap::new(),
            progress: BTreeMap::new(),
            files: BTreeSet::new(),
            removed_plans: BTreeSet::new(),
            node_is_down: false,
            late: Vec::new(),
            sent: Vec::new(),
            elapsed: 0,
            random: fastrand::Rng::with_seed(0),
            happened: BTreeMap::new(),
        }
    }
}

impl Machine {
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    pub(crate) fn start(&mut self, id: &AttemptId) {
        let (id, stage) = (id.clone(), Stage::Booting);
        self.processes.push(Process { id, stage, stop_requested: false, reported: None });
    }
}

/// Starts and finds processes on the machine.
#[derive(Debug, Default)]
pub(crate) struct SimulatedExecutor {
    pub(crate) machine: Mutex<Machine>,
}

impl Executor for SimulatedExecutor {
    async fn launch(
        &self,
        attempt: &AttemptId,
        _: &AttemptToken,
        _: std::time::Duration,
    ) -> Result<(), ExecutorError> {
        let mut machine = self.machine.lock().unwrap();
        if machine.node_is_down {
            machine.count("a start got no answer");
            return Err(ExecutorError("the node does not answer".to_owned()));
        }
        if machine.random.u8(..20) == 0 {
            machine.count("a process starts late");
            let at = machine.elapsed + machine.random.u64(..900);
            machine.late.push((at, attempt.clone()));
            return Err(ExecutorError("the server is slow".to_owned()));
        }
        machine.start(attempt);
        drop(machine);
        Ok(())
    }

    async fn stop(&self, attempt: &AttemptId) -> Result<(), ExecutorError> {
        let mut machine = self.machine.lock().unwrap();
        if machine.node_is_down {
            machine.count("a request to stop got no answer");
            return Err(ExecutorError("the node does not answer".to_owned()));
        }
        for process in machine.processes.iter_mut().filter(|process| process.id == *attempt) {
            process.stop_requested = true;
        }
        drop(machine);
        Ok(())
    }

    fn move_files(&self, from: &[LayerName], to: &LayerName) -> Result<(), ExecutorError> {
        let mut machine = self.machine.lock().unwrap();
        let new = local_state(to);
        for from in from.iter().filter(|from| *from != to) {
            if machine.random.u8(..8) == 0 {
                machine.count("files were not moved");
                return Err(ExecutorError("the disk does not answer".to_owned()));
            }
            let Some(state) = machine.infrastructure.remove(&local_state(from)) else { continue };
            let known = machine.infrastructure.get(&new);
            if known.is_some_and(|known| known.serial > 0) {
                machine.infrastructure.insert(local_state(from), state);
                return Err(ExecutorError(format!("{from} and {to} have a state")));
            }
            machine.infrastructure.insert(new.clone(), state);
            machine.count("a state was moved");
        }
        drop(machine);
        Ok(())
    }

    fn remove_plan(&self, attempt: &AttemptId) {
        let mut machine = self.machine.lock().unwrap();
        if machine.files.remove(&key_of(attempt)) {
            machine.count("a plan file was removed");
        }
        machine.removed_plans.insert(key_of(attempt));
    }

    async fn probe(&self, attempt: &AttemptId) -> Probe {
        let machine = self.machine.lock().unwrap();
        if machine.node_is_down {
            return Probe::Liveness(Liveness::Unknown);
        }
        // The newest one: a late start can have made two.
        let mut processes = machine.processes.iter().filter(|process| process.id == *attempt);
        if processes.clone().any(|process| !process.is_gone()) {
            return Probe::Liveness(Liveness::Alive);
        }
        match processes.next_back().map(|process| process.stage.clone()) {
            Some(Stage::Gone(Some(result))) => Probe::Ended(Box::new(result)),
            _ => Probe::Liveness(Liveness::Gone),
        }
    }

    fn place(&self) -> &'static str {
        "this machine"
    }
}
