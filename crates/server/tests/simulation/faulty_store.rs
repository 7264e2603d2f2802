//! The store as a server sees it: it can be down, and the server can end at any write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use butler_follower::state::Record;
use butler_registry::TokenHash;
use butler_server::model::{
    Breaker, Closed, Commit, DeciderLease, Former, JournalEntry, LayerName, Moment, NewRun,
    Observation, OpenBreaker, PlanDigest, Run, RunId, Session, Sighting, StoredFollower, Unrelated,
    WindowOverride,
};
use butler_server::store::{
    AttemptId, AttemptResult, Cursors, Deciders, EventFilter, Followers, Keep, MemoryStore, Note,
    Outcome, Sessions, Snapshot, StartRequest, Store, StoreError, StoreResult,
};
use tokio::sync::watch;

/// When the server ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crash {
    /// How many writes are still made.
    pub(crate) writes: u32,
    /// Whether the last one is made.
    pub(crate) after: bool,
}

/// Faults of the store, and of the server that uses it.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) store_is_down: bool,
    pub(crate) crash: Option<Crash>,
    /// Whether the server has ended. It answers nothing more until it is started again.
    pub(crate) crashed: bool,
}

/// A store with faults.
pub(crate) struct FaultyStore {
    pub(crate) inner: MemoryStore,
    /// Milliseconds of the store's clock.
    pub(crate) clock: Arc<AtomicU64>,
    pub(crate) faults: Mutex<Faults>,
}

impl FaultyStore {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&clock);
        let tell = Arc::new(move || Moment::from_millis(told.load(Ordering::Relaxed)));
        Self { inner: MemoryStore::new(tell), clock, faults: Mutex::default() }
    }

    fn up(&self) -> StoreResult<()> {
        let faults = self.faults.lock().unwrap();
        if faults.store_is_down || faults.crashed {
            return Err(StoreError::Unavailable("down".to_owned()));
        }
        drop(faults);
        Ok(())
    }

    /// Makes a write, unless the server ends before or after it.
    async fn write<T>(&self, write: impl Future<Output = StoreResult<T>> + Send) -> StoreResult<T> {
        self.up()?;
        let is_made = {
            let mut faults = self.faults.lock().unwrap();
            match &mut faults.crash {
                Some(crash) if crash.writes == 0 => {
                    let is_made = crash.after;
                    faults.crashed = true;
                    faults.crash = None;
                    is_made
                }
                Some(crash) => {
                    crash.writes -= 1;
                    true
                }
                None => true,
            }
        };
        if !is_made {
            return Err(StoreError::Unavailable("the server ended".to_owned()));
        }
        let result = write.await;
        self.up()?;
        result
    }
}

impl Sessions for FaultyStore {
    async fn begin_session(&self, id: TokenHash, user: TokenHash) -> StoreResult<()> {
        self.write(self.inner.begin_session(id, user)).await
    }

    async fn use_session(&self, id: TokenHash) -> StoreResult<Option<Session>> {
        self.write(self.inner.use_session(id)).await
    }

    async fn session(&self, id: TokenHash) -> StoreResult<Option<Session>> {
        self.up()?;
        self.inner.session(id).await
    }

    async fn end_session(&self, id: TokenHash) -> StoreResult<()> {
        self.write(self.inner.end_session(id)).await
    }

    async fn prune_sessions(&self) -> StoreResult<()> {
        self.write(self.inner.prune_sessions()).await
    }
}

impl Cursors for FaultyStore {
    async fn cursor(&self, receiver: &str) -> StoreResult<u64> {
        self.write(self.inner.cursor(receiver)).await
    }

    async fn advance_cursor(&self, receiver: &str, sequence: u64) -> StoreResult<()> {
        self.write(self.inner.advance_cursor(receiver, sequence)).await
    }

    async fn retain_cursors(&self, receivers: &[String]) -> StoreResult<()> {
        self.write(self.inner.retain_cursors(receivers)).await
    }
}

impl Followers for FaultyStore {
    async fn clock(&self) -> StoreResult<Moment> {
        self.up()?;
        self.inner.clock().await
    }

    async fn follower(&self, id: &str) -> StoreResult<Option<StoredFollower>> {
        self.up()?;
        self.inner.follower(id).await
    }

    async fn followers(&self) -> StoreResult<Vec<StoredFollower>> {
        self.up()?;
        self.inner.followers().await
    }

    async fn write_follower(&self, version: u64, record: Record) -> StoreResult<Outcome> {
        self.write(self.inner.write_follower(version, record)).await
    }
}

impl Deciders for FaultyStore {
    async fn decide(&self, server: &str, lifetime: Duration) -> StoreResult<DeciderLease> {
        self.write(self.inner.decide(server, lifetime)).await
    }

    async fn resign(&self, server: &str) -> StoreResult<()> {
        self.write(self.inner.resign(server)).await
    }
}

impl Store for FaultyStore {
    async fn snapshot(
        &self,
        layer: &LayerName,
        state_key: &str,
        after: &[LayerName],
    ) -> StoreResult<Snapshot> {
        self.up()?;
        self.inner.snapshot(layer, state_key, after).await
    }

    async fn run(&self, run: &RunId) -> StoreResult<Option<(LayerName, Run)>> {
        self.up()?;
        self.inner.run(run).await
    }

    async fn history(
        &self,
        layer: &LayerName,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<Run>> {
        self.up()?;
        self.inner.history(layer, before, most).await
    }

    async fn newest_runs(
        &self,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<(LayerName, Run)>> {
        self.up()?;
        self.inner.newest_runs(before, most).await
    }

    async fn prune(&self, layer: &LayerName, keep: Keep) -> StoreResult<Vec<AttemptId>> {
        self.write(self.inner.prune(layer, keep)).await
    }

    async fn forget(&self, layer: &LayerName) -> StoreResult<Outcome> {
        self.write(self.inner.forget(layer)).await
    }

    async fn commits(&self) -> StoreResult<Vec<Commit>> {
        self.up()?;
        self.inner.commits().await
    }

    async fn busy(&self) -> StoreResult<Vec<LayerName>> {
        self.up()?;
        self.inner.busy().await
    }

    async fn layers(&self) -> StoreResult<Vec<LayerName>> {
        self.up()?;
        self.inner.layers().await
    }

    async fn readings(&self, repository: &str) -> StoreResult<u64> {
        self.up()?;
        self.inner.readings(repository).await
    }

    async fn observations(
        &self,
        layers: &[LayerName],
    ) -> StoreResult<BTreeMap<LayerName, Observation>> {
        self.up()?;
        self.inner.observations(layers).await
    }

    async fn observe(
        &self,
        repository: &str,
        readings: u64,
        sightings: &[(LayerName, Sighting)],
        unrelated: &[Unrelated],
    ) -> StoreResult<Outcome> {
        self.write(self.inner.observe(repository, readings, sightings, unrelated)).await
    }

    async fn insert_run(&self, layer: &LayerName, run: NewRun) -> StoreResult<Outcome> {
        self.write(self.inner.insert_run(layer, run)).await
    }

    async fn start_attempt(&self, request: StartRequest<'_>) -> StoreResult<Outcome> {
        self.write(self.inner.start_attempt(request)).await
    }

    async fn close_run(&self, layer: &LayerName, run: &RunId, why: Closed) -> StoreResult<Outcome> {
        self.write(self.inner.close_run(layer, run, why)).await
    }

    async fn note(&self, attempt: &AttemptId, note: Note) -> StoreResult<Outcome> {
        self.write(self.inner.note(attempt, note)).await
    }

    async fn finish(&self, attempt: &AttemptId, result: AttemptResult) -> StoreResult<Outcome> {
        self.write(self.inner.finish(attempt, result)).await
    }

    async fn approve(
        &self,
        layer: &LayerName,
        plan: &PlanDigest,
        by: &str,
    ) -> StoreResult<Outcome> {
        self.write(self.inner.approve(layer, plan, by)).await
    }

    async fn override_window(
        &self,
        layer: &LayerName,
        run: &RunId,
        given: WindowOverride,
    ) -> StoreResult<Outcome> {
        self.write(self.inner.override_window(layer, run, given)).await
    }

    async fn discard(
        &self,
        layer: &LayerName,
        plan: &PlanDigest,
        by: &str,
    ) -> StoreResult<Outcome> {
        self.write(self.inner.discard(layer, plan, by)).await
    }

    async fn former(&self, layer: &LayerName, formerly: &LayerName) -> StoreResult<Option<Former>> {
        self.up()?;
        self.inner.former(layer, formerly).await
    }

    async fn take_over(&self, layer: &LayerName, formerly: &LayerName) -> StoreResult<Outcome> {
        self.write(self.inner.take_over(layer, formerly)).await
    }

    async fn files_moved(&self, layer: &LayerName) -> StoreResult<Outcome> {
        self.write(self.inner.files_moved(layer)).await
    }

    async fn pause(&self, layer: &LayerName, by: Option<&str>) -> StoreResult<()> {
        self.write(self.inner.pause(layer, by)).await
    }

    async fn breaker(&self) -> StoreResult<Breaker> {
        self.up()?;
        self.inner.breaker().await
    }

    async fn open_breaker(&self) -> StoreResult<Option<OpenBreaker>> {
        self.up()?;
        self.inner.open_breaker().await
    }

    async fn reset_breaker(&self, by: &str) -> StoreResult<Outcome> {
        self.write(self.inner.reset_breaker(by)).await
    }

    async fn events(
        &self,
        after: Option<u64>,
        layer: Option<&LayerName>,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>> {
        self.up()?;
        self.inner.events(after, layer, limit).await
    }

    async fn newest_events(
        &self,
        before: u64,
        filter: &EventFilter,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>> {
        self.up()?;
        self.inner.newest_events(before, filter, limit).await
    }

    async fn prune_events(&self, older_than: Moment) -> StoreResult<()> {
        self.write(self.inner.prune_events(older_than)).await
    }

    fn journal(&self) -> watch::Receiver<u64> {
        self.inner.journal()
    }
}
