//! What a database has to offer, and how it becomes a [`Store`].

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use butler_follower::state::Record;
use butler_registry::TokenHash;
use tokio::sync::watch;

use super::beside::{Cursors, Deciders, Followers, Sessions};
use super::tables as transactions;
use super::transaction::Tables;
use super::{
    AttemptId, AttemptResult, EventFilter, Keep, Note, Outcome, Snapshot, StartRequest, Store,
    StoreResult, breaker, cursor, decider, follower, rename, session,
};
use crate::model::{
    Breaker, Closed, Commit, DeciderLease, Former, JournalEntry, LayerName, Moment, NewRun,
    Observation, OpenBreaker, PlanDigest, Run, RunId, Session, Sighting, StoredFollower, Unrelated,
    WindowOverride,
};

/// What a transaction does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Access {
    /// It changes nothing.
    Read,
    /// It may write. No other transaction that writes is made at the same time, by any server: what it has read
    /// is still true when it ends.
    Write,
}

/// Makes transactions. Each one sees the state after all transactions that have ended before it began.
pub(super) trait Database: Send + Sync {
    /// Makes one transaction. If its work ends with an error, nothing is written. If the caller is dropped, the
    /// transaction counts.
    fn transaction<T: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&mut dyn Tables) -> StoreResult<T> + Send + 'static,
    ) -> impl Future<Output = StoreResult<T>> + Send;

    /// The sequence of the newest entry of the journal that can be read; 0 without one.
    fn newest(&self) -> watch::Receiver<u64>;
}

impl<D: Database> Sessions for D {
    async fn begin_session(&self, id: TokenHash, user: TokenHash) -> StoreResult<()> {
        self.transaction(Access::Write, move |tables| session::begin(tables, id, user)).await
    }

    async fn use_session(&self, id: TokenHash) -> StoreResult<Option<Session>> {
        self.transaction(Access::Write, move |tables| session::used(tables, id)).await
    }

    async fn session(&self, id: TokenHash) -> StoreResult<Option<Session>> {
        self.transaction(Access::Read, move |tables| session::find(tables, id)).await
    }

    async fn end_session(&self, id: TokenHash) -> StoreResult<()> {
        self.transaction(Access::Write, move |tables| tables.remove_session(id)).await
    }

    async fn prune_sessions(&self) -> StoreResult<()> {
        self.transaction(Access::Write, |tables| session::prune(tables)).await
    }
}

impl<D: Database> Cursors for D {
    async fn cursor(&self, receiver: &str) -> StoreResult<u64> {
        let receiver = receiver.to_owned();
        self.transaction(Access::Write, move |tables| cursor::cursor(tables, &receiver)).await
    }

    async fn advance_cursor(&self, receiver: &str, sequence: u64) -> StoreResult<()> {
        let receiver = receiver.to_owned();
        self.transaction(Access::Write, move |tables| cursor::advance(tables, &receiver, sequence))
            .await
    }

    async fn retain_cursors(&self, receivers: &[String]) -> StoreResult<()> {
        let receivers = receivers.to_vec();
        self.transaction(Access::Write, move |tables| cursor::retain(tables, &receivers)).await
    }
}

impl<D: Database> Followers for D {
    async fn clock(&self) -> StoreResult<Moment> {
        self.transaction(Access::Read, |tables| Ok(tables.now())).await
    }

    async fn follower(&self, id: &str) -> StoreResult<Option<StoredFollower>> {
        let id = id.to_owned();
        self.transaction(Access::Read, move |tables| tables.follower(&id)).await
    }

    async fn followers(&self) -> StoreResult<Vec<StoredFollower>> {
        self.transaction(Access::Read, |tables| tables.followers()).await
    }

    async fn write_follower(&self, version: u64, record: Record) -> StoreResult<Outcome> {
        self.transaction(Access::Write, move |tables| follower::write(tables, version, record))
            .await
    }
}

impl<D: Database> Deciders for D {
    async fn decide(&self, server: &str, lifetime: Duration) -> StoreResult<DeciderLease> {
        let server = server.to_owned();
        self.transaction(Access::Write, move |tables| decider::decide(tables, &server, lifetime))
            .await
    }

    async fn resign(&self, server: &str) -> StoreResult<()> {
        let server = server.to_owned();
        self.transaction(Access::Write, move |tables| decider::resign(tables, &server)).await
    }
}

impl<D: Database> Store for D {
    async fn snapshot(
        &self,
        layer: &LayerName,
        state_key: &str,
        after: &[LayerName],
    ) -> StoreResult<Snapshot> {
        let (layer, state_key, after) = (layer.clone(), state_key.to_owned(), after.to_vec());
        self.transaction(Access::Read, move |tables| {
            transactions::snapshot(tables, &layer, &state_key, &after)
        })
        .await
    }

    async fn run(&self, run: &RunId) -> StoreResult<Option<(LayerName, Run)>> {
        let run = run.clone();
        self.transaction(Access::Read, move |tables| tables.run(&run)).await
    }

    async fn history(
        &self,
        layer: &LayerName,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<Run>> {
        let (layer, before) = (layer.clone(), before.cloned());
        self.transaction(Access::Read, move |tables| tables.history(&layer, before.as_ref(), most))
            .await
    }

    async fn newest_runs(
        &self,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<(LayerName, Run)>> {
        let before = before.cloned();
        self.transaction(Access::Read, move |tables| tables.newest_runs(before.as_ref(), most))
            .await
    }

    async fn prune(&self, layer: &LayerName, keep: Keep) -> StoreResult<Vec<AttemptId>> {
        let layer = layer.clone();
        self.transaction(Access::Write, move |tables| transactions::prune(tables, &layer, keep))
            .await
    }

    async fn forget(&self, layer: &LayerName) -> StoreResult<Outcome> {
        let layer = layer.clone();
        self.transaction(Access::Write, move |tables| transactions::forget(tables, &layer)).await
    }

    async fn commits(&self) -> StoreResult<Vec<Commit>> {
        self.transaction(Access::Read, |tables| tables.commits()).await
    }

    async fn busy(&self) -> StoreResult<Vec<LayerName>> {
        self.transaction(Access::Read, |tables| tables.busy()).await
    }

    async fn layers(&self) -> StoreResult<Vec<LayerName>> {
        self.transaction(Access::Read, |tables| tables.layers()).await
    }

    async fn readings(&self, repository: &str) -> StoreResult<u64> {
        let repository = repository.to_owned();
        self.transaction(Access::Read, move |tables| transactions::readings(tables, &repository))
            .await
    }

    async fn observations(
        &self,
        layers: &[LayerName],
    ) -> StoreResult<BTreeMap<LayerName, Observation>> {
        let layers = layers.to_vec();
        self.transaction(Access::Read, move |tables| transactions::observations(tables, &layers))
            .await
    }

    async fn observe(
        &self,
        repository: &str,
        readings: u64,
        sightings: &[(LayerName, Sighting)],
        unrelated: &[Unrelated],
    ) -> StoreResult<Outcome> {
        let (repository, sightings) = (repository.to_owned(), sightings.to_vec());
        let unrelated = unrelated.to_vec();
        self.transaction(Access::Write, move |tables| {
            transactions::observe(tables, &repository, readings, &sightings, &unrelated)
        })
        .await
    }

    async fn insert_run(&self, layer: &LayerName, run: NewRun) -> StoreResult<Outcome> {
        let layer = layer.clone();
        self.transaction(Access::Write, move |tables| transactions::insert_run(tables, &layer, run))
            .await
    }

    async fn start_attempt(&self, request: StartRequest<'_>) -> StoreResult<Outcome> {
        let (attempt, state_key) = (request.attempt.clone(), request.state_key.to_owned());
        let (after, place) = (request.after.to_vec(), request.place.to_owned());
        let (concurrency, timeout) = (request.concurrency, request.timeout);
        let repository = request.repository.to_owned();
        let repository_concurrency = request.repository_concurrency;
        let (token, fence) = (*request.token, request.fence);
        self.transaction(Access::Write, move |tables| {
            let request = StartRequest {
                attempt: &attempt,
                state_key: &state_key,
                after: &after,
                concurrency,
                repository: &repository,
                repository_concurrency,
                timeout,
                place: &place,
                token: &token,
                fence,
            };
            transactions::start_attempt(tables, &request)
        })
        .await
    }

    async fn close_run(&self, layer: &LayerName, run: &RunId, why: Closed) -> StoreResult<Outcome> {
        let (layer, run) = (layer.clone(), run.clone());
        self.transaction(Access::Write, move |tables| {
            transactions::close_run(tables, &layer, &run, why)
        })
        .await
    }

    async fn note(&self, attempt: &AttemptId, note: Note) -> StoreResult<Outcome> {
        let attempt = attempt.clone();
        self.transaction(Access::Write, move |tables| transactions::note(tables, &attempt, note))
            .await
    }

    async fn finish(&self, attempt: &AttemptId, result: AttemptResult) -> StoreResult<Outcome> {
        let attempt = attempt.clone();
        self.transaction(Access::Write, move |tables| {
            transactions::finish(tables, &attempt, result)
        })
        .await
    }

    async fn approve(
        &self,
        layer: &LayerName,
        plan: &PlanDigest,
        by: &str,
    ) -> StoreResult<Outcome> {
        let (layer, plan, by) = (layer.clone(), plan.clone(), by.to_owned());
        self.transaction(Access::Write, move |tables| {
            transactions::approve(tables, &layer, &plan, &by)
        })
        .await
    }

    async fn override_window(
        &self,
        layer: &LayerName,
        run: &RunId,
        given: WindowOverride,
    ) -> StoreResult<Outcome> {
        let (layer, run) = (layer.clone(), run.clone());
        self.transaction(Access::Write, move |tables| {
            transactions::override_window(tables, &layer, &run, given)
        })
        .await
    }

    async fn discard(
        &self,
        layer: &LayerName,
        plan: &PlanDigest,
        by: &str,
    ) -> StoreResult<Outcome> {
        let (layer, plan, by) = (layer.clone(), plan.clone(), by.to_owned());
        self.transaction(Access::Write, move |tables| {
            transactions::discard(tables, &layer, &plan, &by)
        })
        .await
    }

    async fn former(&self, layer: &LayerName, formerly: &LayerName) -> StoreResult<Option<Former>> {
        let (layer, formerly) = (layer.clone(), formerly.clone());
        self.transaction(Access::Read, move |tables| rename::former(tables, &layer, &formerly))
            .await
    }

    async fn take_over(&self, layer: &LayerName, formerly: &LayerName) -> StoreResult<Outcome> {
        let (layer, formerly) = (layer.clone(), formerly.clone());
        self.transaction(Access::Write, move |tables| rename::take_over(tables, &layer, &formerly))
            .await
    }

    async fn files_moved(&self, layer: &LayerName) -> StoreResult<Outcome> {
        let layer = layer.clone();
        self.transaction(Access::Write, move |tables| rename::files_moved(tables, &layer)).await
    }

    async fn pause(&self, layer: &LayerName, by: Option<&str>) -> StoreResult<()> {
        let (layer, by) = (layer.clone(), by.map(str::to_owned));
        self.transaction(Access::Write, move |tables| {
            transactions::pause(tables, &layer, by.as_deref())
        })
        .await
    }

    async fn breaker(&self) -> StoreResult<Breaker> {
        self.transaction(Access::Read, |tables| breaker::breaker(tables)).await
    }

    async fn open_breaker(&self) -> StoreResult<Option<OpenBreaker>> {
        self.transaction(Access::Read, |tables| breaker::open_breaker(tables)).await
    }

    async fn reset_breaker(&self, by: &str) -> StoreResult<Outcome> {
        let by = by.to_owned();
        self.transaction(Access::Write, move |tables| breaker::reset_breaker(tables, &by)).await
    }

    async fn events(
        &self,
        after: Option<u64>,
        layer: Option<&LayerName>,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>> {
        let layer = layer.cloned();
        self.transaction(Access::Read, move |tables| tables.events(after, layer.as_ref(), limit))
            .await
    }

    async fn newest_events(
        &self,
        before: u64,
        filter: &EventFilter,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>> {
        let filter = filter.clone();
        self.transaction(Access::Read, move |tables| tables.newest_events(before, &filter, limit))
            .await
    }

    async fn prune_events(&self, older_than: Moment) -> StoreResult<()> {
        self.transaction(Access::Write, move |tables| tables.prune_events(older_than)).await
    }

    fn journal(&self) -> watch::Receiver<u64> {
        self.newest()
    }
}
