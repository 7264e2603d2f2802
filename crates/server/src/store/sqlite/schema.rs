//! The schema, and how older ones become it.

use rusqlite::{Connection, TransactionBehavior};

/// Marks the file as a store of butler-runner ("bttl"), so that no other database is changed by
/// mistake.
pub(super) const APPLICATION_ID: i32 = 0x6274_746c;

/// The statements that lead from each version to the next one. Existing entries are never changed:
/// stores have been written with them.
const MIGRATIONS: &[&str] = &[
    "
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
",
    "
    -- Whether decisions read the run. Before, runs that had failed were open for ever.
    ALTER TABLE runs ADD COLUMN is_read INTEGER NOT NULL DEFAULT 0;
    UPDATE runs SET is_read = 1 WHERE
        state = 'running'
        OR (state = 'open' AND json_array_length(facts, '$.attempts') = 0)
        OR (action <> 'drift' AND change = (
            SELECT facts ->> '$.observation.change' FROM layers WHERE name = layer
        ))
        OR position IN (SELECT max(position) FROM runs WHERE action = 'drift' GROUP BY layer);
    UPDATE runs SET state = 'over' WHERE NOT is_read;
    CREATE INDEX runs_read ON runs (layer, position) WHERE is_read;
    DROP INDEX runs_running;
    CREATE INDEX runs_running ON runs (layer, action) WHERE state = 'running';
    CREATE INDEX runs_unfinished ON runs (state) WHERE state <> 'over';
",
    "
    -- AUTOINCREMENT: the sequence of a removed entry is never used again.
    CREATE TABLE events (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        layer TEXT NOT NULL,
        change TEXT NOT NULL
    ) STRICT;
    CREATE INDEX events_at ON events (at);
    CREATE INDEX events_of_layer ON events (layer, sequence);
",
    "
    -- By the hash of the cookie.
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        facts TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
",
    "
    -- Receivers of notifications, and the last entry of the journal that each of them needs nothing more of.
    CREATE TABLE receivers (
        name TEXT PRIMARY KEY,
        cursor INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
",
    "
    -- Entries about drift are few among many.
    CREATE INDEX events_of_drift ON events (sequence)
        WHERE change ->> '$.kind' IN ('drift-found', 'drift-resolved');
",
    "
    -- The lease of the server that decides: one row at most.
    CREATE TABLE decider (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        facts TEXT NOT NULL
    ) STRICT;
",
    "
    -- The records of followers.
    CREATE TABLE followers (
        id TEXT PRIMARY KEY,
        facts TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
",
];

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A run in a store of the first version.
    fn insert(connection: &Connection, id: &str, change: u64, action: &str, state: &str) {
        let attempts = if id.starts_with("waiting") { "[]" } else { "[{}]" };
        let insert = "INSERT INTO runs VALUES (
            ?1, (SELECT coalesce(max(position), 0) + 1 FROM runs), 'a', ?2, ?3, ?4,
            '{\"attempts\": ' || ?5 || '}'
        )";
        let change = i64::try_from(change).unwrap();
        connection.execute(insert, (id, change, action, state, attempts)).unwrap();
    }

    #[test]
    fn runs_of_the_first_version_are_needed_for_what_decisions_read() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(MIGRATIONS[0]).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        let facts = r#"{"observation": {"change": 2}}"#;
        connection.execute("INSERT INTO layers VALUES ('a', ?)", [facts]).unwrap();
        for (id, change, action, state) in [
            ("failed before", 1, "plan", "open"),
            ("waiting since then", 1, "plan", "open"),
            ("runs since then", 1, "plan", "running"),
            ("succeeded before", 1, "plan", "over"),
            ("succeeded", 2, "plan", "over"),
            ("failed", 2, "plan", "open"),
            ("earlier check", 2, "drift", "open"),
            ("last check", 1, "drift", "over"),
        ] {
            insert(&connection, id, change, action, state);
        }
        migrate(&mut connection).unwrap();
        let read = "SELECT id, state FROM runs WHERE is_read ORDER BY position";
        let mut read = connection.prepare(read).unwrap();
        let read = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let read: Vec<(String, String)> = read.map(Result::unwrap).collect();
        let expected = [
            ("waiting since then", "open"),
            ("runs since then", "running"),
            ("succeeded", "over"),
            ("failed", "open"),
            ("last check", "over"),
        ];
        assert_eq!(read, expected.map(|(id, state)| (id.to_owned(), state.to_owned())));
        let open = "SELECT count(*) FROM runs WHERE state <> 'over'";
        let open: u32 = connection.query_row(open, [], |row| row.get(0)).unwrap();
        assert_eq!(open, 3);
    }
}
