//! What is special about a store that servers share.

use std::sync::atomic::{AtomicU32, Ordering};

use butler_testing::Postgres;

use super::*;
use crate::model::{Ending, LayerName};
use crate::store::contract_tests::{TestClock, Tested};
use crate::store::{AttemptId, AttemptResult, Note, Outcome, Store};

mod faults;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The address of a new, empty schema.
fn address(server: &Postgres) -> String {
    let schema = format!("s{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    server.execute(&format!("CREATE SCHEMA {schema}"));
    format!("{}&options=-csearch_path%3D{schema}", server.connection_string())
}

pub(in crate::store) async fn open(address: &str, clock: &TestClock) -> PostgresStore {
    PostgresStore::with_clock(address.parse().unwrap(), None, Some(clock.clock())).await.unwrap()
}

/// A new store for the contract.
pub(in crate::store) async fn tested(server: &Postgres) -> Tested<PostgresStore> {
    let clock = TestClock::default();
    let store = open(&address(server), &clock).await;
    Tested { store, clock, _directory: None }
}

/// Two servers with one store.
async fn two(server: &Postgres) -> [Tested<PostgresStore>; 2] {
    let (address, clock) = (address(server), TestClock::default());
    let (one, other) = (open(&address, &clock).await, open(&address, &clock).await);
    [one, other].map(|store| Tested { store, clock: clock.clone(), _directory: None })
}

fn layer(name: &str) -> LayerName {
    name.parse().unwrap()
}

#[tokio::test]
async fn servers_that_write_at_the_same_time_do_nothing_twice() {
    let server = Postgres::start();
    let [one, other] = two(&server).await;
    let mut made = 0;
    for round in 0..20 {
        let name = format!("a{round}");
        let run = one.plan(&name).await;
        let id = AttemptId { layer: layer(&name), run, number: 1 };
        // Each of them believes to be the active one.
        let starts = [&one, &other, &one, &other].map(|it| it.try_start(&id, &[]));
        let outcomes = futures_util::future::join_all(starts).await;
        let won = outcomes.iter().filter(|outcome| **outcome == Outcome::Made).count();
        assert_eq!(won, 1, "{outcomes:?}");
        assert_eq!(other.store.note(&id, Note::Heartbeat).await.unwrap(), Outcome::Made);
        let ends =
            [&one, &other].map(|it| it.store.finish(&id, AttemptResult::ended(Ending::Succeeded)));
        let ends = futures_util::future::join_all(ends).await;
        made += ends.into_iter().filter(|end| *end.as_ref().unwrap() == Outcome::Made).count();
    }
    assert_eq!(made, 20);
}

#[tokio::test]
async fn entries_of_the_journal_are_heard_of_by_other_servers_in_their_order() {
    let server = Postgres::start();
    let [one, other] = two(&server).await;
    let mut heard = other.store.journal();
    let write = async {
        for round in 0..30 {
            // Both append.
            let by = if round % 2 == 0 { &one } else { &other };
            by.see(&format!("a{round}"), "d1").await;
            by.store.pause(&layer(&format!("a{round}")), Some("ana")).await.unwrap();
        }
    };
    let read = async {
        let mut entries = Vec::new();
        while entries.len() < 60 {
            heard.changed().await.unwrap();
            let end = *heard.borrow_and_update();
            let after = Some(entries.len() as u64);
            let new = other.store.events(after, None, u32::MAX).await.unwrap();
            assert!(entries.len() + new.len() >= usize::try_from(end).unwrap());
            entries.extend(new.into_iter().map(|entry| entry.sequence));
        }
        entries
    };
    let ((), entries) = tokio::join!(write, read);
    assert_eq!(entries, (1..=60).collect::<Vec<u64>>());
}

#[tokio::test]
async fn text_with_any_character_is_kept() {
    let server = Postgres::start();
    let tested = tested(&server).await;
    tested.see("a", "d1").await;
    let by = "\0\u{7f}\u{202e}'\"\\ü🦀";
    tested.store.pause(&layer("a"), Some(by)).await.unwrap();
    let seen = tested.store.snapshot(&layer("a"), "state", &[]).await.unwrap();
    assert_eq!(seen.facts.paused_by.as_deref(), Some(by));
}

#[tokio::test]
async fn schema_of_a_newer_version_is_left_alone() {
    let server = Postgres::start();
    let address = address(&server);
    drop(open(&address, &TestClock::default()).await);
    let schema = address.rsplit_once("%3D").unwrap().1;
    server.execute(&format!("UPDATE {schema}.butler_schema SET version = 99"));
    let error = PostgresStore::open(address.parse().unwrap(), None).await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("has schema version 99"), "{error}");
    assert!(!error.contains(butler_testing::PASSWORD), "{error}");
}

/// Addresses of other machines have `require` unless they say something else.
#[tokio::test]
async fn database_without_tls_needs_an_address_that_switches_encryption_off() {
    let server = Postgres::start();
    let address = address(&server);
    let encrypted = address.replace("sslmode=disable", "sslmode=require");
    assert_ne!(encrypted, address);
    let error = PostgresStore::open(encrypted.parse().unwrap(), None).await.unwrap_err();
    assert!(matches!(error, StoreError::Connect { .. }), "{error}");
    PostgresStore::open(address.parse().unwrap(), None).await.unwrap();
}

#[tokio::test]
async fn servers_that_start_together_create_the_tables_once() {
    let server = Postgres::start();
    let address = address(&server);
    let opened = (0..6).map(|_| PostgresStore::open(address.parse().unwrap(), None));
    for store in futures_util::future::join_all(opened).await {
        store.unwrap().layers().await.unwrap();
    }
}
