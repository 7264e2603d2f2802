//! A store in memory, for simulations and tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use butler_registry::TokenHash;
use tokio::sync::watch;

use super::database::{Access, Database};
use super::needs::RunState;
use super::record::Record;
use super::transaction::Tables;
use super::{Clock, EventFilter, Running, RunningCount, StoreResult};
use crate::model::{
    Action, Commit, DeciderLease, JournalChange, JournalEntry, LayerName, Lease, Moment, Run,
    RunId, Session, StoredFollower,
};

/// Facts in memory.
pub struct MemoryStore {
    clock: Clock,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// The time of the transaction.
    now: Moment,
    /// With all runs.
    layers: BTreeMap<LayerName, Record>,
    /// The order in which runs were inserted.
    order: Vec<RunId>,
    /// By the identity of the state.
    leases: BTreeMap<String, Lease>,
    counters: BTreeMap<String, u64>,
    sessions: Vec<(TokenHash, Session)>,
    /// The cursors of receivers of notifications.
    receivers: BTreeMap<String, u64>,
    /// By id.
    followers: BTreeMap<String, StoredFollower>,
    decider: Option<DeciderLease>,
    journal: Vec<JournalEntry>,
    /// The sequence of the last entry of the journal.
    last: watch::Sender<u64>,
    /// How often a record was written.
    writes: u64,
}

impl Tables for Memory {
    fn now(&self) -> Moment {
        self.now
    }

    fn record(&mut self, layer: &LayerName) -> StoreResult<Record> {
        let Some(all) = self.layers.get_mut(layer) else { return Ok(Record::default()) };
        let read = all.needs().filter(|(_, need)| need.is_read).map(|(run, _)| run.clone());
        let read = read.collect();
        // The other runs are not copied, because simulations spend most of their time here.
        let runs = std::mem::take(&mut all.runs);
        let record = Record { runs: read, ..all.clone() };
        all.runs = runs;
        Ok(record)
    }

    fn write(&mut self, layer: &LayerName, _: &Record, after: &Record) -> StoreResult<()> {
        self.writes += 1;
        let known = self.layers.entry(layer.clone()).or_default();
        let mut runs = std::mem::take(&mut known.runs);
        *known = after.clone();
        for run in std::mem::take(&mut known.runs) {
            if let Some(known) = runs.iter_mut().find(|known| known.id == run.id) {
                *known = run;
            } else {
                self.order.push(run.id.clone());
                runs.push(run);
            }
        }
        known.runs = runs;
        Ok(())
    }

    fn run(&mut self, run: &RunId) -> StoreResult<Option<(LayerName, Run)>> {
        let runs = self
            .layers
            .iter()
            .flat_map(|(layer, record)| record.runs.iter().map(move |run| (layer, run)));
        let mut found = runs.filter(|(_, known)| known.id == *run);
        Ok(found.next().map(|(layer, run)| (layer.clone(), run.clone())))
    }

    fn history(
        &mut self,
        layer: &LayerName,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<Run>> {
        let runs = self.layers.get(layer).map(|record| record.runs.as_slice()).unwrap_or_default();
        let end = before.and_then(|before| runs.iter().position(|run| run.id == *before));
        let older = &runs[..end.unwrap_or(runs.len())];
        Ok(older.iter().rev().take(most as usize).cloned().collect())
    }

    fn newest_runs(
        &mut self,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<(LayerName, Run)>> {
        let end = before.and_then(|before| self.order.iter().position(|id| id == before));
        let older = self.order[..end.unwrap_or(self.order.len())].to_vec();
        let newest = older.iter().rev().take(most as usize);
        newest.filter_map(|id| self.run(id).transpose()).collect()
    }

    fn remove_run(&mut self, layer: &LayerName, run: &RunId) -> StoreResult<()> {
        if let Some(record) = self.layers.get_mut(layer) {
            self.writes += 1;
            record.runs.retain(|known| known.id != *run);
            self.order.retain(|known| known != run);
        }
        Ok(())
    }

    fn rename(&mut self, from: &LayerName, to: &LayerName) -> StoreResult<()> {
        if let Some(record) = self.layers.remove(from) {
            self.writes += 1;
            self.layers.insert(to.clone(), record);
        }
        Ok(())
    }

    fn forget(&mut self, layer: &LayerName) -> StoreResult<()> {
        if let Some(record) = self.layers.remove(layer) {
            self.writes += 1;
            self.order.retain(|id| record.runs.iter().all(|run| run.id != *id));
        }
        Ok(())
    }

    fn commits(&mut self) -> StoreResult<Vec<Commit>> {
        let mut commits = BTreeSet::new();
        for record in self.layers.values() {
            let unfinished = record.needs().filter(|(_, need)| need.state != RunState::Over);
            let unfinished = unfinished.map(|(run, _)| run.commit());
            commits.extend(record.commits().chain(unfinished).cloned());
        }
        Ok(commits.into_iter().collect())
    }

    fn busy(&mut self) -> StoreResult<Vec<LayerName>> {
        let busy = self
            .layers
            .iter()
            .filter(|(_, record)| record.runs.iter().any(|run| run.running().is_some()));
        Ok(busy.map(|(layer, _)| layer.clone()).collect())
    }

    fn layers(&mut self) -> StoreResult<Vec<LayerName>> {
        Ok(self.layers.keys().cloned().collect())
    }

    fn lease(&mut self, state_key: &str) -> StoreResult<Option<Lease>> {
        Ok(self.leases.get(state_key).cloned())
    }

    fn insert_lease(&mut self, state_key: &str, lease: &Lease) -> StoreResult<()> {
        self.leases.insert(state_key.to_owned(), lease.clone());
        Ok(())
    }

    fn remove_lease(&mut self, lease: &Lease) -> StoreResult<()> {
        self.leases.retain(|_, known| known != lease);
        Ok(())
    }

    fn running(&mut self) -> StoreResult<Running> {
        let mut running = Running::default();
        for run in self.layers.values().flat_map(|record| &record.runs) {
            let Some(attempt) = run.running() else { continue };
            let drift = u32::from(run.action == Action::Drift);
            running.add(&attempt.repository, RunningCount { attempts: 1, drift });
        }
        Ok(running)
    }

    fn counter(&mut self, name: &str) -> StoreResult<u64> {
        Ok(self.counters.get(name).copied().unwrap_or_default())
    }

    fn count(&mut self, name: &str) -> StoreResult<()> {
        *self.counters.entry(name.to_owned()).or_default() += 1;
        Ok(())
    }

    fn clear(&mut self, name: &str) -> StoreResult<()> {
        self.counters.remove(name);
        Ok(())
    }

    fn session(&mut self, id: TokenHash) -> StoreResult<Option<Session>> {
        let mut sessions = self.sessions.iter();
        Ok(sessions.find(|(known, _)| *known == id).map(|(_, session)| *session))
    }

    fn sessions(&mut self) -> StoreResult<Vec<(TokenHash, Session)>> {
        Ok(self.sessions.clone())
    }

    fn write_session(&mut self, id: TokenHash, session: Session) -> StoreResult<()> {
        self.remove_session(id)?;
        self.sessions.push((id, session));
        Ok(())
    }

    fn remove_session(&mut self, id: TokenHash) -> StoreResult<()> {
        self.sessions.retain(|(known, _)| *known != id);
        Ok(())
    }

    fn receiver(&mut self, name: &str) -> StoreResult<Option<u64>> {
        Ok(self.receivers.get(name).copied())
    }

    fn receivers(&mut self) -> StoreResult<Vec<String>> {
        Ok(self.receivers.keys().cloned().collect())
    }

    fn write_receiver(&mut self, name: &str, cursor: u64) -> StoreResult<()> {
        self.receivers.insert(name.to_owned(), cursor);
        Ok(())
    }

    fn remove_receiver(&mut self, name: &str) -> StoreResult<()> {
        self.receivers.remove(name);
        Ok(())
    }

    fn follower(&mut self, id: &str) -> StoreResult<Option<StoredFollower>> {
        Ok(self.followers.get(id).cloned())
    }

    fn followers(&mut self) -> StoreResult<Vec<StoredFollower>> {
        Ok(self.followers.values().cloned().collect())
    }

    fn write_follower(&mut self, follower: &StoredFollower) -> StoreResult<()> {
        self.followers.insert(follower.record.follower.clone(), follower.clone());
        Ok(())
    }

    fn decider(&mut self) -> StoreResult<Option<DeciderLease>> {
        Ok(self.decider.clone())
    }

    fn write_decider(&mut self, lease: &DeciderLease) -> StoreResult<()> {
        self.decider = Some(lease.clone());
        Ok(())
    }

    fn last_sequence(&mut self) -> StoreResult<u64> {
        Ok(*self.last.borrow())
    }

    fn events(
        &mut self,
        after: Option<u64>,
        layer: Option<&LayerName>,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>> {
        let is_read = |entry: &JournalEntry| after.is_some_and(|after| entry.sequence <= after);
        let entries = self.journal[self.journal.partition_point(is_read)..].iter();
        let asked = entries.filter(|entry| layer.is_none_or(|layer| entry.layer == *layer));
        Ok(asked.take(limit as usize).cloned().collect())
    }

    fn newest_events(
        &mut self,
        before: u64,
        filter: &EventFilter,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>> {
        let is_asked = |entry: &&JournalEntry| {
            entry.sequence < before
                && filter.layer.as_ref().is_none_or(|layer| entry.layer == *layer)
                && (!filter.only_drift || entry.change.what.is_drift())
        };
        Ok(self.journal.iter().rev().filter(is_asked).take(limit as usize).cloned().collect())
    }

    fn prune_events(&mut self, older_than: Moment) -> StoreResult<()> {
        self.journal.retain(|entry| entry.at >= older_than);
        Ok(())
    }

    fn append(&mut self, layer: &LayerName, change: JournalChange) -> StoreResult<()> {
        let (sequence, at) = (*self.last.borrow() + 1, self.now);
        self.journal.push(JournalEntry { sequence, at, layer: layer.clone(), change });
        // A reader waits for the end of the transaction.
        self.last.send_replace(sequence);
        Ok(())
    }
}

impl MemoryStore {
    /// An empty store with this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, memory: Mutex::default() }
    }

    /// Begins a transaction.
    fn tables(&self) -> MutexGuard<'_, Memory> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.now = (self.clock)();
        memory
    }

    /// How often the facts of a layer were written.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.tables().writes
    }

    /// The runs of a layer, the oldest first.
    #[must_use]
    pub fn runs(&self, layer: &LayerName) -> Vec<Run> {
        self.tables().layers.get(layer).map(|record| record.runs.clone()).unwrap_or_default()
    }
}

impl Database for MemoryStore {
    async fn transaction<T: Send + 'static>(
        &self,
        _: Access,
        work: impl FnOnce(&mut dyn Tables) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        work(&mut *self.tables())
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.tables().last.subscribe()
    }
}
