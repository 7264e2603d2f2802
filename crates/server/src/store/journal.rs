//! Which entries of the journal a change of a layer's facts makes.
//!
//! Entries follow from the facts before and after a transaction. So each change has its entry,
//! whichever operation made it, and an operation that changes nothing has none. Heartbeats and
//! probes have no entries.

use super::record::{OpenedBreaker, Record};
use crate::model::{Attempt, Cause, JournalChange, JournalKind, Observation, Run, WindowOverride};

/// What happened between `before` and `after`, in the order of the journal.
pub(super) fn changes(before: &Record, after: &Record) -> Vec<JournalChange> {
    let mut changes = Vec::new();
    let mut add = |run: Option<&Run>, attempt: Option<&Attempt>, what| {
        let (run, attempt) = (run.map(|run| run.id.clone()), attempt.map(|known| known.number));
        changes.push(JournalChange { run, attempt, what });
    };
    // Another commit with the digest that is known is the same revision.
    if after.change() != before.change()
        && let Some(read) = after.observation.as_ref().and_then(Observation::revision)
    {
        let (digest, commit) = (read.digest.clone(), read.commit.clone());
        add(None, None, JournalKind::RevisionRead { digest, commit });
    }
    for from in after.files_of.iter().filter(|from| !before.files_of.contains(from)) {
        add(None, None, JournalKind::Renamed { from: from.clone() });
    }
    if after.paused_by != before.paused_by {
        let by = after.paused_by.clone();
        add(None, None, by.map_or(JournalKind::Resumed, |by| JournalKind::Paused { by }));
    }
    if after.known_drift != before.known_drift {
        let run = after.drift.as_ref().map(|found| found.run.clone());
        let run = after.runs.iter().find(|it| Some(&it.id) == run.as_ref());
        let difference = after.known_drift.clone();
        let found = difference.map(|difference| JournalKind::DriftFound { difference });
        add(run, None, found.unwrap_or(JournalKind::DriftResolved));
    }
    if after.known_checks != before.known_checks {
        let run = after.drift.as_ref().map(|found| found.run.clone());
        let run = after.runs.iter().find(|it| Some(&it.id) == run.as_ref());
        add(
            run,
            None,
            match &after.known_checks[..] {
                [] => JournalKind::ChecksPassed,
                checks => JournalKind::ChecksFailed { checks: checks.to_vec() },
            },
        );
    }
    if after.breaker != before.breaker
        && let Some(OpenedBreaker { run, reset_by, .. }) = &after.breaker
    {
        let run = after.runs.iter().find(|known| known.id == *run);
        let by = reset_by.clone();
        let what = by.map_or(JournalKind::BreakerOpened, |by| JournalKind::BreakerReset { by });
        add(run, None, what);
    }
    for run in &after.runs {
        let known = before.runs.iter().find(|known| known.id == run.id);
        for what in changes_of_run(known, run) {
            add(Some(run), None, what);
        }
        for attempt in &run.attempts {
            let known = known
                .and_then(|run| run.attempts.iter().find(|known| known.number == attempt.number));
            for what in changes_of_attempt(known, attempt) {
                add(Some(run), Some(attempt), what);
            }
        }
    }
    changes
}

fn changes_of_run(known: Option<&Run>, run: &Run) -> impl Iterator<Item = JournalKind> {
    let created = known.is_none().then(|| {
        let cause = run.cause.kind().to_owned();
        JournalKind::RunCreated { action: run.action, cause }
    });
    let was_approved = known.is_some_and(|known| known.approved_by.is_some());
    let approved = match (&run.approved_by, &run.cause) {
        (Some(by), Cause::Plan { plan }) if !was_approved => {
            Some(JournalKind::PlanApproved { plan: plan.clone(), by: by.clone() })
        }
        _ => None,
    };
    let was_overridden = known.is_some_and(|known| known.window_override.is_some());
    let overridden = run.window_override.clone().filter(|_| !was_overridden);
    let overridden = overridden
        .map(|WindowOverride { by, reason }| JournalKind::WindowOverridden { by, reason });
    let plan = |run: Option<&Run>| run.and_then(|run| run.plan.clone());
    let (before, after) = (plan(known), plan(Some(run)));
    let discarded = after.as_ref().and_then(|saved| {
        let was_discarded = before.as_ref().is_some_and(|saved| saved.discarded.is_some());
        let by = saved.discarded.clone().filter(|_| !was_discarded)?;
        Some(JournalKind::PlanDiscarded { plan: saved.digest.clone(), by })
    });
    let stale = after.as_ref().and_then(|saved| {
        let was_stale = before.as_ref().is_some_and(|saved| saved.stale.is_some());
        let why = saved.stale.filter(|_| !was_stale)?;
        Some(JournalKind::PlanStale { plan: saved.digest.clone(), why })
    });
    let was_closed = known.is_some_and(|known| known.closed.is_some());
    let closed = run.closed.filter(|_| !was_closed).map(|why| JournalKind::RunClosed { why });
    [created, approved, overridden, discarded, stale, closed].into_iter().flatten()
}

fn changes_of_attempt(
    known: Option<&Attempt>,
    attempt: &Attempt,
) -> impl Iterator<Item = JournalKind> {
    let started = known.is_none().then_some(JournalKind::AttemptStarted);
    let had_begun = known.is_some_and(|known| known.began);
    let began = (attempt.began && !had_begun).then_some(JournalKind::ApplyBegan);
    let was_asked = known.is_some_and(|known| known.stop.is_some());
    let stop = attempt.stop.filter(|_| !was_asked);
    let stop = stop.map(|(why, _)| JournalKind::StopRequested { why });
    let had_ended = known.is_some_and(|known| known.end.is_some());
    let end = attempt.end.filter(|_| !had_ended);
    let end = end.map(|(ending, _)| JournalKind::AttemptEnded { ending });
    [started, began, stop, end].into_iter().flatten()
}
