//! Which runs decisions read, and which can be removed.

use super::*;

impl<S: Store> Tested<S> {
    /// A person asks for a plan of the layer's first change, whose only attempt ends like this.
    async fn ask(&self, name: &str, request: u32, result: AttemptResult) -> RunId {
        let cause = Cause::Person { request: request.to_string() };
        self.try_plan(name, cause, result).await
    }

    async fn try_plan(&self, name: &str, cause: Cause, result: AttemptResult) -> RunId {
        let run = self.create(name, new_run(name, Action::Plan, cause, "d1", 1)).await;
        let id = self.start(name, &run, 1).await;
        self.finish(&id, result).await;
        run
    }

    /// The runs that decisions about the layer read.
    async fn read(&self, name: &str) -> Vec<RunId> {
        self.facts(name).await.facts.runs.into_iter().map(|run| run.id).collect()
    }
}

fn failed(class: FailureClass) -> AttemptResult {
    AttemptResult::ended(Ending::Failed(class))
}

/// Removes what is not read.
async fn prune(tested: &Tested<impl Store>, name: &str) -> usize {
    let keep = Keep { runs: 0, age: Duration::ZERO };
    tested.store.prune(&layer(name), keep).await.unwrap().len()
}

pub(super) async fn plans_that_succeed_are_not_read_for_ever(tested: Tested<impl Store>) {
    tested.see("a", "d1").await;
    let cause = Cause::Commit { change: 1 };
    let first = tested.try_plan("a", cause, saved("p", false)).await;
    let mut last = first.clone();
    for request in 0..30 {
        last = tested.ask("a", request, saved(&format!("p{request}"), false)).await;
    }
    // The newest run with each cause.
    assert_eq!(tested.read("a").await, [first, last.clone()]);
    assert_eq!(tested.store.commits().await.unwrap(), [Commit::new("c-d1")]);
    assert_eq!(prune(&tested, "a").await, 29);
    // Requests of which none succeeded, for a reason that is not retried.
    for request in 30..60 {
        tested.ask("a", request, failed(FailureClass::Module)).await;
    }
    let read = tested.read("a").await;
    assert!(read.len() == 3 && read.contains(&last), "{read:?}");
    assert_eq!(prune(&tested, "a").await, 29);
}

pub(super) async fn newest_run_is_known_also_if_decisions_do_not_read_it(
    tested: Tested<impl Store>,
) {
    let newest = async || tested.facts("a").await.newest_run.map(|run| run.id);
    tested.see("a", "d1").await;
    assert_eq!(newest().await, None);
    let planned = tested.ask("a", 0, saved("p", false)).await;
    assert_eq!(newest().await, Some(planned.clone()));
    tested.see("a", "d2").await;
    assert_eq!(tested.read("a").await, []);
    assert_eq!(newest().await, Some(planned));
}

pub(super) async fn failures_are_read_back_to_a_request(tested: Tested<impl Store>) {
    tested.see("a", "d1").await;
    tested.ask("a", 0, failed(FailureClass::Network)).await;
    let request = tested.ask("a", 1, failed(FailureClass::Network)).await;
    let replan = |run: &RunId| Cause::Replan { run: run.clone() };
    let mut expected = vec![request];
    for _ in 0..5 {
        let cause = replan(expected.last().unwrap());
        expected.push(tested.try_plan("a", cause, failed(FailureClass::Network)).await);
    }
    assert_eq!(tested.read("a").await, expected);
    // As far as they can matter.
    for _ in 0..200 {
        let cause = replan(expected.last().unwrap());
        expected.push(tested.try_plan("a", cause, failed(FailureClass::Network)).await);
    }
    let read = tested.read("a").await;
    // The newest request, and the failures.
    assert_eq!((&read[0], read.len()), (&expected[0], 101));
    // A success ends the count.
    let cause = replan(expected.last().unwrap());
    let planned = tested.try_plan("a", cause, saved("p1", false)).await;
    assert_eq!(tested.read("a").await, [expected[0].clone(), planned.clone()]);
    let cause = replan(&planned);
    let newest = tested.try_plan("a", cause, failed(FailureClass::Network)).await;
    assert_eq!(tested.read("a").await, [expected[0].clone(), planned, newest]);
}

pub(super) async fn run_that_failed_is_replaced_by_a_newer_one(tested: Tested<impl Store>) {
    tested.see("a", "d1").await;
    let first = tested.ask("a", 1, failed(FailureClass::Network)).await;
    tested.ask("a", 2, failed(FailureClass::Module)).await;
    let late = AttemptId { layer: layer("a"), run: first.clone(), number: 2 };
    assert_eq!(tested.try_start(&late, &[]).await, Outcome::Refused);
    let closed = tested.store.close_run(&layer("a"), &first, Closed::Cancelled).await.unwrap();
    assert_eq!(closed, Outcome::Refused);
}

pub(super) async fn plan_for_an_upstream_layer_is_due_once(tested: Tested<impl Store>) {
    tested.see("down", "d1").await;
    let applied = tested.apply("up", true).await;
    let after = [layer("up")];
    let due = async || {
        let snapshot = tested.store.snapshot(&layer("down"), KEY, &after).await.unwrap();
        snapshot.facts.upstream_apply
    };
    assert_eq!(due().await, Some(applied.clone()));
    let cause = Cause::Dependency { run: applied, change: 1 };
    let plan = tested.try_plan("down", cause, failed(FailureClass::Module)).await;
    assert_eq!(due().await, None);
    // Also if decisions do not read that plan any more: another upstream layer was changed.
    let cause = Cause::Dependency { run: RunId::new("other"), change: 1 };
    tested.try_plan("down", cause, saved("p2", false)).await;
    assert!(!tested.read("down").await.contains(&plan));
    assert_eq!(due().await, None);
}

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

pub(super) async fn plan_whose_apply_was_started_is_never_discarded(tested: Tested<impl Store>) {
    let apply = tested.waiting_apply("a").await;
    let attempt = tested.start("a", &apply, 1).await;
    tested.finish(&attempt, AttemptResult::ended(Ending::Failed(FailureClass::Network))).await;
    let cause = Cause::Person { request: "1".into() };
    let plan = tested.create("a", new_run("a", Action::Plan, cause, "d1", 1)).await;
    let attempt = tested.start("a", &plan, 1).await;
    tested.finish(&attempt, saved("p2", false)).await;
    let (store, a) = (&tested.store, layer("a"));
    let approved = store.approve(&a, &PlanDigest::new("p2"), "ana").await.unwrap();
    assert_eq!(approved, Outcome::Made);
    // Decisions do not read the first apply any more, but its plan.
    let runs = tested.facts("a").await.facts.runs;
    assert!(runs.iter().all(|run| run.id != apply) && runs[0].plan.is_some());
    for (plan, expected) in [("p1", Outcome::Refused), ("p2", Outcome::Made)] {
        assert_eq!(store.discard(&a, &PlanDigest::new(plan), "ana").await.unwrap(), expected);
    }
}

/// Terraform writes the same bytes for plans that it makes within the same second.
pub(super) async fn plan_with_the_bytes_of_a_discarded_one_is_applied(tested: Tested<impl Store>) {
    let first = tested.plan("a").await;
    let attempt = tested.start("a", &first, 1).await;
    tested.finish(&attempt, saved("p", false)).await;
    let (store, a, plan) = (&tested.store, layer("a"), PlanDigest::new("p"));
    assert_eq!(store.discard(&a, &plan, "ana").await.unwrap(), Outcome::Made);
    let cause = Cause::Person { request: "1".into() };
    let second = tested.create("a", new_run("a", Action::Plan, cause, "d1", 1)).await;
    let attempt = tested.start("a", &second, 1).await;
    tested.finish(&attempt, saved("p", false)).await;
    assert_eq!(store.approve(&a, &plan, "ana").await.unwrap(), Outcome::Made);
    let apply = tested.facts("a").await.facts.runs.last().unwrap().id.clone();
    let attempt = tested.start("a", &apply, 1).await;
    // What is found out about the plan concerns the newer one.
    tested.finish(&attempt, AttemptResult::ended(Ending::StalePlan)).await;
    let runs = tested.facts("a").await.facts.runs;
    let plan = runs.iter().find(|run| run.id == second).unwrap().plan.as_ref().unwrap();
    assert_eq!((&plan.discarded, plan.stale.is_some()), (&None, true));
}
