//! Dependencies and drift.

use super::*;
use Phase::{Failed, Noop, PendingTrigger, Succeeded, Superseded, Triggering};

/// What a check has found.
fn finding(run: RunId, difference: Option<&str>) -> DriftFinding {
    let kind = if difference.is_some() { DriftKind::Changes } else { DriftKind::None };
    DriftFinding {
        run,
        difference: difference.map(str::to_owned),
        kind,
        since: None,
        unmatched: Vec::new(),
        seen: Seen::default(),
    }
}

pub(super) fn rows() -> Vec<Row> {
    dependencies().into_iter().chain(drift()).collect()
}

fn dependencies() -> Vec<Row> {
    vec![(
        "upstream changed",
        auto().with(|w| {
            w.settled();
            w.facts.upstream_apply = Some(RunId::new("up"));
        }),
        (PendingTrigger, "create plan dependency", &[], false),
    )]
}

fn upstream_missing(world: &mut World) {
    world.surroundings.upstreams = vec![upstream("dns")];
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn drift() -> Vec<Row> {
    vec![
        (
            "drift check not due",
            drifting(false).with(|w| w.facts.applied_at = Some(NOW)),
            (Noop, "", &[], true),
        ),
        ("drift check due", drifting(false), (PendingTrigger, "create drift schedule", &[], false)),
        (
            "never applied, never in sync",
            drifting(false).with(|w| {
                w.planned();
                w.facts.applied = None;
                w.layer.as_mut().unwrap().strategy = Strategy::PlanOnly;
            }),
            (Succeeded, "", &[], false),
        ),
        (
            "drift check waits, another revision applied",
            drifting(false).with(|w| {
                w.run(Action::Drift, Cause::Schedule { due: NOW }, "old");
            }),
            (Superseded, "close Superseded", &[], false),
        ),
        (
            "drift check does not wait for upstreams",
            drifting(false).with(|w| {
                w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                w.surroundings.upstreams = vec![upstream("dns")];
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "plan before drift check",
            drifting(false).with(|w| {
                w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                w.plan();
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "drift found",
            drifting(false).with(|w| {
                ended(w.run(Action::Drift, Cause::Schedule { due: NOW }, "new"), Ending::Succeeded);
                w.facts.drift = Some(finding(RunId::new("d"), Some("x")));
            }),
            (Noop, "", &[], true),
        ),
        (
            "drift found, repaired",
            drifting(true).with(|w| {
                ended(w.run(Action::Drift, Cause::Schedule { due: NOW }, "new"), Ending::Succeeded);
                w.facts.drift = Some(finding(RunId::new("d"), Some("x")));
            }),
            (PendingTrigger, "create plan drift", &[], false),
        ),
        (
            "drift found, repaired before a commit and its revert",
            drifting(true).with(|w| {
                let (check, difference) = (RunId::new("d"), Some("x".into()));
                let cause = Cause::Drift { run: check.clone(), change: 1 };
                let repair = w.run(Action::Plan, cause, "new");
                repair.change = 1;
                ended(repair, Ending::Failed(FailureClass::Module));
                ended(w.run(Action::Drift, Cause::Schedule { due: NOW }, "new"), Ending::Succeeded);
                w.facts.drift = Some(DriftFinding {
                    run: check,
                    difference,
                    kind: DriftKind::Changes,
                    since: None,
                    unmatched: Vec::new(),
                    seen: Seen::default(),
                });
            }),
            (PendingTrigger, "create plan drift", &[], false),
        ),
        (
            "what is gone again after its repair",
            drifting(true).with(|w| {
                ended(w.run(Action::Drift, Cause::Schedule { due: NOW }, "new"), Ending::Succeeded);
                let found = finding(RunId::new("d"), Some("x"));
                let seen = Seen { only_gone: true, ..Seen::default() };
                w.facts.drift = Some(DriftFinding { seen, ..found });
                w.facts.repaired_drift = Some("x".to_owned());
            }),
            (Noop, "", &[Gate::Policy], true),
        ),
        (
            "the same change after its repair",
            drifting(true).with(|w| {
                ended(w.run(Action::Drift, Cause::Schedule { due: NOW }, "new"), Ending::Succeeded);
                w.facts.drift = Some(finding(RunId::new("d"), Some("x")));
                w.facts.repaired_drift = Some("x".to_owned());
            }),
            (PendingTrigger, "create plan drift", &[], false),
        ),
        (
            "other drift after a repair",
            drifting(true).with(|w| {
                ended(w.run(Action::Drift, Cause::Schedule { due: NOW }, "new"), Ending::Succeeded);
                w.facts.drift = Some(finding(RunId::new("d"), Some("y")));
                w.facts.repaired_drift = Some("x".to_owned());
            }),
            (PendingTrigger, "create plan drift", &[], false),
        ),
        (
            "no drift",
            drifting(true).with(|w| {
                ended(w.run(Action::Drift, Cause::Schedule { due: NOW }, "new"), Ending::Succeeded);
                w.facts.drift = Some(finding(RunId::new("d"), None));
            }),
            (Noop, "", &[], true),
        ),
        (
            "drift check waits, new digest",
            drifting(false).with(|w| {
                w.facts.applied = Some(revision("old"));
                w.run(Action::Drift, Cause::Schedule { due: NOW }, "old").change = 1;
                w.surroundings.free_drift_slots = 0;
            }),
            (PendingTrigger, "create plan commit", &[], false),
        ),
        (
            "plan waits for an upstream layer, drift check for its retry",
            drifting(false).with(|w| {
                w.plan();
                upstream_missing(w);
                let check = w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                ended(check, Ending::Failed(FailureClass::Network));
            }),
            (PendingTrigger, "", &[Gate::Dependency, Gate::Retry], true),
        ),
        (
            "plan waits for an upstream layer, wait of the drift check over",
            drifting(false).with(|w| {
                w.plan();
                upstream_missing(w);
                let check = w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                ended(check, Ending::Failed(FailureClass::Network));
                w.now = NOW + secs(20);
            }),
            (Triggering, "start 2", &[], false),
        ),
        (
            "plan waits for an upstream layer, drift check for a slot",
            drifting(false).with(|w| {
                w.plan();
                upstream_missing(w);
                w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                w.surroundings.free_drift_slots = 0;
            }),
            (PendingTrigger, "", &[Gate::Dependency, Gate::Concurrency], false),
        ),
        (
            "plan waits for an upstream layer, drift check due",
            drifting(false).with(|w| {
                w.plan();
                upstream_missing(w);
            }),
            (PendingTrigger, "create drift schedule", &[], false),
        ),
        (
            "plan waits for an upstream layer, drift check not due",
            drifting(false).with(|w| {
                w.plan();
                upstream_missing(w);
                w.facts.applied_at = Some(NOW);
            }),
            (PendingTrigger, "", &[Gate::Dependency], true),
        ),
        (
            "waits for approval, drift check for a slot",
            drifting(false).with(|w| {
                w.layer.as_mut().unwrap().strategy = Strategy::Approve;
                w.planned();
                w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                w.surroundings.free_drift_slots = 0;
            }),
            (PendingTrigger, "", &[Gate::Approval, Gate::Concurrency], true),
        ),
        (
            "waits for approval, drift check due",
            drifting(false).with(|w| {
                w.layer.as_mut().unwrap().strategy = Strategy::Approve;
                w.planned();
            }),
            (PendingTrigger, "create drift schedule", &[], false),
        ),
        (
            "plan failed for good, drift check due",
            drifting(false).with(|w| ended(w.plan(), Ending::Failed(FailureClass::Module))),
            (PendingTrigger, "create drift schedule", &[], false),
        ),
        (
            "plan was cancelled, drift check not due",
            drifting(false).with(|w| {
                w.plan().closed = Some(Closed::Cancelled);
                w.facts.applied_at = Some(NOW);
            }),
            (Failed, "", &[Gate::Approval], true),
        ),
        (
            "failed drift check, newer one waits",
            drifting(false).with(|w| {
                let check = w.run(Action::Drift, Cause::Schedule { due: ago(secs(60)) }, "new");
                ended(check, Ending::Failed(FailureClass::Network));
                w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                w.surroundings.free_drift_slots = 0;
            }),
            (PendingTrigger, "", &[Gate::Concurrency], false),
        ),
        (
            "plan waits for an upstream layer, drift check starts",
            drifting(false).with(|w| {
                w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                w.plan();
                w.surroundings.upstreams = vec![upstream("dns")];
            }),
            (Triggering, "start 1", &[], false),
        ),
    ]
}
