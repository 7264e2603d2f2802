//! The store of a server, whichever database has it.

use std::path::{Path, PathBuf};
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
        #[expect(dead_code, reason = "held until it is dropped")] Arc<StoreLock>,
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
        StoreOpening::new(place, file)?.open(ca_bundle).await
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

/// A store that is being opened. The data directory belongs to it, also while its database is away.
#[derive(Debug)]
pub struct StoreOpening {
    file: PathBuf,
    /// The database with its lock, unless it is the file.
    postgres: Option<(Box<PostgresAddress>, Arc<StoreLock>)>,
}

impl StoreOpening {
    /// Takes the data directory for the store, which is not opened yet.
    ///
    /// # Errors
    /// If another server uses the directory, or its facts are in the other database.
    pub fn new(place: StorePlace, file: &Path) -> StoreResult<Self> {
        check_place(file, matches!(place, StorePlace::Sqlite))?;
        let postgres = match place {
            StorePlace::Sqlite => None,
            StorePlace::Postgres(address) => Some((address, Arc::new(StoreLock::take(file)?))),
        };
        Ok(Self { file: file.to_owned(), postgres })
    }

    /// Opens the store. It can be tried again.
    ///
    /// # Errors
    /// As [`SqliteStore::open`] and [`PostgresStore::open`].
    pub async fn open(&self, ca_bundle: Option<&Path>) -> StoreResult<AnyStore> {
        Ok(AnyStore(match &self.postgres {
            None => Kind::Sqlite(SqliteStore::open(&self.file)?),
            Some((address, lock)) => {
                let store = PostgresStore::open((**address).clone(), ca_bundle).await?;
                Kind::Postgres(Box::new(store), Arc::clone(lock))
            }
        }))
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
