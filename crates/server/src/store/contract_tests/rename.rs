//! How a layer takes over the history of its earlier name.

use super::*;
use crate::model::{Former, JournalKind};

pub(super) async fn history_moves_once_and_nothing_starts_before_the_files_were_moved(
    tested: Tested<impl Store>,
) {
    let store = &tested.store;
    let (old, new) = (layer("old"), layer("new"));
    let applied = tested.apply("old", true).await;
    tested.check_drift("old", 1000).await;
    let drift = tested.facts("old").await.facts.runs.last().unwrap().id.clone();
    let attempt = tested.start("old", &drift, 1).await;
    let found = AttemptResult {
        difference: Some("x".to_owned()),
        ..AttemptResult::ended(Ending::Succeeded)
    };
    // An attempt of the earlier name ends first.
    tested.see("new", "d1").await;
    let former = store.former(&new, &old).await.unwrap();
    assert_eq!(former, Some(Former { running: Some((drift.clone(), 1)) }));
    assert_eq!(store.take_over(&new, &old).await.unwrap(), Outcome::Refused);
    tested.finish(&attempt, found).await;
    let before = tested.facts("old").await;

    // A request that came too early is not kept, and does not hide the history.
    let cause = Cause::Person { request: "1".into() };
    tested.create("new", new_run("new", Action::Plan, cause, "d1", 1)).await;
    assert_eq!(store.former(&new, &old).await.unwrap(), Some(Former { running: None }));
    assert_eq!(store.take_over(&new, &old).await.unwrap(), Outcome::Made);
    assert_eq!(store.former(&new, &old).await.unwrap(), None);
    assert_eq!(store.take_over(&new, &old).await.unwrap(), Outcome::Refused);
    let after = tested.facts("new").await;
    assert_eq!(after.facts.files_of, std::slice::from_ref(&old));
    let moved = Facts { files_of: Vec::new(), ..after.facts };
    assert_eq!(moved, before.facts);
    assert!(moved.drift.unwrap().difference.is_some());
    assert_eq!(after.observation.unwrap().change, before.observation.unwrap().change);
    assert_eq!(store.history(&old, None, 9).await.unwrap(), []);
    assert_eq!(store.layers().await.unwrap(), std::slice::from_ref(&new));
    let (found, run) = store.run(&applied).await.unwrap().unwrap();
    assert_eq!((found, run.has_succeeded()), (new.clone(), true));
    let entries = store.events(None, Some(&new), 99).await.unwrap();
    assert_eq!(entries.last().unwrap().change.what, JournalKind::Renamed { from: old.clone() });

    let cause = Cause::Person { request: "2".into() };
    let next = tested.create("new", new_run("new", Action::Plan, cause, "d1", 1)).await;
    let next = AttemptId { layer: new.clone(), run: next, number: 1 };
    assert_eq!(tested.try_start(&next, &[]).await, Outcome::Refused);
    assert_eq!(store.files_moved(&new).await.unwrap(), Outcome::Made);
    assert_eq!(store.files_moved(&new).await.unwrap(), Outcome::Refused);
    assert_eq!(tested.try_start(&next, &[]).await, Outcome::Made);
}

pub(super) async fn layer_that_was_started_or_not_read_keeps_its_own_history(
    tested: Tested<impl Store>,
) {
    let (store, old, new) = (&tested.store, layer("old"), layer("new"));
    let plan = tested.plan("old").await;
    let attempt = tested.start("old", &plan, 1).await;
    tested.finish(&attempt, saved("p1", false)).await;
    assert_eq!(store.take_over(&new, &old).await.unwrap(), Outcome::Refused);
    let own = tested.plan("new").await;
    let attempt = tested.start("new", &own, 1).await;
    tested.finish(&attempt, saved("p2", false)).await;
    assert_eq!(store.former(&new, &old).await.unwrap(), None);
    assert_eq!(store.take_over(&new, &old).await.unwrap(), Outcome::Refused);
    assert_eq!(store.history(&old, None, 9).await.unwrap().len(), 1);
    assert_eq!(store.history(&new, None, 9).await.unwrap().len(), 1);
}

pub(super) async fn name_that_was_only_read_is_taken_over_and_gets_no_run_any_more(
    tested: Tested<impl Store>,
) {
    let (store, old, new) = (&tested.store, layer("old"), layer("new"));
    tested.see("old", "d1").await;
    tested.see("new", "d1").await;
    assert_eq!(store.former(&new, &old).await.unwrap(), Some(Former { running: None }));
    assert_eq!(store.take_over(&new, &old).await.unwrap(), Outcome::Made);
    assert_eq!(store.layers().await.unwrap(), std::slice::from_ref(&new));
    assert_eq!(tested.facts("new").await.observation.unwrap().change, 1);
    // As a slow server does that has decided about the earlier name before.
    let plan = new_run("old", Action::Plan, Cause::Commit { change: 1 }, "d1", 1);
    assert_eq!(store.insert_run(&old, plan).await.unwrap(), Outcome::Refused);
}

pub(super) async fn plan_that_waits_becomes_stale_with_the_name(tested: Tested<impl Store>) {
    let (store, old, new) = (&tested.store, layer("old"), layer("new"));
    let apply = tested.waiting_apply("old").await;
    tested.see("new", "d1").await;
    assert_eq!(store.take_over(&new, &old).await.unwrap(), Outcome::Made);
    assert_eq!(store.files_moved(&new).await.unwrap(), Outcome::Made);
    let runs = tested.facts("new").await.facts.runs;
    assert_eq!(runs[0].plan.as_ref().unwrap().stale, Some(StalePlan::Renamed));
    let id = AttemptId { layer: new, run: apply, number: 1 };
    assert_eq!(tested.try_start(&id, &[]).await, Outcome::Refused);
}

pub(super) async fn plan_that_was_applied_is_not_applied_again_under_the_new_name(
    tested: Tested<impl Store>,
) {
    let (store, old, new) = (&tested.store, layer("old"), layer("new"));
    tested.apply("old", true).await;
    tested.see("new", "d1").await;
    assert_eq!(store.take_over(&new, &old).await.unwrap(), Outcome::Made);
    assert_eq!(store.files_moved(&new).await.unwrap(), Outcome::Made);
    let approved = store.approve(&new, &PlanDigest::new("p1"), "ben").await.unwrap();
    assert_eq!(approved, Outcome::Refused);
    assert_eq!(store.history(&new, None, 9).await.unwrap().len(), 2);
}

/// Its record says what is applied, and how often its digest has changed.
pub(super) async fn layer_whose_started_runs_were_removed_keeps_its_own_record(
    tested: Tested<impl Store>,
) {
    let (store, old, new) = (&tested.store, layer("old"), layer("new"));
    tested.see("old", "d1").await;
    let plan = tested.plan("new").await;
    let attempt = tested.start("new", &plan, 1).await;
    tested.finish(&attempt, AttemptResult::ended(Ending::Failed(FailureClass::Module))).await;
    tested.see("new", "d2").await;
    let next = new_run("new", Action::Plan, Cause::Commit { change: 2 }, "d2", 2);
    tested.create("new", next).await;
    let keep = Keep { runs: 0, age: Duration::ZERO };
    assert_eq!(store.prune(&new, keep).await.unwrap(), [attempt]);
    assert_eq!(store.former(&new, &old).await.unwrap(), None);
    assert_eq!(store.take_over(&new, &old).await.unwrap(), Outcome::Refused);
    assert_eq!(tested.facts("new").await.observation.unwrap().change, 2);
}

pub(super) async fn run_is_not_created_twice_if_a_layer_is_named_back(tested: Tested<impl Store>) {
    let (store, old, new) = (&tested.store, layer("old"), layer("new"));
    tested.see("old", "d1").await;
    // Decided by a server that is slow.
    let late = new_run("old", Action::Plan, Cause::Commit { change: 1 }, "d1", 1);
    tested.see("new", "d1").await;
    assert_eq!(store.take_over(&new, &old).await.unwrap(), Outcome::Made);
    assert_eq!(store.files_moved(&new).await.unwrap(), Outcome::Made);
    let plan = tested.plan("new").await;
    let attempt = tested.start("new", &plan, 1).await;
    tested.finish(&attempt, saved("p1", false)).await;
    tested.see("old", "d1").await;
    assert_eq!(store.take_over(&old, &new).await.unwrap(), Outcome::Made);
    assert_eq!(store.insert_run(&old, late).await.unwrap(), Outcome::Refused);
    assert_eq!(store.history(&old, None, 9).await.unwrap().len(), 1);
}
