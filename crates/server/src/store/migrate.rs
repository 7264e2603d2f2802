//! Moves the facts of a server from SQLite to PostgreSQL.

use std::path::{Path, PathBuf};

use super::lock::StoreLock;
use super::postgres::{PostgresAddress, PostgresStore};
use super::sqlite::{self, SqliteStore};
use super::stored_row::StoredRow;
use super::{StoreError, StoreResult};
use crate::data::DataDirectory;
use crate::model::{THIS_MACHINE, as_job, server_of};

/// Names of files with this behind that of the store have facts that were moved.
const MIGRATED: &str = ".migrated-";

/// What was moved.
#[derive(Debug, Eq, PartialEq)]
pub struct Migrated {
    /// How many layers.
    pub layers: u64,
    /// How many runs.
    pub runs: u64,
    /// How many entries of the journal.
    pub events: u64,
    /// The new name of the SQLite file.
    pub kept: PathBuf,
}

/// Copies the facts of a data directory into an empty PostgreSQL database, in one transaction, and renames the SQLite
/// file, so that no server uses it by mistake.
///
/// # Errors
/// If a server uses one of the stores, the database is not empty, or one of them cannot be read or written. The
/// SQLite store has its name then, and the database is as it was.
pub async fn migrate(
    data: &DataDirectory,
    address: PostgresAddress,
    ca_bundle: Option<&Path>,
) -> StoreResult<Migrated> {
    let path = &data.store();
    let failed = |why: String| StoreError::Open { path: path.to_owned(), why };
    if !path.exists() {
        return Err(failed(
            "it does not exist; `--data` is the directory of the server".to_owned(),
        ));
    }
    // Checks it, and leads an older one to the schema of this version.
    drop(SqliteStore::open(path)?);
    let _lock = StoreLock::take(path)?;
    let target = PostgresStore::open(address, ca_bundle).await?;
    let server = data.server_name();
    let server =
        server.map_err(|error| failed(format!("it has no name of its server: {error}")))?;
    let source = path.clone();
    let mut migrated = Migrated { layers: 0, runs: 0, events: 0, kept: PathBuf::new() };
    migrated = target
        .import(move |insert| {
            sqlite::each_row(&source, |row| {
                let row = with_place(row, &server);
                match &row {
                    StoredRow::Layer(..) => migrated.layers += 1,
                    StoredRow::Run(..) => migrated.runs += 1,
                    StoredRow::Event(_) => migrated.events += 1,
                    _ => {}
                }
                insert(&row)
            })?;
            Ok(migrated)
        })
        .await?;
    let kept = sqlite::set_aside(path, MIGRATED).map_err(|error| {
        failed(format!("its facts are in the database now, but it cannot be renamed: {error}"))
    })?;
    Ok(Migrated { kept: kept.unwrap_or_default(), ..migrated })
}

/// Attempts that run are still looked for by the server that has started them.
fn with_place(row: StoredRow, server: &str) -> StoredRow {
    match row {
        StoredRow::Run(layer, mut run, state, is_read) => {
            for attempt in &mut run.attempts {
                if attempt.place == THIS_MACHINE {
                    server.clone_into(&mut attempt.place);
                } else if server_of(&attempt.place) == THIS_MACHINE {
                    attempt.place = as_job(server);
                }
            }
            StoredRow::Run(layer, run, state, is_read)
        }
        row => row,
    }
}

/// Refuses a data directory whose facts are in the other kind of store: a server that begins without them would plan
/// everything again, beside the server that has them.
pub(super) fn check_place(file: &Path, is_sqlite: bool) -> StoreResult<()> {
    let failed = |why: String| Err(StoreError::Open { path: file.to_owned(), why });
    let exists = file.metadata().is_ok_and(|file| file.len() > 0);
    if !is_sqlite && exists {
        return failed(
            "it has the facts of the server that used this data directory; move them with `butler-runner store \
             migrate`, or use another `--data`"
                .to_owned(),
        );
    }
    if is_sqlite
        && !exists
        && let Some(kept) = migrated(file)
    {
        return failed(format!(
            "its facts were moved to PostgreSQL; give the address with `--store`, or rename `{}` to use it again",
            kept.display()
        ));
    }
    Ok(())
}

/// The file whose facts were moved.
fn migrated(file: &Path) -> Option<PathBuf> {
    let prefix = format!("{}{MIGRATED}", file.file_name()?.to_str()?);
    let entries = std::fs::read_dir(file.parent()?).ok()?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_migrated = |path: &PathBuf| {
        path.file_name().is_some_and(|it| it.to_string_lossy().starts_with(&prefix))
    };
    paths.filter(is_migrated).max()
}

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
