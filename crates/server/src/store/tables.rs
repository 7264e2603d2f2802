//! The transactions of [`Store`](super::Store), over what a database has to offer.

use std::collections::{BTreeMap, BTreeSet};

use super::breaker::{breaker, count_automatic_apply};
use super::transaction::{Tables, update};
use super::{
    AttemptId, AttemptResult, Keep, Note, Outcome, Snapshot, StartRequest, StoreResult, decider,
};
use crate::model::{
    Action, Attempt, Breaker, Cause, Closed, Facts, LayerName, Lease, NewRun, Observation,
    PlanDigest, RunId, Sighting, Unrelated, Upstream, WindowOverride,
};

/// Counts starts and ends of attempts. This is their order.
const SEQUENCE: &str = "sequence";

/// Counts how often something new was read from a repository.
fn readings_of(repository: &str) -> String {
    format!("readings {repository}")
}

/// The layers that come before one whose newest plan began with the sequence number `planned`.
fn upstreams(
    tables: &mut dyn Tables,
    after: &[LayerName],
    planned: u64,
) -> StoreResult<Vec<Upstream>> {
    after
        .iter()
        .map(|name| {
            let record = tables.record(name)?;
            let satisfied = record.is_applied();
            let has_changed = record.changed.as_ref().is_some_and(|(ended, _)| *ended > planned);
            let waits = if satisfied { None } else { record.waits() };
            Ok(Upstream { name: name.clone(), satisfied, has_changed, waits })
        })
        .collect()
}

pub(super) fn snapshot(
    tables: &mut dyn Tables,
    layer: &LayerName,
    state_key: &str,
    after: &[LayerName],
) -> StoreResult<Snapshot> {
    let record = tables.record(layer)?;
    let mut upstream_apply = None;
    for name in after {
        let changed = tables.record(name)?.changed;
        upstream_apply = upstream_apply.max(changed.filter(|(ended, _)| *ended > record.planned));
    }
    if let (Some((_, run)), Some(read)) = (&upstream_apply, &record.observation)
        && let Some(revision) = read.revision()
    {
        let cause = Cause::Dependency { run: run.clone(), change: read.change };
        let planned = RunId::derived(layer, &revision.digest, Action::Plan, &cause);
        // It can be one of the runs that decisions do not read.
        if tables.run(&planned)?.is_some() {
            upstream_apply = None;
        }
    }
    let newest_run = match record.runs.last() {
        // Decisions read the newest run of this change, and few of earlier ones.
        Some(run) if run.change == record.change() => Some(run.clone()),
        _ => tables.history(layer, None, 1)?.pop(),
    };
    let (applied, applied_at) = record.applied.unzip();
    let planned = record.planned;
    Ok(Snapshot {
        now: tables.now(),
        observation: record.observation,
        facts: Facts {
            applied,
            applied_at,
            runs: record.runs,
            drift: record.drift,
            repaired_drift: record.repaired_drift,
            state: record.state,
            lease: tables.lease(state_key)?,
            reported_lock: record.reported_lock,
            paused_by: record.paused_by,
            files_of: record.files_of,
            upstream_apply: upstream_apply.map(|(_, run)| run),
        },
        newest_run,
        upstreams: upstreams(tables, after, planned)?,
        running: tables.running()?,
        breaker: breaker(tables)?,
    })
}

pub(super) fn readings(tables: &mut dyn Tables, repository: &str) -> StoreResult<u64> {
    tables.counter(&readings_of(repository))
}

pub(super) fn observations(
    tables: &mut dyn Tables,
    layers: &[LayerName],
) -> StoreResult<BTreeMap<LayerName, Observation>> {
    let mut known = BTreeMap::new();
    for layer in layers {
        if let Some(read) = tables.record(layer)?.observation {
            known.insert(layer.clone(), read);
        }
    }
    Ok(known)
}

pub(super) fn observe(
    tables: &mut dyn Tables,
    repository: &str,
    readings: u64,
    sightings: &[(LayerName, Sighting)],
    unrelated: &[Unrelated],
) -> StoreResult<Outcome> {
    let counter = readings_of(repository);
    if tables.counter(&counter)? != readings {
        return Ok(Outcome::Refused);
    }
    let now = tables.now();
    let mut is_new = false;
    // Breaks in the histories of the known layers say whether a new layer belongs to an unrelated history.
    let (mut unread, mut breaks) = (Vec::new(), unrelated.to_vec());
    for (layer, sighting) in sightings {
        let made = update(tables, layer, |record| {
            if record.is_unread() {
                unread.push((layer, sighting));
                return Outcome::Refused;
            }
            let made = record.observe(sighting, unrelated, now);
            let known = record.observation.as_ref().and_then(|read| read.history_break.as_ref());
            if let Some((known, commit)) = known.zip(sighting.commit()) {
                let pair = (known.before.clone(), commit.clone());
                if !breaks.contains(&pair) {
                    breaks.push(pair);
                }
            }
            made
        })?;
        is_new |= made == Outcome::Made;
    }
    for (layer, sighting) in unread {
        let made = update(tables, layer, |record| record.observe(sighting, &breaks, now))?;
        is_new |= made == Outcome::Made;
    }
    if is_new {
        tables.count(&counter)?;
    }
    Ok(Outcome::Made)
}

pub(super) fn insert_run(
    tables: &mut dyn Tables,
    layer: &LayerName,
    run: NewRun,
) -> StoreResult<Outcome> {
    let now = tables.now();
    if tables.run(&run.id)?.is_some() {
        return Ok(Outcome::Refused);
    }
    update(tables, layer, |record| record.insert(run, now))
}

pub(super) fn start_attempt(
    tables: &mut dyn Tables,
    request: &StartRequest<'_>,
) -> StoreResult<Outcome> {
    let StartRequest { attempt: id, state_key, after, timeout, repository, .. } = *request;
    let running = tables.running()?;
    let is_full = running.total().attempts >= request.concurrency;
    let most = request.repository_concurrency;
    let is_repository_full = most.is_some_and(|most| running.of(repository).attempts >= most);
    if tables.lease(state_key)?.is_some() || is_full || is_repository_full {
        return Ok(Outcome::Refused);
    }
    if let Some(fence) = request.fence
        && !decider::is_current(tables, fence)?
    {
        return Ok(Outcome::Refused);
    }
    if breaker(tables)? == Breaker::Open
        && tables.run(&id.run)?.is_some_and(|(_, run)| run.is_automatic_apply())
    {
        return Ok(Outcome::Refused);
    }
    let planned = tables.record(&id.layer)?.planned;
    let upstreams = upstreams(tables, after, planned)?;
    let now = tables.now();
    let sequence = tables.counter(SEQUENCE)? + 1;
    let (place, repository) = (request.place.to_owned(), repository.to_owned());
    let deadline = now + timeout;
    let attempt =
        Attempt::new(id.number, place, repository, *request.token, sequence, now, deadline);
    let made = update(tables, &id.layer, |record| record.start(attempt, &id.run, &upstreams))?;
    if made == Outcome::Made {
        tables.count(SEQUENCE)?;
        tables.insert_lease(state_key, &lease_of(id))?;
    }
    Ok(made)
}

pub(super) fn close_run(
    tables: &mut dyn Tables,
    layer: &LayerName,
    run: &RunId,
    why: Closed,
) -> StoreResult<Outcome> {
    update(tables, layer, |record| record.close(run, why))
}

pub(super) fn note(tables: &mut dyn Tables, id: &AttemptId, note: Note) -> StoreResult<Outcome> {
    let now = tables.now();
    update(tables, &id.layer, |record| record.note(id, note, now))
}

pub(super) fn finish(
    tables: &mut dyn Tables,
    id: &AttemptId,
    result: AttemptResult,
) -> StoreResult<Outcome> {
    let moment = (tables.now(), tables.counter(SEQUENCE)? + 1);
    let made = update(tables, &id.layer, |record| record.finish(id, result, moment))?;
    if made == Outcome::Made {
        tables.count(SEQUENCE)?;
        tables.remove_lease(&lease_of(id))?;
        count_automatic_apply(tables, id)?;
    }
    Ok(made)
}

pub(super) fn approve(
    tables: &mut dyn Tables,
    layer: &LayerName,
    plan: &PlanDigest,
    by: &str,
) -> StoreResult<Outcome> {
    let now = tables.now();
    update(tables, layer, |record| record.approve(layer, plan, by, now))
}

pub(super) fn override_window(
    tables: &mut dyn Tables,
    layer: &LayerName,
    run: &RunId,
    given: WindowOverride,
) -> StoreResult<Outcome> {
    update(tables, layer, |record| record.override_window(run, given))
}

pub(super) fn discard(
    tables: &mut dyn Tables,
    layer: &LayerName,
    plan: &PlanDigest,
    by: &str,
) -> StoreResult<Outcome> {
    // People discard rarely, so all runs can be asked. Decisions can read a plan and not its apply.
    let applies = |cause: &Cause| matches!(cause, Cause::Plan { plan: of } if of == plan);
    let runs = tables.history(layer, None, u32::MAX)?;
    if runs.iter().any(|run| applies(&run.cause) && !run.attempts.is_empty()) {
        return Ok(Outcome::Refused);
    }
    update(tables, layer, |record| record.discard(plan, by))
}

pub(super) fn pause(
    tables: &mut dyn Tables,
    layer: &LayerName,
    by: Option<&str>,
) -> StoreResult<()> {
    let _ = update(tables, layer, |record| {
        if record.paused_by.as_deref() == by {
            return Outcome::Refused;
        }
        record.paused_by = by.map(str::to_owned);
        Outcome::Made
    })?;
    Ok(())
}

pub(super) fn forget(tables: &mut dyn Tables, layer: &LayerName) -> StoreResult<Outcome> {
    let runs = tables.record(layer)?.runs;
    // Otherwise its attempt would report to a run that does not exist, and its lease would stay.
    if runs.iter().any(|run| run.running().is_some()) || !tables.layers()?.contains(layer) {
        return Ok(Outcome::Refused);
    }
    tables.forget(layer)?;
    Ok(Outcome::Made)
}

pub(super) fn prune(
    tables: &mut dyn Tables,
    layer: &LayerName,
    keep: Keep,
) -> StoreResult<Vec<AttemptId>> {
    let (now, read) = (tables.now(), tables.record(layer)?.runs);
    let mut counts = BTreeMap::<Action, u32>::new();
    let mut succeeded = BTreeSet::new();
    let mut removed = Vec::new();
    for run in tables.history(layer, None, u32::MAX)? {
        let count = counts.entry(run.action).or_default();
        *count += 1;
        let is_last_success = run.has_succeeded() && succeeded.insert(run.action);
        let is_last = *count == 1 || is_last_success;
        let is_recent = *count <= keep.runs && now.since(run.created) <= keep.age;
        if is_last || is_recent || read.iter().any(|read| read.id == run.id) {
            continue;
        }
        tables.remove_run(layer, &run.id)?;
        removed.extend(run.attempts.iter().map(|attempt| AttemptId {
            layer: layer.clone(),
            run: run.id.clone(),
            number: attempt.number,
        }));
    }
    Ok(removed)
}

/// The lease of an attempt.
fn lease_of(id: &AttemptId) -> Lease {
    Lease { layer: id.layer.clone(), run: id.run.clone(), fence: id.number }
}
