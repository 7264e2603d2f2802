//! The end of a scenario: all faults stop, and everything must come to rest.

use butler_server::model::{Action, Cause, DriftCheck, Gate, Phase, Sighting, Strategy};
use butler_server::store::Store;

use crate::ops::{ChosenPlan, Op};
use crate::world::{World, now};

/// Half-minutes until everything must be at rest: more than the longest waits of all layers
/// together.
const MOST_ROUNDS: usize = 3_000;

/// How many minutes the layers are checked for drift after that.
const MINUTES_WITH_DRIFT: usize = 180;

/// Lets everything come to rest, and checks what must hold then.
pub(crate) fn come_to_rest(world: &mut World) -> Result<(), String> {
    world.heal();
    let drift: Vec<_> = world.layers.iter().map(|layer| layer.layer.drift).collect();
    // Checks for drift never end.
    set_drift(world, &vec![None; drift.len()]);
    rest(world)?;
    if drift.iter().any(Option::is_some) {
        set_drift(world, &drift);
        check_drift(world)?;
        set_drift(world, &vec![None; drift.len()]);
        rest(world)?;
    }
    Ok(())
}

fn set_drift(world: &mut World, drift: &[Option<DriftCheck>]) {
    for (layer, drift) in world.layers.iter_mut().zip(drift) {
        layer.layer.drift = *drift;
    }
    world.conditions.version += 1;
}

fn rest(world: &mut World) -> Result<(), String> {
    let mut resting = Err("nothing was looked at".to_owned());
    for _ in 0..MOST_ROUNDS {
        world.poll();
        world.pass();
        world.check()?;
        resting = is_at_rest(world);
        if resting.is_ok() {
            break;
        }
        // Automatic applies go on by themselves, until their failures have opened the breaker.
        for layer in (0..world.layers.len())
            .filter(|layer| waits_for_a_person(world, *layer))
            .collect::<Vec<_>>()
        {
            world.perform(&Op::Approve { layer, plan: ChosenPlan::Newest });
        }
        world.advance(30);
        world.check()?;
    }
    // Invariant 5.
    resting.map_err(|why| format!("never at rest: {why}"))?;
    is_nothing_forgotten(world)?;
    are_files_removed(world)?;
    // Invariant 6.
    let writes = world.store.inner.writes();
    for _ in 0..5 {
        world.poll();
        world.pass();
        world.check()?;
    }
    let made = world.store.inner.writes() - writes;
    if made > 0 {
        return Err(format!("{made} writes although nothing happens"));
    }
    Ok(())
}

/// Three hours in which layers are checked for drift every hour. [`World::pass`] checks that nothing
/// else is done meanwhile.
fn check_drift(world: &mut World) -> Result<(), String> {
    let before: Vec<_> = (0..world.layers.len()).map(|layer| checks(world, layer)).collect();
    for layer in 0..world.layers.len() {
        let kind = world.executor.machine.lock().unwrap().random.u8(..8);
        match kind {
            7 => world.apply_outside(layer, false),
            kind => world.change_outside(layer, (kind < 6).then_some(kind)),
        }
    }
    for minute in 0..MINUTES_WITH_DRIFT {
        // Drift that was told is not told again under the new name.
        if minute == MINUTES_WITH_DRIFT / 2 {
            world.rename(0, false, None);
        }
        world.poll();
        world.pass();
        world.advance(60);
        world.check()?;
    }
    for (layer, (known, could_be)) in before.into_iter().enumerate() {
        let (count, can_be) = checks(world, layer);
        let is_checked = world.layers[layer].layer.drift.is_some();
        let made = count - known;
        if made > if is_checked { 5 } else { 0 } {
            return Err(format!("{} was checked for drift {made} times", world.name(layer)));
        }
        if made == 0 && is_checked && could_be && can_be {
            return Err(format!("{} was not checked for drift", world.name(layer)));
        }
    }
    world.check_alarms()
}

/// How often a layer was checked for drift, and whether it can be checked within an hour.
fn checks(world: &World, layer: usize) -> (usize, bool) {
    let name = world.name(layer);
    let snapshot = now(world.store.inner.snapshot(&name, "", &[])).unwrap();
    let is_found = snapshot.observation.is_some_and(|known| known.revision().is_some());
    // The clock can have been set back since.
    let is_past = snapshot.facts.applied_at.is_some_and(|applied| applied <= snapshot.now)
        && snapshot.facts.runs.iter().all(|run| match run.cause {
            Cause::Schedule { due } => due <= snapshot.now,
            _ => true,
        });
    let runs = world.store.inner.runs(&name);
    let count = runs.iter().filter(|run| run.action == Action::Drift).count();
    (count, is_found && is_past)
}

/// Whether a plan of a layer waits for an approval, or for a reset of the breaker.
fn waits_for_a_person(world: &World, layer: usize) -> bool {
    let decided = now(world.controller(layer).decide(&world.name(layer), world.configured(layer)));
    let (_, decision) = decided.unwrap();
    decision.reasons.iter().any(|reason| matches!(reason.gate, Gate::Approval | Gate::Breaker))
}

/// Whether each layer waits for nothing, or for a person.
fn is_at_rest(world: &World) -> Result<(), String> {
    if world.executor.machine.lock().unwrap().processes.iter().any(|process| !process.is_gone()) {
        return Err("a process runs".to_owned());
    }
    for layer in 0..world.layers.len() {
        let name = world.name(layer);
        let (_, decision) =
            now(world.controller(layer).decide(&name, world.configured(layer))).unwrap();
        let gates: Vec<Gate> = decision.reasons.iter().map(|reason| reason.gate).collect();
        let rests = match decision.phase {
            Phase::Noop | Phase::Succeeded | Phase::Skipped => true,
            // A plan that no strategy applies was approved. It is made again when it expires.
            Phase::Blocked if gates == [Gate::Policy] => true,
            Phase::Blocked | Phase::Failed => decision.next_look.is_none(),
            // An upstream layer is blocked, or failed for good.
            Phase::PendingTrigger => gates == [Gate::Dependency],
            Phase::Observed | Phase::Triggering | Phase::ClosingOut | Phase::Superseded => false,
        };
        if decision.step.is_some() || !rests {
            return Err(format!("{name}: {decision:?}"));
        }
    }
    Ok(())
}

/// Invariant 3: the digest that each repository ends with is applied, or there is a reason why it is only
/// planned.
fn is_nothing_forgotten(world: &World) -> Result<(), String> {
    for (index, layer) in world.layers.iter().enumerate() {
        let name = &layer.layer.name;
        let snapshot = now(world.store.inner.snapshot(name, &layer.state_key, &[])).unwrap();
        let Some(observation) = snapshot.observation else {
            return Err(format!("{name} was never read"));
        };
        let Sighting::Found(revision) = &observation.sighting else { continue };
        let is_applied = snapshot
            .facts
            .applied
            .as_ref()
            .is_some_and(|applied| applied.digest == revision.digest);
        let mut runs = snapshot.facts.runs.iter().filter(|run| run.change == observation.change);
        if !is_applied && !runs.any(|run| *run.digest() == revision.digest) {
            return Err(format!("{revision:?} of {name} was forgotten"));
        }
        let (_, decision) = now(world.controller(index).decide(name, Some(layer))).unwrap();
        // Plans were approved. One that was discarded is a reason.
        let is_settled = matches!(decision.phase, Phase::Noop | Phase::Succeeded);
        let mut newest = snapshot.facts.runs.iter().rev().filter(|run| run.action != Action::Drift);
        let is_destroyed = newest.next().is_some_and(|run| run.destroys);
        if is_settled
            && decision.reasons.is_empty()
            && !is_destroyed
            && layer.layer.strategy != Strategy::PlanOnly
            && !is_applied
        {
            return Err(format!("{revision:?} of {name} is not applied, and nothing forbids it"));
        }
        // What the store believes is true, if no other layer changes the same state.
        let shares = world.layers.iter().filter(|other| other.state_key == layer.state_key);
        let machine = world.executor.machine.lock().unwrap();
        let infrastructure = machine.infrastructure.get(&layer.state_key);
        // Another program can have applied something else since.
        let is_true = infrastructure
            .is_some_and(|found| found.outside.is_some() || found.is_applied(&revision.digest));
        if is_applied && shares.count() == 1 && !is_true {
            return Err(format!("{name} is at rest with {infrastructure:?}, not {revision:?}"));
        }
        drop(machine);
        if let Some(lease) = snapshot.facts.lease {
            return Err(format!("a lease is left: {lease:?}"));
        }
    }
    Ok(())
}

/// How many runs of a layer are looked at when plan files are removed after a decision. Files of older ones are
/// found by the name of their directory, which the simulation does not have.
const RUNS_WITH_FILES: usize = 20;

/// The files of plans that nothing can apply any more are removed.
fn are_files_removed(world: &World) -> Result<(), String> {
    let files = world.executor.machine.lock().unwrap().files.clone();
    for file in files {
        let Some((name, _)) = now(world.store.inner.run(&file.0)).unwrap() else { continue };
        let layer = &world.layers[world.index_of(&name)];
        let mut runs = world.store.inner.runs(&name);
        runs.drain(..runs.len().saturating_sub(RUNS_WITH_FILES));
        let Some(planned) = runs.iter().find(|run| run.id == file.0) else { continue };
        let observation = now(world.store.inner.snapshot(&name, "", &[])).unwrap().observation;
        let newest = runs.iter().rev().find(|run| run.plan.is_some());
        // An apply that can be retried goes on when the path is back.
        let is_missing = observation.as_ref().is_some_and(|read| read.revision().is_none());
        let is_newest = newest.is_some_and(|newest| newest.id == file.0)
            && observation.is_some_and(|read| read.change == planned.change);
        let can_be_applied = planned.plan.as_ref().is_some_and(|plan| {
            let is_fresh = world.now() < plan.saved + layer.layer.plan_lifetime;
            is_fresh && plan.is_valid() && !plan.is_empty
        });
        let is_applied = runs.iter().any(|run| {
            let goes_on = is_missing && !run.is_over();
            run.applies(planned) && !run.attempts.is_empty() && !goes_on
        });
        if !is_newest || !can_be_applied || is_applied {
            return Err(format!("the plan file of {file:?} is left"));
        }
    }
    Ok(())
}
