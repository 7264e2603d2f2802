//! The store in a SQLite file.
//!
//! One thread owns the connection, and makes one transaction after the other; the server sends it
//! closures. A lock on a file beside the database keeps a second server away. The journal is
//! write-ahead, and each transaction is on the disk before its result is returned: the record of an
//! attempt must outlive a power cut that happens after the attempt was started.

mod backup;
mod error;
mod export;
mod schema;
mod tables;
#[cfg(test)]
pub(super) mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use butler_base::platform::room;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use tokio::sync::{oneshot, watch};

use self::error::FULL;
use self::tables::SqliteTables;
use super::database::{Access, Database};
use super::lock::{self, StoreLock};
use super::transaction::Tables;
use super::{Clock, StoreError, StoreResult};
use crate::metrics::TransactionDurations;
use crate::model::Moment;

pub(super) use backup::set_aside;
pub use backup::{backup, restore};
pub(super) use export::each_row;

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

    /// Lets the thread do this with its connection.
    async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // The answer is not read if the caller was dropped; the transaction counts.
            let _ = answer.send(work(connection));
        });
        let ended = || StoreError::Unavailable("its thread has ended".to_owned());
        let worker = self.worker.as_ref().ok_or_else(ended)?;
        worker.jobs.send(job).map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?.map_err(|error| at(&self.path, error))
    }
}

impl Database for SqliteStore {
    async fn transaction<T: Send + 'static>(
        &self,
        _: Access,
        work: impl FnOnce(&mut dyn Tables) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (clock, last) = (Arc::clone(&self.clock), self.last.clone());
        let durations = Arc::clone(&self.durations);
        self.on_thread(move |connection| {
            let (begun, changes) = (Instant::now(), connection.total_changes());
            let result = in_transaction(connection, clock(), &last, work);
            durations.observe(connection.total_changes() != changes, begun.elapsed());
            result
        })
        .await
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }
}

fn in_transaction<T>(
    connection: &mut Connection,
    now: Moment,
    last: &watch::Sender<u64>,
    work: impl FnOnce(&mut dyn Tables) -> StoreResult<T>,
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

/// The space of a page of the database, in bytes: nothing is written with less.
const PAGE: u64 = 4096;

/// `error` with the path of the store.
fn at(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Damaged { why, .. } => StoreError::Damaged { path: path.to_owned(), why },
        StoreError::Full(why) => StoreError::Full(format!("`{}`: {why}", path.display())),
        // Without room for its index, SQLite reports an error of the system only.
        StoreError::Unavailable(_) if room(path).is_some_and(|room| room.free < PAGE) => {
            StoreError::Full(format!("`{}`: {FULL}", path.display()))
        }
        StoreError::Unavailable(why) => {
            StoreError::Unavailable(format!("`{}`: {why}", path.display()))
        }
        error => error,
    }
}
