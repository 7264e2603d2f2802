//! What became of each attempt: it ends once, frees its lease, and an apply that has changed something
//! is never repeated.

use std::collections::BTreeMap;

use butler_server::model::{
    Attempt, ChangeCounts, Ending, JournalEntry, JournalKind, LayerName, Lease, Run, RunId,
};
use butler_server::store::{AttemptId, Store};

use crate::world::{World, now};

/// What the journal tells about the attempts of each run, the first one first.
#[derive(Debug, Default)]
pub(crate) struct Fates(BTreeMap<RunId, Vec<Fate>>);

#[derive(Debug, Default)]
struct Fate {
    has_started: bool,
    has_begun: bool,
    ending: Option<Ending>,
    /// How it ended and what it has changed, as was seen in the store first.
    recorded: Option<(Ending, Option<ChangeCounts>)>,
}

impl Fates {
    pub(crate) fn hear(&mut self, entry: &JournalEntry) -> Result<(), String> {
        let (Some(run), Some(number)) = (&entry.change.run, entry.change.attempt) else {
            return Ok(());
        };
        let fates = self.0.entry(run.clone()).or_default();
        let index = number as usize - 1;
        if index >= fates.len() {
            fates.resize_with(index + 1, Fate::default);
        }
        let fate = &mut fates[index];
        let is_second = match entry.change.what {
            JournalKind::AttemptStarted => std::mem::replace(&mut fate.has_started, true),
            JournalKind::ApplyBegan => std::mem::replace(&mut fate.has_begun, true),
            JournalKind::AttemptEnded { ending } => fate.ending.replace(ending).is_some(),
            _ => false,
        };
        if is_second {
            return Err(format!("attempt {number} of run {run}: {:?} twice", entry.change.what));
        }
        Ok(())
    }

    /// What is recorded of an attempt is what the journal tells, and stays.
    fn check(&mut self, run: &Run, attempt: &Attempt) -> Result<(), String> {
        let fates = self.0.get_mut(&run.id);
        let fate = fates.and_then(|fates| fates.get_mut(attempt.number as usize - 1));
        let Some(fate) = fate else {
            return Err(format!("the journal does not know {attempt:?} of run {}", run.id));
        };
        let ending = attempt.end.map(|(ending, _)| ending);
        let is_same = fate.has_started
            && ending == fate.ending
            && ending.is_none_or(|ending| {
                let recorded = (ending, attempt.applied);
                *fate.recorded.get_or_insert(recorded) == recorded
            });
        if !is_same {
            return Err(format!("run {} has {attempt:?}, and the journal told {fate:?}", run.id));
        }
        Ok(())
    }
}

impl World {
    /// Invariant 4 of the attempts of a run.
    pub(crate) fn check_fates(&mut self, name: &LayerName, run: &Run) -> Result<(), String> {
        for attempt in &run.attempts {
            self.fates.check(run, attempt)?;
            if run.action.changes_infrastructure() {
                let (layer, number) = (name.clone(), attempt.number);
                self.check_apply(&AttemptId { layer, run: run.id.clone(), number }, run, attempt)?;
            }
        }
        Ok(())
    }

    /// An apply that has changed something is known to have begun, and is not repeated. What it reports to have
    /// changed is true.
    fn check_apply(&self, id: &AttemptId, run: &Run, attempt: &Attempt) -> Result<(), String> {
        let changed = self.progress(id).changed;
        if changed > 0 && !attempt.began {
            return Err(format!("attempt {id} has changed {changed} resources before it began"));
        }
        let is_last = attempt.number as usize == run.attempts.len();
        if !is_last && (changed > 0 || matches!(attempt.end, Some((Ending::Lost, _)))) {
            return Err(format!("attempt {id} may have changed something, and was repeated"));
        }
        let (Some(applied), Some(file)) = (attempt.applied, self.applied_file(run)) else {
            return Ok(());
        };
        let planned = file.counts(crate::terraform::RESOURCES);
        let is_within = applied.add <= planned.add
            && applied.change <= planned.change
            && applied.destroy <= planned.destroy;
        if !is_within || applied != file.counts(changed) {
            return Err(format!(
                "attempt {id} has made {changed} changes, and {applied:?} of {planned:?} is recorded"
            ));
        }
        Ok(())
    }

    /// Invariant 1 in the store: the attempts without an end have the leases of their states, and no others have.
    pub(crate) fn check_leases(&self, running: &[Lease]) -> Result<(), String> {
        let mut leases = Vec::new();
        for layer in 0..self.layers.len() {
            for key in self.state_keys(layer) {
                let snapshot =
                    now(self.store.inner.snapshot(&self.name(layer), &key, &[])).unwrap();
                leases.extend(snapshot.facts.lease);
            }
        }
        if let Some(lease) = leases.iter().find(|lease| !running.contains(lease)) {
            return Err(format!("a lease is left: {lease:?}"));
        }
        if let Some(lease) = running.iter().find(|lease| !leases.contains(lease)) {
            return Err(format!("an attempt runs without a lease: {lease:?}"));
        }
        Ok(())
    }
}

/// The lease that the attempt of a run without an end has.
pub(crate) fn lease_of(layer: &LayerName, run: &Run) -> Option<Lease> {
    let fence = run.running()?.number;
    Some(Lease { layer: layer.clone(), run: run.id.clone(), fence })
}
