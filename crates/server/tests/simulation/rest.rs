//! The end of a scenario: all faults stop, and everything must come to rest.

use butler_server::model::{Gate, Phase, Sighting};
use butler_server::store::Store;

use crate::ops::Op;
use crate::world::{World, now};

/// Half-minutes until everything must be at rest: more than the longest waits of all layers
/// together.
const MOST_ROUNDS: usize = 3_000;

/// Lets everything come to rest, and checks what must hold then.
pub(crate) fn come_to_rest(world: &mut World) -> Result<(), String> {
    world.heal();
    for layer in &mut world.layers {
        // Checks for drift never end.
        layer.layer.drift = None;
    }
    let mut resting = Err("nothing was looked at".to_owned());
    for _ in 0..MOST_ROUNDS {
        world.poll();
        world.pass();
        world.check()?;
        resting = is_at_rest(world);
        if resting.is_ok() {
            break;
        }
        for layer in 0..world.layers.len() {
            world.perform(&Op::Approve { layer, old: false });
        }
        world.advance(30);
        world.check()?;
    }
    // Invariant 5.
    resting.map_err(|why| format!("never at rest: {why}"))?;
    is_nothing_forgotten(world)?;
    // Invariant 6.
    let writes = world.store.inner.writes();
    for _ in 0..5 {
        world.poll();
        world.pass();
    }
    let made = world.store.inner.writes() - writes;
    if made > 0 {
        return Err(format!("{made} writes although nothing happens"));
    }
    Ok(())
}

/// Whether each layer waits for nothing, or for a person.
fn is_at_rest(world: &World) -> Result<(), String> {
    if world.executor.machine.lock().unwrap().processes.iter().any(|process| !process.is_gone()) {
        return Err("a process runs".to_owned());
    }
    for layer in 0..world.layers.len() {
        let name = world.name(layer);
        let (_, decision) = now(world.controller().decide(&name, world.configured(layer))).unwrap();
        let gates: Vec<Gate> = decision.reasons.iter().map(|reason| reason.gate).collect();
        let rests = match decision.phase {
            Phase::Noop | Phase::Succeeded | Phase::Skipped => true,
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

/// Invariant 3: the digest that each repository ends with is applied, or planned, or its plan is
/// known to wait for a person.
fn is_nothing_forgotten(world: &World) -> Result<(), String> {
    for layer in &world.layers {
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
        // What the store believes is true, if no other layer changes the same state.
        let shares = world.layers.iter().filter(|other| other.state_key == layer.state_key);
        let machine = world.executor.machine.lock().unwrap();
        let infrastructure = machine.infrastructure.get(&layer.state_key);
        let truth = infrastructure.and_then(|infrastructure| infrastructure.applied.as_ref());
        if is_applied && shares.count() == 1 && truth != Some(&revision.digest) {
            return Err(format!("{name} is at rest, but {truth:?} is applied, not {revision:?}"));
        }
        drop(machine);
        if let Some(lease) = snapshot.facts.lease {
            return Err(format!("a lease is left: {lease:?}"));
        }
    }
    Ok(())
}
