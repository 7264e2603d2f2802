//! What is read from the repository, and what follows from a commit until a plan.

use super::*;
use Phase::{Blocked, Failed, Noop, Observed, PendingTrigger, Skipped, Superseded, Triggering};

#[expect(clippy::too_many_lines, reason = "one row for each situation")]
pub(super) fn rows() -> Vec<Row> {
    vec![
        // What is known.
        (
            "not read yet",
            auto().with(|w| w.observation = None),
            (Observed, "", &[Gate::Source], false),
        ),
        (
            "not in the configuration",
            auto().with(|w| w.layer = None),
            (Skipped, "", &[Gate::Source], false),
        ),
        (
            "its custom resource cannot be listed",
            auto().with(|w| {
                w.layer = None;
                w.surroundings.unlisted = Some("team-b".into());
            }),
            (Blocked, "", &[Gate::Source], false),
        ),
        (
            "plan waits, its custom resource cannot be listed",
            auto().with(|w| {
                w.plan();
                w.layer = None;
                w.surroundings.unlisted = Some("team-b".into());
            }),
            (Blocked, "", &[Gate::Source], false),
        ),
        (
            "paused",
            auto().with(|w| w.facts.paused_by = Some("ana".into())),
            (Skipped, "", &[Gate::Pause], false),
        ),
        (
            "ref missing",
            auto().with(|w| w.observation.as_mut().unwrap().sighting = Sighting::RefMissing),
            (Blocked, "", &[Gate::Source], false),
        ),
        (
            "path missing",
            auto().with(|w| {
                w.observation.as_mut().unwrap().sighting =
                    Sighting::PathMissing { commit: Commit::new("c") }
            }),
            (Blocked, "", &[Gate::Source], false),
        ),
        (
            "invalid",
            auto().with(|w| {
                w.observation.as_mut().unwrap().sighting =
                    Sighting::Invalid { commit: Commit::new("c"), why: "x".into() }
            }),
            (Blocked, "", &[Gate::Source], false),
        ),
        // From a commit to a plan.
        ("new digest", auto(), (PendingTrigger, "create plan commit", &[], false)),
        (
            "first digest",
            auto().with(|w| w.facts.applied = None),
            (PendingTrigger, "create plan commit", &[], false),
        ),
        ("reverted to what is applied", auto().with(World::settled), (Noop, "", &[], false)),
        (
            "plan created",
            auto().with(|w| {
                w.plan();
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "plan of an older digest waits",
            auto().with(|w| w.plan().change = 1),
            (Superseded, "close Superseded", &[], false),
        ),
        (
            "plan of an older digest waits while paused",
            auto().with(|w| {
                w.plan().change = 1;
                w.facts.paused_by = Some("ana".into());
            }),
            (Superseded, "close Superseded", &[], false),
        ),
        (
            "plan waits, layer gone",
            auto().with(|w| {
                w.plan();
                w.layer = None;
            }),
            (Skipped, "", &[Gate::Source], false),
        ),
        (
            "plan waits, path missing",
            auto().with(|w| {
                w.plan().change = 1;
                w.observation.as_mut().unwrap().sighting = Sighting::RefMissing;
            }),
            (Blocked, "", &[Gate::Source], false),
        ),
        ("plan empty", auto().with(|w| w.planned().is_empty = true), (Noop, "", &[], false)),
        (
            "superseded plan, digest is back",
            auto().with(|w| ended(w.plan(), Ending::Stopped(StopReason::Superseded))),
            (PendingTrigger, "create plan replan", &[], false),
        ),
        (
            "plan cancelled",
            auto().with(|w| w.plan().closed = Some(Closed::Cancelled)),
            (Failed, "", &[Gate::Approval], false),
        ),
    ]
}
