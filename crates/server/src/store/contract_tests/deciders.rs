//! Which server decides.

use super::*;

const LIFETIME: Duration = Duration::from_secs(15);

pub(super) async fn one_server_decides_until_its_lease_ends(tested: Tested<impl Store>) {
    let decide = async |server: &str| {
        let lease = tested.store.decide(server, LIFETIME).await.unwrap();
        (lease.holder, lease.fence)
    };
    tested.clock.set(1_000);
    assert_eq!(decide("a").await, ("a".to_owned(), 1));
    assert_eq!(decide("b").await, ("a".to_owned(), 1));
    // It is renewed.
    tested.clock.set(10_000);
    assert_eq!(decide("a").await, ("a".to_owned(), 1));
    tested.clock.set(24_999);
    assert_eq!(decide("b").await, ("a".to_owned(), 1));
    tested.clock.set(25_000);
    assert_eq!(decide("b").await, ("b".to_owned(), 2));
    assert_eq!(decide("a").await, ("b".to_owned(), 2));
    // Only the server that has it can end it.
    tested.store.resign("a").await.unwrap();
    assert_eq!(decide("a").await, ("b".to_owned(), 2));
    tested.store.resign("b").await.unwrap();
    assert_eq!(decide("a").await, ("a".to_owned(), 3));
    // Nobody else took it meanwhile.
    tested.clock.set(1_000_000);
    assert_eq!(decide("a").await, ("a".to_owned(), 3));
}

pub(super) async fn server_that_decided_before_starts_nothing(tested: Tested<impl Store>) {
    let run = tested.plan("a").await;
    let id = AttemptId { layer: layer("a"), run, number: 1 };
    let start = async |fence| {
        let request = StartRequest {
            attempt: &id,
            state_key: KEY,
            after: &[],
            concurrency: 2,
            repository: "infra",
            repository_concurrency: None,
            timeout: TIMEOUT,
            place: "this machine",
            token: &TokenHash::of("brce_test"),
            fence: Some(fence),
        };
        tested.store.start_attempt(request).await.unwrap()
    };
    assert_eq!(start(1).await, Outcome::Refused);
    tested.store.decide("a", LIFETIME).await.unwrap();
    tested.store.resign("a").await.unwrap();
    tested.store.decide("b", LIFETIME).await.unwrap();
    assert_eq!(start(1).await, Outcome::Refused);
    assert!(tested.facts("a").await.facts.lease.is_none());
    assert_eq!(start(2).await, Outcome::Made);
}
