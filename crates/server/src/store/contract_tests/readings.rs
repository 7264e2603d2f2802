//! What is read from repositories.

use super::*;

pub(super) async fn unknown_layers_are_empty(tested: Tested<impl Store>) {
    tested.clock.set(7);
    let snapshot = tested.facts("a").await;
    assert_eq!((snapshot.now, snapshot.observation), (Moment::from_millis(7), None));
    assert_eq!((snapshot.facts, snapshot.running), (Facts::default(), Running::default()));
}

pub(super) async fn changes_of_the_digest_are_counted(tested: Tested<impl Store>) {
    for (digest, change) in [("d1", 1), ("d1", 1), ("d2", 2), ("d1", 3)] {
        tested.see("a", digest).await;
        let observation = tested.facts("a").await.observation.unwrap();
        assert_eq!(observation.change, change);
        assert_eq!(observation.sighting, found(digest));
    }
}

pub(super) async fn older_reading_of_a_repository_is_refused(tested: Tested<impl Store>) {
    let slow = tested.store.readings("infra").await.unwrap();
    tested.see("a", "d2").await;
    let seen = [(layer("a"), found("d1"))];
    let late = tested.store.observe("infra", slow, &seen).await.unwrap();
    assert_eq!(late, Outcome::Refused);
    // Readings of other repositories do not count, nor those that found nothing new.
    let other = tested.store.readings("infra").await.unwrap();
    tested.see("a", "d2").await;
    assert_eq!(tested.store.readings("infra").await.unwrap(), other);
    let seen = [(layer("b"), found("d1"))];
    assert_eq!(tested.store.observe("other", 0, &seen).await.unwrap(), Outcome::Made);
    assert_eq!(tested.store.readings("infra").await.unwrap(), other);
}

pub(super) async fn layers_with_facts_are_listed(tested: Tested<impl Store>) {
    let store = &tested.store;
    assert_eq!(store.layers().await.unwrap(), []);
    tested.see("b", "d1").await;
    tested.plan("a").await;
    // Reading about a layer, or resuming one that is not paused, gives it no facts.
    let _ = tested.facts("c").await;
    store.pause(&layer("c"), None).await.unwrap();
    assert_eq!(store.layers().await.unwrap(), [layer("a"), layer("b")]);
    store.pause(&layer("c"), Some("ana")).await.unwrap();
    // The facts of a layer outlive its runs.
    store.prune(&layer("a"), Keep { runs: 0, age: Duration::ZERO }).await.unwrap();
    assert_eq!(store.layers().await.unwrap(), [layer("a"), layer("b"), layer("c")]);
}

pub(super) async fn commits_that_may_be_needed_are_listed(tested: Tested<impl Store>) {
    let store = &tested.store;
    let commits = async || -> Vec<String> {
        store.commits().await.unwrap().iter().map(ToString::to_string).collect()
    };
    assert!(commits().await.is_empty());
    // An empty plan: `d1` is applied.
    let run = tested.plan("a").await;
    let id = tested.start("a", &run, 1).await;
    assert_eq!(store.finish(&id, saved("p", true)).await.unwrap(), Outcome::Made);
    tested.see("a", "d2").await;
    let cause = Cause::Commit { change: 2 };
    let waiting = tested.create("a", new_run("a", Action::Plan, cause, "d2", 2)).await;
    tested.see("a", "d3").await;
    assert_eq!(commits().await, ["c-d1", "c-d2", "c-d3"]);
    let closed = store.close_run(&layer("a"), &waiting, Closed::Superseded).await.unwrap();
    assert_eq!(closed, Outcome::Made);
    assert_eq!(commits().await, ["c-d1", "c-d3"]);
}
