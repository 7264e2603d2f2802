//! The tables of SQLite. Facts are JSON; columns are only what is searched for.

use butler_registry::TokenHash;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::{
    Commit, DeciderLease, JournalChange, JournalEntry, LayerName, Lease, Moment, Run, RunId,
    Session, StoredFollower,
};
use crate::store::needs::Need;
use crate::store::record::Record;
use crate::store::transaction::Tables;
use crate::store::{EventFilter, Running, RunningCount, StoreError, StoreResult};

/// The runs of a record.
pub(super) const RUNS_THAT_ARE_READ: &str =
    "SELECT facts FROM runs WHERE layer = ? AND is_read ORDER BY position";

/// The commits that may be needed.
pub(super) const COMMITS: &str = "
    SELECT facts ->> '$.observation.sighting.Found.commit' AS found FROM layers
    WHERE found IS NOT NULL
    UNION
    SELECT facts ->> '$.applied[0].commit' AS applied FROM layers WHERE applied IS NOT NULL
    UNION
    SELECT facts ->> '$.revision.commit' FROM runs WHERE state <> 'over'
    ORDER BY 1";

/// The layers that have an attempt without an end.
pub(super) const BUSY: &str = "SELECT DISTINCT layer FROM runs WHERE state = 'running'";

/// How many attempts of each repository run, and how many of these are checks for drift. Attempts of
/// earlier versions have no repository.
pub(super) const RUNNING: &str = "
    SELECT coalesce(facts ->> '$.attempts[#-1].repository', '') AS repository,
        count(*), sum(action = 'drift')
    FROM runs WHERE state = 'running' GROUP BY repository";

/// Entries of the journal.
const EVENTS: &str = "SELECT sequence, at, layer, change FROM events WHERE sequence > ?1
    ORDER BY sequence LIMIT ?2";

/// Entries of the journal about one layer.
const EVENTS_OF_LAYER: &str = "SELECT sequence, at, layer, change FROM events
    WHERE layer = ?3 AND sequence > ?1 ORDER BY sequence LIMIT ?2";

/// The newest entries of the journal. The words about drift are those of its index.
pub(super) fn newest_events(filter: &EventFilter) -> String {
    let layer = if filter.layer.is_some() { "layer = ?3" } else { "?3 IS NULL" };
    let drift = if filter.only_drift {
        " AND change ->> '$.kind' IN ('drift-found', 'drift-resolved')"
    } else {
        ""
    };
    format!(
        "SELECT sequence, at, layer, change FROM events WHERE sequence < ?1 AND {layer}{drift}
         ORDER BY sequence DESC LIMIT ?2"
    )
}

/// One transaction.
pub(super) struct SqliteTables<'a> {
    pub(super) connection: &'a Connection,
    pub(super) now: Moment,
    /// The sequence of the last entry that the transaction appended to the journal.
    pub(super) appended: Option<u64>,
}

/// The sequence of the last entry of the journal, also if it was removed.
pub(super) fn last_event(connection: &Connection) -> rusqlite::Result<u64> {
    let last = "SELECT seq FROM sqlite_sequence WHERE name = 'events'";
    let last: Option<i64> = connection.query_row(last, [], |row| row.get(0)).optional()?;
    Ok(last.unwrap_or_default().unsigned_abs())
}

impl Tables for SqliteTables<'_> {
    fn now(&self) -> Moment {
        self.now
    }

    fn record(&mut self, layer: &LayerName) -> StoreResult<Record> {
        let mut select =
            self.connection.prepare_cached("SELECT facts FROM layers WHERE name = ?")?;
        let known: Option<Record> =
            select.query_row([layer.as_str()], |row| json(row, 0)).optional()?;
        let Some(mut record) = known else { return Ok(Record::default()) };
        let mut select = self.connection.prepare_cached(RUNS_THAT_ARE_READ)?;
        let rows = select.query_map([layer.as_str()], |row| json(row, 0))?;
        record.runs = rows.collect::<rusqlite::Result<_>>()?;
        Ok(record)
    }

    fn write(&mut self, layer: &LayerName, before: &Record, after: &Record) -> StoreResult<()> {
        let facts = text(after)?;
        if text(before)? != facts {
            let mut upsert = self.connection.prepare_cached(
                "INSERT INTO layers (name, facts) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET facts = ?2",
            )?;
            upsert.execute(params![layer.as_str(), facts])?;
        }
        let known: Vec<(&Run, Need)> = before.needs().collect();
        for (run, need) in after.needs() {
            let known = known.iter().find(|(known, _)| known.id == run.id);
            let statement = match known {
                Some(known) if *known == (run, need) => continue,
                Some(_) => {
                    "UPDATE runs SET state = :state, is_read = :is_read, facts = :facts
                     WHERE id = :id"
                }
                None => {
                    "INSERT INTO runs (id, position, layer, change, action, state, is_read, facts)
                     VALUES (
                         :id, (SELECT coalesce(max(position), 0) + 1 FROM runs), :layer, :change,
                         :action, :state, :is_read, :facts
                     )"
                }
            };
            let mut statement = self.connection.prepare_cached(statement)?;
            let (id, facts) = (run.id.as_str(), text(run)?);
            let (state, is_read) = (need.state.as_str(), need.is_read);
            if known.is_some() {
                statement.execute(named_params! {
                    ":id": id, ":state": state, ":is_read": is_read, ":facts": facts,
                })?;
            } else {
                statement.execute(named_params! {
                    ":id": id,
                    ":layer": layer.as_str(),
                    ":change": signed(run.change),
                    ":action": run.action.as_str(),
                    ":state": state,
                    ":is_read": is_read,
                    ":facts": facts,
                })?;
            }
        }
        Ok(())
    }

    fn run(&mut self, run: &RunId) -> StoreResult<Option<(LayerName, Run)>> {
        let mut select =
            self.connection.prepare_cached("SELECT layer, facts FROM runs WHERE id = ?")?;
        let found = select.query_row([run.as_str()], |row| Ok((layer(row, 0)?, json(row, 1)?)));
        Ok(found.optional()?)
    }

    fn history(
        &mut self,
        layer: &LayerName,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<Run>> {
        let mut select = self.connection.prepare_cached(
            "SELECT facts FROM runs WHERE layer = :layer AND position < coalesce(
                 (SELECT position FROM runs WHERE id = :before), 9223372036854775807
             ) ORDER BY position DESC LIMIT :most",
        )?;
        let before = before.map(RunId::as_str);
        let runs = select.query_map(
            named_params! { ":layer": layer.as_str(), ":before": before, ":most": most },
            |row| json(row, 0),
        )?;
        Ok(runs.collect::<rusqlite::Result<_>>()?)
    }

    fn newest_runs(
        &mut self,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<(LayerName, Run)>> {
        let mut select = self.connection.prepare_cached(
            "SELECT layer, facts FROM runs WHERE position < coalesce(
                 (SELECT position FROM runs WHERE id = :before), 9223372036854775807
             ) ORDER BY position DESC LIMIT :most",
        )?;
        let before = before.map(RunId::as_str);
        let runs = select.query_map(named_params! { ":before": before, ":most": most }, |row| {
            Ok((layer(row, 0)?, json(row, 1)?))
        })?;
        Ok(runs.collect::<rusqlite::Result<_>>()?)
    }

    fn remove_run(&mut self, _: &LayerName, run: &RunId) -> StoreResult<()> {
        let mut delete = self.connection.prepare_cached("DELETE FROM runs WHERE id = ?")?;
        delete.execute([run.as_str()])?;
        Ok(())
    }

    fn rename(&mut self, from: &LayerName, to: &LayerName) -> StoreResult<()> {
        let names = params![from.as_str(), to.as_str()];
        // Runs refer to their layer, so it exists before they do.
        for statement in [
            "INSERT INTO layers (name, facts) SELECT ?2, facts FROM layers WHERE name = ?1
             ON CONFLICT (name) DO UPDATE SET facts = excluded.facts",
            "UPDATE runs SET layer = ?2 WHERE layer = ?1",
        ] {
            self.connection.prepare_cached(statement)?.execute(names)?;
        }
        let mut delete = self.connection.prepare_cached("DELETE FROM layers WHERE name = ?")?;
        delete.execute([from.as_str()])?;
        Ok(())
    }

    fn forget(&mut self, layer: &LayerName) -> StoreResult<()> {
        for statement in ["DELETE FROM runs WHERE layer = ?", "DELETE FROM layers WHERE name = ?"] {
            self.connection.prepare_cached(statement)?.execute([layer.as_str()])?;
        }
        Ok(())
    }

    fn commits(&mut self) -> StoreResult<Vec<Commit>> {
        let mut select = self.connection.prepare_cached(COMMITS)?;
        let commits = select.query_map([], |row| Ok(Commit::new(row.get::<_, String>(0)?)))?;
        Ok(commits.collect::<rusqlite::Result<_>>()?)
    }

    fn busy(&mut self) -> StoreResult<Vec<LayerName>> {
        let mut select = self.connection.prepare_cached(BUSY)?;
        let layers = select.query_map([], |row| layer(row, 0))?;
        Ok(layers.collect::<rusqlite::Result<_>>()?)
    }

    fn layers(&mut self) -> StoreResult<Vec<LayerName>> {
        let mut select = self.connection.prepare_cached("SELECT name FROM layers ORDER BY name")?;
        let layers = select.query_map([], |row| layer(row, 0))?;
        Ok(layers.collect::<rusqlite::Result<_>>()?)
    }

    fn lease(&mut self, state_key: &str) -> StoreResult<Option<Lease>> {
        let mut select = self
            .connection
            .prepare_cached("SELECT layer, run, fence FROM leases WHERE state_key = ?")?;
        Ok(select.query_row([state_key], lease).optional()?)
    }

    fn insert_lease(&mut self, state_key: &str, lease: &Lease) -> StoreResult<()> {
        let Lease { layer, run, fence } = lease;
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO leases (state_key, layer, run, fence) VALUES (?, ?, ?, ?)",
        )?;
        insert.execute(params![state_key, layer.as_str(), run.as_str(), fence])?;
        Ok(())
    }

    fn remove_lease(&mut self, lease: &Lease) -> StoreResult<()> {
        let mut delete = self
            .connection
            .prepare_cached("DELETE FROM leases WHERE layer = ? AND run = ? AND fence = ?")?;
        delete.execute(params![lease.layer.as_str(), lease.run.as_str(), lease.fence])?;
        Ok(())
    }

    fn running(&mut self) -> StoreResult<Running> {
        let mut select = self.connection.prepare_cached(RUNNING)?;
        let mut rows = select.query([])?;
        let mut running = Running::default();
        while let Some(row) = rows.next()? {
            let repository: String = row.get(0)?;
            let count = RunningCount { attempts: row.get(1)?, drift: row.get(2)? };
            running.add(&repository, count);
        }
        Ok(running)
    }

    fn counter(&mut self, name: &str) -> StoreResult<u64> {
        let mut select =
            self.connection.prepare_cached("SELECT value FROM counters WHERE name = ?")?;
        let value: Option<i64> = select.query_row([name], |row| row.get(0)).optional()?;
        Ok(value.unwrap_or_default().unsigned_abs())
    }

    fn count(&mut self, name: &str) -> StoreResult<()> {
        let mut upsert = self.connection.prepare_cached(
            "INSERT INTO counters (name, value) VALUES (?, 1)
             ON CONFLICT (name) DO UPDATE SET value = value + 1",
        )?;
        upsert.execute([name])?;
        Ok(())
    }

    fn clear(&mut self, name: &str) -> StoreResult<()> {
        let mut delete = self.connection.prepare_cached("DELETE FROM counters WHERE name = ?")?;
        delete.execute([name])?;
        Ok(())
    }

    fn session(&mut self, id: TokenHash) -> StoreResult<Option<Session>> {
        let mut select =
            self.connection.prepare_cached("SELECT facts FROM sessions WHERE id = ?")?;
        Ok(select.query_row([id.to_string()], |row| json(row, 0)).optional()?)
    }

    fn sessions(&mut self) -> StoreResult<Vec<(TokenHash, Session)>> {
        // As JSON, in which hashes are read.
        let mut select =
            self.connection.prepare_cached("SELECT json_quote(id), facts FROM sessions")?;
        let rows = select.query_map([], |row| Ok((json(row, 0)?, json(row, 1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn write_session(&mut self, id: TokenHash, session: Session) -> StoreResult<()> {
        let mut upsert = self.connection.prepare_cached(
            "INSERT INTO sessions (id, facts) VALUES (?1, ?2)
             ON CONFLICT (id) DO UPDATE SET facts = ?2",
        )?;
        upsert.execute(params![id.to_string(), text(&session)?])?;
        Ok(())
    }

    fn remove_session(&mut self, id: TokenHash) -> StoreResult<()> {
        let mut delete = self.connection.prepare_cached("DELETE FROM sessions WHERE id = ?")?;
        delete.execute([id.to_string()])?;
        Ok(())
    }

    fn receiver(&mut self, name: &str) -> StoreResult<Option<u64>> {
        let mut select =
            self.connection.prepare_cached("SELECT cursor FROM receivers WHERE name = ?")?;
        let cursor: Option<i64> = select.query_row([name], |row| row.get(0)).optional()?;
        Ok(cursor.map(i64::unsigned_abs))
    }

    fn receivers(&mut self) -> StoreResult<Vec<String>> {
        let mut select = self.connection.prepare_cached("SELECT name FROM receivers")?;
        let names = select.query_map([], |row| row.get(0))?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    }

    fn write_receiver(&mut self, name: &str, cursor: u64) -> StoreResult<()> {
        let mut upsert = self.connection.prepare_cached(
            "INSERT INTO receivers (name, cursor) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET cursor = ?2",
        )?;
        upsert.execute(params![name, signed(cursor)])?;
        Ok(())
    }

    fn remove_receiver(&mut self, name: &str) -> StoreResult<()> {
        let mut delete = self.connection.prepare_cached("DELETE FROM receivers WHERE name = ?")?;
        delete.execute([name])?;
        Ok(())
    }

    fn follower(&mut self, id: &str) -> StoreResult<Option<StoredFollower>> {
        let mut select =
            self.connection.prepare_cached("SELECT facts FROM followers WHERE id = ?")?;
        Ok(select.query_row([id], |row| json(row, 0)).optional()?)
    }

    fn followers(&mut self) -> StoreResult<Vec<StoredFollower>> {
        let mut select =
            self.connection.prepare_cached("SELECT facts FROM followers ORDER BY id")?;
        let all = select.query_map([], |row| json(row, 0))?;
        Ok(all.collect::<rusqlite::Result<_>>()?)
    }

    fn write_follower(&mut self, follower: &StoredFollower) -> StoreResult<()> {
        let mut upsert = self.connection.prepare_cached(
            "INSERT INTO followers (id, facts) VALUES (?1, ?2)
             ON CONFLICT (id) DO UPDATE SET facts = ?2",
        )?;
        upsert.execute(params![follower.record.follower, text(follower)?])?;
        Ok(())
    }

    fn decider(&mut self) -> StoreResult<Option<DeciderLease>> {
        let mut select = self.connection.prepare_cached("SELECT facts FROM decider")?;
        Ok(select.query_row([], |row| json(row, 0)).optional()?)
    }

    fn write_decider(&mut self, lease: &DeciderLease) -> StoreResult<()> {
        let mut upsert = self.connection.prepare_cached(
            "INSERT INTO decider (id, facts) VALUES (1, ?1)
             ON CONFLICT (id) DO UPDATE SET facts = ?1",
        )?;
        upsert.execute([text(lease)?])?;
        Ok(())
    }

    fn last_sequence(&mut self) -> StoreResult<u64> {
        Ok(last_event(self.connection)?)
    }

    fn events(
        &mut self,
        after: Option<u64>,
        layer_name: Option<&LayerName>,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>> {
        let statement = if layer_name.is_some() { EVENTS_OF_LAYER } else { EVENTS };
        let mut select = self.connection.prepare_cached(statement)?;
        let after = signed(after.unwrap_or_default());
        let rows = match layer_name {
            Some(name) => select.query_map(params![after, limit, name.as_str()], entry)?,
            None => select.query_map(params![after, limit], entry)?,
        };
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn newest_events(
        &mut self,
        before: u64,
        filter: &EventFilter,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>> {
        let mut select = self.connection.prepare_cached(&self::newest_events(filter))?;
        let layer = filter.layer.as_ref().map(LayerName::as_str);
        let rows = select.query_map(params![signed(before), limit, layer], entry)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn prune_events(&mut self, older_than: Moment) -> StoreResult<()> {
        let mut delete = self.connection.prepare_cached("DELETE FROM events WHERE at < ?")?;
        delete.execute([signed(older_than.as_millis())])?;
        Ok(())
    }

    fn append(&mut self, layer: &LayerName, change: JournalChange) -> StoreResult<()> {
        let mut insert = self
            .connection
            .prepare_cached("INSERT INTO events (at, layer, change) VALUES (?, ?, ?)")?;
        let at = signed(self.now.as_millis());
        insert.execute(params![at, layer.as_str(), text(&change)?])?;
        self.appended = Some(self.connection.last_insert_rowid().unsigned_abs());
        Ok(())
    }
}

/// Reads an entry of the journal.
pub(super) fn entry(row: &Row<'_>) -> rusqlite::Result<JournalEntry> {
    let sequence = row.get::<_, i64>(0)?.unsigned_abs();
    let at = Moment::from_millis(row.get::<_, i64>(1)?.unsigned_abs());
    Ok(JournalEntry { sequence, at, layer: layer(row, 2)?, change: json(row, 3)? })
}

pub(super) fn lease(row: &Row<'_>) -> rusqlite::Result<Lease> {
    let layer = layer(row, 0)?;
    let run = RunId::new(row.get::<_, String>(1)?);
    Ok(Lease { layer, run, fence: row.get(2)? })
}

/// Reads a column with the name of a layer.
pub(super) fn layer(row: &Row<'_>, column: usize) -> rusqlite::Result<LayerName> {
    LayerName::try_from(row.get::<_, String>(column)?).map_err(|error| invalid(column, error))
}

/// Reads a column with JSON.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| invalid(column, error))
}

fn invalid(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

fn text(facts: &impl Serialize) -> StoreResult<String> {
    serde_json::to_string(facts).map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// SQLite has signed numbers only. None of ours is near the limit.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
