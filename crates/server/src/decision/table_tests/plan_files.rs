//! Which files of saved plans are needed.

use super::*;

/// A situation, and the plans whose files are needed: the position of the run, and the attempt.
type Needed = (&'static str, World, &'static [(usize, u32)]);

fn plans_and_applies() -> Vec<Needed> {
    vec![
        ("no plan", approve(), &[]),
        (
            "a plan waits for its start",
            approve().with(|w| {
                w.plan();
            }),
            &[],
        ),
        (
            "a plan is made, and perhaps sent",
            approve().with(|w| {
                attempt(w.plan());
            }),
            &[(0, 1)],
        ),
        (
            "a plan has failed",
            approve().with(|w| ended(w.plan(), Ending::Failed(FailureClass::Network))),
            &[],
        ),
        (
            "a plan is retried",
            approve().with(|w| {
                let plan = w.plan();
                ended(plan, Ending::Failed(FailureClass::Network));
                attempt(plan);
            }),
            &[(0, 2)],
        ),
        (
            "a plan waits for an approval",
            approve().with(|w| {
                w.planned();
            }),
            &[(0, 1)],
        ),
        (
            "an apply waits",
            auto().with(|w| {
                w.apply();
            }),
            &[(0, 1)],
        ),
        (
            "an apply runs",
            auto().with(|w| {
                attempt(w.apply());
            }),
            &[(0, 1)],
        ),
        (
            "an apply is retried",
            auto().with(|w| {
                ended(w.apply(), Ending::Failed(FailureClass::Network));
            }),
            &[(0, 1)],
        ),
        ("an apply has succeeded", auto().with(|w| ended(w.apply(), Ending::Succeeded)), &[]),
        ("an apply was lost", auto().with(|w| ended(w.apply(), Ending::Lost)), &[]),
        (
            "an apply has failed for good",
            auto().with(|w| {
                ended(w.apply(), Ending::Failed(FailureClass::Credentials));
            }),
            &[],
        ),
        (
            "an apply may have changed something",
            auto().with(|w| {
                let apply = w.apply();
                ended(apply, Ending::Failed(FailureClass::Network));
                apply.attempts[0].began = true;
            }),
            &[],
        ),
        (
            "an apply was cancelled",
            auto().with(|w| w.apply().closed = Some(Closed::Cancelled)),
            &[],
        ),
    ]
}

fn plans_that_wait() -> Vec<Needed> {
    let discard = |w: &mut World| w.planned().discarded = Some("ana".into());
    vec![
        ("discarded", approve().with(discard), &[]),
        ("stale", approve().with(|w| w.planned().stale = Some(StalePlan::State)), &[]),
        ("empty", approve().with(|w| w.planned().is_empty = true), &[]),
        ("not stored", plan_only().with(|w| w.planned().is_stored = false), &[]),
        ("expired", approve().with(|w| w.planned().saved = ago(secs(7 * 24 * 3600))), &[]),
        (
            "about to expire",
            approve().with(|w| w.planned().saved = ago(secs(7 * 24 * 3600 - 1))),
            &[(0, 1)],
        ),
        (
            "a newer digest was read",
            approve().with(|w| {
                w.planned();
                w.facts.runs[0].change = 1;
            }),
            &[],
        ),
        (
            "a newer digest was read while an apply runs",
            auto().with(|w| {
                attempt(w.apply());
                w.facts.runs.iter_mut().for_each(|run| run.change = 1);
            }),
            &[(0, 1)],
        ),
        (
            "a newer plan is being made",
            approve().with(|w| {
                w.planned();
                attempt(w.run(Action::Plan, Cause::Person { request: "1".into() }, "new"));
            }),
            &[(0, 1), (1, 1)],
        ),
        (
            "a newer plan was made",
            approve().with(|w| {
                w.planned();
                let (older, newer) = (w.facts.runs[0].plan.clone(), PlanDigest::new("p2"));
                let run = w.run(Action::Plan, Cause::Person { request: "1".into() }, "new");
                ended(run, Ending::Succeeded);
                run.plan = older.map(|saved| SavedPlan { digest: newer, ..saved });
            }),
            &[(1, 1)],
        ),
        (
            "the path is missing",
            approve().with(|w| {
                w.planned();
                w.observation.as_mut().unwrap().sighting = Sighting::RefMissing;
            }),
            &[(0, 1)],
        ),
        (
            "the path is missing, and an apply is retried when it is back",
            auto().with(|w| {
                ended(w.apply(), Ending::Failed(FailureClass::Network));
                w.observation.as_mut().unwrap().sighting = Sighting::RefMissing;
            }),
            &[(0, 1)],
        ),
        (
            "the layer left the configuration",
            approve().with(|w| {
                w.planned();
                w.layer = None;
            }),
            &[(0, 1)],
        ),
        (
            "the layer left the configuration, and its apply has failed",
            auto().with(|w| {
                ended(w.apply(), Ending::Failed(FailureClass::Network));
                w.layer = None;
            }),
            &[(0, 1)],
        ),
        (
            "the layer left the configuration a week ago",
            approve().with(|w| {
                w.planned().saved = ago(SavedPlan::LIFETIME);
                w.layer = None;
            }),
            &[],
        ),
    ]
}

#[test]
fn files_of_plans_are_needed_while_the_plan_can_be_applied() {
    for (name, world, expected) in plans_and_applies().into_iter().chain(plans_that_wait()) {
        let needed = needed_plan_files(&Input {
            name: &world.name,
            layer: world.layer.as_ref(),
            observation: world.observation.as_ref(),
            facts: &world.facts,
            surroundings: &world.surroundings,
            now: world.now,
        });
        let expected =
            expected.iter().map(|(run, number)| (world.facts.runs[*run].id.clone(), *number));
        assert_eq!(needed, expected.collect::<Vec<_>>(), "{name}");
    }
}
