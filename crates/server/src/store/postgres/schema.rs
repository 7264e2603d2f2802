//! The schema, and how older ones become it.

use tokio_postgres::{Client, Error};

/// Held while the schema is changed ("bttl"), so that servers which start together change it once.
const MIGRATION_LOCK: i64 = 0x6274_746c;

/// The statements that lead from each version to the next one. Existing entries are never changed:
/// stores have been written with them.
///
/// Facts are JSON in columns of text: `jsonb` cannot contain `\u0000`, which messages of Terraform can. What is
/// searched for has columns of its own. Text is compared by bytes, as SQLite does, whatever the database's locale.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE butler_layers (
        name text COLLATE \"C\" PRIMARY KEY,
        -- Those that were read and applied.
        commits text[] NOT NULL,
        facts text NOT NULL
    );

    CREATE TABLE butler_runs (
        id text COLLATE \"C\" PRIMARY KEY,
        position bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
        layer text COLLATE \"C\" NOT NULL REFERENCES butler_layers (name),
        change bigint NOT NULL,
        action text NOT NULL,
        state text NOT NULL CHECK (state IN ('open', 'running', 'over')),
        is_read boolean NOT NULL,
        commit text NOT NULL,
        -- The repository of its last attempt.
        repository text NOT NULL,
        facts text NOT NULL
    );
    CREATE INDEX butler_runs_of_layer ON butler_runs (layer, position);
    CREATE INDEX butler_runs_read ON butler_runs (layer, position) WHERE is_read;
    CREATE INDEX butler_runs_running ON butler_runs (layer) WHERE state = 'running';
    CREATE INDEX butler_runs_unfinished ON butler_runs (state) WHERE state <> 'over';

    -- The fence of a lease is the number of the attempt.
    CREATE TABLE butler_leases (
        state_key text COLLATE \"C\" PRIMARY KEY,
        layer text NOT NULL,
        run text COLLATE \"C\" NOT NULL REFERENCES butler_runs (id),
        fence bigint NOT NULL
    );
    CREATE INDEX butler_leases_of_run ON butler_leases (run);

    -- The counter `journal` is the sequence of the last entry of the journal.
    CREATE TABLE butler_counters (
        name text COLLATE \"C\" PRIMARY KEY,
        value bigint NOT NULL
    );

    CREATE TABLE butler_events (
        sequence bigint PRIMARY KEY,
        at bigint NOT NULL,
        layer text COLLATE \"C\" NOT NULL,
        is_drift boolean NOT NULL,
        change text NOT NULL
    );
    CREATE INDEX butler_events_at ON butler_events (at);
    CREATE INDEX butler_events_of_layer ON butler_events (layer, sequence);
    CREATE INDEX butler_events_of_drift ON butler_events (sequence) WHERE is_drift;

    -- By the hash of the cookie.
    CREATE TABLE butler_sessions (
        id text PRIMARY KEY,
        facts text NOT NULL
    );

    -- Receivers of notifications, and the last entry of the journal that each of them needs nothing more of.
    CREATE TABLE butler_receivers (
        name text COLLATE \"C\" PRIMARY KEY,
        cursor bigint NOT NULL
    );

    -- The lease of the server that decides: one row at most.
    CREATE TABLE butler_decider (
        id integer PRIMARY KEY CHECK (id = 1),
        facts text NOT NULL
    );
", "
    -- The records of followers.
    CREATE TABLE butler_followers (
        id text COLLATE \"C\" PRIMARY KEY,
        facts text NOT NULL
    );
"];

/// The newest version.
pub(super) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// Leads the schema to the newest version, in one transaction, and returns the version that it has then: a newer
/// one is left as it is.
pub(super) async fn migrate(client: &mut Client) -> Result<u32, Error> {
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
    let create = "CREATE TABLE IF NOT EXISTS butler_schema (version integer NOT NULL)";
    transaction.batch_execute(create).await?;
    let row = transaction.query_opt("SELECT version FROM butler_schema", &[]).await?;
    let found = row.map_or(0, |row| row.get::<_, i32>(0).unsigned_abs());
    if found >= newest() {
        return Ok(found);
    }
    for statements in MIGRATIONS.iter().skip(found as usize) {
        transaction.batch_execute(statements).await?;
    }
    let version = i32::try_from(newest()).unwrap_or(i32::MAX);
    transaction.execute("DELETE FROM butler_schema", &[]).await?;
    transaction.execute("INSERT INTO butler_schema VALUES ($1)", &[&version]).await?;
    transaction.commit().await?;
    Ok(newest())
}
