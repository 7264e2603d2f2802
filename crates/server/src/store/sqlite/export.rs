//! All rows of a store, to be moved.

use std::path::Path;

use rusqlite::Row;

use super::tables::{entry, json, last_event, layer, lease};
use super::{at, backup};
use crate::store::StoreResult;
use crate::store::stored_row::StoredRow;

/// Reads all rows of the store `path`, one after the other. Which server decides is left out.
///
/// # Errors
/// If it cannot be read, and those of `take`.
pub(in crate::store) fn each_row(
    path: &Path,
    mut take: impl FnMut(StoredRow) -> StoreResult<()>,
) -> StoreResult<()> {
    let connection = backup::read(path)?;
    let mut select =
        |statement: &str, read: fn(&Row<'_>) -> rusqlite::Result<StoredRow>| -> StoreResult<()> {
            let failed = |error: rusqlite::Error| at(path, error.into());
            let mut select = connection.prepare(statement).map_err(failed)?;
            let mut rows = select.query([]).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                take(read(row).map_err(failed)?)?;
            }
            Ok(())
        };
    select("SELECT name, facts FROM layers", |row| {
        Ok(StoredRow::Layer(layer(row, 0)?, Box::new(json(row, 1)?)))
    })?;
    select("SELECT layer, facts, state, is_read FROM runs ORDER BY position", |row| {
        Ok(StoredRow::Run(layer(row, 0)?, Box::new(json(row, 1)?), row.get(2)?, row.get(3)?))
    })?;
    select("SELECT layer, run, fence, state_key FROM leases", |row| {
        Ok(StoredRow::Lease(row.get(3)?, lease(row)?))
    })?;
    select("SELECT name, value FROM counters", |row| {
        Ok(StoredRow::Counter(row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
    })?;
    select("SELECT sequence, at, layer, change FROM events ORDER BY sequence", |row| {
        Ok(StoredRow::Event(entry(row)?))
    })?;
    // As JSON, in which hashes are read.
    select("SELECT json_quote(id), facts FROM sessions", |row| {
        Ok(StoredRow::Session(json(row, 0)?, json(row, 1)?))
    })?;
    select("SELECT name, cursor FROM receivers", |row| {
        Ok(StoredRow::Receiver(row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
    })?;
    select("SELECT facts FROM followers", |row| Ok(StoredRow::Follower(Box::new(json(row, 0)?))))?;
    let last = last_event(&connection).map_err(|error| at(path, error.into()))?;
    take(StoredRow::LastSequence(last))
}
