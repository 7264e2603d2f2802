//! The breaker: counts the layers whose automatic applies fail in a row, and stops those of all others.
//!
//! A layer counts once: one that is broken says nothing about the others, however often it is tried. So each row of
//! failures has a number, and the facts of a layer have that of the row in which its failure was counted.

use std::collections::BTreeSet;

use super::transaction::{Tables, update};
use super::{AttemptId, Outcome, StoreResult};
use crate::model::{Breaker, BreakerFailure, Ending, OpenBreaker, Run, StopReason};

/// Counts the layers whose automatic applies have failed in a row.
const FAILED_APPLIES: &str = "failed applies";

/// Counts the rows of failures that have ended, so it is the number of the one that goes on.
const ROWS: &str = "rows of failed applies";

/// How many runs of each layer are read for the failures that have opened the breaker.
const RECENT: u32 = 50;

pub(super) fn breaker(tables: &mut dyn Tables) -> StoreResult<Breaker> {
    Ok(Breaker::after(tables.counter(FAILED_APPLIES)?))
}

pub(super) fn reset_breaker(tables: &mut dyn Tables, by: &str) -> StoreResult<Outcome> {
    if breaker(tables)? == Breaker::Closed {
        return Ok(Outcome::Refused);
    }
    end_row(tables)?;
    // People reset it rarely, so all layers can be asked which one has opened it.
    for layer in tables.layers()? {
        let _ = update(tables, &layer, |record| record.reset_breaker(by))?;
    }
    Ok(Outcome::Made)
}

fn end_row(tables: &mut dyn Tables) -> StoreResult<()> {
    tables.clear(FAILED_APPLIES)?;
    tables.count(ROWS)
}

/// Counts the end of an automatic apply. One that was stopped by a person, was not started or had a stale
/// plan says nothing about others.
pub(super) fn count_automatic_apply(tables: &mut dyn Tables, id: &AttemptId) -> StoreResult<()> {
    let ended = tables.run(&id.run)?.map(|(_, run)| run).filter(Run::is_automatic_apply);
    let Some((ending, _)) = ended.as_ref().and_then(Run::last_end) else { return Ok(()) };
    let is_open = breaker(tables)? == Breaker::Open;
    if is_counted(ending) {
        let row = tables.counter(ROWS)?;
        if update(tables, &id.layer, |record| record.fail_in_row(row))? == Outcome::Made {
            tables.count(FAILED_APPLIES)?;
        }
        if !is_open && breaker(tables)? == Breaker::Open {
            let now = tables.now();
            let _ = update(tables, &id.layer, |record| record.open_breaker(&id.run, now))?;
        }
    } else if ending == Ending::Succeeded && !is_open && tables.counter(FAILED_APPLIES)? > 0 {
        // Only a person closes it.
        end_row(tables)?;
    }
    Ok(())
}

/// Whether an automatic apply that ended so is one of the failures in a row.
const fn is_counted(ending: Ending) -> bool {
    match ending {
        Ending::Failed(_) | Ending::Lost | Ending::Stopped(StopReason::TimedOut) => true,
        Ending::Job(failure) => failure.may_have_begun(),
        Ending::Succeeded | Ending::Stopped(_) | Ending::StalePlan | Ending::NeverStarted => false,
    }
}

/// The breaker if it is open, with the failures that have opened it: the last one of each of the layers whose automatic
/// applies failed last before that. Runs that were removed since are missing.
pub(super) fn open_breaker(tables: &mut dyn Tables) -> StoreResult<Option<OpenBreaker>> {
    if breaker(tables)? == Breaker::Closed {
        return Ok(None);
    }
    // It is rarely open, so all layers can be asked.
    let layers = tables.layers()?;
    let mut since = None;
    for layer in &layers {
        let opened = tables.record(layer)?.breaker;
        since = since.max(opened.filter(|it| it.reset_by.is_none()).map(|it| it.at));
    }
    let mut failures = Vec::new();
    for layer in layers {
        for run in tables.history(&layer, None, RECENT)?.iter().filter(|it| it.is_automatic_apply())
        {
            failures.extend(run.attempts.iter().filter_map(|attempt| {
                let (ending, ended) = attempt.end?;
                let is_cause = is_counted(ending) && since.is_none_or(|since| ended <= since);
                let (layer, run) = (layer.clone(), run.id.clone());
                let failure = BreakerFailure { layer, run, attempt: attempt.number, ending, ended };
                is_cause.then_some((attempt.sequence, failure))
            }));
        }
    }
    failures.sort_by_key(|(sequence, failure)| (failure.ended, *sequence));
    let most = usize::try_from(Breaker::FAILURES).unwrap_or(usize::MAX);
    let mut named = BTreeSet::new();
    let newest = failures.into_iter().rev().map(|(_, failure)| failure);
    let newest = newest.filter(|failure| named.insert(failure.layer.clone())).take(most);
    let mut failures: Vec<BreakerFailure> = newest.collect();
    failures.reverse();
    Ok(Some(OpenBreaker { since, failures }))
}
