//! Counts the attempts that start and end.
//!
//! The journal has an entry for each start and each end, whichever transaction recorded it. So they are
//! counted from the journal, and not where attempts are started, report, are probed or are unlocked.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::families::{ATTEMPT_DURATION, ATTEMPTS_ENDED, RUN_WAIT};
use super::histogram::Histogram;
use super::text::Exposition;
use crate::model::{Action, Ending, JournalEntry, JournalKind, StopReason};
use crate::store::{Store, StoreResult};

/// The upper bounds of the histograms, in seconds: from a plan without providers to the longest apply.
const BUCKETS: [f64; 12] =
    [1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0];

/// The actions of which the server makes attempts. They have series from the start, so that the first
/// end of a kind is an increase.
const ACTIONS: [Action; 4] = [Action::Plan, Action::Apply, Action::Drift, Action::Destroy];

/// How an attempt ended, as the value of a label.
const OUTCOMES: [&str; 9] = [
    "succeeded",
    "failed",
    "superseded",
    "cancelled",
    "timed-out",
    "stale-plan",
    "lost",
    "never-started",
    "ended-by-cluster",
];

/// How many entries of the journal are read at once.
const ENTRIES: u32 = 500;

/// The attempts that have started and ended since the server started.
#[derive(Debug)]
pub struct AttemptMetrics(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    /// The sequence of the last entry of the journal that was counted.
    counted: u64,
    actions: BTreeMap<Action, OfAction>,
}

#[derive(Debug)]
struct OfAction {
    /// How long attempts took, by their outcome: those outcomes that there were.
    outcomes: BTreeMap<&'static str, Histogram>,
    /// How long runs waited for their first attempt.
    waits: Histogram,
}

impl AttemptMetrics {
    /// Counts what happens behind this entry of the journal.
    #[must_use]
    pub fn after(counted: u64) -> Self {
        let actions = ACTIONS.map(|action| (action, OfAction::new())).into();
        Self(Mutex::new(Counts { counted, actions }))
    }

    /// Counts what the journal has beyond the last entry that was counted.
    ///
    /// # Errors
    /// If the store does not answer. What was not counted is counted the next time.
    pub async fn catch_up<S: Store>(&self, store: &S) -> StoreResult<()> {
        loop {
            let counted = self.with(|counts| counts.counted);
            let entries = store.events(Some(counted), None, ENTRIES).await?;
            let Some(last) = entries.last().map(|entry| entry.sequence) else { return Ok(()) };
            for entry in entries {
                self.count(store, &entry).await?;
            }
            self.with(|counts| counts.counted = last);
        }
    }

    async fn count<S: Store>(&self, store: &S, entry: &JournalEntry) -> StoreResult<()> {
        let ending = match entry.change.what {
            JournalKind::AttemptStarted => None,
            JournalKind::AttemptEnded { ending } => Some(ending),
            _ => return Ok(()),
        };
        let Some((id, number)) = entry.change.run.as_ref().zip(entry.change.attempt) else {
            return Ok(());
        };
        // Later attempts wait because of a failure.
        if ending.is_none() && number > 1 {
            return Ok(());
        }
        // Runs are removed long after their attempts have ended.
        let Some((_, run)) = store.run(id).await? else { return Ok(()) };
        let attempt = run.attempts.iter().find(|attempt| attempt.number == number);
        self.with(|counts| {
            counts.counted = entry.sequence;
            let counted = counts.actions.entry(run.action).or_insert_with(OfAction::new);
            if let Some(ending) = ending {
                let took = attempt.and_then(|it| Some(it.end?.1.since(it.created)));
                counted.ended(outcome(ending), took.unwrap_or_default());
            } else if let Some(attempt) = attempt {
                counted.waits.observe(attempt.created.since(run.created));
            }
        });
        Ok(())
    }

    fn with<T>(&self, work: impl FnOnce(&mut Counts) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes the metrics.
    pub fn write(&self, text: &mut Exposition) {
        self.with(|counts| {
            text.family(&ATTEMPTS_ENDED);
            for (action, counted) in &counts.actions {
                for outcome in OUTCOMES {
                    let count = counted.outcomes.get(outcome).map_or(0, Histogram::count);
                    text.sample(&ATTEMPTS_ENDED, &[action.as_str(), outcome], count);
                }
            }
            text.family(&ATTEMPT_DURATION);
            for (action, counted) in &counts.actions {
                for (outcome, durations) in &counted.outcomes {
                    text.histogram(&ATTEMPT_DURATION, &[action.as_str(), outcome], durations);
                }
            }
            text.family(&RUN_WAIT);
            for (action, counted) in &counts.actions {
                text.histogram(&RUN_WAIT, &[action.as_str()], &counted.waits);
            }
        });
    }
}

impl OfAction {
    /// Attempts succeed or fail; the other outcomes are rare, and have durations from their first attempt on.
    fn new() -> Self {
        let outcomes = ["succeeded", "failed"].map(|outcome| (outcome, Histogram::new(&BUCKETS)));
        Self { outcomes: outcomes.into(), waits: Histogram::new(&BUCKETS) }
    }

    fn ended(&mut self, outcome: &'static str, took: Duration) {
        self.outcomes.entry(outcome).or_insert_with(|| Histogram::new(&BUCKETS)).observe(took);
    }
}

const fn outcome(ending: Ending) -> &'static str {
    match ending {
        Ending::Succeeded => "succeeded",
        Ending::Failed(_) => "failed",
        Ending::Stopped(StopReason::Superseded) => "superseded",
        Ending::Stopped(StopReason::Cancelled) => "cancelled",
        Ending::Stopped(StopReason::TimedOut) => "timed-out",
        Ending::StalePlan => "stale-plan",
        Ending::Lost => "lost",
        Ending::NeverStarted => "never-started",
        Ending::Job(_) => "ended-by-cluster",
    }
}

/// Counts each attempt that starts or ends. Never ends.
pub async fn count_attempts<S: Store>(store: &S, metrics: &AttemptMetrics) {
    let mut journal = store.journal();
    loop {
        if let Err(error) = metrics.catch_up(store).await {
            tracing::warn!(%error, "cannot count attempts; the next change of the store counts them");
        }
        if journal.changed().await.is_err() {
            // The store is being closed.
            return std::future::pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_by_action_and_outcome() {
        let metrics = AttemptMetrics::after(0);
        metrics.with(|counts| {
            let plans = counts.actions.get_mut(&Action::Plan).unwrap();
            for (outcome, millis) in
                [("succeeded", 900), ("failed", 1_000), ("lost", 1_001), ("lost", 14_400_001)]
            {
                plans.ended(outcome, Duration::from_millis(millis));
            }
            plans.waits.observe(Duration::from_millis(5_001));
        });
        let mut text = Exposition::default();
        metrics.write(&mut text);
        let text = text.into_text();
        for expected in [
            "butler_attempts_ended_total{action=\"plan\",outcome=\"lost\"} 2",
            "butler_attempts_ended_total{action=\"plan\",outcome=\"cancelled\"} 0",
            "butler_attempts_ended_total{action=\"apply\",outcome=\"failed\"} 0",
            "butler_attempt_duration_seconds_bucket{action=\"plan\",outcome=\"failed\",le=\"1\"} 1",
            "butler_attempt_duration_seconds_bucket{action=\"plan\",outcome=\"lost\",le=\"1\"} 0",
            "butler_attempt_duration_seconds_bucket{action=\"plan\",outcome=\"lost\",le=\"5\"} 1",
            "butler_attempt_duration_seconds_bucket{action=\"plan\",outcome=\"lost\",le=\"14400\"} 1",
            "butler_attempt_duration_seconds_bucket{action=\"plan\",outcome=\"lost\",le=\"+Inf\"} 2",
            "butler_attempt_duration_seconds_sum{action=\"plan\",outcome=\"lost\"} 14401.002",
            "butler_attempt_duration_seconds_count{action=\"plan\",outcome=\"lost\"} 2",
            "butler_attempt_duration_seconds_count{action=\"apply\",outcome=\"succeeded\"} 0",
            "butler_run_wait_seconds_bucket{action=\"plan\",le=\"5\"} 0",
            "butler_run_wait_seconds_bucket{action=\"plan\",le=\"10\"} 1",
            "butler_run_wait_seconds_count{action=\"apply\"} 0",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected}: {text}");
        }
    }
}
