//! Gates before a start.

use super::*;
use Phase::{Blocked, PendingTrigger, Superseded, Triggering};

/// What is left of the limit of a repository.
fn slots(free: u32, free_drift: u32) -> RepositorySlots {
    RepositorySlots { name: "infra".to_owned(), concurrency: 3, free, free_drift }
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn rows() -> Vec<Row> {
    vec![
        (
            "upstream not applied",
            auto().with(|w| {
                w.plan();
                w.surroundings.upstreams = vec![upstream("dns")];
            }),
            (PendingTrigger, "", &[Gate::Dependency], false),
        ),
        (
            "upstream applied",
            auto().with(|w| {
                w.plan();
                w.surroundings.upstreams = vec![Upstream { satisfied: true, ..upstream("dns") }];
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "upstream not applied, a person wants the plan now",
            auto().with(|w| {
                w.plan();
                w.run(Action::Plan, Cause::Person { request: "r".to_owned() }, "new");
                w.surroundings.upstreams = vec![upstream("dns")];
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "upstream not applied, the plan that waited was made for a person",
            auto().with(|w| {
                w.plan();
                w.planned_for_person();
                w.surroundings.upstreams = vec![upstream("dns")];
            }),
            (Superseded, "close Superseded", &[], false),
        ),
        (
            "upstream not applied, the plan of a person waits for an approval",
            auto().with(|w| {
                w.layer.as_mut().unwrap().strategy = Strategy::Approve;
                w.planned_for_person();
                w.surroundings.upstreams = vec![upstream("dns")];
            }),
            (PendingTrigger, "", &[Gate::Approval, Gate::Dependency], true),
        ),
        (
            "upstream not applied, the plan of a person is approved",
            auto().with(|w| {
                w.planned_for_person();
                w.applied_again().approved_by = Some("ada".to_owned());
                w.surroundings.upstreams = vec![upstream("dns")];
            }),
            (PendingTrigger, "", &[Gate::Dependency], true),
        ),
        (
            "upstream applied without a change, the plan of a person is approved",
            auto().with(|w| {
                w.planned_for_person();
                w.applied_again().approved_by = Some("ada".to_owned());
                w.surroundings.upstreams = vec![Upstream { satisfied: true, ..upstream("dns") }];
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "upstream has changed something, the plan of a person is approved",
            auto().with(|w| {
                w.planned_for_person();
                w.applied_again().approved_by = Some("ada".to_owned());
                let upstream = Upstream { satisfied: true, has_changed: true, ..upstream("dns") };
                w.surroundings.upstreams = vec![upstream];
                w.facts.upstream_apply = Some(RunId::new("up"));
            }),
            (Superseded, "close Superseded", &[], false),
        ),
        (
            "upstream has changed something, the approved apply is closed",
            auto().with(|w| {
                w.planned_for_person();
                let apply = w.applied_again();
                apply.approved_by = Some("ada".to_owned());
                apply.closed = Some(Closed::Superseded);
                let upstream = Upstream { satisfied: true, has_changed: true, ..upstream("dns") };
                w.surroundings.upstreams = vec![upstream];
                w.facts.upstream_apply = Some(RunId::new("up"));
            }),
            (PendingTrigger, "create plan dependency", &[], false),
        ),
        (
            "upstream has changed something, the plan of a person waits for an approval",
            auto().with(|w| {
                w.layer.as_mut().unwrap().strategy = Strategy::Approve;
                w.planned_for_person();
                let upstream = Upstream { satisfied: true, has_changed: true, ..upstream("dns") };
                w.surroundings.upstreams = vec![upstream];
                w.facts.upstream_apply = Some(RunId::new("up"));
            }),
            (PendingTrigger, "create plan dependency", &[], false),
        ),
        (
            "another attempt uses the state",
            auto().with(|w| {
                w.plan();
                w.facts.lease = Some(foreign_lease());
            }),
            (PendingTrigger, "", &[Gate::Lease], false),
        ),
        (
            "no free slot",
            auto().with(|w| {
                w.plan();
                w.surroundings.free_slots = 0;
            }),
            (PendingTrigger, "", &[Gate::Concurrency], false),
        ),
        (
            "no free slot for drift",
            drifting(false).with(|w| {
                w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                w.surroundings.free_drift_slots = 0;
            }),
            (PendingTrigger, "", &[Gate::Concurrency], false),
        ),
        (
            "drift slots do not concern plans",
            auto().with(|w| {
                w.plan();
                w.surroundings.free_drift_slots = 0;
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "no free slot of the repository",
            auto().with(|w| {
                w.plan();
                w.surroundings.repository = Some(slots(0, 1));
            }),
            (PendingTrigger, "", &[Gate::Concurrency], false),
        ),
        (
            "no free slot of the repository, and none of the server",
            auto().with(|w| {
                w.plan();
                w.surroundings.free_slots = 0;
                w.surroundings.repository = Some(slots(0, 0));
            }),
            (PendingTrigger, "", &[Gate::Concurrency, Gate::Concurrency], false),
        ),
        (
            "no free slot of the repository for drift",
            drifting(false).with(|w| {
                w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                w.surroundings.repository = Some(slots(1, 0));
            }),
            (PendingTrigger, "", &[Gate::Concurrency], false),
        ),
        (
            "drift slots of the repository do not concern plans",
            auto().with(|w| {
                w.plan();
                w.surroundings.repository = Some(slots(1, 0));
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "free slot of the repository",
            drifting(false).with(|w| {
                w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                w.surroundings.repository = Some(slots(1, 1));
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "starts of the first pass used up",
            auto().with(|w| {
                w.plan();
                w.surroundings.starts_left = 0;
                w.surroundings.is_first_pass = true;
                w.surroundings.starts_again = NOW + secs(9);
            }),
            (PendingTrigger, "", &[Gate::Rate], true),
        ),
        (
            "starts of the first pass used up, first plan of the layer once more",
            auto().with(|w| {
                w.observation.as_mut().unwrap().change = 1;
                let plan = w.plan();
                plan.change = 1;
                ended(plan, Ending::Succeeded);
                w.run(Action::Plan, Cause::Person { request: "1".into() }, "new").change = 1;
                w.surroundings.starts_left = 0;
                w.surroundings.is_first_pass = true;
            }),
            (PendingTrigger, "", &[Gate::Rate], true),
        ),
        (
            "starts of the first pass used up, first plan of the layer",
            auto().with(|w| {
                w.observation.as_mut().unwrap().change = 1;
                w.plan().change = 1;
                w.surroundings.starts_left = 0;
                w.surroundings.is_first_pass = true;
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "disk full",
            auto().with(|w| {
                w.plan();
                w.surroundings.no_starts = Some("below 1 GiB free".into());
            }),
            (PendingTrigger, "", &[Gate::Platform], false),
        ),
        (
            "window forbids applies",
            auto().with(|w| {
                w.apply();
                w.surroundings.closed_windows = vec![(Action::Apply, NOW + secs(60))];
            }),
            (PendingTrigger, "", &[Gate::Window], true),
        ),
        (
            "window does not forbid plans",
            auto().with(|w| {
                w.plan();
                w.surroundings.closed_windows = vec![(Action::Apply, NOW + secs(60))];
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "several gates",
            auto().with(|w| {
                w.plan();
                w.surroundings.free_slots = 0;
                w.facts.lease = Some(foreign_lease());
            }),
            (PendingTrigger, "", &[Gate::Lease, Gate::Concurrency], false),
        ),
        (
            "starts of drift checks used up",
            drifting(false).with(|w| {
                w.run(Action::Drift, Cause::Schedule { due: NOW }, "new");
                w.surroundings.starts_left = 0;
                w.surroundings.starts_again = NOW + secs(9);
            }),
            (PendingTrigger, "", &[Gate::Rate], true),
        ),
        (
            "starts of plans are not limited",
            auto().with(|w| {
                w.plan();
                w.surroundings.starts_left = 0;
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "apply waits, strategy is now approve",
            approve().with(|w| {
                w.apply();
            }),
            (PendingTrigger, "", &[Gate::Approval], true),
        ),
        (
            "apply waits, destroy limit is now lower",
            auto().with(|w| {
                w.apply();
                w.layer.as_mut().unwrap().destroy_limit = Some(1);
            }),
            (PendingTrigger, "", &[Gate::Approval], true),
        ),
        (
            "plan of an unrelated history",
            auto().with(|w| {
                w.planned();
                w.facts.runs[0].unrelated_to = Some(Commit::new("c"));
            }),
            (PendingTrigger, "", &[Gate::Approval], true),
        ),
        (
            "plan of an unrelated history, plan-only",
            plan_only().with(|w| {
                w.planned();
                w.facts.runs[0].unrelated_to = Some(Commit::new("c"));
            }),
            (Phase::Succeeded, "", &[], false),
        ),
        (
            "unrelated history is planned",
            auto().with(|w| w.plan().unrelated_to = Some(Commit::new("c"))),
            (Triggering, "start 1", &[], false),
        ),
        (
            "apply of an unrelated history waits",
            auto().with(|w| {
                w.apply();
                w.facts.runs[0].unrelated_to = Some(Commit::new("c"));
            }),
            (PendingTrigger, "", &[Gate::Approval], true),
        ),
        (
            "approved apply of an unrelated history",
            auto().with(|w| {
                w.apply().approved_by = Some("ana".into());
                w.facts.runs[0].unrelated_to = Some(Commit::new("c"));
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "approved apply waits, strategy is now plan-only",
            plan_only().with(|w| w.apply().approved_by = Some("ana".into())),
            (Blocked, "", &[Gate::Policy], true),
        ),
        (
            "apply waits in a window, a plan does not",
            auto().with(|w| {
                w.apply();
                w.surroundings.closed_windows = vec![(Action::Apply, NOW + secs(60))];
                w.run(Action::Plan, Cause::Person { request: "1".into() }, "new");
            }),
            (Triggering, "start 1", &[], false),
        ),
    ]
}

#[test]
fn reason_names_the_repository_and_its_limit() {
    let full = |action: Action, server: u32| {
        let (world, cause) = match action {
            Action::Drift => (drifting(false), Cause::Schedule { due: NOW }),
            _ => (auto(), Cause::Commit { change: 2 }),
        };
        let decision = world.with(|w| {
            w.run(action, cause, "new");
            w.surroundings.free_slots = server;
            w.surroundings.repository = Some(slots(0, 0));
        });
        let Decision { needs_slot, reasons, .. } = decision.decide();
        let texts: Vec<String> = reasons.into_iter().map(|reason| reason.text).collect();
        (needs_slot.unwrap(), texts)
    };
    let needed =
        |action, is_server_full| NeededSlot { action, is_server_full, is_repository_full: true };
    let attempts =
        "as many attempts of the repository `infra` run as its `concurrency` of 3 allows";
    let checks =
        "as many checks for drift of the repository `infra` run as its `concurrency` of 3 allows";
    let server = "as many attempts run as `concurrency` allows";
    for (action, free, reasons) in [
        (Action::Plan, 1, &[attempts][..]),
        (Action::Drift, 1, &[checks]),
        (Action::Plan, 0, &[server, attempts]),
    ] {
        let (needs_slot, texts) = full(action, free);
        assert_eq!(needs_slot, needed(action, free == 0));
        assert_eq!(texts, reasons);
    }
}

#[test]
fn reason_names_the_commits_of_both_histories() {
    for world in [auto(), approve()] {
        let decision = world.with(|w| {
            w.planned();
            w.facts.runs[0].unrelated_to = Some(Commit::new("before"));
        });
        let text = decision.decide().reasons[0].text.clone();
        let expected = "; commit commit-of-new has no known ancestor in common with commit before, which was read \
                        before: check that the address still leads to the same repository";
        assert!(text.starts_with("waiting for approval: ") && text.ends_with(expected), "{text}");
    }
}

#[test]
fn reason_says_why_a_layer_that_comes_first_is_not_applied() {
    let at = Moment::from_millis(1_700_000_000_000);
    let time = "2023-11-14T22:13:20Z";
    for (waits, expected) in [
        (UpstreamWait::Approval(at), format!("its plan waits for an approval since {time}")),
        (UpstreamWait::Queued(Action::Plan, at), format!("its plan waits since {time}")),
        (UpstreamWait::Running(Action::Apply, at), format!("its apply runs since {time}")),
        (UpstreamWait::Failed(Action::Apply, at), format!("its apply failed at {time}")),
        (
            UpstreamWait::Discarded(at, "ada".to_owned()),
            format!("its plan of {time} was discarded by ada"),
        ),
        (UpstreamWait::Paused("ada".to_owned()), "paused by ada".to_owned()),
    ] {
        let mut world = auto();
        world.plan();
        world.surroundings.upstreams =
            vec![Upstream { waits: Some(waits), ..upstream("dns") }, upstream("zone")];
        assert_eq!(
            world.decide().reasons[0].text,
            format!(
                "not applied yet at this commit: dns ({expected}), zone; `layer plan network-prod` plans it before that"
            )
        );
    }
    let mut world = auto();
    world.layer.as_mut().unwrap().strategy = Strategy::Approve;
    world.planned_for_person();
    world.surroundings.upstreams = vec![upstream("dns")];
    assert_eq!(
        world.decide().reasons[1].text,
        "the plan was made before `dns` is applied; it is made again if that changes something"
    );
    // After that, it is an ordinary plan.
    world.surroundings.upstreams = vec![Upstream { satisfied: true, ..upstream("dns") }];
    assert_eq!(world.decide().reasons.len(), 1);
}
