//! From a plan to an apply.

use super::*;
use Phase::{Blocked, Noop, PendingTrigger, Succeeded, Superseded, Triggering};

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn rows() -> Vec<Row> {
    vec![
        (
            "plan-only",
            plan_only().with(|w| {
                w.planned();
            }),
            (Succeeded, "", &[], false),
        ),
        (
            "waits for approval",
            approve().with(|w| {
                w.planned();
            }),
            (PendingTrigger, "", &[Gate::Approval], true),
        ),
        (
            "automatic",
            auto().with(|w| {
                w.planned();
            }),
            (PendingTrigger, "create apply plan", &[], false),
        ),
        (
            "over the destroy limit",
            auto().with(|w| {
                w.planned();
                w.layer.as_mut().unwrap().destroy_limit = Some(1);
            }),
            (PendingTrigger, "", &[Gate::Approval], true),
        ),
        (
            "over the destroy limit, what is forgotten included",
            auto().with(|w| {
                let counts = &mut w.planned().counts;
                (counts.destroy, counts.forget) = (1, 1);
                w.layer.as_mut().unwrap().destroy_limit = Some(1);
            }),
            (PendingTrigger, "", &[Gate::Approval], true),
        ),
        (
            "moves and imports at the destroy limit",
            auto().with(|w| {
                let counts = &mut w.planned().counts;
                (counts.moved, counts.import) = (9, 9);
                w.layer.as_mut().unwrap().destroy_limit = Some(2);
            }),
            (PendingTrigger, "create apply plan", &[], false),
        ),
        (
            "actions without a destroy limit",
            auto().with(|w| w.planned().counts.actions = 1),
            (PendingTrigger, "create apply plan", &[], false),
        ),
        (
            "actions below the destroy limit",
            auto().with(|w| {
                w.planned().counts.actions = 1;
                w.layer.as_mut().unwrap().destroy_limit = Some(9);
            }),
            (PendingTrigger, "", &[Gate::Approval], true),
        ),
        (
            "at the destroy limit",
            auto().with(|w| {
                w.planned();
                w.layer.as_mut().unwrap().destroy_limit = Some(2);
            }),
            (PendingTrigger, "create apply plan", &[], false),
        ),
        (
            "no backend",
            auto().with(|w| {
                w.planned();
                w.layer.as_mut().unwrap().has_backend = false;
            }),
            (Blocked, "", &[Gate::Policy], true),
        ),
        (
            "no backend, plan-only",
            plan_only().with(|w| {
                w.planned();
                w.layer.as_mut().unwrap().has_backend = false;
            }),
            (Succeeded, "", &[Gate::Policy], false),
        ),
        (
            "no backend, empty plan",
            auto().with(|w| {
                w.planned().is_empty = true;
                w.layer.as_mut().unwrap().has_backend = false;
            }),
            (Noop, "", &[Gate::Policy], false),
        ),
        (
            "no backend, checked for drift",
            drifting(false).with(|w| w.layer.as_mut().unwrap().has_backend = false),
            (PendingTrigger, "create drift schedule", &[], false),
        ),
        (
            "breaker open",
            auto().with(|w| {
                w.planned();
                w.surroundings.breaker = Breaker::Open;
            }),
            (Blocked, "", &[Gate::Breaker], true),
        ),
        (
            "breaker opened while the apply waits",
            auto().with(|w| {
                w.apply();
                w.surroundings.breaker = Breaker::Open;
            }),
            (Blocked, "", &[Gate::Breaker], true),
        ),
        (
            "breaker open, approved",
            approve().with(|w| {
                w.apply().approved_by = Some("ana".into());
                w.surroundings.breaker = Breaker::Open;
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "discarded",
            approve().with(|w| w.planned().discarded = Some("ana".into())),
            (Succeeded, "", &[Gate::Approval], false),
        ),
        (
            "stale before the approval",
            approve().with(|w| w.planned().stale = Some(StalePlan::Tool)),
            (PendingTrigger, "create plan replan", &[], false),
        ),
        (
            "expired",
            approve().with(|w| w.planned().saved = ago(secs(7 * 24 * 3600))),
            (PendingTrigger, "create plan replan", &[], false),
        ),
        (
            "plan-only plans do not expire",
            plan_only().with(|w| w.planned().saved = ago(secs(7 * 24 * 3600))),
            (Succeeded, "", &[], false),
        ),
        (
            "apply waits, newer digest",
            auto().with(|w| w.apply().change = 1),
            (Superseded, "close Superseded", &[], false),
        ),
        (
            "apply waits, plan discarded",
            auto().with(|w| {
                w.apply();
                w.facts.runs[0].plan.as_mut().unwrap().discarded = Some("ana".into());
            }),
            (Superseded, "close Superseded", &[], false),
        ),
        (
            "apply waits, plan stale",
            auto().with(|w| {
                w.apply();
                w.facts.runs[0].plan.as_mut().unwrap().stale = Some(StalePlan::Secrets);
            }),
            (Superseded, "close Superseded", &[], false),
        ),
        (
            "apply superseded",
            auto().with(|w| w.apply().closed = Some(Closed::Superseded)),
            (PendingTrigger, "create plan replan", &[], false),
        ),
        (
            "apply waits",
            auto().with(|w| {
                w.apply();
            }),
            (Triggering, "start 1", &[], false),
        ),
        (
            "applied",
            auto().with(|w| {
                ended(w.apply(), Ending::Succeeded);
                w.settled();
            }),
            (Noop, "", &[], false),
        ),
        (
            "destroy plan",
            plan_only().with(|w| {
                w.planned();
                w.facts.runs[0].destroys = true;
            }),
            (PendingTrigger, "", &[Gate::Approval], true),
        ),
        (
            "destroyed",
            auto().with(|w| {
                let apply = w.apply();
                apply.action = Action::Destroy;
                ended(apply, Ending::Succeeded);
            }),
            (Noop, "", &[Gate::Source], false),
        ),
        (
            "apply superseded, plan discarded",
            auto().with(|w| {
                w.apply().closed = Some(Closed::Superseded);
                w.facts.runs[0].plan.as_mut().unwrap().discarded = Some("ana".into());
            }),
            (Succeeded, "", &[Gate::Approval], false),
        ),
        (
            "plan waits for approval, upstream changed",
            approve().with(|w| {
                w.planned();
                w.facts.upstream_apply = Some(RunId::new("up"));
            }),
            (PendingTrigger, "create plan dependency", &[], false),
        ),
        (
            "apply waits, newer plan",
            auto().with(|w| {
                w.apply();
                let newer = w.run(Action::Plan, Cause::Person { request: "1".into() }, "new");
                ended(newer, Ending::Succeeded);
                let plan = w.facts.runs[0].plan.clone().unwrap();
                w.facts.runs[2].plan = Some(SavedPlan { digest: PlanDigest::new("p2"), ..plan });
            }),
            (Superseded, "close Superseded", &[], false),
        ),
    ]
}
