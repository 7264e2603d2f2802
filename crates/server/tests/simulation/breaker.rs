//! When automatic applies must be stopped: as soon as those of three layers have failed in a row.

use std::collections::BTreeSet;

use butler_server::model::{Action, Ending, JournalEntry, JournalKind, RunId, StopReason};
use butler_server::store::Store;

use crate::world::{World, now};

/// How many layers must fail.
const LAYERS: usize = 3;

/// What the journal has told about automatic applies.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// The layers that have failed since the last success, or since a person has reset the breaker.
    failed: BTreeSet<usize>,
    /// The applies that a person has approved.
    approved: BTreeSet<RunId>,
}

impl World {
    pub(crate) fn hear_breaker(&mut self, entry: &JournalEntry) {
        let layer = self.index_of(&entry.layer);
        match (&entry.change.run, &entry.change.what) {
            (_, JournalKind::BreakerReset { .. }) => self.row.failed.clear(),
            (Some(run), JournalKind::PlanApproved { .. }) => {
                self.row.approved.insert(run.clone());
            }
            (Some(run), JournalKind::AttemptEnded { ending }) if self.is_automatic(run) => {
                match ending {
                    Ending::Failed(_)
                    | Ending::Lost
                    | Ending::Job(_)
                    | Ending::Stopped(StopReason::TimedOut) => {
                        self.row.failed.insert(layer);
                    }
                    // Only a person closes the breaker.
                    Ending::Succeeded if self.row.failed.len() < LAYERS => self.row.failed.clear(),
                    Ending::Succeeded
                    | Ending::Stopped(_)
                    | Ending::StalePlan
                    | Ending::NeverStarted => {}
                }
            }
            _ => {}
        }
    }

    fn is_automatic(&self, run: &RunId) -> bool {
        let stored = now(self.store.inner.run(run)).unwrap().map(|(_, run)| run);
        let known = stored.or_else(|| self.removed.iter().find(|known| known.id == *run).cloned());
        known.is_some_and(|known| known.action == Action::Apply) && !self.row.approved.contains(run)
    }

    /// The breaker is open if and only if applies of enough layers have failed.
    pub(crate) fn check_breaker(&self) -> Result<(), String> {
        let (failed, is_open) = (&self.row.failed, self.is_breaker_open());
        if is_open != (failed.len() >= LAYERS) {
            return Err(format!(
                "applies of {failed:?} have failed, and the breaker is open: {is_open}"
            ));
        }
        Ok(())
    }
}
