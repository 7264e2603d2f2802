//! Gates before a start.

use super::*;
use Phase::{Blocked, PendingTrigger, Triggering};

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
                w.surroundings.upstreams =
                    vec![Upstream { name: "dns".parse().unwrap(), satisfied: false }];
            }),
            (PendingTrigger, "", &[Gate::Dependency], false),
        ),
        (
            "upstream applied",
            auto().with(|w| {
                w.plan();
                w.surroundings.upstreams =
                    vec![Upstream { name: "dns".parse().unwrap(), satisfied: true }];
            }),
            (Triggering, "start 1", &[], false),
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
                ended(w.run(Action::Plan, Cause::Commit { change: 1 }, "old"), Ending::Succeeded);
                w.plan();
                w.surroundings.starts_left = 0;
                w.surroundings.is_first_pass = true;
                w.surroundings.starts_again = NOW + secs(9);
            }),
            (PendingTrigger, "", &[Gate::Rate], true),
        ),
        (
            "starts of the first pass used up, first plan of the layer",
            auto().with(|w| {
                w.plan();
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
