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
    let late = tested.store.observe("infra", slow, &seen, &[]).await.unwrap();
    assert_eq!(late, Outcome::Refused);
    // Readings of other repositories do not count, nor those that found nothing new.
    let other = tested.store.readings("infra").await.unwrap();
    tested.see("a", "d2").await;
    assert_eq!(tested.store.readings("infra").await.unwrap(), other);
    let seen = [(layer("b"), found("d1"))];
    assert_eq!(tested.store.observe("other", 0, &seen, &[]).await.unwrap(), Outcome::Made);
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

/// Two commits, which are named after digests.
fn unrelated(before: &str, now: &str) -> Unrelated {
    (Commit::new(format!("c-{before}")), Commit::new(format!("c-{now}")))
}

impl<S: Store> Tested<S> {
    /// Reads this digest for these layers.
    async fn see_apart(&self, names: &[&str], digest: &str, unrelated: &[Unrelated]) {
        let readings = self.store.readings("infra").await.unwrap();
        let seen: Vec<_> = names.iter().map(|name| (layer(name), found(digest))).collect();
        let made = self.store.observe("infra", readings, &seen, unrelated).await.unwrap();
        assert_eq!(made, Outcome::Made);
    }

    async fn break_of(&self, name: &str) -> Option<String> {
        let known = self.facts(name).await.observation?.history_break?;
        Some(known.before.to_string())
    }
}

pub(super) async fn unrelated_history_concerns_runs_until_one_is_applied(
    tested: Tested<impl Store>,
) {
    let store = &tested.store;
    tested.plan("a").await;
    tested.see_apart(&["a"], "d2", &[unrelated("d1", "d2")]).await;
    // The next commit is of the same history, and was not approved.
    tested.see("a", "d3").await;
    let cause = Cause::Commit { change: 3 };
    let plan = tested.create("a", new_run("a", Action::Plan, cause, "d3", 3)).await;
    let runs = tested.facts("a").await.facts.runs;
    let before: Vec<_> = runs.iter().map(|run| run.unrelated_to.clone()).collect();
    assert_eq!(before, [None, Some(Commit::new("c-d1"))]);
    let read = store.observations(&[layer("a"), layer("b")]).await.unwrap();
    let read: Vec<_> = read.iter().map(|(name, read)| (name.as_str(), read.commit())).collect();
    assert_eq!(read, [("a", Some(&Commit::new("c-d3")))]);
    let id = tested.start("a", &plan, 1).await;
    tested.finish(&id, saved("p3", false)).await;
    assert_eq!(tested.break_of("a").await.as_deref(), Some("c-d1"));
    let approved = store.approve(&layer("a"), &PlanDigest::new("p3"), "ana").await.unwrap();
    assert_eq!(approved, Outcome::Made);
    let apply = tested.facts("a").await.facts.runs.last().unwrap().id.clone();
    let id = tested.start("a", &apply, 1).await;
    tested.finish(&id, AttemptResult::ended(Ending::Succeeded)).await;
    assert_eq!(tested.break_of("a").await, None);
    // Back to the first history: that is a break as well.
    tested.see_apart(&["a"], "d1", &[unrelated("d3", "d1"), unrelated("d2", "d1")]).await;
    assert_eq!(tested.break_of("a").await.as_deref(), Some("c-d3"));
}

pub(super) async fn layers_that_are_new_with_an_unrelated_history_belong_to_it(
    tested: Tested<impl Store>,
) {
    tested.see("a", "d1").await;
    tested.see_apart(&["a", "b"], "d2", &[unrelated("d1", "d2")]).await;
    assert_eq!(tested.break_of("b").await.as_deref(), Some("c-d1"));
    // Later, it is known from the other layers.
    tested.see_apart(&["c", "a"], "d3", &[]).await;
    assert_eq!(tested.break_of("c").await.as_deref(), Some("c-d1"));
    tested.see("d", "d9").await;
    assert_eq!(tested.break_of("d").await, None);
}
