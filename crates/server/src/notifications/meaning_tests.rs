//! What entries mean, in one row for each situation.

use std::time::Duration;

use butler_registry::TokenHash;

use super::meaning::{Known, can_mean, meanings};
use crate::config::NotificationEvent::{
    self, Applied, Breaker, Checks, Drift, Failed, Resolved, Waiting,
};
use crate::model::{
    Action, Attempt, Cause, ChangeCounts, Closed, Commit, Digest, Ending, FailureClass,
    JournalChange, JournalEntry, JournalKind, Layer, Moment, NewRun, PlanDigest, Revision, Run,
    RunId, SavedPlan, StopReason, Strategy, Timeouts,
};

const SYNTAX: Ending = Ending::Failed(FailureClass::Syntax);
const NETWORK: Ending = Ending::Failed(FailureClass::Network);

fn layer(strategy: Strategy) -> Layer {
    let hour = Duration::from_hours(1);
    Layer {
        name: "net".parse().unwrap(),
        strategy,
        drift: None,
        destroy_limit: None,
        most_attempts: 2,
        timeouts: Timeouts { plan: hour, apply: hour },
        plan_lifetime: 24 * hour,
        after: Vec::new(),
        has_backend: true,
        formerly: None,
        conflict: None,
    }
}

/// A run whose attempts have ended so.
fn run(id: &str, action: Action, endings: &[Ending]) -> Run {
    let revision = Revision { commit: Commit::new("c"), digest: Digest::new("d") };
    let (cause, destroys) = (Cause::Commit { change: 1 }, action == Action::Destroy);
    let run = NewRun { id: RunId::new(id), action, cause, revision, change: 1, destroys };
    let mut run = Run::new(run, Moment::from_millis(1));
    for (number, ending) in (1..).zip(endings) {
        let (place, token) = (|| "here".to_owned(), TokenHash::of("brce_test"));
        let now = Moment::from_millis(2);
        let mut attempt = Attempt::new(number, place(), place(), token, 1, now, now);
        attempt.end = Some((*ending, now));
        run.attempts.push(attempt);
    }
    run
}

/// A plan that succeeded.
fn planned(is_empty: bool) -> Run {
    let mut run = run("r", Action::Plan, &[Ending::Succeeded]);
    run.plan = Some(SavedPlan {
        digest: PlanDigest::new("p"),
        counts: ChangeCounts { add: 3, destroy: 1, ..ChangeCounts::default() },
        is_empty,
        is_stored: true,
        saved: Moment::from_millis(2),
        discarded: None,
        stale: None,
    });
    run
}

fn known(run: Option<Run>, older: Vec<Run>) -> Known {
    let configured = Some(layer(Strategy::Approve));
    Known { layer: "net".parse().unwrap(), configured, run, older, is_undecided: true }
}

fn entry(attempt: Option<u32>, what: JournalKind) -> JournalEntry {
    JournalEntry {
        sequence: 7,
        at: Moment::from_millis(5),
        layer: "net".parse().unwrap(),
        change: JournalChange { run: Some(RunId::new("r")), attempt, what },
    }
}

/// What the end of the last attempt of the run means.
fn events(known: &Known) -> Vec<NotificationEvent> {
    let run = known.run.as_ref().unwrap();
    let number = run.attempts.last().unwrap().number;
    let ending = run.last_end().unwrap().0;
    let entry = entry(Some(number), JournalKind::AttemptEnded { ending });
    meanings(&entry, known).into_iter().map(|it| it.event).collect()
}

#[test]
fn end_of_an_attempt_is_told_if_its_run_has_failed_for_good() {
    use Action::{Apply, Plan};
    let stopped = |why| Ending::Stopped(why);
    for (action, endings, expected) in [
        (Plan, &[SYNTAX][..], true),
        (Plan, &[stopped(StopReason::TimedOut)], true),
        (Plan, &[stopped(StopReason::Cancelled)], false),
        (Plan, &[stopped(StopReason::Superseded)], false),
        // It is tried again, and then no more.
        (Plan, &[NETWORK], false),
        (Plan, &[NETWORK, NETWORK], true),
        (Plan, &[Ending::Lost], false),
        (Plan, &[Ending::NeverStarted, Ending::Lost], true),
        // It is planned again.
        (Apply, &[Ending::StalePlan], false),
        // It may have changed something, and is not repeated.
        (Apply, &[Ending::Lost], true),
        (Apply, &[SYNTAX], true),
    ] {
        let known = known(Some(run("r", action, endings)), Vec::new());
        let expected = if expected { vec![Failed] } else { Vec::new() };
        assert_eq!(events(&known), expected, "{action:?} {endings:?}");
    }
}

#[test]
fn failure_is_told_as_it_was_although_the_run_went_on() {
    let mut later = run("r", Action::Plan, &[NETWORK, Ending::Succeeded]);
    later.closed = Some(Closed::Superseded);
    let known_later = known(Some(later), Vec::new());
    let first = entry(Some(1), JournalKind::AttemptEnded { ending: NETWORK });
    assert_eq!(meanings(&first, &known_later), []);
    // Cancelled after it had failed for good.
    let mut closed = run("r", Action::Plan, &[SYNTAX]);
    closed.closed = Some(Closed::Cancelled);
    assert_eq!(events(&known(Some(closed), Vec::new())), [Failed]);
    // Of a run that was removed, only what is certain is told.
    let removed = known(None, Vec::new());
    for (ending, expected) in [(SYNTAX, 1), (NETWORK, 0), (Ending::Succeeded, 0)] {
        let entry = entry(Some(1), JournalKind::AttemptEnded { ending });
        assert_eq!(meanings(&entry, &removed).len(), expected, "{ending:?}");
    }
}

#[test]
fn plan_waits_if_a_person_must_approve_it_and_has_not_decided() {
    let with = |strategy, limit, is_undecided, is_empty| {
        let configured = Layer { destroy_limit: limit, ..layer(strategy) };
        let known = known(Some(planned(is_empty)), Vec::new());
        events(&Known { configured: Some(configured), is_undecided, ..known })
    };
    assert_eq!(with(Strategy::Approve, None, true, false), [Waiting]);
    assert_eq!(with(Strategy::Approve, None, false, false), []);
    assert_eq!(with(Strategy::Approve, None, true, true), []);
    assert_eq!(with(Strategy::Auto, None, true, false), []);
    assert_eq!(with(Strategy::Auto, Some(1), true, false), []);
    assert_eq!(with(Strategy::Auto, Some(0), true, false), [Waiting]);
    assert_eq!(with(Strategy::PlanOnly, None, true, false), []);
    let left = Known { configured: None, ..known(Some(planned(false)), Vec::new()) };
    assert_eq!(events(&left), []);
    let told = known(Some(planned(false)), Vec::new());
    let entry = entry(Some(1), JournalKind::AttemptEnded { ending: Ending::Succeeded });
    let counts = meanings(&entry, &told)[0].changes();
    assert_eq!(counts.as_deref(), Some("3 to add, 1 to destroy"));
}

#[test]
fn success_after_a_failure_of_the_same_action_is_told() {
    const OK: &[Ending] = &[Ending::Succeeded];
    const CANCELLED: &[Ending] = &[Ending::Stopped(StopReason::Cancelled)];
    use Action::{Apply, Drift as Check, Plan};
    for (action, older, expected) in [
        (Check, &[][..], &[][..]),
        (Check, &[(Check, &[SYNTAX][..])], &[Resolved]),
        (Check, &[(Check, &[SYNTAX]), (Check, OK)], &[]),
        // It says nothing about the failure before.
        (Check, &[(Check, &[SYNTAX]), (Check, CANCELLED)], &[Resolved]),
        // It was tried again, and nothing was told.
        (Check, &[(Check, &[NETWORK])], &[]),
        (Check, &[(Plan, &[SYNTAX])], &[]),
        (Apply, &[], &[Applied]),
        (Apply, &[(Apply, &[Ending::Lost]), (Plan, OK)], &[Applied, Resolved]),
        (Action::Destroy, &[], &[Applied]),
        (Plan, &[(Plan, &[SYNTAX])], &[Resolved]),
    ] {
        let earlier = (0..)
            .zip(older)
            .map(|(number, (action, endings))| run(&format!("older-{number}"), *action, endings));
        let known = known(Some(run("r", action, OK)), earlier.collect());
        assert_eq!(events(&known), expected, "{action:?} {older:?}");
    }
}

#[test]
fn drift_and_the_breaker_are_told_and_other_entries_are_not() {
    let known = known(None, Vec::new());
    for (what, expected) in [
        (JournalKind::DriftFound { difference: "h".to_owned() }, Some(Drift)),
        (JournalKind::DriftResolved, Some(Resolved)),
        (JournalKind::ChecksFailed { checks: vec!["check.a".to_owned()] }, Some(Checks)),
        (JournalKind::ChecksPassed, Some(Resolved)),
        (JournalKind::BreakerOpened, Some(Breaker)),
        (JournalKind::BreakerReset { by: "ana".to_owned() }, None),
        (JournalKind::AttemptStarted, None),
        (JournalKind::Resumed, None),
    ] {
        let told = meanings(&entry(None, what.clone()), &known);
        assert_eq!(told.first().map(|it| it.event), expected, "{what:?}");
        assert_eq!(can_mean(&what), expected.is_some(), "{what:?}");
    }
}
