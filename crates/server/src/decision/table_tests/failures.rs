//! Runs that fail.

use super::*;
use Phase::{Blocked, Failed, Noop, PendingTrigger, Succeeded, Triggering};

/// An apply that has begun, and has ended like this some time ago.
fn began_and_ended(world: &mut World, ending: Ending) {
    let apply = world.apply();
    ended(apply, ending);
    apply.attempts[0].began = true;
    world.now = NOW + secs(20);
}

/// Plans after an apply that has failed after it may have changed something.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn once_more() -> Vec<Row> {
    let waits: Expected = (PendingTrigger, "", &[Gate::Approval], true);
    let goes_on: Expected = (PendingTrigger, "create apply plan", &[], false);
    let person = || Cause::Person { request: "1".into() };
    vec![
        ("apply failed, planned again", auto().with(|w| _ = w.replanned()), waits),
        (
            "apply failed, planned again, empty plan",
            auto().with(|w| w.replanned().plan.as_mut().unwrap().is_empty = true),
            (Noop, "", &[], false),
        ),
        (
            "apply failed, planned again, approved",
            auto().with(|w| {
                w.replanned();
                w.applied_again().approved_by = Some("ana".into());
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "apply failed, planned again, an apply was created before the strategy changed",
            auto().with(|w| {
                w.replanned();
                w.applied_again();
            }),
            (PendingTrigger, "", &[Gate::Approval], true),
        ),
        (
            "apply failed, planned again, discarded",
            auto().with(|w| w.replanned().plan.as_mut().unwrap().discarded = Some("ana".into())),
            (Succeeded, "", &[Gate::Approval], false),
        ),
        (
            "apply failed, planned again, stale and planned once more",
            auto().with(|w| {
                let plan = w.replanned();
                plan.plan.as_mut().unwrap().stale = Some(StalePlan::State);
                let run = plan.id.clone();
                w.planned_again(Cause::Replan { run });
            }),
            waits,
        ),
        (
            "apply failed, planned again, an upstream layer changed",
            auto().with(|w| {
                w.replanned();
                w.planned_again(Cause::Dependency { run: RunId::new("up"), change: 2 });
            }),
            waits,
        ),
        (
            "apply failed twice, the second time approved, planned again",
            auto().with(|w| {
                w.replanned();
                let apply = w.applied_again();
                apply.approved_by = Some("ana".into());
                ended(apply, Ending::Lost);
                let run = apply.id.clone();
                w.planned_again(Cause::Replan { run });
            }),
            waits,
        ),
        (
            "apply failed, planned again, the approved apply found the plan stale",
            auto().with(|w| {
                w.replanned();
                let apply = w.applied_again();
                apply.approved_by = Some("ana".into());
                ended(apply, Ending::StalePlan);
                let run = apply.id.clone();
                w.planned_again(Cause::Replan { run });
            }),
            waits,
        ),
        (
            "apply timed out, planned again",
            auto().with(|w| {
                w.replanned();
                w.facts.runs[1].attempts[0].end =
                    Some((Ending::Stopped(StopReason::TimedOut), ago(secs(1))));
            }),
            waits,
        ),
        (
            "apply failed, a person asked for a plan",
            auto().with(|w| {
                w.replanned();
                w.planned_again(person());
            }),
            goes_on,
        ),
        (
            "apply failed, a person asked for a plan, which became stale",
            auto().with(|w| {
                w.replanned();
                let plan = w.planned_again(person());
                plan.plan.as_mut().unwrap().stale = Some(StalePlan::Variables);
                let run = plan.id.clone();
                w.planned_again(Cause::Replan { run });
            }),
            goes_on,
        ),
        (
            "apply failed at another change",
            auto().with(|w| {
                w.replanned();
                w.facts.runs.iter_mut().for_each(|run| run.change = 1);
                w.planned_again(Cause::Commit { change: 2 });
            }),
            goes_on,
        ),
        (
            "apply failed, an approved one succeeded, drift is repaired",
            drifting(true).with(|w| {
                w.replanned();
                let apply = w.applied_again();
                apply.approved_by = Some("ana".into());
                ended(apply, Ending::Succeeded);
                w.planned_again(Cause::Drift { run: RunId::new("check"), change: 2 });
                w.facts.applied_at = Some(NOW);
            }),
            goes_on,
        ),
        (
            "apply found its plan stale, planned again",
            auto().with(|w| {
                w.replanned();
                let failed = &mut w.facts.runs[1].attempts[0];
                (failed.began, failed.end) = (false, Some((Ending::StalePlan, ago(secs(1)))));
            }),
            goes_on,
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn rows() -> Vec<Row> {
    vec![
        (
            "plan failed of the network",
            auto().with(|w| ended(w.plan(), Ending::Failed(FailureClass::Network))),
            (Failed, "", &[Gate::Retry], true),
        ),
        (
            "plan failed of the network, wait over",
            auto().with(|w| {
                ended(w.plan(), Ending::Failed(FailureClass::Network));
                w.now = NOW + secs(20);
            }),
            (Triggering, "start 2", &[], false),
        ),
        (
            "plan lost",
            auto().with(|w| {
                ended(w.plan(), Ending::Lost);
                w.now = NOW + secs(20);
            }),
            (Triggering, "start 2", &[], false),
        ),
        (
            "plan failed of the module",
            auto().with(|w| ended(w.plan(), Ending::Failed(FailureClass::Module))),
            (Failed, "", &[Gate::Source], false),
        ),
        (
            "plan was refused by the program that checks plans",
            auto().with(|w| ended(w.plan(), Ending::Failed(FailureClass::Policy))),
            (Failed, "", &[Gate::Policy], false),
        ),
        (
            "plan timed out",
            auto().with(|w| ended(w.plan(), Ending::Stopped(StopReason::TimedOut))),
            (Failed, "", &[Gate::Source], false),
        ),
        (
            "plan was cancelled while it ran",
            auto().with(|w| ended(w.plan(), Ending::Stopped(StopReason::Cancelled))),
            (Failed, "", &[Gate::Approval], false),
        ),
        (
            "drift check was cancelled while it ran",
            drifting(false).with(|w| {
                let check = w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                ended(check, Ending::Stopped(StopReason::Cancelled));
            }),
            (Noop, "", &[], true),
        ),
        (
            "apply timed out before it began",
            auto().with(|w| ended(w.apply(), Ending::Stopped(StopReason::TimedOut))),
            (Failed, "", &[Gate::Source], false),
        ),
        (
            "apply timed out after it began, wait over",
            auto().with(|w| began_and_ended(w, Ending::Stopped(StopReason::TimedOut))),
            (Failed, "", &[Gate::Source], false),
        ),
        (
            "apply was out of memory after it began, wait over",
            auto().with(|w| began_and_ended(w, Ending::Failed(FailureClass::OutOfMemory))),
            (Failed, "", &[Gate::Source], false),
        ),
        (
            "apply whose container was out of memory, wait over",
            auto().with(|w| began_and_ended(w, Ending::Job(JobFailure::OutOfMemory))),
            (Failed, "", &[Gate::Source], false),
        ),
        (
            "apply whose Job exceeded its deadline, wait over",
            auto().with(|w| began_and_ended(w, Ending::Job(JobFailure::Deadline))),
            (Failed, "", &[Gate::Source], false),
        ),
        (
            "apply whose pod was evicted, wait over",
            auto().with(|w| began_and_ended(w, Ending::Job(JobFailure::Evicted))),
            (PendingTrigger, "create plan replan", &[], false),
        ),
        (
            "plan was out of memory",
            auto().with(|w| ended(w.plan(), Ending::Failed(FailureClass::OutOfMemory))),
            (Failed, "", &[Gate::Source], false),
        ),
        (
            "plan whose container was out of memory",
            auto().with(|w| ended(w.plan(), Ending::Job(JobFailure::OutOfMemory))),
            (Failed, "", &[Gate::Source], false),
        ),
        (
            "apply was cancelled after it began",
            auto().with(|w| {
                let apply = w.apply();
                ended(apply, Ending::Stopped(StopReason::Cancelled));
                apply.attempts[0].began = true;
                w.now = NOW + secs(20);
            }),
            (Failed, "", &[Gate::Approval], false),
        ),
        (
            "plan failed three times",
            auto().with(|w| {
                let plan = w.plan();
                for _ in 0..3 {
                    ended(plan, Ending::Failed(FailureClass::Lock));
                }
            }),
            (Blocked, "", &[Gate::Retry], false),
        ),
        (
            "plan found a lock",
            auto().with(|w| locked_by(w.plan(), None, Ending::Failed(FailureClass::Lock))),
            (Failed, "", &[Gate::Retry, Gate::Lease], true),
        ),
        (
            "plan found a lock three times",
            auto().with(|w| {
                let plan = w.plan();
                for _ in 0..3 {
                    locked_by(plan, None, Ending::Failed(FailureClass::Lock));
                }
            }),
            (Blocked, "", &[Gate::Retry, Gate::Lease], false),
        ),
        (
            "apply that was cancelled has left a lock",
            auto().with(|w| {
                locked_by(w.apply(), None, Ending::Stopped(StopReason::Cancelled));
                w.now = NOW + secs(20);
            }),
            (Failed, "", &[Gate::Approval, Gate::Lease], false),
        ),
        (
            "a person asked for the removal of the lock",
            auto().with(|w| {
                let plan = w.plan();
                for _ in 0..3 {
                    locked_by(plan, None, Ending::Failed(FailureClass::Lock));
                }
                let lock = "1-2".parse().unwrap();
                w.run(Action::Plan, Cause::Unlock { request: "1".into(), lock }, "new");
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "a person retries",
            auto().with(|w| {
                let plan = w.plan();
                for _ in 0..3 {
                    ended(plan, Ending::Failed(FailureClass::Lock));
                }
                ended(
                    w.run(Action::Plan, Cause::Person { request: "1".into() }, "new"),
                    Ending::Failed(FailureClass::Lock),
                );
            }),
            (Failed, "", &[Gate::Retry], true),
        ),
        (
            "plan waits for its retry, a person asked for another one that failed",
            auto().with(|w| {
                ended(w.plan(), Ending::Failed(FailureClass::Lock));
                let asked = w.run(Action::Plan, Cause::Person { request: "1".into() }, "new");
                ended(asked, Ending::Failed(FailureClass::Module));
                w.now = NOW + secs(20);
            }),
            (Failed, "", &[Gate::Source], false),
        ),
        (
            "apply failed before it began",
            auto().with(|w| {
                ended(w.apply(), Ending::Failed(FailureClass::Lock));
                w.now = NOW + secs(20);
            }),
            (Triggering, "start 2", &[], false),
        ),
        (
            "apply failed after it began",
            auto().with(|w| {
                let apply = w.apply();
                ended(apply, Ending::Failed(FailureClass::Network));
                apply.attempts[0].began = true;
            }),
            (Failed, "", &[Gate::Retry], true),
        ),
        (
            "apply failed after it began, wait over",
            auto().with(|w| {
                let apply = w.apply();
                ended(apply, Ending::Failed(FailureClass::Module));
                apply.attempts[0].began = true;
                w.now = NOW + secs(20);
            }),
            (PendingTrigger, "create plan replan", &[], false),
        ),
        (
            "apply lost",
            auto().with(|w| {
                ended(w.apply(), Ending::Lost);
                w.now = NOW + secs(20);
            }),
            (PendingTrigger, "create plan replan", &[], false),
        ),
        (
            "apply never started",
            auto().with(|w| {
                ended(w.apply(), Ending::NeverStarted);
                w.now = NOW + secs(20);
            }),
            (Triggering, "start 2", &[], false),
        ),
        (
            "apply found the plan stale",
            auto().with(|w| {
                ended(w.apply(), Ending::StalePlan);
                w.now = NOW + secs(20);
            }),
            (PendingTrigger, "create plan replan", &[], false),
        ),
        (
            "apply refused by credentials",
            auto().with(|w| ended(w.apply(), Ending::Failed(FailureClass::Credentials))),
            (Failed, "", &[Gate::Source], false),
        ),
        (
            "apply cancelled",
            auto().with(|w| ended(w.apply(), Ending::Stopped(StopReason::Cancelled))),
            (Failed, "", &[Gate::Approval], false),
        ),
        (
            "superseded attempts are not failures",
            auto().with(|w| {
                let plan = w.plan();
                for _ in 0..3 {
                    ended(plan, Ending::Stopped(StopReason::Superseded));
                }
                ended(plan, Ending::Failed(FailureClass::Lock));
            }),
            (Failed, "", &[Gate::Retry], true),
        ),
    ]
}

#[test]
fn reason_after_an_incomplete_apply_says_how_much_was_applied() {
    let reason = |ending: Ending, applied: Option<ChangeCounts>| {
        let world = auto().with(|w| {
            let apply = w.apply();
            ended(apply, ending);
            (apply.attempts[0].began, apply.attempts[0].applied) = (true, applied);
        });
        world.decide().reasons.remove(0).text
    };
    let part = Some(ChangeCounts { change: 1, destroy: 1, ..ChangeCounts::default() });
    let failed = Ending::Failed(FailureClass::Module);
    let cancelled = Ending::Stopped(StopReason::Cancelled);
    assert_eq!(reason(failed, part), "the apply ended after 2 of 3 changes; it is planned again");
    assert_eq!(reason(failed, None), "the apply may have changed something; it is planned again");
    assert_eq!(
        reason(cancelled, part),
        "the apply was cancelled after 2 of 3 changes; `layer plan` plans again"
    );
}

#[test]
fn reasons_have_what_the_last_attempt_reported() {
    let said = "`terraform init` failed with exit code 1: no such host";
    let last = |ending: Ending, seconds: u64| {
        let world = auto().with(|w| {
            let plan = w.plan();
            ended(plan, ending);
            plan.attempts[0].failure = Some(said.to_owned());
            w.now = NOW + secs(seconds);
        });
        let reason = world.decide().reasons.pop().unwrap();
        (reason.gate, reason.text)
    };
    let expected = format!("the last attempt reported: {said}");
    for (ending, gate) in [
        (Ending::Failed(FailureClass::Credentials), Gate::Source),
        (Ending::Failed(FailureClass::Policy), Gate::Policy),
        (Ending::Failed(FailureClass::Network), Gate::Retry),
    ] {
        assert_eq!(last(ending, 0), (gate, expected.clone()), "{ending:?}");
    }
}

#[test]
fn plan_that_replaces_a_stale_one_says_why() {
    let why = "the saved plan is not applied: variable `v` has another value";
    let world = |ending: Ending| {
        approve().with(|w| {
            let apply = w.apply();
            ended(apply, ending);
            apply.attempts[0].failure = Some(why.to_owned());
            let run = apply.id.clone();
            let saved = w.facts.runs[0].plan.clone();
            let plan = w.run(Action::Plan, Cause::Replan { run }, "new");
            ended(plan, Ending::Succeeded);
            plan.plan = saved.map(|plan| SavedPlan { digest: PlanDigest::new("p2"), ..plan });
        })
    };
    let reasons = |ending: Ending| {
        let reasons = world(ending).decide().reasons;
        reasons.into_iter().map(|reason| reason.text).collect::<Vec<_>>().join("; ")
    };
    let stale = reasons(Ending::StalePlan);
    assert!(stale.ends_with(&format!("planned again: {why}")), "{stale}");
    let lost = reasons(Ending::Lost);
    assert!(!lost.contains("planned again"), "{lost}");
}
