//! Simulates the server with a clock, a git host, attempts and a store that fail.
//!
//! A seed determines a scenario: layers, and a list of [`Op`]s. After each of them, the invariants
//! are checked; at the end all faults stop, and everything must come to rest. A scenario that fails
//! is shrunk before it is printed. Nothing here waits: an hour of simulated time takes no time.
//!
//! `make test` runs a fixed number of seeds, and `make soak` more of them (`SIMULATE_SEEDS`). `make simulate` sets
//! `SIMULATE_SEED` and runs from this seed on, until it is stopped, a scenario fails, or `SIMULATE_SEEDS` have run.

#![expect(clippy::unwrap_used, reason = "what fails in a simulation fails the test")]

mod alarms;
mod breaker;
mod conditions;
mod configuration;
mod executor;
mod fates;
mod faulty_store;
mod inputs;
mod interruptions;
mod invariants;
mod ops;
mod passes;
mod people;
mod processes;
mod renames;
mod repository;
mod rest;
mod terraform;
mod unlock;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ops::{Op, Scenario};
use world::World;

/// How many scenarios a plain test run has, from seed 0 on.
const SEEDS: u64 = 100;

/// What was simulated.
#[derive(Debug, Default)]
struct Totals {
    seeds: u64,
    steps: u64,
    attempts: u64,
    applies: u64,
    by_kind: BTreeMap<&'static str, u64>,
    happened: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Totals {
    /// How often each operation was made, and each other fault happened.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, steps, attempts, applies, by_kind, happened } = self;
        writeln!(
            formatter,
            "{seeds} seeds, {steps} steps, {attempts} attempts, {applies} applies"
        )?;
        for (kind, count) in by_kind.iter().chain(happened) {
            writeln!(formatter, "{count:>10} {kind}")?;
        }
        Ok(())
    }
}

/// Runs a scenario to its end. The error is the invariant that did not hold, and after how many
/// operations.
fn run(scenario: &Scenario) -> Result<World, (usize, String)> {
    let mut world = World::new(scenario);
    for (index, op) in scenario.ops.iter().enumerate() {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            world.perform(op);
            world.check()
        }));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(violation)) => return Err((index + 1, violation)),
            Err(_) => return Err((index + 1, "the simulation panicked".to_owned())),
        }
    }
    let end = scenario.ops.len();
    rest::come_to_rest(&mut world).map_err(|violation| (end, violation))?;
    Ok(world)
}

/// Removes operations as long as the scenario still fails.
fn shrink(mut scenario: Scenario) -> Scenario {
    let mut size = scenario.ops.len() / 2;
    while size > 0 {
        let mut start = 0;
        while start < scenario.ops.len() {
            let mut smaller = scenario.clone();
            let end = (start + size).min(smaller.ops.len());
            smaller.ops.drain(start..end);
            if run(&smaller).is_err() {
                scenario = smaller;
            } else {
                start += size;
            }
        }
        size /= 2;
    }
    scenario
}

#[expect(clippy::print_stderr, reason = "to shrink a scenario can take minutes")]
fn simulate(seed: u64, totals: &mut Totals) {
    let scenario = Scenario::from_seed(seed);
    match run(&scenario) {
        Ok(world) => {
            totals.seeds += 1;
            totals.steps += world.steps();
            totals.attempts += world.attempts();
            totals.applies += world.applies();
            for op in &scenario.ops {
                *totals.by_kind.entry(op.kind()).or_default() += 1;
            }
            for (what, count) in &world.executor.machine.lock().unwrap().happened {
                *totals.happened.entry(what).or_default() += count;
            }
        }
        Err((after, violation)) => {
            eprintln!("seed {seed} fails after {after} operations: {violation}; it is shrunk now");
            let shrunk = shrink(scenario);
            let again = run(&shrunk).err().map_or_else(String::new, |(_, violation)| violation);
            panic!(
                "seed {seed} fails after {after} operations: {violation}\nshrunk to {} operations: \
                 {again}\n{shrunk:#?}",
                shrunk.ops.len()
            );
        }
    }
}

/// A number that the developer who simulates has set.
#[expect(clippy::disallowed_methods, reason = "set by the developer who simulates")]
fn given(name: &str) -> Option<u64> {
    let number = std::env::var(name).ok()?;
    Some(number.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn invariants_hold_whatever_fails() {
    let mut totals = Totals::default();
    let first = given("SIMULATE_SEED");
    let seeds = given("SIMULATE_SEEDS").unwrap_or(if first.is_some() { u64::MAX } else { SEEDS });
    let first = first.unwrap_or_default();
    for seed in first..first.saturating_add(seeds) {
        simulate(seed, &mut totals);
        if totals.seeds.is_multiple_of(10_000) {
            eprintln!("{totals}");
        }
    }
    eprintln!("{totals}");
    // Each kind of fault was simulated, and work was done.
    assert_eq!(totals.by_kind.len(), Op::KINDS, "{:?}", totals.by_kind);
    assert!(totals.happened.contains_key("the breaker opened"), "{:?}", totals.happened);
    assert!(totals.attempts > seeds && totals.applies > seeds / 2, "{totals:?}");
}
