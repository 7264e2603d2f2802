//! The store in a PostgreSQL database, which several servers can share.
//!
//! Transactions that write are made one after the other, of all servers, as in SQLite: each takes the same lock
//! first. So limits across layers are exact, entries of the journal become visible in their order, and two
//! servers that both believe to be the active one cannot do anything twice. Transactions that only read are made
//! beside them.

mod address;
mod error;
mod import;
mod listen;
mod schema;
mod tables;
#[cfg(test)]
pub(super) mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use butler_base::blocking::blocking;
use deadpool_postgres::{
    Client, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts,
};
use futures_util::future::try_join;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::listen::advance;
use self::tables::{PostgresTables, answered};
use super::database::{Access, Database};
use super::stored_row::StoredRow;
use super::transaction::Tables;
use super::{Clock, StoreError, StoreResult};
use crate::metrics::TransactionDurations;
use crate::model::Moment;

pub use self::address::{AddressError, PostgresAddress};

/// The most connections of one server for transactions. Two can write a second: the one that holds the lock, and
/// one that waits for it; the others read.
const CONNECTIONS: usize = 8;

/// How long a transaction waits for a connection.
const WAIT: Duration = Duration::from_secs(20);

/// Taken by each transaction that writes, until its end.
const LOCK: &str = "SELECT pg_advisory_xact_lock('butler_layers'::regclass::oid::bigint)";

/// The time, in milliseconds since 1970. One clock decides, whichever server asks.
const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Facts in a PostgreSQL database.
pub struct PostgresStore {
    address: PostgresAddress,
    pool: Pool,
    /// The clock of a test.
    clock: Option<Clock>,
    last: watch::Sender<u64>,
    durations: Arc<TransactionDurations>,
    /// Hears of the transactions of other servers, until the store is dropped.
    _listener: JoinSet<()>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "PostgresStore({})", self.address)
    }
}

impl PostgresStore {
    /// Connects to a database, and creates the tables if they do not exist, in the first schema of the search
    /// path. `ca_bundle` has certificates that are trusted beside those of the system.
    ///
    /// # Errors
    /// If the database cannot be reached or is read-only, or if a newer version has written it.
    pub async fn open(address: PostgresAddress, ca_bundle: Option<&Path>) -> StoreResult<Self> {
        Self::with_clock(address, ca_bundle, None).await
    }

    async fn with_clock(
        address: PostgresAddress,
        ca_bundle: Option<&Path>,
        clock: Option<Clock>,
    ) -> StoreResult<Self> {
        let tls = address.tls(ca_bundle)?;
        let recycling_method = RecyclingMethod::Fast;
        let config = ManagerConfig { recycling_method };
        let manager = Manager::from_config(address.config().clone(), tls.clone(), config);
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .timeouts(Timeouts { wait: Some(WAIT), create: Some(WAIT), recycle: Some(WAIT) })
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| address.failed(&error))?;
        let client = pool.get().await;
        let mut client = client.map_err(|error| error::of_first_connection(&address, error))?;
        let found = schema::migrate(&mut client).await;
        let found = found.map_err(|error| error::of_opening(&address, &error))?;
        drop(client);
        if found > schema::newest() {
            let path = address.to_string().into();
            return Err(StoreError::Newer { path, found, known: schema::newest() });
        }
        let (last, durations) = (watch::Sender::new(0), Arc::default());
        let mut listener = JoinSet::new();
        listener.spawn(listen::listen(address.config().clone(), tls, last.clone()));
        let store = Self { address, pool, clock, last, durations, _listener: listener };
        let newest = store.transaction(Access::Read, |tables| tables.last_sequence()).await?;
        advance(&store.last, newest);
        Ok(store)
    }

    /// How long transactions took, from the begin to the commit, with the time in which they wait for those of
    /// other servers.
    #[must_use]
    pub fn durations(&self) -> Arc<TransactionDurations> {
        Arc::clone(&self.durations)
    }

    /// Fills the tables, which must be empty, in one transaction: `work` passes on each row.
    ///
    /// # Errors
    /// If there are facts already, a server uses the database, or it does not answer; and those of `work`. Nothing is
    /// changed then.
    pub(super) async fn import<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn FnMut(&StoredRow) -> StoreResult<()>) -> StoreResult<T>
        + Send
        + 'static,
    ) -> StoreResult<T> {
        let address = self.address.to_string();
        let filled = self.transaction_of(Access::Write, move |tables| {
            if let Some(why) = tables.is_used()? {
                return Err(StoreError::Connect { address, why });
            }
            work(&mut |row| tables.insert(row))
        });
        filled.await
    }

    fn unavailable(&self, why: impl std::fmt::Display) -> StoreError {
        StoreError::Unavailable(format!("`{}`: {why}", self.address))
    }

    async fn transaction_of<T: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&mut PostgresTables<'_>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let client =
            self.pool.get().await.map_err(|error| self.unavailable(error::of_pool(error)))?;
        let (clock, last) = (self.clock.clone(), self.last.clone());
        let (durations, runtime) = (Arc::clone(&self.durations), Handle::current());
        let made = blocking(move |_| {
            let begun = Instant::now();
            let mut has_written = false;
            let made =
                in_transaction(&client, &runtime, access, clock, &last, &mut has_written, work);
            durations.observe(has_written, begun.elapsed());
            let rollback = async { Ok(client.batch_execute("ROLLBACK").await?) };
            if made.is_err() && answered(&runtime, rollback).is_err() {
                // It is not used again.
                drop(Object::take(client));
            }
            made
        });
        made.await.map_err(|error| match error {
            StoreError::Unavailable(why) => self.unavailable(why),
            StoreError::Full(why) => StoreError::Full(format!("`{}`: {why}", self.address)),
            error => error,
        })
    }
}

impl Database for PostgresStore {
    async fn transaction<T: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&mut dyn Tables) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.transaction_of(access, |tables| work(tables)).await
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }
}

fn in_transaction<T>(
    client: &Client,
    runtime: &Handle,
    access: Access,
    clock: Option<Clock>,
    last: &watch::Sender<u64>,
    has_written: &mut bool,
    work: impl FnOnce(&mut PostgresTables<'_>) -> StoreResult<T>,
) -> StoreResult<T> {
    let now = answered(runtime, begin(client, access))?;
    let now = clock.map_or(now, |clock| clock());
    let mut tables = PostgresTables { client, runtime, now, appended: None, has_written: false };
    let result = work(&mut tables);
    *has_written = tables.has_written;
    let (result, appended) = (result?, tables.appended);
    // Other servers are told when the transaction has ended, and only that there is something new.
    let end = if appended.is_some() { "NOTIFY butler_journal; COMMIT" } else { "COMMIT" };
    answered(runtime, async { Ok(client.batch_execute(end).await?) })?;
    if let Some(sequence) = appended {
        advance(last, sequence);
    }
    Ok(result)
}

/// Begins a transaction, and returns its time. The database is asked once: what follows does not wait for the
/// answer to what came before.
async fn begin(client: &Client, access: Access) -> StoreResult<Moment> {
    let now = client.prepare_cached(NOW).await?;
    let now = match access {
        Access::Read => {
            let begin = client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
            try_join(begin, client.query_one(&now, &[])).await?.1
        }
        Access::Write => {
            let lock = client.prepare_cached(LOCK).await?;
            let begin = client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
            let locked = try_join(begin, client.execute(&lock, &[]));
            try_join(locked, client.query_one(&now, &[])).await?.1
        }
    };
    Ok(Moment::from_millis(now.try_get::<_, i64>(0)?.unsigned_abs()))
}
