//! The store in a SQLite file.
//!
//! One thread owns the connection, and makes one transaction after the other; the server sends it
//! closures. A lock on a file beside the database keeps a second server away. The journal is
//! write-ahead, and each transaction is on the disk before its result is returned: the record of an
//! attempt must outlive a power cut that happens after the attempt was started.

mod backup;
mod error;
mod lock;
mod schema;
mod tables;
#[cfg(test)]
pub(super) mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use butler_registry::TokenHash;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use tokio::sync::{oneshot, watch};

use self::lock::StoreLock;
use self::tables::SqliteTables;
use super::beside::{Cursors, Sessions};
use super::cursor;
use super::rename;
use super::session;
use super::tables as transactions;
use super::transaction::Tables as _;
use super::{
    AttemptId, AttemptResult, Clock, EventFilter, Keep, Note, Outcome, Snapshot, StartRequest,
    Store, StoreError, StoreResult, breaker,
};
use crate::metrics::TransactionDurations;
use crate::model::{
    Breaker, Closed, Commit, Former, JournalEntry, LayerName, Moment, NewRun, OpenBreaker,
    PlanDigest, Run, RunId, Session, Sighting,
};

pub use backup::{backup, restore};

/// How long a transaction waits for a process that makes a backup.
const BUSY: Duration = Duration::from_secs(10);

/// What the thread does with its connection.
type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// Facts in a SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    /// `None` only while the store is dropped.
    worker: Option<Worker>,
    clock: Clock,
    /// The sequence of the last entry of the journal.
    last: watch::Sender<u64>,
    durations: Arc<TransactionDurations>,
}

/// The thread that owns the connection. It ends when the sender is dropped.
struct Worker {
    jobs: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
}

impl Drop for SqliteStore {
    /// Waits for the transactions that were begun. After that, the store can be opened again.
    fn drop(&mut self) {
        if let Some(Worker { jobs, thread }) = self.worker.take() {
            drop(jobs);
            // A panic of the thread was reported to the callers that it did not answer.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SqliteStore({})", self.path.display())
    }
}

impl SqliteStore {
    /// Opens the store in the file `path`, and creates it (mode 0600) if it does not exist. The
    /// directory must exist.
    ///
    /// # Errors
    /// If another server uses it, it cannot be opened, it is damaged, or a newer version has
    /// written it. The file is left as it is then.
    pub fn open(path: &Path) -> StoreResult<Self> {
        Self::with_clock(path, Arc::new(system_time))
    }

    /// Opens the store like [`SqliteStore::open`], with this clock.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn with_clock(path: &Path, clock: Clock) -> StoreResult<Self> {
        let lock = StoreLock::take(path)?;
        backup::check_before_use(path)?;
        let mut connection = connect(path)?;
        configure(&connection)
            .and_then(|()| schema::migrate(&mut connection))
            .map_err(|error| at(path, error.into()))?;
        let last = tables::last_event(&connection).map_err(|error| at(path, error.into()))?;
        let (jobs, queue) = mpsc::channel::<Job>();
        // The lock is freed after the connection is closed.
        let work = move || {
            for job in queue {
                job(&mut connection);
            }
            drop(connection);
            drop(lock);
        };
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(work)
            .map_err(|error| StoreError::Open { path: path.to_owned(), why: error.to_string() })?;
        Ok(Self {
            path: path.to_owned(),
            worker: Some(Worker { jobs, thread }),
            clock,
            last: watch::Sender::new(last),
            durations: Arc::default(),
        })
    }

    /// How long transactions took, from the begin to the commit. The time in which they wait for earlier ones
    /// of this server is not part of it.
    #[must_use]
    pub fn durations(&self) -> Arc<TransactionDurations> {
        Arc::clone(&self.durations)
    }

    /// Makes one transaction. If it refuses a change, nothing is written.
    async fn transaction<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteTables<'_>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (clock, last) = (Arc::clone(&self.clock), self.last.clone());
        let durations = Arc::clone(&self.durations);
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let (begun, changes) = (Instant::now(), connection.total_changes());
            let result = in_transaction(connection, clock(), &last, work);
            durations.observe(connection.total_changes() != changes, begun.elapsed());
            // The answer is not read if the caller was dropped; the transaction counts.
            let _ = answer.send(result);
        });
        let ended = || StoreError::Unavailable("its thread has ended".to_owned());
        let worker = self.worker.as_ref().ok_or_else(ended)?;
        worker.jobs.send(job).map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?.map_err(|error| at(&self.path, error))
    }
}

fn in_transaction<T>(
    connection: &mut Connection,
    now: Moment,
    last: &watch::Sender<u64>,
    work: impl FnOnce(&mut SqliteTables<'_>) -> StoreResult<T>,
) -> StoreResult<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut tables = SqliteTables { connection: &transaction, now, appended: None };
    let result = work(&mut tables)?;
    let appended = tables.appended;
    transaction.commit()?;
    if let Some(sequence) = appended {
        last.send_replace(sequence);
    }
    Ok(result)
}

fn system_time() -> Moment {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Opens the database; the file has mode 0600 from the beginning.
fn connect(path: &Path) -> StoreResult<Connection> {
    let failed = |why: String| StoreError::Open { path: path.to_owned(), why };
    lock::open_private(path).map_err(|error| failed(error.to_string()))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(|error| failed(error.to_string()))
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)
}

/// `error` with the path of the store.
fn at(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Damaged { why, .. } => StoreError::Damaged { path: path.to_owned(), why },
        StoreError::Unavailable(why) => {
            StoreError::Unavailable(format!("`{}`: {why}", path.display()))
        }
        error => error,
    }
}

impl Sessions for SqliteStore {
    async fn begin_session(&self, id: TokenHash, user: TokenHash) -> StoreResult<()> {
        self.transaction(move |tables| session::begin(tables, id, user)).await
    }

    async fn use_session(&self, id: TokenHash) -> StoreResult<Option<Session>> {
        self.transaction(move |tables| session::used(tables, id)).await
    }

    async fn session(&self, id: TokenHash) -> StoreResult<Option<Session>> {
        self.transaction(move |tables| session::find(tables, id)).await
    }

    async fn end_session(&self, id: TokenHash) -> StoreResult<()> {
        self.transaction(move |tables| tables.remove_session(id)).await
    }

    async fn prune_sessions(&self) -> StoreResult<()> {
        self.transaction(|tables| session::prune(tables)).await
    }
}

impl Cursors for SqliteStore {
    async fn cursor(&self, receiver: &str) -> StoreResult<u64> {
        let receiver = receiver.to_owned();
        self.transaction(move |tables| cursor::cursor(tables, &receiver)).await
    }

    async fn advance_cursor(&self, receiver: &str, sequence: u64) -> StoreResult<()> {
        let receiver = receiver.to_owned();
        self.transaction(move |tables| cursor::advance(tables, &receiver, sequence)).await
    }

    async fn retain_cursors(&self, receivers: &[String]) -> StoreResult<()> {
        let receivers = receivers.to_vec();
        self.transaction(move |tables| cursor::retain(tables, &receivers)).await
    }
}

impl Store for SqliteStore {
    async fn snapshot(
        &self,
        layer: &LayerName,
        state_key: &str,
        after: &[LayerName],
    ) -> StoreResult<Snapshot> {
        let (layer, state_key, after) = (layer.clone(), state_key.to_owned(), after.to_vec());
        self.transaction(move |tables| transactions::snapshot(tables, &layer, &state_key, &after))
            .await
    }

    async fn run(&self, run: &RunId) -> StoreResult<Option<(LayerName, Run)>> {
        let run = run.clone();
        self.transaction(move |tables| tables.run(&run)).await
    }

    async fn history(
        &self,
        layer: &LayerName,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<Run>> {
        let (layer, before) = (layer.clone(), before.cloned());
        self.transaction(move |tables| tables.history(&layer, before.as_ref(), most)).await
    }

    async fn newest_runs(
        &self,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<(LayerName, Run)>> {
        let before = before.cloned();
        self.transaction(move |tables| tables.newest_runs(before.as_ref(), most)).await
    }

    async fn prune(&self, layer: &LayerName, keep: Keep) -> StoreResult<Vec<AttemptId>> {
        let layer = layer.clone();
        self.transaction(move |tables| transactions::prune(tables, &layer, keep)).await
    }

    async fn commits(&self) -> StoreResult<Vec<Commit>> {
        self.transaction(|tables| tables.commits()).await
    }

    async fn busy(&self) -> StoreResult<Vec<LayerName>> {
        self.transaction(|tables| tables.busy()).await
    }

    async fn layers(&self) -> StoreResult<Vec<LayerName>> {
        self.transaction(|tables| tables.layers()).await
    }

    async fn readings(&self, repository: &str) -> StoreResult<u64> {
        let repository = repository.to_owned();
        self.transaction(move |tables| transactions::readings(tables, &repository)).await
    }

    async fn observe(
        &self,
        repository: &str,
        readings: u64,
        sightings: &[(LayerName, Sighting)],
    ) -> StoreResult<Outcome> {
        let (repository, sightings) = (repository.to_owned(), sightings.to_vec());
        self.transaction(move |tables| {
            transactions::observe(tables, &repository, readings, &sightings)
        })
        .await
    }

    async fn insert_run(&self, layer: &LayerName, run: NewRun) -> StoreResult<Outcome> {
        let layer = layer.clone();
        self.transaction(move |tables| transactions::insert_run(tables, &layer, run)).await
    }

    async fn start_attempt(&self, request: StartRequest<'_>) -> StoreResult<Outcome> {
        let (attempt, state_key) = (request.attempt.clone(), request.state_key.to_owned());
        let (after, place) = (request.after.to_vec(), request.place.to_owned());
        let (concurrency, timeout) = (request.concurrency, request.timeout);
        let repository = request.repository.to_owned();
        let repository_concurrency = request.repository_concurrency;
        let token = *request.token;
        self.transaction(move |tables| {
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
            };
            transactions::start_attempt(tables, &request)
        })
        .await
    }

    async fn close_run(&self, layer: &LayerName, run: &RunId, why: Closed) -> StoreResult<Outcome> {
        let (layer, run) = (layer.clone(), run.clone());
        self.transaction(move |tables| transactions::close_run(tables, &layer, &run, why)).await
    }

    async fn note(&self, attempt: &AttemptId, note: Note) -> StoreResult<Outcome> {
        let attempt = attempt.clone();
        self.transaction(move |tables| transactions::note(tables, &attempt, note)).await
    }

    async fn finish(&self, attempt: &AttemptId, result: AttemptResult) -> StoreResult<Outcome> {
        let attempt = attempt.clone();
        self.transaction(move |tables| transactions::finish(tables, &attempt, result)).await
    }

    async fn approve(
        &self,
        layer: &LayerName,
        plan: &PlanDigest,
        by: &str,
    ) -> StoreResult<Outcome> {
        let (layer, plan, by) = (layer.clone(), plan.clone(), by.to_owned());
        self.transaction(move |tables| transactions::approve(tables, &layer, &plan, &by)).await
    }

    async fn discard(
        &self,
        layer: &LayerName,
        plan: &PlanDigest,
        by: &str,
    ) -> StoreResult<Outcome> {
        let (layer, plan, by) = (layer.clone(), plan.clone(), by.to_owned());
        self.transaction(move |tables| transactions::discard(tables, &layer, &plan, &by)).await
    }

    async fn former(&self, layer: &LayerName, formerly: &LayerName) -> StoreResult<Option<Former>> {
        let (layer, formerly) = (layer.clone(), formerly.clone());
        self.transaction(move |tables| rename::former(tables, &layer, &formerly)).await
    }

    async fn take_over(&self, layer: &LayerName, formerly: &LayerName) -> StoreResult<Outcome> {
        let (layer, formerly) = (layer.clone(), formerly.clone());
        self.transaction(move |tables| rename::take_over(tables, &layer, &formerly)).await
    }

    async fn files_moved(&self, layer: &LayerName) -> StoreResult<Outcome> {
        let layer = layer.clone();
        self.transaction(move |tables| rename::files_moved(tables, &layer)).await
    }

    async fn pause(&self, layer: &LayerName, by: Option<&str>) -> StoreResult<()> {
        let (layer, by) = (layer.clone(), by.map(str::to_owned));
        self.transaction(move |tables| transactions::pause(tables, &layer, by.as_deref())).await
    }

    async fn breaker(&self) -> StoreResult<Breaker> {
        self.transaction(|tables| breaker::breaker(tables)).await
    }

    async fn open_breaker(&self) -> StoreResult<Option<OpenBreaker>> {
        self.transaction(|tables| breaker::open_breaker(tables)).await
    }

    async fn reset_breaker(&self, by: &str) -> StoreResult<Outcome> {
        let by = by.to_owned();
        self.transaction(move |tables| breaker::reset_breaker(tables, &by)).await
    }

    async fn events(
        &self,
        after: Option<u64>,
        layer: Option<&LayerName>,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>> {
        let layer = layer.cloned();
        self.transaction(move |tables| tables.events(after, layer.as_ref(), limit)).await
    }

    async fn newest_events(
        &self,
        before: u64,
        filter: &EventFilter,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>> {
        let filter = filter.clone();
        self.transaction(move |tables| tables.newest_events(before, &filter, limit)).await
    }

    async fn prune_events(&self, older_than: Moment) -> StoreResult<()> {
        self.transaction(move |tables| tables.prune_events(older_than)).await
    }

    fn journal(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }
}
