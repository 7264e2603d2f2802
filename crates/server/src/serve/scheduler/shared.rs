//! What a scheduler does if other servers share its store.

use super::Scheduler;
use super::news::{News, Shared};
use crate::controller::Executor;
use crate::decision::Step;
use crate::layers::LayerSource;
use crate::serve::leadership::Leadership;
use crate::store::{Snapshot, Store};

/// How many entries of the journal are read at once.
const ENTRIES: u32 = 500;

impl<S: Store, E: Executor> Scheduler<S, E> {
    /// Shares the store with other servers, of which one decides.
    pub(in crate::serve) fn share(&mut self, shared: Shared) {
        self.heard = *shared.journal.borrow();
        self.shared = Some(shared);
    }

    /// Whether this server decides.
    pub(super) fn leadership(&self) -> Leadership {
        let alone = Leadership::Decides(None);
        self.shared.as_ref().map_or(alone, |shared| *shared.leadership.borrow())
    }

    /// Whether this server makes a step. One that does not decide still looks after the attempts that it has started.
    pub(super) fn makes(&self, step: &Step) -> bool {
        let is_about_attempt =
            matches!(step, Step::Probe { .. } | Step::Stop { .. } | Step::EndAttempt { .. });
        is_about_attempt || self.leadership().decides()
    }

    /// Whether a step has to wait for this server to fetch its commit, which it does at once: another server has read the
    /// commit first, and the branch can have a newer one now.
    pub(super) fn waits_for_commit(
        &self,
        source: Option<&LayerSource>,
        snapshot: &Snapshot,
        step: &Step,
    ) -> bool {
        let (Some(_), Some(source), Step::Start { run, .. }) = (&self.shared, source, step) else {
            return false;
        };
        let repository = &source.configured.repository;
        let run = snapshot.facts.runs.iter().find(|known| known.id == *run);
        let waits = run.is_some_and(|run| {
            !self.executor.has_commit(repository, run.commit())
                && self.desired.wanted.want(repository, run.commit())
        });
        if waits {
            self.desired.request_poll(repository);
        }
        waits
    }

    pub(super) async fn hear(&mut self, news: News) {
        match news {
            News::Journal => self.hear_of_entries().await,
            News::Leadership => {
                if self.leadership().decides() {
                    // Attempts of the server that decided before.
                    if let Err(error) = self.find_attempts().await {
                        tracing::error!(%error, "cannot read which attempts run");
                    }
                }
                self.wake_all().await;
            }
        }
    }

    /// Looks at the layers of new entries, and at those that may wait for them.
    async fn hear_of_entries(&mut self) {
        loop {
            let entries = match self.store.events(Some(self.heard), None, ENTRIES).await {
                Ok(entries) => entries,
                Err(error) => {
                    tracing::error!(%error, "cannot read the journal");
                    return;
                }
            };
            let Some(last) = entries.last() else { return };
            self.heard = last.sequence;
            for entry in entries {
                self.changed(&entry.layer);
                self.wake_others(&entry.layer);
            }
        }
    }
}
