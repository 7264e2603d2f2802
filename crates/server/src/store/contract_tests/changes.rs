//! What a new digest makes of the runs that exist.

use super::*;

/// Records a check for drift that found something.
async fn find_drift(tested: &Tested<impl Store>) -> RunId {
    let due = Cause::Schedule { due: Moment::from_millis(1) };
    let check = tested.create("a", new_run("a", Action::Drift, due, "d1", 1)).await;
    let id = tested.start("a", &check, 1).await;
    let difference = Some("x".to_owned());
    let found = AttemptResult { difference, ..AttemptResult::ended(Ending::Succeeded) };
    tested.finish(&id, found).await;
    check
}

pub(super) async fn repair_after_a_revert_is_a_new_run(tested: Tested<impl Store>) {
    tested.apply("a", true).await;
    let run = find_drift(&tested).await;
    let repair = |change| {
        let cause = Cause::Drift { run: run.clone(), change };
        new_run("a", Action::Plan, cause, "d1", change)
    };
    let first = tested.create("a", repair(1)).await;
    let id = tested.start("a", &first, 1).await;
    tested.finish(&id, AttemptResult::ended(Ending::Failed(FailureClass::Module))).await;
    tested.see("a", "d2").await;
    tested.see("a", "d1").await;
    let runs = tested.facts("a").await.facts.runs;
    assert!(runs.iter().all(|run| run.id != first), "{runs:?}");
    let second = tested.create("a", repair(3)).await;
    assert_ne!(first, second);
}

pub(super) async fn failed_runs_of_earlier_changes_are_over(tested: Tested<impl Store>) {
    let run = tested.plan("a").await;
    for number in [1, 2] {
        let id = tested.start("a", &run, number).await;
        tested.finish(&id, AttemptResult::ended(Ending::Failed(FailureClass::Network))).await;
        assert_eq!(tested.facts("a").await.facts.runs.len(), 1);
        assert_eq!(tested.store.commits().await.unwrap(), [Commit::new("c-d1")]);
    }
    tested.see("a", "d2").await;
    assert_eq!(tested.facts("a").await.facts.runs, []);
    assert_eq!(tested.store.commits().await.unwrap(), [Commit::new("c-d2")]);
    // The run itself is kept.
    assert_eq!(tested.store.history(&layer("a"), None, 9).await.unwrap()[0].id, run);
    // An attempt that runs is needed until it ends.
    let cause = Cause::Commit { change: 2 };
    let run = tested.create("a", new_run("a", Action::Plan, cause, "d2", 2)).await;
    let id = tested.start("a", &run, 1).await;
    tested.see("a", "d3").await;
    assert_eq!(tested.facts("a").await.facts.runs.len(), 1);
    tested.finish(&id, AttemptResult::ended(Ending::Failed(FailureClass::Module))).await;
    assert_eq!(tested.facts("a").await.facts.runs, []);
    assert_eq!(tested.store.commits().await.unwrap(), [Commit::new("c-d3")]);
}

pub(super) async fn waiting_plan_keeps_its_commit(tested: Tested<impl Store>) {
    let run = tested.plan("a").await;
    let id = tested.start("a", &run, 1).await;
    tested.finish(&id, saved("p1", false)).await;
    // Another commit with the same digest: the plan can still be applied.
    let seen = Revision { commit: Commit::new("c-later"), ..revision("d1") };
    let readings = tested.store.readings("infra").await.unwrap();
    let seen = [(layer("a"), Sighting::Found(seen))];
    let made = tested.store.observe("infra", readings, &seen, &[]).await.unwrap();
    assert_eq!(made, Outcome::Made);
    let commits = tested.store.commits().await.unwrap();
    assert_eq!(commits, [Commit::new("c-d1"), Commit::new("c-later")]);
    tested.see("a", "d2").await;
    assert_eq!(tested.store.commits().await.unwrap(), [Commit::new("c-d2")]);
}
