//! The breaker: automatic applies that fail in a row stop all others.

use super::*;
use crate::model::{Breaker, JournalKind};

const FAILED: Ending = Ending::Failed(FailureClass::Module);

/// Plans a layer, and creates the apply of the plan as the strategy `auto` does.
async fn automatic(tested: &Tested<impl Store>, name: &str) -> RunId {
    let plan = tested.plan(name).await;
    let attempt = tested.start(name, &plan, 1).await;
    tested.finish(&attempt, saved(&format!("p-{name}"), false)).await;
    let cause = Cause::Plan { plan: PlanDigest::new(format!("p-{name}")) };
    tested.create(name, new_run(name, Action::Apply, cause, "d1", 1)).await
}

/// Ends an automatic apply of a new layer.
async fn end(tested: &Tested<impl Store>, name: &str, ending: Ending) {
    let apply = automatic(tested, name).await;
    let attempt = tested.start(name, &apply, 1).await;
    tested.finish(&attempt, AttemptResult::ended(ending)).await;
}

async fn is_open(tested: &Tested<impl Store>) -> bool {
    let breaker = tested.store.breaker().await.unwrap();
    assert_eq!(tested.facts("a").await.breaker, breaker);
    breaker == Breaker::Open
}

/// The layers whose failures have opened the breaker.
async fn causes(tested: &Tested<impl Store>) -> Vec<String> {
    let opened = tested.store.open_breaker().await.unwrap().unwrap();
    opened.failures.iter().map(|failure| failure.layer.to_string()).collect()
}

/// The entries of the journal about the breaker.
async fn entries(tested: &Tested<impl Store>) -> Vec<(String, bool, JournalKind)> {
    let entries = tested.store.events(None, None, u32::MAX).await.unwrap().into_iter();
    let entries = entries.map(|it| (it.layer.to_string(), it.change.run.is_some(), it.change.what));
    let is_breaker = |kind: &JournalKind| {
        matches!(kind, JournalKind::BreakerOpened | JournalKind::BreakerReset { .. })
    };
    entries.filter(|(_, _, kind)| is_breaker(kind)).collect()
}

pub(super) async fn failures_in_a_row_open_the_breaker_until_a_person_resets_it(
    tested: Tested<impl Store>,
) {
    assert_eq!(tested.store.reset_breaker("ana").await.unwrap(), Outcome::Refused);
    let waits = automatic(&tested, "w").await;
    let running = AttemptId { layer: layer("w"), run: waits, number: 1 };
    for (name, ending) in [("a", FAILED), ("b", FAILED), ("c", Ending::Succeeded), ("d", FAILED)] {
        end(&tested, name, ending).await;
        assert!(!is_open(&tested).await, "{name}");
    }
    end(&tested, "e", FAILED).await;
    assert!(!is_open(&tested).await);
    assert_eq!(entries(&tested).await, []);
    end(&tested, "f", FAILED).await;
    assert!(is_open(&tested).await);
    let opened = ("f".to_owned(), true, JournalKind::BreakerOpened);
    assert_eq!(entries(&tested).await, std::slice::from_ref(&opened));
    // Those before the success did not open it.
    tested.clock.set(60_000);
    assert_eq!(causes(&tested).await, ["d", "e", "f"]);
    assert_eq!(tested.store.reset_breaker("ana").await.unwrap(), Outcome::Made);
    assert_eq!(tested.store.reset_breaker("bob").await.unwrap(), Outcome::Refused);
    assert!(!is_open(&tested).await);
    assert_eq!(tested.store.open_breaker().await.unwrap(), None);
    let reset = ("f".to_owned(), true, JournalKind::BreakerReset { by: "ana".into() });
    assert_eq!(entries(&tested).await, [opened, reset]);
    // It counts from 0 on.
    assert_eq!(tested.try_start(&running, &[]).await, Outcome::Made);
    tested.finish(&running, AttemptResult::ended(FAILED)).await;
    end(&tested, "g", FAILED).await;
    assert!(!is_open(&tested).await);
    end(&tested, "h", FAILED).await;
    assert!(is_open(&tested).await);
    assert_eq!(causes(&tested).await, ["w", "g", "h"]);
    let since = tested.store.open_breaker().await.unwrap().unwrap().since;
    assert_eq!(since, Some(Moment::from_millis(60_000)));
    assert_eq!(entries(&tested).await.len(), 3);
}

pub(super) async fn layer_counts_once_in_a_row_of_failures(tested: Tested<impl Store>) {
    // One layer that is broken, however often it is tried.
    for number in 0..5 {
        fail_again(&tested, "a", number).await;
        assert!(!is_open(&tested).await, "{number}");
    }
    end(&tested, "b", FAILED).await;
    fail_again(&tested, "a", 5).await;
    assert!(!is_open(&tested).await);
    end(&tested, "c", FAILED).await;
    assert!(is_open(&tested).await);
    assert_eq!(causes(&tested).await, ["b", "a", "c"]);
    // A new row begins after a reset, and after a success.
    assert_eq!(tested.store.reset_breaker("ana").await.unwrap(), Outcome::Made);
    for name in ["a", "b"] {
        fail_again(&tested, name, 6).await;
    }
    end(&tested, "d", Ending::Succeeded).await;
    for name in ["b", "a"] {
        fail_again(&tested, name, 7).await;
        assert!(!is_open(&tested).await, "{name}");
    }
    fail_again(&tested, "c", 8).await;
    assert!(is_open(&tested).await);
    assert_eq!(causes(&tested).await, ["b", "a", "c"]);
}

/// An automatic apply of a layer fails that was planned because a person asked for it.
async fn fail_again(tested: &Tested<impl Store>, name: &str, number: u64) {
    if number == 0 {
        tested.see(name, "d1").await;
    }
    let person = Cause::Person { request: number.to_string() };
    let plan = tested.create(name, new_run(name, Action::Plan, person, "d1", 1)).await;
    let attempt = tested.start(name, &plan, 1).await;
    let digest = format!("p-{name}-{number}");
    tested.finish(&attempt, saved(&digest, false)).await;
    let cause = Cause::Plan { plan: PlanDigest::new(digest) };
    let apply = tested.create(name, new_run(name, Action::Apply, cause, "d1", 1)).await;
    let attempt = tested.start(name, &apply, 1).await;
    tested.finish(&attempt, AttemptResult::ended(FAILED)).await;
}

pub(super) async fn only_failures_of_automatic_applies_count(tested: Tested<impl Store>) {
    end(&tested, "b", FAILED).await;
    end(&tested, "c", FAILED).await;
    // What says nothing about other layers.
    for (name, ending) in [("d", Ending::StalePlan), ("e", Ending::Stopped(StopReason::Superseded))]
    {
        end(&tested, name, ending).await;
    }
    let cancelled = automatic(&tested, "f").await;
    let attempt = tested.start("f", &cancelled, 1).await;
    let cancel = Note::StopRequested(StopReason::Cancelled);
    assert_eq!(tested.store.note(&attempt, cancel).await.unwrap(), Outcome::Made);
    tested.finish(&attempt, AttemptResult::ended(FAILED)).await;
    let plan = tested.plan("g").await;
    let attempt = tested.start("g", &plan, 1).await;
    tested.finish(&attempt, AttemptResult::ended(FAILED)).await;
    let never = automatic(&tested, "h").await;
    let attempt = tested.start("h", &never, 1).await;
    let gone = Note::Probed { liveness: Liveness::Gone, reports: 0 };
    assert_eq!(tested.store.note(&attempt, gone).await.unwrap(), Outcome::Made);
    tested.finish(&attempt, AttemptResult::ended(Ending::NeverStarted)).await;
    // A person has approved it, and is there.
    let approved = tested.waiting_apply("a").await;
    let attempt = tested.start("a", &approved, 1).await;
    tested.finish(&attempt, AttemptResult::ended(FAILED)).await;
    assert!(!is_open(&tested).await);
    // A lost attempt has failed, and one whose time was up.
    let late = automatic(&tested, "i").await;
    let attempt = tested.start("i", &late, 1).await;
    let stop = Note::StopRequested(StopReason::TimedOut);
    assert_eq!(tested.store.note(&attempt, stop).await.unwrap(), Outcome::Made);
    tested.finish(&attempt, AttemptResult::ended(FAILED)).await;
    assert!(is_open(&tested).await);
    assert_eq!(tested.store.reset_breaker("ana").await.unwrap(), Outcome::Made);
    end(&tested, "j", FAILED).await;
    end(&tested, "k", FAILED).await;
    let lost = automatic(&tested, "l").await;
    let attempt = tested.start("l", &lost, 1).await;
    tested.lose(&attempt).await;
    assert!(is_open(&tested).await);
}

pub(super) async fn automatic_applies_do_not_start_while_the_breaker_is_open(
    tested: Tested<impl Store>,
) {
    let (waits, runs) = (automatic(&tested, "w").await, automatic(&tested, "r").await);
    let waits = AttemptId { layer: layer("w"), run: waits, number: 1 };
    end(&tested, "b", FAILED).await;
    end(&tested, "c", FAILED).await;
    let approved = tested.waiting_apply("a").await;
    let last = automatic(&tested, "d").await;
    let attempt = tested.start("d", &last, 1).await;
    tested.finish(&attempt, AttemptResult::ended(FAILED)).await;
    assert_eq!(tested.try_start(&waits, &[]).await, Outcome::Refused);
    // A plan starts, and what a person has approved. A success does not close the breaker.
    let plan = tested.plan("p").await;
    let attempt = tested.start("p", &plan, 1).await;
    tested.finish(&attempt, saved("p-p", false)).await;
    let attempt = tested.start("a", &approved, 1).await;
    tested.finish(&attempt, AttemptResult::ended(Ending::Succeeded)).await;
    assert!(is_open(&tested).await);
    let approve = tested.store.approve(&layer("r"), &PlanDigest::new("p-r"), "ana").await;
    assert_eq!(approve.unwrap(), Outcome::Made);
    tested.start("r", &runs, 1).await;
    let attempt = AttemptId { layer: layer("r"), run: runs, number: 1 };
    tested.finish(&attempt, AttemptResult::ended(Ending::Succeeded)).await;
    assert_eq!(tested.try_start(&waits, &[]).await, Outcome::Refused);
    assert_eq!(tested.store.reset_breaker("ana").await.unwrap(), Outcome::Made);
    assert_eq!(tested.try_start(&waits, &[]).await, Outcome::Made);
}
