//! The tables of PostgreSQL. Facts are JSON; columns are only what is searched for.

use std::future::Future;
use std::time::Duration;

use butler_registry::TokenHash;
use deadpool_postgres::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::error::unreadable;
use crate::model::{
    Commit, DeciderLease, JournalChange, JournalEntry, LayerName, Lease, Moment, Run, RunId,
    Session, StoredFollower,
};
use crate::store::needs::Need;
use crate::store::record::Record;
use crate::store::transaction::Tables;
use crate::store::{EventFilter, Running, RunningCount, StoreError, StoreResult};

/// How long a statement may take, also if the database does not answer at all. Its own limit is shorter.
const ANSWER: Duration = Duration::from_secs(40);

/// The counter of the journal's entries.
pub(super) const JOURNAL: &str = "journal";

/// The value of a counter.
pub(super) const COUNTER: &str = "SELECT value FROM butler_counters WHERE name = $1";

/// One transaction. Its methods wait for their statements, so it is used on a thread that may block.
pub(super) struct PostgresTables<'a> {
    pub(super) client: &'a Client,
    pub(super) runtime: &'a Handle,
    pub(super) now: Moment,
    /// The sequence of the last entry that the transaction appended to the journal.
    pub(super) appended: Option<u64>,
    /// Whether a statement has written something.
    pub(super) has_written: bool,
}

type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

impl PostgresTables<'_> {
    fn query(&self, statement: &str, parameters: Parameters<'_>) -> StoreResult<Vec<Row>> {
        answered(self.runtime, async {
            let prepared = self.client.prepare_cached(statement).await?;
            Ok(self.client.query(&prepared, parameters).await?)
        })
    }

    fn query_opt(&self, statement: &str, parameters: Parameters<'_>) -> StoreResult<Option<Row>> {
        Ok(self.query(statement, parameters)?.pop())
    }

    pub(super) fn execute(
        &mut self,
        statement: &str,
        parameters: Parameters<'_>,
    ) -> StoreResult<()> {
        let changed = answered(self.runtime, async {
            let prepared = self.client.prepare_cached(statement).await?;
            Ok(self.client.execute(&prepared, parameters).await?)
        })?;
        self.has_written |= changed != 0;
        Ok(())
    }

    /// Inserts a run, with its state and whether decisions read it.
    pub(super) fn insert_run(
        &mut self,
        layer: &LayerName,
        run: &Run,
        (state, is_read): (&str, bool),
    ) -> StoreResult<()> {
        self.execute(
            "INSERT INTO butler_runs
                 (id, layer, change, action, state, is_read, commit, repository, facts)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            &[
                &run.id.as_str(),
                &layer.as_str(),
                &signed(run.change),
                &run.action.as_str(),
                &state,
                &is_read,
                &run.commit().as_str(),
                &repository(run),
                &text(run)?,
            ],
        )
    }
}

/// The repository of the last attempt of a run.
fn repository(run: &Run) -> &str {
    run.attempts.last().map_or("", |attempt| &attempt.repository)
}

impl Tables for PostgresTables<'_> {
    fn now(&self) -> Moment {
        self.now
    }

    fn record(&mut self, layer: &LayerName) -> StoreResult<Record> {
        // One answer for the facts of the layer, in the first row, and for its runs.
        let rows = self.query(
            "SELECT 0, facts FROM butler_layers WHERE name = $1
             UNION ALL
             SELECT position, facts FROM butler_runs WHERE layer = $1 AND is_read
             ORDER BY 1",
            &[&layer.as_str()],
        )?;
        let mut rows = rows.iter();
        let Some(first) = rows.next() else { return Ok(Record::default()) };
        let mut record: Record = json(first, 1)?;
        record.runs = rows.map(|row| json(row, 1)).collect::<StoreResult<_>>()?;
        Ok(record)
    }

    fn write(&mut self, layer: &LayerName, before: &Record, after: &Record) -> StoreResult<()> {
        let facts = text(after)?;
        if text(before)? != facts {
            let commits: Vec<&str> = after.commits().map(Commit::as_str).collect();
            self.execute(
                "INSERT INTO butler_layers (name, commits, facts) VALUES ($1, $2, $3)
                 ON CONFLICT (name) DO UPDATE SET commits = $2, facts = $3",
                &[&layer.as_str(), &commits, &facts],
            )?;
        }
        let known: Vec<(&Run, Need)> = before.needs().collect();
        for (run, need) in after.needs() {
            let known = known.iter().find(|(known, _)| known.id == run.id);
            let state = need.state.as_str();
            match known {
                Some(known) if *known == (run, need) => {}
                Some(_) => self.execute(
                    "UPDATE butler_runs SET state = $2, is_read = $3, repository = $4, facts = $5
                     WHERE id = $1",
                    &[&run.id.as_str(), &state, &need.is_read, &repository(run), &text(run)?],
                )?,
                None => self.insert_run(layer, run, (state, need.is_read))?,
            }
        }
        Ok(())
    }

    fn run(&mut self, run: &RunId) -> StoreResult<Option<(LayerName, Run)>> {
        let select = "SELECT layer, facts FROM butler_runs WHERE id = $1";
        let row = self.query_opt(select, &[&run.as_str()])?;
        row.map(|row| Ok((layer(&row, 0)?, json(&row, 1)?))).transpose()
    }

    fn history(
        &mut self,
        layer: &LayerName,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<Run>> {
        let rows = self.query(
            "SELECT facts FROM butler_runs WHERE layer = $1 AND position < coalesce(
                 (SELECT position FROM butler_runs WHERE id = $2), 9223372036854775807
             ) ORDER BY position DESC LIMIT $3",
            &[&layer.as_str(), &before.map(RunId::as_str), &i64::from(most)],
        )?;
        rows.iter().map(|row| json(row, 0)).collect()
    }

    fn newest_runs(
        &mut self,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<(LayerName, Run)>> {
        let rows = self.query(
            "SELECT layer, facts FROM butler_runs WHERE position < coalesce(
                 (SELECT position FROM butler_runs WHERE id = $1), 9223372036854775807
             ) ORDER BY position DESC LIMIT $2",
            &[&before.map(RunId::as_str), &i64::from(most)],
        )?;
        rows.iter().map(|row| Ok((layer(row, 0)?, json(row, 1)?))).collect()
    }

    fn remove_run(&mut self, _: &LayerName, run: &RunId) -> StoreResult<()> {
        self.execute("DELETE FROM butler_runs WHERE id = $1", &[&run.as_str()])
    }

    fn rename(&mut self, from: &LayerName, to: &LayerName) -> StoreResult<()> {
        let (from, to) = (from.as_str(), to.as_str());
        // Runs refer to their layer, so it exists before they do.
        self.execute(
            "INSERT INTO butler_layers (name, commits, facts)
                 SELECT $2, commits, facts FROM butler_layers WHERE name = $1
             ON CONFLICT (name) DO UPDATE SET commits = excluded.commits, facts = excluded.facts",
            &[&from, &to],
        )?;
        self.execute("UPDATE butler_runs SET layer = $2 WHERE layer = $1", &[&from, &to])?;
        self.execute("DELETE FROM butler_layers WHERE name = $1", &[&from])
    }

    fn forget(&mut self, layer: &LayerName) -> StoreResult<()> {
        let layer = layer.as_str();
        self.execute("DELETE FROM butler_runs WHERE layer = $1", &[&layer])?;
        self.execute("DELETE FROM butler_layers WHERE name = $1", &[&layer])
    }

    fn commits(&mut self) -> StoreResult<Vec<Commit>> {
        let rows = self.query(
            "SELECT unnest(commits) COLLATE \"C\" FROM butler_layers
             UNION
             SELECT commit COLLATE \"C\" FROM butler_runs WHERE state <> 'over'
             ORDER BY 1",
            &[],
        )?;
        rows.iter().map(|row| Ok(Commit::new(row.try_get::<_, String>(0)?))).collect()
    }

    fn busy(&mut self) -> StoreResult<Vec<LayerName>> {
        let select = "SELECT DISTINCT layer FROM butler_runs WHERE state = 'running'";
        self.query(select, &[])?.iter().map(|row| layer(row, 0)).collect()
    }

    fn layers(&mut self) -> StoreResult<Vec<LayerName>> {
        let select = "SELECT name FROM butler_layers ORDER BY name";
        self.query(select, &[])?.iter().map(|row| layer(row, 0)).collect()
    }

    fn lease(&mut self, state_key: &str) -> StoreResult<Option<Lease>> {
        let select = "SELECT layer, run, fence FROM butler_leases WHERE state_key = $1";
        let Some(row) = self.query_opt(select, &[&state_key])? else { return Ok(None) };
        let run = RunId::new(row.try_get::<_, String>(1)?);
        let fence = u32::try_from(row.try_get::<_, i64>(2)?).map_err(unreadable)?;
        Ok(Some(Lease { layer: layer(&row, 0)?, run, fence }))
    }

    fn insert_lease(&mut self, state_key: &str, lease: &Lease) -> StoreResult<()> {
        let Lease { layer, run, fence } = lease;
        self.execute(
            "INSERT INTO butler_leases (state_key, layer, run, fence) VALUES ($1, $2, $3, $4)",
            &[&state_key, &layer.as_str(), &run.as_str(), &i64::from(*fence)],
        )
    }

    fn remove_lease(&mut self, lease: &Lease) -> StoreResult<()> {
        self.execute(
            "DELETE FROM butler_leases WHERE layer = $1 AND run = $2 AND fence = $3",
            &[&lease.layer.as_str(), &lease.run.as_str(), &i64::from(lease.fence)],
        )
    }

    fn running(&mut self) -> StoreResult<Running> {
        let rows = self.query(
            "SELECT repository, count(*), count(*) FILTER (WHERE action = 'drift')
             FROM butler_runs WHERE state = 'running' GROUP BY repository",
            &[],
        )?;
        let mut running = Running::default();
        for row in rows {
            let count = |column: usize| -> StoreResult<u32> {
                u32::try_from(row.try_get::<_, i64>(column)?).map_err(unreadable)
            };
            let repository: String = row.try_get(0)?;
            running.add(&repository, RunningCount { attempts: count(1)?, drift: count(2)? });
        }
        Ok(running)
    }

    fn counter(&mut self, name: &str) -> StoreResult<u64> {
        let row = self.query_opt(COUNTER, &[&name])?;
        Ok(row.map(|row| row.try_get::<_, i64>(0)).transpose()?.unwrap_or_default().unsigned_abs())
    }

    fn count(&mut self, name: &str) -> StoreResult<()> {
        self.execute(
            "INSERT INTO butler_counters (name, value) VALUES ($1, 1)
             ON CONFLICT (name) DO UPDATE SET value = butler_counters.value + 1",
            &[&name],
        )
    }

    fn clear(&mut self, name: &str) -> StoreResult<()> {
        self.execute("DELETE FROM butler_counters WHERE name = $1", &[&name])
    }

    fn session(&mut self, id: TokenHash) -> StoreResult<Option<Session>> {
        let select = "SELECT facts FROM butler_sessions WHERE id = $1";
        let row = self.query_opt(select, &[&id.to_string()])?;
        row.map(|row| json(&row, 0)).transpose()
    }

    fn sessions(&mut self) -> StoreResult<Vec<(TokenHash, Session)>> {
        // As JSON, in which hashes are read.
        let select = "SELECT to_json(id)::text, facts FROM butler_sessions";
        self.query(select, &[])?.iter().map(|row| Ok((json(row, 0)?, json(row, 1)?))).collect()
    }

    fn write_session(&mut self, id: TokenHash, session: Session) -> StoreResult<()> {
        self.execute(
            "INSERT INTO butler_sessions (id, facts) VALUES ($1, $2)
             ON CONFLICT (id) DO UPDATE SET facts = $2",
            &[&id.to_string(), &text(&session)?],
        )
    }

    fn remove_session(&mut self, id: TokenHash) -> StoreResult<()> {
        self.execute("DELETE FROM butler_sessions WHERE id = $1", &[&id.to_string()])
    }

    fn receiver(&mut self, name: &str) -> StoreResult<Option<u64>> {
        let select = "SELECT cursor FROM butler_receivers WHERE name = $1";
        let row = self.query_opt(select, &[&name])?;
        Ok(row.map(|row| row.try_get::<_, i64>(0)).transpose()?.map(i64::unsigned_abs))
    }

    fn receivers(&mut self) -> StoreResult<Vec<String>> {
        let rows = self.query("SELECT name FROM butler_receivers", &[])?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    fn write_receiver(&mut self, name: &str, cursor: u64) -> StoreResult<()> {
        self.execute(
            "INSERT INTO butler_receivers (name, cursor) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET cursor = $2",
            &[&name, &signed(cursor)],
        )
    }

    fn remove_receiver(&mut self, name: &str) -> StoreResult<()> {
        self.execute("DELETE FROM butler_receivers WHERE name = $1", &[&name])
    }

    fn follower(&mut self, id: &str) -> StoreResult<Option<StoredFollower>> {
        let row = self.query_opt("SELECT facts FROM butler_followers WHERE id = $1", &[&id])?;
        row.map(|row| json(&row, 0)).transpose()
    }

    fn followers(&mut self) -> StoreResult<Vec<StoredFollower>> {
        let rows = self.query("SELECT facts FROM butler_followers ORDER BY id", &[])?;
        rows.iter().map(|row| json(row, 0)).collect()
    }

    fn write_follower(&mut self, follower: &StoredFollower) -> StoreResult<()> {
        self.execute(
            "INSERT INTO butler_followers (id, facts) VALUES ($1, $2)
             ON CONFLICT (id) DO UPDATE SET facts = $2",
            &[&follower.record.follower, &text(follower)?],
        )
    }

    fn decider(&mut self) -> StoreResult<Option<DeciderLease>> {
        let row = self.query_opt("SELECT facts FROM butler_decider", &[])?;
        row.map(|row| json(&row, 0)).transpose()
    }

    fn write_decider(&mut self, lease: &DeciderLease) -> StoreResult<()> {
        self.execute(
            "INSERT INTO butler_decider (id, facts) VALUES (1, $1)
             ON CONFLICT (id) DO UPDATE SET facts = $1",
            &[&text(lease)?],
        )
    }

    fn last_sequence(&mut self) -> StoreResult<u64> {
        self.counter(JOURNAL)
    }

    fn events(
        &mut self,
        after: Option<u64>,
        layer: Option<&LayerName>,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>> {
        let after = signed(after.unwrap_or_default());
        let of_layer = if layer.is_some() { "layer = $3" } else { "$3::text IS NULL" };
        let select = format!(
            "SELECT sequence, at, layer, change FROM butler_events
             WHERE sequence > $1 AND {of_layer} ORDER BY sequence LIMIT $2"
        );
        let layer = layer.map(LayerName::as_str);
        self.query(&select, &[&after, &i64::from(limit), &layer])?.iter().map(entry).collect()
    }

    fn newest_events(
        &mut self,
        before: u64,
        filter: &EventFilter,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>> {
        let of_layer = if filter.layer.is_some() { "layer = $3" } else { "$3::text IS NULL" };
        let of_drift = if filter.only_drift { " AND is_drift" } else { "" };
        let select = format!(
            "SELECT sequence, at, layer, change FROM butler_events
             WHERE sequence < $1 AND {of_layer}{of_drift} ORDER BY sequence DESC LIMIT $2"
        );
        let layer = filter.layer.as_ref().map(LayerName::as_str);
        let rows = self.query(&select, &[&signed(before), &i64::from(limit), &layer])?;
        rows.iter().map(entry).collect()
    }

    fn prune_events(&mut self, older_than: Moment) -> StoreResult<()> {
        let older_than = signed(older_than.as_millis());
        self.execute("DELETE FROM butler_events WHERE at < $1", &[&older_than])
    }

    fn append(&mut self, layer: &LayerName, change: JournalChange) -> StoreResult<()> {
        let (at, is_drift) = (signed(self.now.as_millis()), change.what.is_drift());
        let rows = self.query(
            "WITH next AS (
                 INSERT INTO butler_counters (name, value) VALUES ('journal', 1)
                 ON CONFLICT (name) DO UPDATE SET value = butler_counters.value + 1
                 RETURNING value
             )
             INSERT INTO butler_events (sequence, at, layer, is_drift, change)
             SELECT value, $1, $2, $3, $4 FROM next RETURNING sequence",
            &[&at, &layer.as_str(), &is_drift, &text(&change)?],
        )?;
        for row in rows {
            self.appended = Some(row.try_get::<_, i64>(0)?.unsigned_abs());
        }
        self.has_written = true;
        Ok(())
    }
}

/// Reads an entry of the journal.
fn entry(row: &Row) -> StoreResult<JournalEntry> {
    let sequence = row.try_get::<_, i64>(0)?.unsigned_abs();
    let at = Moment::from_millis(row.try_get::<_, i64>(1)?.unsigned_abs());
    Ok(JournalEntry { sequence, at, layer: layer(row, 2)?, change: json(row, 3)? })
}

/// Reads a column with the name of a layer.
fn layer(row: &Row, column: usize) -> StoreResult<LayerName> {
    LayerName::try_from(row.try_get::<_, String>(column)?).map_err(unreadable)
}

/// Reads a column with JSON.
fn json<T: DeserializeOwned>(row: &Row, column: usize) -> StoreResult<T> {
    serde_json::from_str(row.try_get(column)?).map_err(unreadable)
}

pub(super) fn text(facts: &impl Serialize) -> StoreResult<String> {
    serde_json::to_string(facts).map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// PostgreSQL has signed numbers only. None of ours is near the limit.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Waits for an answer of the database.
pub(super) fn answered<T>(
    runtime: &Handle,
    answer: impl Future<Output = StoreResult<T>>,
) -> StoreResult<T> {
    let late = |_| StoreError::Unavailable(format!("no answer after {} s", ANSWER.as_secs()));
    runtime.block_on(async { tokio::time::timeout(ANSWER, answer).await.map_err(late)? })
}
