//! Which runs decisions read, and which can be removed.

use super::*;

pub(super) async fn old_runs_are_removed(tested: Tested<impl Store>) {
    let apply = tested.apply("a", true).await;
    let first_plan = tested.facts("a").await.facts.runs[0].id.clone();
    let mut failed = Vec::new();
    for change in 2..=5 {
        tested.clock.set(change * 1000);
        let digest = format!("d{change}");
        tested.see("a", &digest).await;
        let cause = Cause::Commit { change };
        let run = tested.create("a", new_run("a", Action::Plan, cause, &digest, change)).await;
        let id = tested.start("a", &run, 1).await;
        tested.finish(&id, AttemptResult::ended(Ending::Failed(FailureClass::Module))).await;
        failed.push(id);
    }
    let other = tested.plan("b").await;
    let prune = async |runs, millis| {
        let keep = Keep { runs, age: Duration::from_millis(millis) };
        tested.store.prune(&layer("a"), keep).await.unwrap()
    };
    assert_eq!(prune(9, 9000).await, []);
    // Too many: the newest three are kept, and the last one that succeeded.
    assert_eq!(prune(3, 9000).await, failed[..1]);
    // Too old: the run of the current change is kept, and the one of two seconds ago.
    tested.clock.set(6000);
    assert_eq!(prune(9, 2000).await, failed[1..2]);
    assert_eq!(prune(0, 0).await, failed[2..3]);
    assert_eq!(prune(0, 0).await, []);
    let left = tested.store.history(&layer("a"), None, 9).await.unwrap();
    let left: Vec<RunId> = left.into_iter().map(|run| run.id).collect();
    assert_eq!(left, [failed[3].run.clone(), apply, first_plan]);
    assert!(tested.store.run(&other).await.unwrap().is_some());
    // What the layer is planned for cannot be created once more.
    let again = new_run("a", Action::Plan, Cause::Commit { change: 5 }, "d5", 5);
    let again = tested.store.insert_run(&layer("a"), again).await.unwrap();
    assert_eq!(again, Outcome::Refused);
}
