//! How runs are created and found, and how attempts start.

use super::*;

pub(super) async fn runs_are_inserted_once_and_for_the_current_change(tested: Tested<impl Store>) {
    let id = tested.plan("a").await;
    let again = new_run("a", Action::Plan, Cause::Commit { change: 1 }, "d1", 1);
    assert_eq!(again.id, id);
    let refused = tested.store.insert_run(&layer("a"), again).await.unwrap();
    assert_eq!(refused, Outcome::Refused);
    tested.see("a", "d2").await;
    let late = new_run("a", Action::Plan, Cause::Person { request: "1".into() }, "d1", 1);
    assert_eq!(tested.store.insert_run(&layer("a"), late).await.unwrap(), Outcome::Refused);
    assert_eq!(tested.facts("a").await.facts.runs.len(), 1);
}

pub(super) async fn one_attempt_uses_a_state(tested: Tested<impl Store>) {
    let (first, second) = (tested.plan("a").await, tested.plan("b").await);
    let first = tested.start("a", &first, 1).await;
    let waiting = AttemptId { layer: layer("b"), run: second, number: 1 };
    assert_eq!(tested.try_start(&waiting, &[]).await, Outcome::Refused);
    let snapshot = tested.facts("b").await;
    assert_eq!(snapshot.facts.lease.unwrap().layer, layer("a"));
    assert_eq!(snapshot.running.total().attempts, 1);
    tested.lose(&first).await;
    assert_eq!(tested.facts("b").await.facts.lease, None);
    assert_eq!(tested.try_start(&waiting, &[]).await, Outcome::Made);
}

pub(super) async fn layer_whose_state_key_changes_runs_once_and_keeps_its_lease(
    tested: Tested<impl Store>,
) {
    let run = tested.plan("a").await;
    let first = tested.start("a", &run, 1).await;
    // The module names another state now.
    let cause = Cause::Person { request: "1".into() };
    let next = tested.create("a", new_run("a", Action::Plan, cause, "d1", 1)).await;
    let next = AttemptId { layer: layer("a"), run: next, number: 1 };
    let other = tested.plan("b").await;
    let other = AttemptId { layer: layer("b"), run: other, number: 1 };
    let start = async |id: &AttemptId, state_key: &str| {
        let request = StartRequest {
            attempt: id,
            state_key,
            after: &[],
            concurrency: 9,
            repository: "infra",
            repository_concurrency: None,
            timeout: TIMEOUT,
            place: "this machine",
            token: &TokenHash::of("brce_test"),
            fence: None,
        };
        tested.store.start_attempt(request).await.unwrap()
    };
    assert_eq!(start(&next, "another state").await, Outcome::Refused);
    // The attempt uses the earlier one until it ends.
    assert_eq!(start(&other, KEY).await, Outcome::Refused);
    tested.finish(&first, saved("p1", false)).await;
    assert_eq!(start(&next, "another state").await, Outcome::Made);
    assert_eq!(start(&other, KEY).await, Outcome::Made);
}

pub(super) async fn only_the_next_attempt_of_a_waiting_run_starts(tested: Tested<impl Store>) {
    let run = tested.plan("a").await;
    let id = |number| AttemptId { layer: layer("a"), run: run.clone(), number };
    assert_eq!(tested.try_start(&id(2), &[]).await, Outcome::Refused);
    assert_eq!(tested.try_start(&id(1), &[layer("upstream")]).await, Outcome::Refused);
    tested.store.pause(&layer("a"), Some("ana")).await.unwrap();
    assert_eq!(tested.try_start(&id(1), &[]).await, Outcome::Refused);
    tested.store.pause(&layer("a"), None).await.unwrap();
    tested.start("a", &run, 1).await;
    assert_eq!(tested.try_start(&id(2), &[]).await, Outcome::Refused);
    tested.finish(&id(1), AttemptResult::ended(Ending::Failed(FailureClass::Network))).await;
    tested.see("a", "d2").await;
    assert_eq!(tested.try_start(&id(2), &[]).await, Outcome::Refused);
    // Neither after a revert, which is another change.
    tested.see("a", "d1").await;
    assert_eq!(tested.try_start(&id(2), &[]).await, Outcome::Refused);
}

pub(super) async fn concurrency_is_compared_at_the_start(tested: Tested<impl Store>) {
    for (name, expected) in [("a", Outcome::Made), ("b", Outcome::Made), ("c", Outcome::Refused)] {
        let run = tested.plan(name).await;
        let id = AttemptId { layer: layer(name), run, number: 1 };
        let request = StartRequest {
            attempt: &id,
            state_key: name,
            after: &[],
            concurrency: 2,
            repository: "infra",
            repository_concurrency: None,
            timeout: TIMEOUT,
            place: "this machine",
            token: &TokenHash::of("brce_test"),
            fence: None,
        };
        assert_eq!(tested.store.start_attempt(request).await.unwrap(), expected, "{name}");
    }
}

pub(super) async fn limit_of_a_repository_is_compared_at_the_start(tested: Tested<impl Store>) {
    let start = async |name: &str, repository: &str, most: Option<u32>| {
        let run = tested.plan(name).await;
        let id = AttemptId { layer: layer(name), run, number: 1 };
        let request = StartRequest {
            attempt: &id,
            state_key: name,
            after: &[],
            concurrency: 4,
            repository,
            repository_concurrency: most,
            timeout: TIMEOUT,
            place: "this machine",
            token: &TokenHash::of("brce_test"),
            fence: None,
        };
        (tested.store.start_attempt(request).await.unwrap(), id)
    };
    let (made, first) = start("a", "limited", Some(1)).await;
    assert_eq!(made, Outcome::Made);
    assert_eq!(start("b", "limited", Some(1)).await.0, Outcome::Refused);
    // Neither another repository nor a repository without a limit is concerned.
    assert_eq!(start("c", "other", Some(1)).await.0, Outcome::Made);
    assert_eq!(start("d", "limited", None).await.0, Outcome::Made);
    assert_eq!(start("e", "limited", Some(2)).await.0, Outcome::Refused);
    let running = tested.facts("b").await.running;
    let count = |attempts| RunningCount { attempts, drift: 0 };
    assert_eq!(running.total(), count(3));
    assert_eq!(running.of("limited"), count(2));
    assert_eq!((running.of("other"), running.of("none")), (count(1), count(0)));
    tested.finish(&first, saved("p1", false)).await;
    assert_eq!(tested.facts("b").await.running.of("limited"), count(1));
    assert_eq!(start("f", "limited", Some(2)).await.0, Outcome::Made);
    assert_eq!(start("g", "other", Some(9)).await.0, Outcome::Made);
    // Of the server, no slot is free.
    assert_eq!(start("h", "other", Some(9)).await.0, Outcome::Refused);
}

pub(super) async fn checks_for_drift_are_counted_for_their_repository(tested: Tested<impl Store>) {
    tested.apply("a", false).await;
    tested.check_drift("a", 1000).await;
    let run = tested.facts("a").await.facts.runs.last().unwrap().id.clone();
    tested.start("a", &run, 1).await;
    let running = tested.facts("b").await.running;
    assert_eq!(running.of("infra"), RunningCount { attempts: 1, drift: 1 });
    assert_eq!(running.total(), running.of("infra"));
}

pub(super) async fn runs_are_found_by_id_and_by_layer(tested: Tested<impl Store>) {
    let mut ids = Vec::new();
    for (index, digest) in ["d1", "d2", "d3"].into_iter().enumerate() {
        tested.see("a", digest).await;
        let change = index as u64 + 1;
        let cause = Cause::Commit { change };
        ids.push(tested.create("a", new_run("a", Action::Plan, cause, digest, change)).await);
    }
    let other = tested.plan("b").await;
    let store = &tested.store;
    let (found, run) = store.run(&ids[0]).await.unwrap().unwrap();
    assert_eq!((found, run.id), (layer("a"), ids[0].clone()));
    assert_eq!(store.run(&RunId::new("none")).await.unwrap(), None);
    let history = async |before: Option<&RunId>, most| -> Vec<RunId> {
        let runs = store.history(&layer("a"), before, most).await.unwrap();
        runs.into_iter().map(|run| run.id).collect()
    };
    assert_eq!(history(None, 2).await, [ids[2].clone(), ids[1].clone()]);
    assert_eq!(history(Some(&ids[1]), 2).await, [ids[0].clone()]);
    let newest = async |before: Option<&RunId>, most| -> Vec<(LayerName, RunId)> {
        let runs = store.newest_runs(before, most).await.unwrap();
        runs.into_iter().map(|(layer, run)| (layer, run.id)).collect()
    };
    assert_eq!(newest(None, 2).await, [(layer("b"), other.clone()), (layer("a"), ids[2].clone())]);
    assert_eq!(newest(Some(&ids[1]), 9).await, [(layer("a"), ids[0].clone())]);
    assert_eq!(store.busy().await.unwrap(), Vec::new());
    let id = tested.start("b", &other, 1).await;
    assert_eq!(store.busy().await.unwrap(), [layer("b")]);
    tested.lose(&id).await;
    assert_eq!(store.busy().await.unwrap(), Vec::new());
}

pub(super) async fn applies_of_upstream_layers_are_ordered(tested: Tested<impl Store>) {
    let after = [layer("up"), layer("quiet")];
    tested.see("down", "d1").await;
    // The clock goes backwards, and the order is still right.
    tested.clock.set(9000);
    let applied = tested.apply("up", true).await;
    tested.apply("quiet", false).await;
    tested.clock.set(10);
    let snapshot = tested.store.snapshot(&layer("down"), KEY, &after).await.unwrap();
    assert_eq!(snapshot.facts.upstream_apply, Some(applied));
    assert!(snapshot.upstreams.iter().all(|upstream| upstream.satisfied));
    let plan = tested.plan("down").await;
    let id = AttemptId { layer: layer("down"), run: plan, number: 1 };
    assert_eq!(tested.try_start(&id, &after).await, Outcome::Made);
    // A plan that began before, and one that does not succeed, do not count.
    let snapshot = tested.store.snapshot(&layer("down"), KEY, &after).await.unwrap();
    assert!(snapshot.facts.upstream_apply.is_some());
    tested.finish(&id, saved("p9", false)).await;
    let snapshot = tested.store.snapshot(&layer("down"), KEY, &after).await.unwrap();
    assert_eq!(snapshot.facts.upstream_apply, None);
    tested.see("up", "d2").await;
    let snapshot = tested.store.snapshot(&layer("down"), KEY, &after).await.unwrap();
    assert!(!snapshot.upstreams[0].satisfied);
}

pub(super) async fn plan_for_a_person_does_not_wait_for_upstream_layers(
    tested: Tested<impl Store>,
) {
    let after = [layer("up")];
    let waiting = tested.plan("up").await;
    let waits = async || {
        let snapshot = tested.store.snapshot(&layer("down"), KEY, &after).await.unwrap();
        snapshot.upstreams[0].clone()
    };
    assert!(matches!(waits().await.waits, Some(UpstreamWait::Queued(Action::Plan, _))));
    let attempt = |run: &RunId| AttemptId { layer: layer("down"), run: run.clone(), number: 1 };
    let usual = tested.plan("down").await;
    assert_eq!(tested.try_start(&attempt(&usual), &after).await, Outcome::Refused);
    let cause = Cause::Person { request: "r".to_owned() };
    let asked = tested.create("down", new_run("down", Action::Plan, cause, "d1", 1)).await;
    assert_eq!(tested.try_start(&attempt(&asked), &after).await, Outcome::Made);
    tested.finish(&attempt(&asked), saved("p1", false)).await;
    let (_, run) = tested.store.run(&asked).await.unwrap().unwrap();
    assert_eq!(run.made_before, after);

    let approval =
        tested.store.approve(&layer("down"), &PlanDigest::new("p1"), "ada").await.unwrap();
    assert_eq!(approval, Outcome::Made);
    let runs = tested.store.snapshot(&layer("down"), KEY, &after).await.unwrap().facts.runs;
    let apply = runs.iter().find(|run| run.action == Action::Apply).unwrap().id.clone();
    assert_eq!(tested.try_start(&attempt(&apply), &after).await, Outcome::Refused);

    // An upstream layer that has changed something makes the plan useless.
    let id = tested.start("up", &waiting, 1).await;
    assert!(matches!(waits().await.waits, Some(UpstreamWait::Running(Action::Plan, _))));
    tested.finish(&id, saved("p2", false)).await;
    assert!(matches!(waits().await.waits, Some(UpstreamWait::Approval(_))));
    assert!(!waits().await.has_changed);
    assert_eq!(
        tested.store.approve(&layer("up"), &PlanDigest::new("p2"), "ada").await.unwrap(),
        Outcome::Made
    );
    let runs = tested.facts("up").await.facts.runs;
    let run = runs.iter().find(|run| run.action == Action::Apply).unwrap().id.clone();
    let id = tested.start("up", &run, 1).await;
    let result = AttemptResult { changed: true, ..AttemptResult::ended(Ending::Succeeded) };
    tested.finish(&id, result).await;
    let upstream = waits().await;
    assert!(upstream.satisfied && upstream.has_changed && upstream.waits.is_none(), "{upstream:?}");
    assert_eq!(tested.try_start(&attempt(&apply), &after).await, Outcome::Refused);
}
