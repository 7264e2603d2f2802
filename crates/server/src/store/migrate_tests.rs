//! Facts that were moved are the same.

use std::time::Duration;

use butler_registry::TokenHash;
use butler_testing::Postgres;

use super::*;
use crate::store::contract_tests::{TestClock, Tested, transactions_equal_those_in_memory};
use crate::store::postgres::tests::open as open_database;
use crate::store::{
    AnyStore, Cursors as _, Deciders as _, Followers as _, Sessions as _, Store, StorePlace,
};

/// All that a store answers, as text.
async fn all(store: &impl Store) -> String {
    let mut texts = vec![format!("{:#?}", store.newest_runs(None, u32::MAX).await.unwrap())];
    for layer in store.layers().await.unwrap() {
        for key in ["one", "two"] {
            texts.push(format!("{:#?}", store.snapshot(&layer, key, &[]).await.unwrap()));
        }
        texts.push(format!("{:#?}", store.history(&layer, None, u32::MAX).await.unwrap()));
    }
    texts.extend([
        format!("{:#?}", store.events(None, None, u32::MAX).await.unwrap()),
        format!("{:#?}", store.commits().await.unwrap()),
        format!("{:#?}", store.busy().await.unwrap()),
        format!("{:#?}", store.open_breaker().await.unwrap()),
        format!("{:#?}", store.readings("infra").await.unwrap()),
        format!("{:#?}", store.cursor("chat").await.unwrap()),
        format!("{:#?}", store.followers().await.unwrap()),
        format!("{:#?}", store.session(TokenHash::of("cookie")).await.unwrap()),
    ]);
    texts.join("\n")
}

/// A data directory with the facts of many transactions.
async fn filled(directory: &tempfile::TempDir, clock: &TestClock) -> DataDirectory {
    let data = DataDirectory::create(directory.path()).unwrap();
    let store = SqliteStore::with_clock(&data.store(), clock.clock()).unwrap();
    store.begin_session(TokenHash::of("cookie"), TokenHash::of("token")).await.unwrap();
    store.advance_cursor("chat", 7).await.unwrap();
    let record = butler_follower::state::Record::new("web");
    let _ = store.write_follower(0, record).await.unwrap();
    let tested = Tested { store, clock: clock.clone(), _directory: None };
    transactions_equal_those_in_memory(tested).await;
    data
}

fn address(server: &Postgres) -> PostgresAddress {
    server.connection_string().parse().unwrap()
}

#[tokio::test]
async fn moved_facts_equal_those_before_and_neither_server_begins_without_them() {
    let (server, directory, clock) =
        (Postgres::start(), tempfile::tempdir().unwrap(), TestClock::default());
    let data = filled(&directory, &clock).await;
    let open = |path: &Path| SqliteStore::with_clock(path, clock.clock()).unwrap();
    let before = all(&open(&data.store())).await;
    assert!(before.contains(THIS_MACHINE) && before.contains(r#"follower: "web""#));

    // With the database as the store, the facts would be missing.
    let with_database = async || {
        AnyStore::open(StorePlace::Postgres(Box::new(address(&server))), &data.store(), None).await
    };
    let refused = with_database().await.unwrap_err().to_string();
    assert!(refused.contains("store migrate"), "{refused}");

    let migrated = migrate(&data, address(&server), None).await.unwrap();
    assert_eq!((migrated.layers, data.store().exists()), (3, false));
    assert!(migrated.runs > 10 && migrated.events > 50, "{migrated:?}");
    let name = data.server_name().unwrap();
    let store = open_database(&server.connection_string(), &clock).await;
    assert_eq!(all(&store).await, before.replace(THIS_MACHINE, &name));
    assert_eq!(*store.journal().borrow(), migrated.events);
    drop(store);

    // With SQLite, they would be missing now.
    let refused = AnyStore::open(StorePlace::Sqlite, &data.store(), None).await.unwrap_err();
    assert!(refused.to_string().contains("`--store`"), "{refused}");
    with_database().await.unwrap();
    std::fs::rename(&migrated.kept, data.store()).unwrap();
    assert_eq!(all(&open(&data.store())).await, before);
}

#[tokio::test]
async fn nothing_is_moved_into_a_database_in_use_or_from_a_store_in_use() {
    let (server, directory, clock) =
        (Postgres::start(), tempfile::tempdir().unwrap(), TestClock::default());
    let data = filled(&directory, &clock).await;
    let refused = async || migrate(&data, address(&server), None).await.unwrap_err().to_string();

    let running = SqliteStore::open(&data.store()).unwrap();
    assert!(refused().await.contains("is used by process"));
    drop(running);

    let other = PostgresStore::open(address(&server), None).await.unwrap();
    other.decide("web-1", Duration::from_mins(5)).await.unwrap();
    assert!(refused().await.contains("the server `web-1` uses it"));
    other.resign("web-1").await.unwrap();
    other.pause(&"x".parse().unwrap(), Some("ana")).await.unwrap();
    assert!(refused().await.contains("it has facts already"));
    assert_eq!(other.layers().await.unwrap().len(), 1);
    assert!(data.store().exists());
}
