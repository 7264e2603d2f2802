//! What attempts report, how they end, and what follows from it.

use super::*;
use crate::model::JournalKind;

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
            "infra".to_owned(),
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

pub(super) async fn lock_that_an_attempt_reported_is_stored_until_one_succeeds(
    tested: Tested<impl Store>,
) {
    let run = tested.plan("a").await;
    let id = tested.start("a", &run, 1).await;
    let holder = Holder { who: "a@b".into(), operation: "o".into(), created: "c".into() };
    let lock = StateLock { id: Some("1-2".into()), holder: Some(holder) };
    let failed = AttemptResult::ended(Ending::Failed(FailureClass::Lock));
    tested.finish(&id, AttemptResult { lock: Some(lock.clone()), ..failed }).await;
    let reported = async || {
        let facts = tested.facts("a").await.facts;
        facts.reported_lock.map(|it| (it.run, it.lock))
    };
    assert_eq!(reported().await, Some((run.clone(), lock.clone())));
    // Another lock, and an end that says nothing.
    let other = StateLock { id: Some("3".into()), holder: None };
    for (number, lock) in [(2, Some(other.clone())), (3, None)] {
        let id = tested.start("a", &run, number).await;
        let failed = AttemptResult::ended(Ending::Failed(FailureClass::Network));
        tested.finish(&id, AttemptResult { lock, ..failed }).await;
        assert_eq!(reported().await, Some((run.clone(), other.clone())));
    }
    // A commit says nothing about the lock.
    tested.see("a", "d2").await;
    assert_eq!(reported().await, Some((run.clone(), other.clone())));
    let (_, stored) = tested.store.run(&run).await.unwrap().unwrap();
    let locks: Vec<_> = stored.attempts.iter().map(|attempt| attempt.lock.clone()).collect();
    assert_eq!(locks, [Some(lock), Some(other), None]);

    let cause = Cause::Unlock { request: "1".into(), lock: "3".parse().unwrap() };
    let unlock = tested.create("a", new_run("a", Action::Plan, cause.clone(), "d2", 2)).await;
    let id = tested.start("a", &unlock, 1).await;
    tested.finish(&id, saved("p1", false)).await;
    assert_eq!(reported().await, None);
    let (_, stored) = tested.store.run(&unlock).await.unwrap().unwrap();
    assert_eq!(stored.cause, cause);
}

pub(super) async fn drift_has_an_age_until_a_check_finds_none(tested: Tested<impl Store>) {
    tested.apply("a", true).await;
    for (at, difference, since) in [
        (1_000, None, None),
        (2_000, Some("x"), Some(2_000)),
        (3_000, Some("x"), Some(2_000)),
        // Drift that has changed is not resolved.
        (4_000, Some("y"), Some(2_000)),
        (5_000, None, None),
        (6_000, Some("y"), Some(6_000)),
    ] {
        tested.clock.set(at);
        tested.check_drift("a", at).await;
        let run = tested.facts("a").await.facts.runs.last().unwrap().id.clone();
        let id = tested.start("a", &run, 1).await;
        let difference = difference.map(str::to_owned);
        let found = AttemptResult { difference, ..AttemptResult::ended(Ending::Succeeded) };
        tested.finish(&id, found).await;
        let drift = tested.facts("a").await.facts.drift.unwrap();
        assert_eq!(drift.since, since.map(Moment::from_millis), "{at}");
    }
    // Drift that is known already has no further entry, so it is told once.
    let filter = EventFilter { layer: None, only_drift: true };
    let told = tested.store.newest_events(u64::MAX, &filter, 100).await.unwrap();
    let told: Vec<_> = told.iter().rev().map(|entry| entry.change.what.clone()).collect();
    let found = |difference: &str| JournalKind::DriftFound { difference: difference.to_owned() };
    assert_eq!(told, [found("x"), found("y"), JournalKind::DriftResolved, found("y")]);
}

pub(super) async fn failing_checks_are_told_once_and_moved_outputs_plan_what_comes_after(
    tested: Tested<impl Store>,
) {
    tested.apply("a", false).await;
    tested.see("down", "d1").await;
    let check = async |at: u64, failing: &[&str], outputs: Option<&str>| {
        tested.clock.set(at);
        tested.check_drift("a", at).await;
        let run = tested.facts("a").await.facts.runs.last().unwrap().id.clone();
        let id = tested.start("a", &run, 1).await;
        let seen = Seen {
            failing_checks: failing.iter().map(|it| (*it).to_owned()).collect(),
            outputs_difference: outputs.map(str::to_owned),
            ..Seen::default()
        };
        let found = AttemptResult { seen: seen.clone(), ..AttemptResult::ended(Ending::Succeeded) };
        tested.finish(&id, found).await;
        assert_eq!(tested.facts("a").await.facts.drift.unwrap().seen, seen);
        let snapshot = tested.store.snapshot(&layer("down"), KEY, &[layer("a")]).await.unwrap();
        snapshot.facts.upstream_apply == Some(run)
    };
    assert!(!check(1_000, &[], None).await);
    assert!(!check(2_000, &["check.a"], None).await);
    assert!(check(3_000, &["check.a"], Some("x")).await);
    assert!(!check(4_000, &["check.a", "check.b"], Some("x")).await);
    assert!(check(5_000, &[], Some("y")).await);
    let told = tested.store.newest_events(u64::MAX, &EventFilter::default(), 100).await.unwrap();
    let told = told.iter().rev().map(|entry| entry.change.what.clone());
    let is_check = |what: &JournalKind| {
        matches!(what, JournalKind::ChecksFailed { .. } | JournalKind::ChecksPassed)
    };
    let failed = |names: &[&str]| JournalKind::ChecksFailed {
        checks: names.iter().map(|it| (*it).to_owned()).collect(),
    };
    assert_eq!(
        told.filter(is_check).collect::<Vec<_>>(),
        [failed(&["check.a"]), failed(&["check.a", "check.b"]), JournalKind::ChecksPassed]
    );
}

pub(super) async fn repaired_drift_is_known_until_a_check_finds_none(tested: Tested<impl Store>) {
    tested.apply("a", true).await;
    let check = async |at: u64, difference: Option<&str>| {
        tested.clock.set(at);
        tested.check_drift("a", at).await;
        let run = tested.facts("a").await.facts.runs.last().unwrap().id.clone();
        let id = tested.start("a", &run, 1).await;
        let difference = difference.map(str::to_owned);
        let found = AttemptResult { difference, ..AttemptResult::ended(Ending::Succeeded) };
        tested.finish(&id, found).await;
        run
    };
    let run = check(1_000, Some("x")).await;
    let cause = Cause::Drift { run, change: 1 };
    let plan = tested.create("a", new_run("a", Action::Plan, cause, "d1", 1)).await;
    let id = tested.start("a", &plan, 1).await;
    tested.finish(&id, saved("repair", false)).await;
    let approved = tested.store.approve(&layer("a"), &PlanDigest::new("repair"), "ana").await;
    assert_eq!(approved.unwrap(), Outcome::Made);
    let apply = tested.facts("a").await.facts.runs.last().unwrap().id.clone();
    let id = tested.start("a", &apply, 1).await;
    assert_eq!(tested.store.note(&id, Note::Begins).await.unwrap(), Outcome::Made);
    tested.finish(&id, AttemptResult::ended(Ending::Succeeded)).await;
    let repaired = async || tested.facts("a").await.facts.repaired_drift;
    assert_eq!(repaired().await.as_deref(), Some("x"));
    check(2_000, Some("x")).await;
    assert_eq!(repaired().await.as_deref(), Some("x"));
    check(3_000, None).await;
    assert_eq!(repaired().await, None);
}
