//! What is special about a store in a file.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::model::{Commit, Digest, Revision};
use crate::store::contract_tests::{TestClock, Tested};

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
    let made = store.observe("infra", readings, &[(layer(), found(digest))]).await.unwrap();
    assert_eq!(made, Outcome::Made);
}

async fn sighting(store: &SqliteStore) -> Option<Sighting> {
    let snapshot = store.snapshot(&layer(), "", &[]).await.unwrap();
    snapshot.observation.map(|observation| observation.sighting)
}

/// Opens the store again as soon as the thread of the last one has ended.
fn reopen(path: &Path) -> SqliteStore {
    loop {
        match SqliteStore::open(path) {
            Err(StoreError::InUse { .. }) => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

#[tokio::test]
async fn facts_outlive_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    write(&store, "d1").await;
    drop(store);
    assert_eq!(sighting(&reopen(&path)).await, Some(found("d1")));
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
    drop(reopen(&path));
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", schema::newest() + 1).unwrap();
    connection.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = loop {
        match SqliteStore::open(&path) {
            Err(StoreError::InUse { .. }) => {}
            result => break result.unwrap_err().to_string(),
        }
    };
    assert!(error.contains("use a newer butler-runner"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
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
    while matches!(restore(&copy, &path), Err(StoreError::InUse { .. })) {}
    assert_eq!(sighting(&reopen(&path)).await, Some(found("d1")));
    let kept = directory.path().join("store.sqlite.before-restore");
    assert_eq!(sighting(&reopen(&kept)).await, Some(found("d2")));
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
    for (backup, why) in [(&text, "is damaged"), (&other, "is not a store of butler-runner")] {
        let error = restore(backup, &path).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"the damaged store");
}
