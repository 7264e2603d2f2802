//! How processes end early, and what they leave.

use butler_server::model::StopReason;
use butler_server::store::{AttemptId, Note, Outcome, Store};

use crate::executor::{SentReport, Stage};
use crate::faulty_store::Crash;
use crate::ops::{ChosenPlan, Op};
use crate::terraform::{Infrastructure, Progress};
use crate::world::{World, now};

/// What is left of a process that was killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    Nothing,
    /// Its result, on the disk.
    Result,
    /// A report that was sent. It arrives after this many seconds, and once more.
    Report {
        seconds: u64,
    },
}

impl Left {
    pub(crate) fn random(random: &mut fastrand::Rng) -> Self {
        match random.u8(..6) {
            0..3 => Self::Nothing,
            3..5 => Self::Result,
            _ => Self::Report { seconds: *random.choice(&[3, 60, 200, 900]).unwrap_or(&3) },
        }
    }
}

/// What happens to an apply that has made a part of its changes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Interruption {
    Kill(Left),
    /// A person cancels it.
    Cancel,
    /// Its time is up.
    Timeout,
}

impl Interruption {
    pub(crate) fn random(random: &mut fastrand::Rng) -> Self {
        match random.u8(..6) {
            0..3 => Self::Kill(Left::random(random)),
            3..5 => Self::Cancel,
            _ => Self::Timeout,
        }
    }
}

/// Most steps of five seconds until an apply has made a part of its changes.
const STEPS_TO_A_PART: usize = 12;

/// Most steps of thirty seconds until an apply runs.
const STEPS_TO_AN_APPLY: usize = 10;

impl World {
    /// Kills the process that is the `attempt`-th one that lives.
    pub(crate) fn kill(&mut self, attempt: usize, left: Left) {
        let living: Vec<usize> = {
            let machine = self.executor.machine.lock().unwrap();
            let processes = machine.processes.iter().enumerate();
            processes.filter(|(_, process)| !process.is_gone()).map(|(index, _)| index).collect()
        };
        if !living.is_empty() {
            self.kill_process(living[attempt % living.len()], left);
        }
    }

    pub(crate) fn kill_process(&mut self, index: usize, left: Left) {
        let process = self.executor.machine.lock().unwrap().processes[index].clone();
        let result = match (process.stage, left) {
            (_, Left::Nothing) => None,
            (Stage::Reporting(result), _) => Some(result),
            (Stage::Working(work), _) => Some(self.work(&process.id, &work)),
            _ => None,
        };
        if let Some(result) = &result {
            self.upload(&self.current(&process.id), result);
        }
        let progress = self.progress(&process.id);
        let mut machine = self.executor.machine.lock().unwrap();
        machine.count(match (&result, left) {
            (Some(_), Left::Report { .. }) => "a report was sent before a kill",
            (Some(_), _) => "a result was left",
            _ if progress.is_part() => "an apply was killed after a part",
            _ => "an attempt was killed",
        });
        let stays = match (result, left) {
            (Some(result), Left::Report { seconds }) => {
                for at in [machine.elapsed + seconds, machine.elapsed + 2 * seconds + 1] {
                    let (attempt, result) = (process.id.clone(), result.clone());
                    machine.sent.push(SentReport { at, attempt, result });
                }
                None
            }
            (result, _) => result,
        };
        machine.processes[index].stage = Stage::Gone(stays);
    }

    /// Reports arrive whose processes were killed after they had sent them.
    pub(crate) fn deliver_reports(&mut self) {
        if self.store.faults.lock().unwrap().store_is_down {
            return;
        }
        let due: Vec<SentReport> = {
            let mut machine = self.executor.machine.lock().unwrap();
            let elapsed = machine.elapsed;
            machine.sent.extract_if(.., |report| report.at <= elapsed).collect()
        };
        for SentReport { attempt, result, .. } in due {
            let taken = now(self.store.inner.finish(&self.current(&attempt), result)).unwrap()
                == Outcome::Made;
            let what = if taken { "a late report was taken" } else { "a late report was refused" };
            self.executor.machine.lock().unwrap().count(what);
        }
    }

    /// Lets time pass until an apply has made a part of its changes, and interrupts it then. The server can
    /// end at its next write. People approve plans of the layer until an apply runs.
    pub(crate) fn interrupt_apply(
        &mut self,
        layer: usize,
        how: Interruption,
        crash: Option<Crash>,
        reverts: bool,
    ) {
        for _ in 0..STEPS_TO_AN_APPLY {
            if self.running_apply().is_some() {
                break;
            }
            self.perform(&Op::Approve { layer, plan: ChosenPlan::Newest });
            self.pass();
            self.advance(30);
        }
        for _ in 0..STEPS_TO_A_PART {
            let Some((index, id, progress)) = self.running_apply() else { return };
            if !progress.is_part() {
                self.advance(5);
                continue;
            }
            if self.violation.is_some() {
                return;
            }
            if crash.is_some() {
                self.store.faults.lock().unwrap().crash = crash;
                self.executor.machine.lock().unwrap().count("the server ends during an apply");
            }
            match how {
                Interruption::Kill(left) => self.kill_process(index, left),
                Interruption::Cancel => self.cancel_attempt(&id),
                Interruption::Timeout => {
                    let run = self.run_of(&id);
                    let deadline = run.running().map(|attempt| attempt.deadline);
                    let left = deadline.unwrap_or_default().since(self.now());
                    self.clock = self.clock.saturating_add_unsigned(left.as_secs());
                    self.set_clock();
                    self.executor.machine.lock().unwrap().count("the time of an apply was up");
                }
            }
            if reverts {
                self.revert(&id);
            }
            self.pass();
            return;
        }
    }

    /// A commit brings back what an apply has not changed yet.
    fn revert(&mut self, id: &AttemptId) {
        let key = self.state_key(id);
        let unchanged = {
            let machine = self.executor.machine.lock().unwrap();
            machine.infrastructure.get(&key).and_then(Infrastructure::last).cloned()
        };
        if let Some(digest) = unchanged {
            self.commit_digest(self.index_of(&id.layer), digest);
            self.poll();
            self.executor.machine.lock().unwrap().count("an apply was interrupted and reverted");
        }
    }

    /// The first process of an apply that runs Terraform.
    fn running_apply(&self) -> Option<(usize, AttemptId, Progress)> {
        let working: Vec<(usize, AttemptId)> = {
            let machine = self.executor.machine.lock().unwrap();
            let processes = machine.processes.iter().enumerate();
            let working = processes.filter(|(_, process)| process.uses_state());
            working.map(|(index, process)| (index, process.id.clone())).collect()
        };
        let is_apply = |id: &AttemptId| self.run_of(id).action.changes_infrastructure();
        let (index, id) = working.into_iter().find(|(_, id)| is_apply(id))?;
        let progress = self.progress(&id);
        Some((index, id, progress))
    }

    /// A person cancels an apply.
    pub(crate) fn cancel_attempt(&mut self, attempt: &AttemptId) {
        let _ = now(self.store.note(attempt, Note::StopRequested(StopReason::Cancelled)));
        self.executor.machine.lock().unwrap().count("an apply was cancelled");
        self.restart();
    }
}
