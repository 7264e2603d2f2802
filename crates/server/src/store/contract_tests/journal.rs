//! The journal: each change has its entries, and nothing else has one.

use super::*;
use crate::model::JournalKind;

/// The entries after `after`, as `LAYER ATTEMPT KIND`.
async fn entries(tested: &Tested<impl Store>, after: u64) -> Vec<String> {
    let entries = tested.store.events(Some(after), None, 100).await.unwrap();
    let describe = |entry: JournalEntry| {
        let attempt = entry.change.attempt.map_or(String::new(), |number| format!(" {number}"));
        let what = serde_json::to_string(&entry.change.what).unwrap().replace('"', "");
        format!("{}{attempt} {what}", entry.layer)
    };
    entries.into_iter().map(describe).collect()
}

/// Compares what was recorded since the last call.
macro_rules! recorded {
    ($tested:ident, $last:ident, $expected:expr) => {{
        let expected: &[&str] = &$expected;
        assert_eq!(entries(&$tested, $last).await, expected);
        let newest = $tested.store.events(Some($last), None, 100).await.unwrap();
        $last = newest.last().map_or($last, |entry| entry.sequence);
        assert_eq!(*$tested.store.journal().borrow(), $last);
    }};
}

pub(super) async fn each_change_has_its_entries(tested: Tested<impl Store>) {
    let mut last = 0;
    let plan = tested.plan("a").await;
    let read = "a {kind:revision-read,digest:d1,commit:c-d1}";
    recorded!(tested, last, [read, "a {kind:run-created,action:plan,cause:commit}"]);
    tested.store.pause(&layer("a"), Some("ana")).await.unwrap();
    tested.store.pause(&layer("a"), Some("ana")).await.unwrap();
    recorded!(tested, last, ["a {kind:paused,by:ana}"]);
    tested.store.pause(&layer("a"), None).await.unwrap();
    recorded!(tested, last, ["a {kind:resumed}"]);
    let id = tested.start("a", &plan, 1).await;
    recorded!(tested, last, ["a 1 {kind:attempt-started}"]);
    tested.finish(&id, AttemptResult::ended(Ending::Failed(FailureClass::Network))).await;
    recorded!(tested, last, ["a 1 {kind:attempt-ended,ending:{failed:network}}"]);
    let id = tested.start("a", &plan, 2).await;
    tested.finish(&id, saved("p1", false)).await;
    let ended = "a 2 {kind:attempt-ended,ending:succeeded}";
    recorded!(tested, last, ["a 2 {kind:attempt-started}", ended]);
    let made = tested.store.approve(&layer("a"), &PlanDigest::new("p1"), "ana").await.unwrap();
    assert_eq!(made, Outcome::Made);
    let created = "a {kind:run-created,action:apply,cause:plan}";
    recorded!(tested, last, [created, "a {kind:plan-approved,plan:p1,by:ana}"]);
    let apply = tested.facts("a").await.facts.runs[1].id.clone();
    let id = tested.start("a", &apply, 1).await;
    for note in [Note::Begins, Note::Begins, Note::StopRequested(StopReason::TimedOut)] {
        assert_eq!(tested.store.note(&id, note).await.unwrap(), Outcome::Made);
    }
    let stop = "a 1 {kind:stop-requested,why:timed-out}";
    recorded!(tested, last, ["a 1 {kind:attempt-started}", "a 1 {kind:apply-began}", stop]);
    let entry = tested.store.events(Some(last - 1), None, 1).await.unwrap().remove(0);
    assert_eq!((entry.change.run, entry.change.attempt), (Some(apply), Some(1)));
    let waiting = tested.plan("b").await;
    let made = tested.store.close_run(&layer("b"), &waiting, Closed::Cancelled).await.unwrap();
    assert_eq!(made, Outcome::Made);
    let read = "b {kind:revision-read,digest:d1,commit:c-d1}";
    let created = "b {kind:run-created,action:plan,cause:commit}";
    recorded!(tested, last, [read, created, "b {kind:run-closed,why:cancelled}"]);
}

pub(super) async fn what_changes_nothing_has_no_entry(tested: Tested<impl Store>) {
    let plan = tested.plan("a").await;
    let id = tested.start("a", &plan, 1).await;
    let last = *tested.store.journal().borrow();
    // The same reading, and another commit with the same digest.
    tested.see("a", "d1").await;
    let seen = Revision { commit: Commit::new("c-later"), ..revision("d1") };
    let readings = tested.store.readings("infra").await.unwrap();
    let seen = [(layer("a"), Sighting::Found(seen))];
    let _ = tested.store.observe("infra", readings, &seen, &[]).await.unwrap();
    for note in [
        Note::Heartbeat,
        Note::Probed { liveness: Liveness::Alive, reports: 1 },
        Note::StopDelivered,
    ] {
        assert_eq!(tested.store.note(&id, note).await.unwrap(), Outcome::Made);
    }
    // Refused: it exists, it runs, another attempt, no plan.
    let again = new_run("a", Action::Plan, Cause::Commit { change: 1 }, "d1", 1);
    let unknown = AttemptId { number: 2, ..id.clone() };
    let why = Closed::Superseded;
    for outcome in [
        tested.store.insert_run(&layer("a"), again).await.unwrap(),
        tested.store.close_run(&layer("a"), &plan, why).await.unwrap(),
        tested.try_start(&unknown, &[]).await,
        tested.store.finish(&unknown, AttemptResult::ended(Ending::Succeeded)).await.unwrap(),
        tested.store.note(&unknown, Note::Begins).await.unwrap(),
        tested.store.approve(&layer("a"), &PlanDigest::new("p"), "ana").await.unwrap(),
        tested.store.observe("infra", 0, &[(layer("a"), found("d2"))], &[]).await.unwrap(),
    ] {
        assert_eq!(outcome, Outcome::Refused);
    }
    assert_eq!(entries(&tested, last).await, Vec::<String>::new());
    assert_eq!(*tested.store.journal().borrow(), last);
}

pub(super) async fn entries_are_listed_in_order_and_numbered_once(tested: Tested<impl Store>) {
    // The clock goes backwards, and the order is still right.
    for (millis, name) in [(9000, "a"), (1000, "b"), (5000, "c")] {
        tested.clock.set(millis);
        tested.see(name, "d1").await;
    }
    let list = async |after, name: Option<&str>, limit| -> Vec<(u64, u64)> {
        let name = name.map(layer);
        let entries = tested.store.events(after, name.as_ref(), limit).await.unwrap();
        entries.iter().map(|entry| (entry.sequence, entry.at.as_millis())).collect()
    };
    assert_eq!(list(None, None, 9).await, [(1, 9000), (2, 1000), (3, 5000)]);
    assert_eq!(list(None, None, 2).await, [(1, 9000), (2, 1000)]);
    assert_eq!(list(Some(1), None, 1).await, [(2, 1000)]);
    assert_eq!(list(Some(1), Some("c"), 9).await, [(3, 5000)]);
    assert_eq!(list(Some(1), Some("a"), 9).await, []);
    let prune = async |millis| {
        tested.store.prune_events(Moment::from_millis(millis)).await.unwrap();
    };
    prune(5000).await;
    assert_eq!(list(None, None, 9).await, [(1, 9000), (3, 5000)]);
    prune(9001).await;
    assert_eq!(list(None, None, 9).await, []);
    assert_eq!(*tested.store.journal().borrow(), 3);
    tested.see("a", "d2").await;
    assert_eq!(list(None, None, 9).await, [(4, 5000)]);
}

pub(super) async fn newest_entries_are_listed_first_and_can_be_filtered(
    tested: Tested<impl Store>,
) {
    tested.apply("a", true).await;
    tested.check_drift("a", 1).await;
    let check = tested.facts("a").await.facts.runs.last().unwrap().id.clone();
    let attempt = tested.start("a", &check, 1).await;
    let difference = Some("x".to_owned());
    let result = AttemptResult { difference, ..AttemptResult::ended(Ending::Succeeded) };
    tested.finish(&attempt, result).await;
    tested.see("b", "d1").await;
    let all = tested.store.events(None, None, 100).await.unwrap();
    let newest = async |before, name: Option<&str>, only_drift, limit| -> Vec<JournalEntry> {
        let filter = EventFilter { layer: name.map(layer), only_drift };
        tested.store.newest_events(before, &filter, limit).await.unwrap()
    };
    let mut expected = all.clone();
    expected.reverse();
    assert_eq!(newest(u64::MAX, None, false, 100).await, expected);
    assert_eq!(newest(u64::MAX, None, false, 2).await, expected[..2]);
    assert_eq!(newest(expected[1].sequence, None, false, 2).await, expected[2..4]);
    let of = |entries: &[JournalEntry], name: &str| {
        entries.iter().filter(|entry| entry.layer == layer(name)).count()
    };
    let only_b = newest(u64::MAX, Some("b"), false, 100).await;
    assert_eq!((only_b.len(), of(&only_b, "b")), (of(&all, "b"), of(&all, "b")));
    let drift = newest(u64::MAX, None, true, 100).await;
    let found = JournalKind::DriftFound { difference: "x".to_owned() };
    assert_eq!(drift.iter().map(|entry| &entry.change.what).collect::<Vec<_>>(), [&found]);
    assert_eq!(drift[0].change.run, Some(check));
    assert_eq!(newest(u64::MAX, Some("a"), true, 100).await, drift);
    assert_eq!(newest(u64::MAX, Some("b"), true, 100).await, []);
    assert_eq!(newest(drift[0].sequence, None, true, 100).await, []);
}
