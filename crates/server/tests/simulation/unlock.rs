//! Attempts whose fate is unknown, and the administrator who says that they do not run any more.

use butler_server::model::{Ending, Gate, Liveness, Phase};
use butler_server::store::{AttemptId, AttemptResult, Note, Outcome, Store};

use crate::interruptions::Left;
use crate::world::{World, now};

/// When the attempt sends its next request beside the one of the administrator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meanwhile {
    Nothing,
    /// After the server has read the facts.
    BeforeIsGone,
    /// After the server has recorded that the process is gone.
    BeforeEnd,
}

/// Half-minutes after which an attempt that cannot be found blocks its layer.
const ROUNDS_UNTIL_BLOCKED: usize = 26;

impl World {
    /// The machine does not answer until the fate of the layer's attempt is unknown for too long, if the
    /// administrator `waits` for that.
    pub(crate) fn unlock(&mut self, layer: usize, waits: bool, meanwhile: Meanwhile) {
        if self.attempt_of(layer).is_none() {
            return;
        }
        self.executor.machine.lock().unwrap().node_is_down = true;
        if waits {
            self.wait_until_blocked(layer);
        }
        self.force_unlock(layer, meanwhile);
        self.executor.machine.lock().unwrap().node_is_down = false;
    }

    /// The attempt of a layer that has not ended, and how often it has reported.
    fn attempt_of(&self, layer: usize) -> Option<(AttemptId, u32)> {
        self.names[layer].iter().find_map(|name| {
            let facts = now(self.store.snapshot(name, "", &[])).ok()?.facts;
            facts.runs.iter().find_map(|run| {
                let attempt = run.running()?;
                let (layer, run, number) = (name.clone(), run.id.clone(), attempt.number);
                Some((AttemptId { layer, run, number }, attempt.reports))
            })
        })
    }

    /// Invariant 5: an attempt that cannot be found blocks its layer, and the reason says what to do.
    fn wait_until_blocked(&mut self, layer: usize) {
        let Some((attempt, _)) = self.attempt_of(layer) else { return };
        let run = self.run_of(&attempt);
        // The clock was set back: its last report, or the last question about it, lies in the future.
        let is_early = run.running().is_none_or(|running| {
            let asked = running.probed.map(|(_, at)| at);
            running.heartbeat.max(asked.unwrap_or_default()) > self.now()
        });
        for _ in 0..ROUNDS_UNTIL_BLOCKED {
            self.advance(30);
            self.pass();
            if self.violation.is_some() {
                return;
            }
        }
        // It can have ended: it was known to be gone.
        if is_early || self.attempt_of(layer).is_none_or(|(running, _)| running != attempt) {
            return;
        }
        let configured = self.configured(layer).filter(|it| it.layer.name == attempt.layer);
        let decided = now(self.controller(layer).decide(&attempt.layer, configured));
        let Ok((_, decision)) = decided else { return };
        let advice = format!("layer unlock {} --force", attempt.layer);
        let says = |text: &str| text.contains(&advice);
        let is_told = decision.reasons.iter().any(|it| it.gate == Gate::Lease && says(&it.text));
        if decision.phase != Phase::Blocked || !is_told {
            self.violation = Some(format!("{attempt} cannot be found, and {decision:?}"));
        }
        self.executor.machine.lock().unwrap().count("the fate of an attempt was unknown");
    }

    /// As `POST /layers/NAME/unlock` with `force` does it (`api::unlock`).
    fn force_unlock(&mut self, layer: usize, meanwhile: Meanwhile) {
        let Some((id, reports)) = self.attempt_of(layer) else { return };
        // One that is heard of is not lost, whatever the administrator thinks.
        if matches!(meanwhile, Meanwhile::BeforeIsGone) {
            self.send_next(&id);
        } else {
            self.end_terraform(&id);
        }
        let gone = Note::Probed { liveness: Liveness::Gone, reports };
        let is_gone = now(self.store.note(&id, gone));
        if matches!(is_gone, Ok(Outcome::Made)) {
            if matches!(meanwhile, Meanwhile::BeforeEnd) {
                self.send_next(&id);
            }
            let lost = now(self.store.finish(&id, AttemptResult::ended(Ending::Lost)));
            if matches!(lost, Ok(Outcome::Made)) {
                self.executor.machine.lock().unwrap().count("a layer was unlocked");
                if self.run_of(&id).action.changes_infrastructure() {
                    self.unlocked.insert(layer);
                }
            }
        } else {
            self.executor.machine.lock().unwrap().count("an unlock was refused");
        }
        self.restart();
    }

    /// The administrator has made sure that the process does not run Terraform any more. It can still be there,
    /// with a report that the server has not answered.
    fn end_terraform(&mut self, id: &AttemptId) {
        let working = {
            let machine = self.executor.machine.lock().unwrap();
            machine.processes.iter().position(|it| it.id == *id && it.uses_state())
        };
        if let Some(index) = working {
            self.kill_process(index, Left::Nothing);
        }
    }

    /// The process of an attempt can reach the server for a moment.
    fn send_next(&mut self, id: &AttemptId) {
        let living = {
            let mut machine = self.executor.machine.lock().unwrap();
            machine.node_is_down = false;
            machine.processes.iter().position(|it| it.id == *id && !it.is_gone())
        };
        if let Some(index) = living {
            self.go_on(index);
        }
        self.executor.machine.lock().unwrap().node_is_down = true;
    }
}
