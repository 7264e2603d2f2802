//! What every store must do. A further store is added to [`contract`] at the end.

mod changes;
mod journal;
mod random;

use std::sync::Mutex;

use changes::{
    failed_runs_of_earlier_changes_are_over, old_runs_are_removed,
    repair_after_a_revert_is_a_new_run, waiting_plan_keeps_its_commit,
};
use journal::{
    each_change_has_its_entries, entries_are_listed_in_order_and_numbered_once,
    what_changes_nothing_has_no_entry,
};
use random::transactions_equal_those_in_memory;

use super::*;
use crate::model::{
    Action, Attempt, Cause, ChangeCounts, Commit, Digest, FailureClass, Liveness, Revision, Run,
    StopReason,
};

/// A clock of a test, which stands until it is set.
#[derive(Clone, Default)]
pub(super) struct TestClock(Arc<Mutex<Moment>>);

impl TestClock {
    pub(super) fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Arc::new(move || *now.lock().unwrap())
    }

    fn set(&self, millis: u64) {
        *self.0.lock().unwrap() = Moment::from_millis(millis);
    }
}

/// A store of a test, with its clock, and what is removed after the test.
pub(super) struct Tested<S> {
    pub(super) store: S,
    pub(super) clock: TestClock,
    pub(super) _directory: Option<tempfile::TempDir>,
}

const KEY: &str = "state";

const TIMEOUT: Duration = Duration::from_mins(1);

fn layer(name: &str) -> LayerName {
    name.parse().unwrap()
}

pub(super) fn found(digest: &str) -> Sighting {
    Sighting::Found(revision(digest))
}

fn revision(digest: &str) -> Revision {
    Revision { commit: Commit::new(format!("c-{digest}")), digest: Digest::new(digest) }
}

fn new_run(name: &str, action: Action, cause: Cause, digest: &str, change: u64) -> NewRun {
    let id = RunId::derived(&layer(name), &Digest::new(digest), action, &cause);
    let destroys = matches!(cause, Cause::Destroy { .. });
    NewRun { id, action, cause, revision: revision(digest), change, destroys }
}

fn saved(digest: &str, is_empty: bool) -> AttemptResult {
    AttemptResult {
        plan: Some(SavedPlan {
            digest: PlanDigest::new(digest),
            counts: ChangeCounts { add: 1, change: 0, destroy: 0 },
            is_empty,
            saved: Moment::from_millis(5),
            discarded: None,
            stale: None,
        }),
        ..AttemptResult::ended(Ending::Succeeded)
    }
}

impl<S: Store> Tested<S> {
    pub(super) async fn see(&self, name: &str, digest: &str) {
        let readings = self.store.readings("infra").await.unwrap();
        let seen = [(layer(name), found(digest))];
        let made = self.store.observe("infra", readings, &seen).await.unwrap();
        assert_eq!(made, Outcome::Made);
    }

    async fn facts(&self, name: &str) -> Snapshot {
        self.store.snapshot(&layer(name), KEY, &[]).await.unwrap()
    }

    async fn create(&self, name: &str, run: NewRun) -> RunId {
        let id = run.id.clone();
        assert_eq!(self.store.insert_run(&layer(name), run).await.unwrap(), Outcome::Made);
        id
    }

    /// Creates a plan of the layer's first change.
    pub(super) async fn plan(&self, name: &str) -> RunId {
        self.see(name, "d1").await;
        let cause = Cause::Commit { change: 1 };
        self.create(name, new_run(name, Action::Plan, cause, "d1", 1)).await
    }

    pub(super) async fn try_start(&self, id: &AttemptId, after: &[LayerName]) -> Outcome {
        let request = StartRequest {
            attempt: id,
            state_key: KEY,
            after,
            concurrency: 2,
            timeout: TIMEOUT,
            place: "this machine",
            token: &TokenHash::of("brce_test"),
        };
        self.store.start_attempt(request).await.unwrap()
    }

    pub(super) async fn start(&self, name: &str, run: &RunId, number: u32) -> AttemptId {
        let id = AttemptId { layer: layer(name), run: run.clone(), number };
        assert_eq!(self.try_start(&id, &[]).await, Outcome::Made);
        id
    }

    pub(super) async fn finish(&self, id: &AttemptId, result: AttemptResult) {
        assert_eq!(self.store.finish(id, result).await.unwrap(), Outcome::Made);
    }

    /// Records that the attempt ended without a report.
    async fn lose(&self, id: &AttemptId) {
        let runs = self.facts(id.layer.as_str()).await.facts.runs;
        let run = runs.iter().find(|run| run.id == id.run).unwrap();
        let reports = run.running().unwrap().reports;
        let lost = || AttemptResult::ended(Ending::Lost);
        assert_eq!(self.store.finish(id, lost()).await.unwrap(), Outcome::Refused);
        let late = Note::Probed { liveness: Liveness::Gone, reports: reports + 1 };
        assert_eq!(self.store.note(id, late).await.unwrap(), Outcome::Refused);
        let gone = Note::Probed { liveness: Liveness::Gone, reports };
        assert_eq!(self.store.note(id, gone).await.unwrap(), Outcome::Made);
        // A process that shows up now is too late.
        assert_eq!(self.store.note(id, Note::Heartbeat).await.unwrap(), Outcome::Refused);
        self.finish(id, lost()).await;
    }

    /// Creates a check for drift of the layer's first change, which was due at this time.
    pub(super) async fn check_drift(&self, name: &str, due: u64) {
        let cause = Cause::Schedule { due: Moment::from_millis(due) };
        self.create(name, new_run(name, Action::Drift, cause, "d1", 1)).await;
    }

    /// Plans the layer's first change, and approves the plan.
    async fn waiting_apply(&self, name: &str) -> RunId {
        let plan = self.plan(name).await;
        let attempt = self.start(name, &plan, 1).await;
        self.finish(&attempt, saved("p1", false)).await;
        let approved = self.store.approve(&layer(name), &PlanDigest::new("p1"), "ana").await;
        assert_eq!(approved.unwrap(), Outcome::Made);
        self.facts(name).await.facts.runs[1].id.clone()
    }

    /// Plans and applies the layer's first change.
    async fn apply(&self, name: &str, changed: bool) -> RunId {
        let apply = self.waiting_apply(name).await;
        let attempt = self.start(name, &apply, 1).await;
        let result = AttemptResult { changed, ..AttemptResult::ended(Ending::Succeeded) };
        self.finish(&attempt, result).await;
        apply
    }
}

pub(super) async fn unknown_layers_are_empty(tested: Tested<impl Store>) {
    tested.clock.set(7);
    let snapshot = tested.facts("a").await;
    assert_eq!((snapshot.now, snapshot.observation), (Moment::from_millis(7), None));
    assert_eq!((snapshot.facts, snapshot.running), (Facts::default(), 0));
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

pub(super) async fn applies_that_begin_leave_nothing_applied(tested: Tested<impl Store>) {
    tested.apply("a", true).await;
    tested.see("a", "d2").await;
    let cause = Cause::Person { request: "1".into() };
    let plan = tested.create("a", new_run("a", Action::Plan, cause, "d2", 2)).await;
    let id = tested.start("a", &plan, 1).await;
    tested.finish(&id, saved("p2", false)).await;
    let _ = tested.store.approve(&layer("a"), &PlanDigest::new("p2"), "ana").await.unwrap();
    let apply = tested.facts("a").await.facts.runs.last().unwrap().id.clone();
    let id = tested.start("a", &apply, 1).await;
    assert_eq!(tested.facts("a").await.facts.applied, Some(revision("d1")));
    assert_eq!(tested.store.note(&id, Note::Begins).await.unwrap(), Outcome::Made);
    assert_eq!(tested.facts("a").await.facts.applied, None);
    tested.finish(&id, AttemptResult::ended(Ending::Failed(FailureClass::Module))).await;
    assert_eq!(tested.facts("a").await.facts.applied, None);
    // What it may have changed concerns the layers that come after it.
    tested.see("b", "d1").await;
    let snapshot = tested.store.snapshot(&layer("b"), KEY, &[layer("a")]).await.unwrap();
    assert_eq!(snapshot.facts.upstream_apply, Some(apply));
}

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
    assert_eq!(snapshot.running, 1);
    tested.lose(&first).await;
    assert_eq!(tested.facts("b").await.facts.lease, None);
    assert_eq!(tested.try_start(&waiting, &[]).await, Outcome::Made);
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
            timeout: TIMEOUT,
            place: "this machine",
            token: &TokenHash::of("brce_test"),
        };
        assert_eq!(tested.store.start_attempt(request).await.unwrap(), expected, "{name}");
    }
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
    assert_eq!(store.busy().await.unwrap(), Vec::new());
    let id = tested.start("b", &other, 1).await;
    assert_eq!(store.busy().await.unwrap(), [layer("b")]);
    tested.lose(&id).await;
    assert_eq!(store.busy().await.unwrap(), Vec::new());
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

pub(super) async fn notes_change_attempts_until_they_end(tested: Tested<impl Store>) {
    let run = tested.plan("a").await;
    tested.clock.set(1000);
    let id = tested.start("a", &run, 1).await;
    tested.clock.set(2000);
    for note in [
        Note::Heartbeat,
        Note::Begins,
        Note::Probed { liveness: Liveness::Unknown, reports: 2 },
        Note::StopRequested(StopReason::Cancelled),
        Note::StopRequested(StopReason::TimedOut),
        Note::StopDelivered,
    ] {
        assert_eq!(tested.store.note(&id, note).await.unwrap(), Outcome::Made);
    }
    let runs = tested.facts("a").await.facts.runs;
    let (at, attempt) = (Moment::from_millis(2000), runs[0].running().unwrap());
    let started = Moment::from_millis(1000);
    let expected = Attempt {
        launched: true,
        heartbeat: at,
        probed: Some((Liveness::Unknown, at)),
        unknown_since: Some(at),
        // The first reason counts.
        stop: Some((StopReason::Cancelled, at)),
        stop_delivered: true,
        began: true,
        reports: 2,
        ..Attempt::new(
            1,
            "this machine".to_owned(),
            TokenHash::of("brce_test"),
            1,
            started,
            started + TIMEOUT,
        )
    };
    assert_eq!(*attempt, expected);
    tested.lose(&id).await;
    assert_eq!(tested.store.note(&id, Note::Heartbeat).await.unwrap(), Outcome::Refused);
    let late = tested.store.finish(&id, AttemptResult::ended(Ending::Succeeded)).await.unwrap();
    assert_eq!(late, Outcome::Refused);
    assert!(!tested.facts("a").await.facts.runs[0].has_succeeded());
}

pub(super) async fn stopped_attempts_end_as_stopped(tested: Tested<impl Store>) {
    let reasons = [StopReason::Superseded, StopReason::Cancelled, StopReason::TimedOut];
    let endings = [
        Ending::Failed(FailureClass::Platform),
        Ending::Failed(FailureClass::Network),
        Ending::Failed(FailureClass::Module),
        Ending::StalePlan,
        Ending::Lost,
        Ending::NeverStarted,
        // Without a plan.
        Ending::Succeeded,
    ];
    let ends = reasons.into_iter().flat_map(|why| endings.map(|ending| (why, ending)));
    tested.see("a", "d1").await;
    for (number, (why, ending)) in ends.enumerate() {
        let cause = Cause::Person { request: number.to_string() };
        let run = tested.create("a", new_run("a", Action::Plan, cause, "d1", 1)).await;
        let id = tested.start("a", &run, 1).await;
        for note in
            [Note::StopRequested(why), Note::Probed { liveness: Liveness::Gone, reports: 0 }]
        {
            assert_eq!(tested.store.note(&id, note).await.unwrap(), Outcome::Made);
        }
        tested.finish(&id, AttemptResult::ended(ending)).await;
        let (_, run) = tested.store.run(&run).await.unwrap().unwrap();
        assert_eq!(run.last_end().unwrap().0, Ending::Stopped(why), "{ending:?}");
    }
    // The plan was ready before the request arrived.
    let run = tested.plan("b").await;
    let id = tested.start("b", &run, 1).await;
    let stop = Note::StopRequested(StopReason::Cancelled);
    assert_eq!(tested.store.note(&id, stop).await.unwrap(), Outcome::Made);
    tested.finish(&id, saved("p1", false)).await;
    assert!(tested.facts("b").await.facts.runs[0].has_succeeded());
}

pub(super) async fn stopped_apply_may_have_changed_something(tested: Tested<impl Store>) {
    let apply = tested.waiting_apply("a").await;
    let id = tested.start("a", &apply, 1).await;
    for note in [Note::Begins, Note::StopRequested(StopReason::Cancelled)] {
        assert_eq!(tested.store.note(&id, note).await.unwrap(), Outcome::Made);
    }
    tested.finish(&id, AttemptResult::ended(Ending::Failed(FailureClass::Network))).await;
    let facts = tested.facts("a").await.facts;
    let cancelled = Ending::Stopped(StopReason::Cancelled);
    assert_eq!(facts.runs[1].last_end().unwrap().0, cancelled);
    assert_eq!(facts.applied, None);
    let snapshot = tested.store.snapshot(&layer("b"), KEY, &[layer("a")]).await.unwrap();
    assert_eq!(snapshot.facts.upstream_apply, Some(apply));
}

pub(super) async fn results_change_what_is_applied(tested: Tested<impl Store>) {
    tested.clock.set(3000);
    tested.apply("a", true).await;
    let facts = tested.facts("a").await.facts;
    assert_eq!(facts.applied, Some(revision("d1")));
    assert_eq!(facts.applied_at, Some(Moment::from_millis(3000)));
    assert_eq!(facts.runs[1].approved_by.as_deref(), Some("ana"));

    // A check for drift, also after a newer digest was read.
    let due = Cause::Schedule { due: Moment::from_millis(1) };
    let check = tested.create("a", new_run("a", Action::Drift, due, "d1", 1)).await;
    tested.see("a", "d2").await;
    let id = tested.start("a", &check, 1).await;
    let difference = Some("x".to_owned());
    let result =
        AttemptResult { difference: difference.clone(), ..AttemptResult::ended(Ending::Succeeded) };
    tested.finish(&id, result).await;
    let facts = tested.facts("a").await.facts;
    assert_eq!(facts.drift.unwrap().difference, difference);
    assert!(facts.runs.iter().any(|run| run.id == check));

    // An empty plan of the new revision.
    let cause = Cause::Commit { change: 2 };
    let plan = tested.create("a", new_run("a", Action::Plan, cause, "d2", 2)).await;
    let id = tested.start("a", &plan, 1).await;
    tested.finish(&id, saved("p2", true)).await;
    assert_eq!(tested.facts("a").await.facts.applied, Some(revision("d2")));

    // A destroyed layer has nothing applied. An empty destroy plan changes nothing.
    let cause = Cause::Destroy { request: "1".into() };
    let plan = tested.create("a", new_run("a", Action::Plan, cause, "d2", 2)).await;
    let id = tested.start("a", &plan, 1).await;
    tested.finish(&id, saved("p3", false)).await;
    let _ = tested.store.approve(&layer("a"), &PlanDigest::new("p3"), "ana").await.unwrap();
    let destroy = tested.facts("a").await.facts.runs.last().unwrap().clone();
    assert_eq!(destroy.action, Action::Destroy);
    let id = tested.start("a", &destroy.id, 1).await;
    tested.finish(&id, AttemptResult::ended(Ending::Succeeded)).await;
    let facts = tested.facts("a").await.facts;
    assert_eq!((facts.applied, facts.drift), (None, None));
}

pub(super) async fn plans_are_approved_once_and_for_the_current_change(tested: Tested<impl Store>) {
    let plan = tested.plan("a").await;
    let id = tested.start("a", &plan, 1).await;
    tested.finish(&id, saved("p1", false)).await;
    let approve = async |digest: &str| {
        tested.store.approve(&layer("a"), &PlanDigest::new(digest), "ana").await.unwrap()
    };
    assert_eq!(approve("p2").await, Outcome::Refused);
    assert_eq!(approve("p1").await, Outcome::Made);
    assert_eq!(approve("p1").await, Outcome::Refused);
    let runs: Vec<Run> = tested.facts("a").await.facts.runs;
    assert_eq!(runs.len(), 2);
    tested.see("a", "d2").await;
    assert_eq!(approve("p1").await, Outcome::Refused);
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

/// Runs the contract with a store.
macro_rules! contract {
    ($store:ident, $new:expr) => {
        mod $store {
            contract!(
                $new,
                unknown_layers_are_empty,
                changes_of_the_digest_are_counted,
                older_reading_of_a_repository_is_refused,
                applies_that_begin_leave_nothing_applied,
                runs_are_inserted_once_and_for_the_current_change,
                one_attempt_uses_a_state,
                only_the_next_attempt_of_a_waiting_run_starts,
                concurrency_is_compared_at_the_start,
                runs_are_found_by_id_and_by_layer,
                layers_with_facts_are_listed,
                commits_that_may_be_needed_are_listed,
                notes_change_attempts_until_they_end,
                stopped_attempts_end_as_stopped,
                stopped_apply_may_have_changed_something,
                results_change_what_is_applied,
                plans_are_approved_once_and_for_the_current_change,
                applies_of_upstream_layers_are_ordered,
                repair_after_a_revert_is_a_new_run,
                failed_runs_of_earlier_changes_are_over,
                waiting_plan_keeps_its_commit,
                old_runs_are_removed,
                each_change_has_its_entries,
                what_changes_nothing_has_no_entry,
                entries_are_listed_in_order_and_numbered_once,
                transactions_equal_those_in_memory
            );
        }
    };
    ($new:expr, $($test:ident),*) => {
        $(
            #[tokio::test]
            async fn $test() {
                super::$test($new).await;
            }
        )*
    };
}

fn in_memory() -> Tested<MemoryStore> {
    let clock = TestClock::default();
    Tested { store: MemoryStore::new(clock.clock()), clock, _directory: None }
}

contract!(memory, super::in_memory());

contract!(sqlite, crate::store::sqlite::tests::tested());
