//! What the journal tells about drift: each one once, and its end once.

use std::collections::{BTreeMap, BTreeSet};

use butler_server::model::{Cause, Facts, JournalKind, Revision, Run};
use butler_server::store::Store;

use crate::terraform::Infrastructure;
use crate::world::{World, now};

/// What was told.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    /// The last entry of the journal that was read.
    read: u64,
    /// The drift that was told last and has not ended.
    pub(crate) open: BTreeMap<usize, String>,
    found: BTreeSet<(usize, String)>,
    resolved: BTreeSet<(usize, String)>,
}

impl Alarms {
    fn hear(&mut self, layer: usize, what: JournalKind) -> Result<&'static str, String> {
        match what {
            JournalKind::DriftFound { difference } => {
                self.open.insert(layer, difference.clone());
                if !self.found.insert((layer, difference.clone())) && !comes_again(&difference) {
                    return Err(format!("drift {difference} of layer {layer} was told twice"));
                }
                Ok("drift was told")
            }
            JournalKind::DriftResolved => {
                let Some(ended) = self.open.remove(&layer) else {
                    return Err(format!("layer {layer} had no drift that could be resolved"));
                };
                if !self.resolved.insert((layer, ended.clone())) && !comes_again(&ended) {
                    return Err(format!(
                        "the end of drift {ended} of layer {layer} was told twice"
                    ));
                }
                Ok("drift was resolved")
            }
            _ => Ok(""),
        }
    }
}

/// Whether the same difference can be found again after its end: what a commit has accepted can be undone more than
/// once, and a layer with the same state can apply its own code each time.
fn comes_again(difference: &str) -> bool {
    ["undone ", "code of "].iter().any(|begin| difference.starts_with(begin))
}

impl World {
    /// Reads what is new in the journal.
    pub(crate) fn hear_alarms(&mut self) -> Result<(), String> {
        let read = Some(self.alarms.read);
        for entry in now(self.store.inner.events(read, None, u32::MAX)).unwrap() {
            self.alarms.read = entry.sequence;
            self.fates.hear(&entry)?;
            self.hear_breaker(&entry);
            let told = self.alarms.hear(self.index_of(&entry.layer), entry.change.what)?;
            if !told.is_empty() {
                self.executor.machine.lock().unwrap().count(told);
            }
        }
        Ok(())
    }

    /// Drift is repaired only if it was found, and if the layer says so.
    pub(crate) fn check_repair(&self, layer: usize, run: &Run) -> Result<(), String> {
        let Cause::Drift { run: check, .. } = &run.cause else { return Ok(()) };
        if self.kinds[layer].drift_repair != Some(true) || !self.checks_with_drift.contains(check) {
            return Err(format!("{} repairs what need not be repaired", run.id));
        }
        Ok(())
    }

    /// The drift that a check of what is applied would tell now.
    fn drift_of(facts: &Facts, applied: &Revision, found: &Infrastructure) -> Option<String> {
        if facts.state.is_some() && facts.state != found.version() {
            return found.difference_of_code(&applied.digest);
        }
        let told = found.told_drift();
        match &found.accepted {
            Some((code, number)) if *code == applied.digest => match told {
                Some(told) if told == *number => None,
                Some(told) => Some(told.to_string()),
                None => Some(format!("undone {number}")),
            },
            _ => told.map(|number| number.to_string()),
        }
    }

    /// What is told about each layer that was checked after its drift changed last is what the infrastructure
    /// is like.
    pub(crate) fn check_alarms(&self) -> Result<(), String> {
        for (layer, configured) in self.layers.iter().enumerate() {
            let name = &configured.layer.name;
            let key = &configured.state_key;
            // The layer that it shares its state with repairs it too.
            if self.layers.iter().filter(|other| other.state_key == *key).count() > 1 {
                continue;
            }
            let machine = self.executor.machine.lock().unwrap();
            let Some(infrastructure) = machine.infrastructure.get(key).cloned() else { continue };
            drop(machine);
            let runs = self.store.inner.runs(name);
            let is_checked = runs.iter().any(|run| {
                let is_new = |attempt: &butler_server::model::Attempt| {
                    attempt.created > infrastructure.drift_changed
                };
                run.action == butler_server::model::Action::Drift
                    && run.has_succeeded()
                    && run.attempts.last().is_some_and(is_new)
            });
            // After a failed apply, drift is resolved by what a person starts next.
            let facts = now(self.store.inner.snapshot(name, "", &[])).unwrap().facts;
            let Some(applied) = &facts.applied else { continue };
            let told = self.alarms.open.get(&layer);
            let truth = Self::drift_of(&facts, applied, &infrastructure);
            if is_checked && told != truth.as_ref() {
                return Err(format!("the drift of {name} is {truth:?}, and {told:?} was told"));
            }
        }
        Ok(())
    }
}
