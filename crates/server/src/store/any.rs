//! The store of a server, whichever database has it.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use super::StoreResult;
use super::database::{Access, Database};
use super::lock::StoreLock;
use super::migrate::check_place;
use super::postgres::{PostgresAddress, PostgresStore};
use super::sqlite::SqliteStore;
use super::transaction::Tables;
use crate::metrics::TransactionDurations;

/// Which database has the facts.
#[derive(Clone, Debug)]
pub enum StorePlace {
    /// A file in the data directory.
    Sqlite,
    /// A PostgreSQL database, which several servers can share.
    Postgres(Box<PostgresAddress>),
}

/// Facts in one of the databases.
#[derive(Debug)]
pub struct AnyStore(Kind);

#[derive(Debug)]
enum Kind {
    Sqlite(SqliteStore),
    /// The lock keeps a second server away from the data directory.
    Postgres(
        Box<PostgresStore>,
        #[expect(dead_code, reason = "held until it is dropped")] StoreLock,
    ),
}

impl AnyStore {
    /// Opens a store, and creates it if it does not exist. `file` is where SQLite has its own; `ca_bundle` has
    /// certificates that are trusted beside those of the system.
    ///
    /// # Errors
    /// As [`SqliteStore::open`] and [`PostgresStore::open`].
    pub async fn open(
        place: StorePlace,
        file: &Path,
        ca_bundle: Option<&Path>,
    ) -> StoreResult<Self> {
        check_place(file, matches!(place, StorePlace::Sqlite))?;
        Ok(Self(match place {
            StorePlace::Sqlite => Kind::Sqlite(SqliteStore::open(file)?),
            StorePlace::Postgres(address) => {
                let lock = StoreLock::take(file)?;
                let store = PostgresStore::open(*address, ca_bundle).await?;
                Kind::Postgres(Box::new(store), lock)
            }
        }))
    }

    /// Whether other servers can use it.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self.0, Kind::Postgres(..))
    }

    /// How long its transactions took.
    #[must_use]
    pub fn durations(&self) -> Arc<TransactionDurations> {
        match &self.0 {
            Kind::Sqlite(store) => store.durations(),
            Kind::Postgres(store, _) => store.durations(),
        }
    }
}

impl Database for AnyStore {
    async fn transaction<T: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&mut dyn Tables) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        match &self.0 {
            Kind::Sqlite(store) => store.transaction(access, work).await,
            Kind::Postgres(store, _) => store.transaction(access, work).await,
        }
    }

    fn newest(&self) -> watch::Receiver<u64> {
        match &self.0 {
            Kind::Sqlite(store) => store.newest(),
            Kind::Postgres(store, _) => store.newest(),
        }
    }
}
