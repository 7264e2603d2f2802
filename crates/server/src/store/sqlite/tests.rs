//! What is special about a store in a file.

use butler_base::platform::fs::PermissionsExt;

use super::*;
use crate::metrics::Exposition;
use crate::model::{Commit, Digest, Ending, LayerName, Revision, Sighting};
use crate::store::contract_tests::{self, TestClock, Tested};
use crate::store::{AttemptId, AttemptResult, EventFilter, Outcome, Store};

/// A new store for the contract.
pub(in crate::store) fn tested() -> Tested<SqliteStore> {
    let directory = tempfile::tempdir().unwrap();
    let clock = TestClock::default();
    let path = directory.path().join("store.sqlite");
    let store = SqliteStore::with_clock(&path, clock.clock()).unwrap();
    Tested { store, clock, _directory: Some(directory) }
}

fn layer() -> LayerName {
    "network".parse().unwrap()
}

fn found(digest: &str) -> Sighting {
    let (commit, digest) = (Commit::new("c"), Digest::new(digest));
    Sighting::Found(Revision { commit, digest })
}

async fn write(store: &SqliteStore, digest: &str) {
    let readings = store.readings("infra").await.unwrap();
    let made = store.observe("infra", readings, &[(layer(), found(digest))], &[]).await.unwrap();
    assert_eq!(made, Outcome::Made);
}

async fn sighting(store: &SqliteStore) -> Option<Sighting> {
    let snapshot = store.snapshot(&layer(), "", &[]).await.unwrap();
    snapshot.observation.map(|observation| observation.sighting)
}

#[tokio::test]
async fn facts_outlive_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    write(&store, "d1").await;
    drop(store);
    assert_eq!(sighting(&SqliteStore::open(&path).unwrap()).await, Some(found("d1")));
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn second_server_is_refused_and_told_who_has_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    let error = SqliteStore::open(&path).unwrap_err().to_string();
    assert!(error.contains(&format!("is used by process {}", std::process::id())), "{error}");
    write(&store, "d1").await;
}

#[tokio::test]
async fn store_of_a_newer_version_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.sqlite");
    drop(SqliteStore::open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", schema::newest() + 1).unwrap();
    connection.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = SqliteStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("use a newer butler-runner"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn store_without_a_journal_keeps_its_facts_and_gets_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    write(&store, "d1").await;
    drop(store);
    // What later versions have added to the second one.
    let connection = Connection::open(&path).unwrap();
    // The index goes with its table.
    let later = "DROP TABLE events; DROP TABLE sessions; DROP TABLE receivers; \
                 DROP TABLE decider; DROP TABLE followers";
    connection.execute_batch(&format!("{later}; PRAGMA user_version = 2")).unwrap();
    connection.close().unwrap();
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(sighting(&store).await, Some(found("d1")));
    assert_eq!(store.events(None, None, 10).await.unwrap(), []);
    write(&store, "d2").await;
    assert_eq!(store.events(None, None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn damaged_store_is_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.sqlite");
    std::fs::write(&path, b"this is not a database, but a text that is long enough").unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = SqliteStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("is damaged"), "{error}");
    assert!(error.contains("store restore FILE"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn page_that_is_damaged_is_found_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    write(&store, "d1").await;
    drop(store);
    let mut pages = std::fs::read(&path).unwrap();
    let middle = pages.len() / 2 / 4096 * 4096;
    pages[middle..middle + 4096].fill(0x5a);
    std::fs::write(&path, &pages).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("store restore FILE"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), pages);
    let copy = directory.path().join("backup.sqlite");
    let refused = backup(&path, &copy).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    assert!(!copy.exists());
}

#[tokio::test]
async fn facts_that_cannot_be_read_are_damage_with_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    write(&store, "d1").await;
    let connection = Connection::open(&path).unwrap();
    connection.execute("UPDATE layers SET facts = '{'", []).unwrap();
    let error = store.snapshot(&layer(), "", &[]).await.unwrap_err().to_string();
    assert!(error.contains("store.sqlite` is damaged"), "{error}");
}

#[tokio::test]
async fn refused_transactions_and_reads_write_nothing() {
    let tested = tested();
    let run = tested.plan("network").await;
    let id = tested.start("network", &run, 1).await;
    let watcher = Connection::open(&tested.store.path).unwrap();
    // Changes with each transaction of another connection that writes.
    let version =
        || -> i64 { watcher.pragma_query_value(None, "data_version", |row| row.get(0)).unwrap() };
    let before = version();
    tested.see("network", "d1").await;
    assert_eq!(tested.try_start(&id, &[]).await, Outcome::Refused);
    let other = AttemptId { number: 7, ..id.clone() };
    let late = tested.store.finish(&other, AttemptResult::ended(Ending::Succeeded)).await;
    assert_eq!(late.unwrap(), Outcome::Refused);
    assert_eq!(sighting(&tested.store).await, Some(contract_tests::found("d1")));
    assert_eq!(version(), before);
    tested.see("network", "d2").await;
    assert_ne!(version(), before);
}

#[tokio::test]
async fn transactions_are_measured_by_whether_they_write() {
    let tested = tested();
    let counts = || {
        let mut text = Exposition::default();
        tested.store.durations().write(&mut text);
        let text = text.into_text();
        ["read", "write"].map(|kind| {
            let name = "butler_store_transaction_duration_seconds_count";
            let series = format!("{name}{{kind=\"{kind}\"}} ");
            let count = text.lines().find_map(|line| line.strip_prefix(&series));
            count.unwrap().parse::<u64>().unwrap()
        })
    };
    assert_eq!(counts(), [0, 0]);
    tested.store.busy().await.unwrap();
    assert_eq!(counts(), [1, 0]);
    // Reads how often the repository was read, then records what it contains.
    tested.see("network", "d1").await;
    assert_eq!(counts(), [2, 1]);
    // The same reading again writes nothing.
    tested.see("network", "d1").await;
    assert_eq!(counts(), [4, 1]);
}

#[tokio::test]
async fn full_disk_is_named_and_leaves_nothing_half_written() {
    let tested = tested();
    tested.see("network", "d1").await;
    let limit = async |pages: i64| {
        let set = move |connection: &mut Connection| {
            let pragma = ("max_page_count", pages);
            Ok(connection.pragma_update_and_check(None, pragma.0, pragma.1, |_| Ok(()))?)
        };
        tested.store.on_thread(set).await.unwrap();
    };
    limit(1).await;
    let seen: Vec<(LayerName, Sighting)> =
        (0..2000).map(|index| (format!("layer-{index}").parse().unwrap(), found("d1"))).collect();
    let readings = tested.store.readings("infra").await.unwrap();
    let full = tested.store.observe("infra", readings, &seen, &[]).await.unwrap_err();
    assert!(matches!(full, StoreError::Full(_)), "{full}");
    let text = full.to_string();
    assert!(text.contains("store.sqlite`: its disk is full"), "{text}");
    assert_eq!(tested.store.readings("infra").await.unwrap(), readings);
    let first = tested.store.snapshot(&seen[0].0, "", &[]).await.unwrap();
    assert_eq!(first.observation, None);
    limit(1_000_000).await;
    let made = tested.store.observe("infra", readings, &seen, &[]).await.unwrap();
    assert_eq!(made, Outcome::Made);
}

#[tokio::test]
async fn many_checks_for_drift_do_not_hide_the_plan() {
    let tested = tested();
    let plan = tested.plan("network").await;
    for due in 0..210 {
        tested.check_drift("network", due).await;
    }
    let runs = tested.store.snapshot(&layer(), "", &[]).await.unwrap().facts.runs;
    assert!(runs.iter().any(|run| run.id == plan));
}

#[tokio::test]
async fn decisions_read_runs_by_indices_of_what_is_unfinished() {
    let tested = tested();
    let connection = Connection::open(&tested.store.path).unwrap();
    for (query, index) in [
        (tables::RUNS_THAT_ARE_READ, "runs_read"),
        (tables::COMMITS, "runs_unfinished"),
        (tables::BUSY, "runs_running"),
        (tables::RUNNING, "runs_running"),
    ] {
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let empty = vec![""; explain.parameter_count()];
        let lines = explain
            .query_map(rusqlite::params_from_iter(empty), |row| row.get::<_, String>(3))
            .unwrap();
        let lines: Vec<String> = lines.map(Result::unwrap).collect();
        let of_runs = lines.iter().filter(|line| line.contains(" runs"));
        for line in of_runs.clone() {
            assert!(line.contains(&format!("INDEX {index}")), "{query}: {line}");
        }
        assert_eq!(of_runs.count(), 1, "{lines:?}");
    }
}

#[tokio::test]
async fn newest_entries_are_read_by_an_index() {
    let tested = tested();
    let connection = Connection::open(&tested.store.path).unwrap();
    let layer = layer();
    for (layer, only_drift, index) in [
        (None, false, "INTEGER PRIMARY KEY"),
        (Some(&layer), false, "INDEX events_of_layer"),
        (None, true, "INDEX events_of_drift"),
        (Some(&layer), true, "INDEX events_of_"),
    ] {
        let filter = EventFilter { layer: layer.cloned(), only_drift };
        let query = format!("EXPLAIN QUERY PLAN {}", tables::newest_events(&filter));
        let mut explain = connection.prepare(&query).unwrap();
        let lines = explain.query_map((9, 9, "a"), |row| row.get::<_, String>(3)).unwrap();
        let lines: Vec<String> = lines.map(Result::unwrap).collect();
        // The order of the index is that of the answer: nothing is sorted.
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(index), "{filter:?}: {lines:?}");
    }
}

#[tokio::test]
async fn backup_of_a_used_store_can_be_restored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.sqlite");
    let copy = directory.path().join("backup.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    write(&store, "d1").await;
    backup(&path, &copy).unwrap();
    assert!(backup(&path, &copy).unwrap_err().to_string().contains("the file exists"));
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    write(&store, "d2").await;
    let refused = restore(&copy, &path).unwrap_err();
    assert!(matches!(refused, StoreError::InUse { .. }), "{refused}");
    drop(store);
    let kept = restore(&copy, &path).unwrap().unwrap();
    assert_eq!(sighting(&SqliteStore::open(&path).unwrap()).await, Some(found("d1")));
    assert!(kept.to_str().unwrap().contains("store.sqlite.replaced-2"), "{}", kept.display());
    assert_eq!(sighting(&SqliteStore::open(&kept).unwrap()).await, Some(found("d2")));
}

#[test]
fn damaged_backup_does_not_replace_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.sqlite");
    let other = directory.path().join("other.sqlite");
    let text = directory.path().join("text");
    std::fs::write(&path, b"the damaged store").unwrap();
    std::fs::write(&text, b"no database").unwrap();
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
    let newer = directory.path().join("newer.sqlite");
    drop(SqliteStore::open(&newer).unwrap());
    let connection = Connection::open(&newer).unwrap();
    connection.pragma_update(None, "user_version", schema::newest() + 1).unwrap();
    connection.close().unwrap();
    for (backup, why) in [
        (&text, "the backup is damaged"),
        (&other, "is not a store of butler-runner"),
        (&newer, "use a newer butler-runner"),
    ] {
        let error = restore(backup, &path).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"the damaged store");
}
