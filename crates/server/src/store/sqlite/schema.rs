//! The schema, and how older ones become it.

use rusqlite::{Connection, TransactionBehavior};

/// Marks the file as a store of butler-runner ("bttl"), so that no other database is changed by
/// mistake.
pub(super) const APPLICATION_ID: i32 = 0x6274_746c;

/// The statements that lead from each version to the next one. Existing entries are never changed:
/// stores have been written with them.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE layers (
        name TEXT PRIMARY KEY,
        facts TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        position INTEGER NOT NULL UNIQUE,
        layer TEXT NOT NULL REFERENCES layers (name),
        change INTEGER NOT NULL,
        action TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('open', 'running', 'over')),
        facts TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX runs_of_layer ON runs (layer, position);
    CREATE INDEX runs_running ON runs (action) WHERE state = 'running';

    -- The fence of a lease is the number of the attempt.
    CREATE TABLE leases (
        state_key TEXT PRIMARY KEY,
        layer TEXT NOT NULL,
        run TEXT NOT NULL REFERENCES runs (id),
        fence INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX leases_of_run ON leases (run);

    CREATE TABLE counters (
        name TEXT PRIMARY KEY,
        value INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
"];

/// The newest version.
pub(super) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// The version of the schema in the file; 0 if it is empty.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Leads the schema to the newest version, in one transaction.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let version = version(connection)?;
    if version >= newest() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for statements in MIGRATIONS.iter().skip(version as usize) {
        transaction.execute_batch(statements)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", newest())?;
    transaction.commit()
}
