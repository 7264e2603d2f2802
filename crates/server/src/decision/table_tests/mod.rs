//! The table of the decision: what happens in each situation, and that every phase has a way out.

mod attempts;
mod commits;
mod drift;
mod failures;
mod gates;
mod plan_files;
mod plans;
mod rename;

use std::collections::BTreeSet;
use std::time::Duration;

use super::attempts::{FATE_UNKNOWN, SILENCE};
use super::*;
use butler_protocol::backend::{DriftComparison, Holder};
use butler_registry::TokenHash;

use crate::model::{
    Attempt, Breaker, ChangeCounts, Commit, Digest, DriftCheck, DriftFinding, DriftKind, Ending,
    FailureClass, Former, Formerly, JobFailure, LayerName, Lease, Liveness, NewRun, PlanDigest,
    RepositorySlots, RunId, SavedPlan, Seen, StalePlan, StateLock, StopReason, Strategy,
    Surroundings, Timeouts, Upstream, UpstreamWait,
};

/// The time of all decisions, unless a row says otherwise.
const NOW: Moment = Moment::from_millis(100 * 24 * 3600 * 1000);

/// A layer in a situation.
struct World {
    name: LayerName,
    layer: Option<Layer>,
    observation: Option<Observation>,
    facts: Facts,
    surroundings: Surroundings,
    now: Moment,
}

fn revision(digest: &str) -> Revision {
    Revision { commit: Commit::new(format!("commit-of-{digest}")), digest: Digest::new(digest) }
}

/// A layer that comes first and is not applied.
fn upstream(name: &str) -> Upstream {
    let name = name.parse().unwrap();
    Upstream { name, satisfied: false, has_changed: false, waits: None }
}

fn ago(duration: Duration) -> Moment {
    Moment::from_millis(NOW.as_millis() - u64::try_from(duration.as_millis()).unwrap())
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl World {
    /// A layer whose second change, `new`, was just read. `old` is applied.
    fn new(strategy: Strategy) -> Self {
        let name: LayerName = "network-prod".parse().unwrap();
        Self {
            layer: Some(Layer {
                name: name.clone(),
                strategy,
                drift: None,
                destroy_limit: None,
                most_attempts: 3,
                timeouts: Timeouts { plan: secs(3600), apply: secs(4 * 3600) },
                plan_lifetime: secs(7 * 24 * 3600),
                after: Vec::new(),
                has_backend: true,
                formerly: None,
                conflict: None,
            }),
            name,
            observation: Some(Observation {
                sighting: Sighting::Found(revision("new")),
                change: 2,
                digest: Some(Digest::new("new")),
                at: NOW,
                before: None,
                history_break: None,
            }),
            facts: Facts {
                applied: Some(revision("old")),
                applied_at: Some(ago(secs(3600))),
                ..Facts::default()
            },
            surroundings: Surroundings::default(),
            now: NOW,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn run(&mut self, action: Action, cause: Cause, digest: &str) -> &mut Run {
        let id = RunId::derived(&self.name, &Digest::new(digest), action, &cause);
        let destroys = matches!(cause, Cause::Destroy { .. });
        let revision = revision(digest);
        let run = NewRun { id, action, cause, revision, change: 2, destroys };
        self.facts.runs.push(Run::new(run, ago(secs(600))));
        self.facts.runs.last_mut().unwrap()
    }

    /// A plan of the current revision.
    fn plan(&mut self) -> &mut Run {
        self.run(Action::Plan, Cause::Commit { change: 2 }, "new")
    }

    /// A plan that succeeded with one change and two deletions.
    fn planned(&mut self) -> &mut SavedPlan {
        let plan = self.plan();
        ended(plan, Ending::Succeeded);
        plan.plan.insert(SavedPlan {
            digest: PlanDigest::new("p1"),
            counts: ChangeCounts { change: 1, destroy: 2, ..ChangeCounts::default() },
            is_stored: true,
            is_empty: false,
            saved: ago(secs(500)),
            discarded: None,
            stale: None,
        })
    }

    /// A plan with changes that a person got before `dns` is applied.
    fn planned_for_person(&mut self) {
        let saved = self.planned().clone();
        self.facts.runs.pop();
        let plan = self.run(Action::Plan, Cause::Person { request: "r".to_owned() }, "new");
        ended(plan, Ending::Succeeded);
        plan.plan = Some(saved);
        plan.made_before = vec!["dns".parse().unwrap()];
    }

    /// The plan after an apply that has failed after it may have changed something.
    fn replanned(&mut self) -> &mut Run {
        let failed = self.apply();
        ended(failed, Ending::Failed(FailureClass::Module));
        failed.attempts[0].began = true;
        let run = failed.id.clone();
        self.planned_again(Cause::Replan { run })
    }

    /// A newer plan, with the same changes as the one before.
    fn planned_again(&mut self, cause: Cause) -> &mut Run {
        let mut plans = self.facts.runs.iter().rev().filter_map(|run| run.plan.clone());
        let (before, count) = (plans.next().unwrap(), plans.count());
        let again = self.run(Action::Plan, cause, "new");
        ended(again, Ending::Succeeded);
        let digest = PlanDigest::new(format!("p{}", count + 2));
        again.plan = Some(SavedPlan { digest, stale: None, ..before });
        again
    }

    /// An apply of the newest plan.
    fn applied_again(&mut self) -> &mut Run {
        let plan = self.facts.runs.iter().rev().find_map(|run| run.plan.clone()).unwrap().digest;
        self.run(Action::Apply, Cause::Plan { plan }, "new")
    }

    /// An apply of that plan.
    fn apply(&mut self) -> &mut Run {
        self.planned();
        self.run(Action::Apply, Cause::Plan { plan: PlanDigest::new("p1") }, "new")
    }

    fn settled(&mut self) {
        self.facts.applied = Some(revision("new"));
    }

    fn decide(&self) -> Decision {
        decide(&Input {
            name: &self.name,
            layer: self.layer.as_ref(),
            observation: self.observation.as_ref(),
            facts: &self.facts,
            surroundings: &self.surroundings,
            now: self.now,
        })
    }
}

/// An attempt that has reported a lock of the state.
fn locked_by(run: &mut Run, holder: Option<Holder>, ending: Ending) {
    ended(run, ending);
    let attempt = run.attempts.last_mut().unwrap();
    attempt.lock = Some(StateLock { id: Some("1-2".to_owned()), holder });
}

fn ended(run: &mut Run, ending: Ending) {
    attempt(run).end = Some((ending, ago(secs(1))));
}

fn attempt(run: &mut Run) -> &mut Attempt {
    let number = u32::try_from(run.attempts.len()).unwrap() + 1;
    let created = ago(secs(30));
    let place = "this machine".to_owned();
    run.attempts.push(Attempt::new(
        number,
        place,
        "infra".to_owned(),
        TokenHash::of("brce_test"),
        1,
        created,
        NOW + secs(60),
    ));
    let attempt = run.attempts.last_mut().unwrap();
    attempt.launched = true;
    attempt
}

/// A situation, and what happens.
type Row = (&'static str, World, Expected);

/// What a row expects: phase, step, closed gates, and whether time alone goes on.
type Expected = (Phase, &'static str, &'static [Gate], bool);

fn short(step: Option<&Step>) -> String {
    match step {
        None => String::new(),
        Some(Step::Create(run)) => format!("create {} {}", run.action.as_str(), run.cause.kind()),
        Some(Step::Start { attempt, .. }) => format!("start {attempt}"),
        Some(Step::Close { why, .. }) => format!("close {why:?}"),
        Some(Step::Stop { why, .. }) => format!("stop {why:?}"),
        Some(Step::Probe { .. }) => "probe".to_owned(),
        Some(Step::Miss { .. }) => "miss".to_owned(),
        Some(Step::RequestStop { why, .. }) => format!("request stop {why:?}"),
        Some(Step::TakeOver { from }) => format!("take over {from}"),
        Some(Step::MoveFiles { from }) => format!("move files of {}", from[0]),
        Some(Step::EndAttempt { ending, .. }) => format!("end {ending:?}"),
    }
}

fn auto() -> World {
    World::new(Strategy::Auto)
}

fn approve() -> World {
    World::new(Strategy::Approve)
}

fn plan_only() -> World {
    World::new(Strategy::PlanOnly)
}

/// A layer at rest that is checked for drift every hour, and was applied an hour ago.
fn drifting(repair: bool) -> World {
    auto().with(|world| {
        world.settled();
        world.layer.as_mut().unwrap().drift =
            Some(DriftCheck { every: secs(3600), repair, compare: DriftComparison::State });
    })
}

/// The lease of another layer.
fn foreign_lease() -> Lease {
    Lease { layer: "other".parse().unwrap(), run: RunId::new("r"), fence: 1 }
}

/// All situations with what must happen.
fn table() -> Vec<Row> {
    let parts = [
        commits::rows(),
        attempts::rows(),
        attempts::elsewhere(),
        gates::rows(),
        plans::rows(),
        failures::rows(),
        failures::once_more(),
        drift::rows(),
        rename::rows(),
    ];
    parts.into_iter().flatten().collect()
}

#[test]
fn each_situation_has_its_phase_step_and_reasons() {
    let mut wrong = Vec::new();
    for (name, world, expected) in table() {
        let decision = world.decide();
        let gates: Vec<Gate> = decision.reasons.iter().map(|reason| reason.gate).collect();
        let timed = decision.next_look.is_some();
        let step = short(decision.step.as_ref());
        if (decision.phase, &*step, &*gates, timed) != expected {
            wrong.push(format!("{name}: {:?} `{step}` {gates:?} {timed}", decision.phase));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_phase_has_a_way_out() {
    let mut seen = BTreeSet::new();
    for (name, world, _) in table() {
        let decision = world.decide();
        seen.insert(decision.phase);
        let is_at_rest = matches!(decision.phase, Phase::Noop | Phase::Succeeded);
        let goes_on = decision.step.is_some()
            || decision.next_look.is_some_and(|next| next > world.now)
            || !decision.reasons.is_empty();
        assert!(is_at_rest || goes_on, "{name}");
        // A step and a reason to wait exclude each other, except for an attempt that is looked for.
        assert!(decision.step.is_none() || decision.reasons.is_empty(), "{name}");
        for reason in &decision.reasons {
            assert!(reason.text.len() > 10 || reason.text == "x", "{name}: {reason}");
        }
    }
    assert_eq!(seen, BTreeSet::from(Phase::ALL));
}

#[test]
fn plan_of_the_new_revision_precedes_the_check_of_the_old_one() {
    let world = World::new(Strategy::Auto).with(|world| {
        world.run(Action::Drift, Cause::Schedule { due: NOW }, "old");
        world.plan();
    });
    let Some(Step::Start { run, .. }) = world.decide().step else { panic!("no start") };
    assert_eq!(run, world.facts.runs[1].id);
}

#[test]
fn missed_checks_for_drift_are_made_up_for_by_one() {
    let mut world = World::new(Strategy::Auto);
    world.settled();
    world.layer.as_mut().unwrap().drift =
        Some(DriftCheck { every: secs(3600), repair: false, compare: DriftComparison::State });
    let last = ago(secs(10 * 3600 + 60));
    ended(world.run(Action::Drift, Cause::Schedule { due: last }, "new"), Ending::Succeeded);
    let Some(Step::Create(run)) = world.decide().step else { panic!("no check") };
    assert_eq!(run.cause, Cause::Schedule { due: last + secs(10 * 3600) });
}

#[test]
fn destroy_that_failed_is_planned_again_as_a_destroy() {
    let mut world = World::new(Strategy::Auto).with(|world| {
        world.planned();
        let run = world.run(Action::Destroy, Cause::Plan { plan: PlanDigest::new("p1") }, "new");
        run.destroys = true;
        ended(run, Ending::Failed(FailureClass::Module));
        run.attempts[0].began = true;
    });
    world.now = NOW + secs(20);
    let Some(Step::Create(plan)) = world.decide().step else { panic!("no plan") };
    assert!(plan.destroys && plan.action == Action::Plan);
}

#[test]
fn lock_that_an_attempt_reported_is_a_reason_with_the_way_out() {
    let holder = Holder {
        who: "alice@host".to_owned(),
        operation: "OperationTypeApply".to_owned(),
        created: "2026-01-01 10:00:00 +0000 UTC".to_owned(),
    };
    let lock = Ending::Failed(FailureClass::Lock);
    let world = auto().with(|w| locked_by(w.plan(), Some(holder), lock));
    let decision = world.decide();
    let texts: Vec<&str> = decision.reasons.iter().map(|reason| reason.text.as_str()).collect();
    let expected = "the state is locked by alice@host since 2026-01-01 10:00:00 +0000 UTC (OperationTypeApply, \
                    id 1-2); if its holder has ended, `butler-runner layer unlock network-prod --state-lock 1-2` \
                    removes the lock";
    assert_eq!(texts, ["the last attempt failed; it is retried after a wait", expected]);
    // Nothing can remove a lock whose id is not known.
    let nameless = auto().with(|w| {
        locked_by(w.plan(), None, lock);
        w.facts.runs[0].attempts[0].lock = Some(StateLock::default());
    });
    let text = nameless.decide().reasons[1].text.clone();
    assert_eq!(text, "the state is locked; its backend does not report the holder");
}
