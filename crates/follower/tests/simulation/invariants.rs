//! What holds after each decision. The checks do not use the code that decides.

use std::collections::BTreeMap;

use butler_follower::state::{COPY_LIMIT, Record, bounded_copy};
use butler_follower::status::Timings;
use butler_follower::{Commit, Decision, Head, Input, Moment, Phase, Request, Sighting};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::faults::Faults;

/// What the checks know besides a decision.
pub(crate) struct Facts<'a> {
    pub(crate) cluster: &'a Cluster,
    /// The faults that the story began with.
    pub(crate) faults: &'a Faults,
    /// When the first stage was submitted, by commit.
    pub(crate) starts: &'a BTreeMap<Commit, Vec<Moment>>,
    /// The decisions of the story until now.
    pub(crate) looks: usize,
    /// Whether a person confirmed a run.
    pub(crate) was_confirmed: bool,
}

/// Checks a decision. The error says which invariant is broken.
pub(crate) fn check(
    input: &Input<'_>,
    decision: &Decision,
    facts: &Facts<'_>,
) -> Result<(), String> {
    permissions(input, decision)?;
    absence(input, decision)?;
    gates(input, decision, facts)?;
    names(facts)?;
    totals(input, decision, facts)?;
    if facts.looks.is_multiple_of(5) {
        copies(&decision.record)?;
    }
    holds(decision.next_look >= input.now, "the next look is not in the past")?;
    holds(!decision.reasons.is_empty(), "each decision has a reason")?;
    holds(decision.record.phase == decision.phase, "the record has the phase")
}

fn holds(condition: bool, sentence: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(format!("broken: {sentence}")) }
}

/// The copy of a record is within its limit, and has all parts of a small record.
fn copies(record: &Record) -> Result<(), String> {
    let copy = bounded_copy(record);
    holds(copy.len() <= COPY_LIMIT, "the copy is within its limit")?;
    let read: Value = serde_json::from_str(&copy).map_err(|error| error.to_string())?;
    let count = |name: &str| read[name].as_array().map_or(0, Vec::len);
    let is_complete = read["phase"] == record.phase.as_str()
        && read["target"].as_str() == record.target.as_ref().map(Commit::as_str)
        && count("stages") == record.stages.len()
        && count("events") == record.events.len();
    holds(is_complete, "the copy of a small record is complete")
}

/// Nothing is submitted in a dry run, without a confirmation, or while the follower is paused.
fn permissions(input: &Input<'_>, decision: &Decision) -> Result<(), String> {
    let is_allowed = matches!(input.request, Request::None | Request::Confirmed);
    holds(is_allowed || decision.action.is_none(), "dry and unconfirmed runs submit nothing")?;
    let is_paused = input.follower.is_paused;
    holds(!is_paused || decision.action.is_none(), "a paused follower submits nothing")?;
    holds(is_paused == (decision.phase == Phase::Skipped), "only a paused follower is skipped")?;
    let has_record = decision.action.as_ref().is_none_or(|action| {
        let in_flight = decision.record.in_flight.as_ref();
        in_flight.is_some_and(|in_flight| in_flight.object == action.object)
    });
    holds(has_record, "the record names the object before it is submitted")
}

/// An object is only submitted if it was read, and does not exist.
fn absence(input: &Input<'_>, decision: &Decision) -> Result<(), String> {
    let Some(action) = &decision.action else { return Ok(()) };
    let sighting = input.observations.objects.get(&action.object);
    let is_absent = matches!(sighting, Some(Sighting::Absent | Sighting::Refused { .. }));
    holds(is_absent, "an object is submitted only if its absence was read")?;
    let is_target = decision.record.target.as_ref() == Some(&action.commit);
    holds(is_target, "only the target is submitted")
}

/// A delivered commit has complete stages and gates that are ready for it.
fn gates(input: &Input<'_>, decision: &Decision, facts: &Facts<'_>) -> Result<(), String> {
    if !matches!(decision.phase, Phase::Noop | Phase::Succeeded) {
        return Ok(());
    }
    let Some(target) = &decision.record.target else { return Err("broken: no target".to_owned()) };
    for stage in ["image", "pipeline"] {
        let is_complete = facts.cluster.completed.contains(&(stage.to_owned(), target.clone()));
        holds(is_complete, "a delivered commit has complete objects")?;
    }
    let objects = &input.observations.objects;
    let found = |kind: &str| {
        objects.iter().find_map(|(reference, sighting)| match sighting {
            Sighting::Found(value) if reference.kind == kind => Some(value),
            Sighting::Found(_)
            | Sighting::Absent
            | Sighting::Refused { .. }
            | Sighting::Denied { .. }
            | Sighting::Unknown { .. } => None,
        })
    };
    let is = |kind: &str, pointer: &str, expected: Value| {
        found(kind).and_then(|value| value.pointer(pointer)) == Some(&expected)
    };
    let are_ready = is("Mirror", "/status/pendingFlush", false.into())
        && is("Mirror", "/status/githubInSync", true.into())
        && is("Application", "/status/sync/status", "Synced".into())
        && is("Application", "/status/health/status", "Healthy".into())
        && is("Deployment", "/status/observedGeneration", 2.into())
        && is("Deployment", "/metadata/annotations/example.com~1commit", target.as_str().into());
    holds(are_ready, "a delivered commit has ready gates")?;
    if decision.phase == Phase::Noop {
        let is_head = input.observations.head == Head::Found(target.clone());
        holds(is_head, "a follower rests only at the head of its branch")?;
    }
    Ok(())
}

/// One name for a stage, commit and attempt, and one object that runs.
fn names(facts: &Facts<'_>) -> Result<(), String> {
    let are_single = facts.cluster.names.values().all(|names| names.len() == 1);
    holds(are_single, "a stage, commit and attempt have one name")?;
    let mut all: Vec<_> = facts.cluster.names.values().flatten().collect();
    let count = all.len();
    all.sort();
    all.dedup();
    holds(all.len() == count, "different purposes have different names")?;
    let is_exact = facts.faults.readings_are_true() && facts.faults.records_are_true();
    if is_exact && !facts.was_confirmed {
        let mut running = BTreeMap::new();
        for created in facts.cluster.created.values().filter(|created| !created.has_ended) {
            *running.entry((&created.stage, &created.commit)).or_insert(0) += 1;
        }
        let are_single = running.values().all(|count| *count == 1);
        holds(are_single, "a stage and commit have one object that runs")?;
    }
    Ok(())
}

/// The total begins with a submission of the first stage, and is end minus start.
fn totals(input: &Input<'_>, decision: &Decision, facts: &Facts<'_>) -> Result<(), String> {
    let run = &decision.record.timings;
    let timings = Timings::new(Some(&decision.record), input.follower.budget, input.now);
    let expected = run.started_at.map(|started_at| {
        let end = run.finished_at.unwrap_or(input.now);
        let millis = end.as_millis().saturating_sub(started_at.as_millis());
        std::time::Duration::from_millis(millis).as_secs_f64()
    });
    holds(timings.total_seconds == expected, "the total is end minus start")?;
    let Some(started_at) = run.started_at else { return Ok(()) };
    let target = decision.record.target.as_ref();
    let own = decision.action.as_ref().is_some_and(|_| started_at == input.now);
    let known = target.and_then(|target| facts.starts.get(target));
    let is_known = known.is_some_and(|starts| starts.contains(&started_at));
    holds(own || is_known, "the total begins with a submission")
}
