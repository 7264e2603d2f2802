//! Counts the attempts that end.
//!
//! The journal has an entry for each end, whichever transaction recorded it. So ends are counted from the
//! journal, and not where attempts report, are probed or are unlocked.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::families::{ATTEMPT_DURATION, ATTEMPTS_ENDED};
use super::text::Exposition;
use crate::model::{Action, Ending, JournalEntry, JournalKind, StopReason};
use crate::store::{Store, StoreResult};

/// The upper bounds of the histogram, in seconds.
const BUCKETS: [u32; 12] = [1, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400];

/// The actions of which the server makes attempts. They have series from the start, so that the first
/// end of a kind is an increase.
const ACTIONS: [Action; 4] = [Action::Plan, Action::Apply, Action::Drift, Action::Destroy];

/// How an attempt ended, as the value of a label.
const OUTCOMES: [&str; 8] = [
    "succeeded",
    "failed",
    "superseded",
    "cancelled",
    "timed-out",
    "stale-plan",
    "lost",
    "never-started",
];

/// How many entries of the journal are read at once.
const ENTRIES: u32 = 500;

/// The attempts that have ended since the server started.
#[derive(Debug)]
pub struct AttemptMetrics(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    /// The sequence of the last entry of the journal that was counted.
    counted: u64,
    actions: BTreeMap<Action, OfAction>,
}

#[derive(Debug, Default)]
struct OfAction {
    outcomes: BTreeMap<&'static str, u64>,
    /// The attempts that took longer than the bound before, and at most as long as this one.
    buckets: [u64; BUCKETS.len()],
    total: Duration,
}

impl AttemptMetrics {
    /// Counts the ends behind this entry of the journal.
    #[must_use]
    pub fn after(counted: u64) -> Self {
        let actions = ACTIONS.map(|action| (action, OfAction::default())).into();
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
        let JournalKind::AttemptEnded { ending } = entry.change.what else { return Ok(()) };
        let Some((id, number)) = entry.change.run.as_ref().zip(entry.change.attempt) else {
            return Ok(());
        };
        // Runs are removed long after their attempts have ended.
        let Some((_, run)) = store.run(id).await? else { return Ok(()) };
        let attempt = run.attempts.iter().find(|attempt| attempt.number == number);
        let took = attempt.and_then(|it| Some(it.end?.1.since(it.created))).unwrap_or_default();
        self.with(|counts| {
            counts.counted = entry.sequence;
            counts.actions.entry(run.action).or_default().add(outcome(ending), took);
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
                    let count = counted.outcomes.get(outcome).copied().unwrap_or_default();
                    text.sample(&ATTEMPTS_ENDED, &[action.as_str(), outcome], count);
                }
            }
            text.family(&ATTEMPT_DURATION);
            for (action, counted) in &counts.actions {
                counted.write_durations(*action, text);
            }
        });
    }
}

impl OfAction {
    fn add(&mut self, outcome: &'static str, took: Duration) {
        *self.outcomes.entry(outcome).or_default() += 1;
        let fits = |bound: &u32| took <= Duration::from_secs(u64::from(*bound));
        if let Some(bucket) = BUCKETS.iter().position(fits) {
            self.buckets[bucket] += 1;
        }
        self.total += took;
    }

    fn write_durations(&self, action: Action, text: &mut Exposition) {
        let (name, label) = (ATTEMPT_DURATION.name, ("action", action.as_str()));
        let count: u64 = self.outcomes.values().sum();
        let mut up_to = 0;
        for (bound, bucket) in BUCKETS.iter().zip(self.buckets) {
            up_to += bucket;
            let bound = bound.to_string();
            text.part(name, "_bucket", [label, ("le", &bound)].into_iter(), up_to);
        }
        text.part(name, "_bucket", [label, ("le", "+Inf")].into_iter(), count);
        text.part(name, "_sum", [label].into_iter(), self.total.as_secs_f64());
        text.part(name, "_count", [label].into_iter(), count);
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
    }
}

/// Counts each attempt that ends. Never ends.
pub async fn count_attempts<S: Store>(store: &S, metrics: &AttemptMetrics) {
    let mut journal = store.journal();
    loop {
        if let Err(error) = metrics.catch_up(store).await {
            tracing::warn!(%error, "cannot count the attempts that have ended; the next change of the store counts them");
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
    fn each_bucket_contains_the_shorter_ones_and_the_last_one_everything() {
        let metrics = AttemptMetrics::after(0);
        metrics.with(|counts| {
            let plans = counts.actions.get_mut(&Action::Plan).unwrap();
            for (outcome, millis) in
                [("succeeded", 900), ("failed", 1_000), ("lost", 1_001), ("lost", 14_400_001)]
            {
                plans.add(outcome, Duration::from_millis(millis));
            }
        });
        let mut text = Exposition::default();
        metrics.write(&mut text);
        let text = text.into_text();
        for (line, value) in [
            ("butler_attempts_ended_total{action=\"plan\",outcome=\"lost\"}", "2"),
            ("butler_attempts_ended_total{action=\"plan\",outcome=\"cancelled\"}", "0"),
            ("butler_attempts_ended_total{action=\"apply\",outcome=\"failed\"}", "0"),
            ("butler_attempt_duration_seconds_bucket{action=\"plan\",le=\"1\"}", "2"),
            ("butler_attempt_duration_seconds_bucket{action=\"plan\",le=\"5\"}", "3"),
            ("butler_attempt_duration_seconds_bucket{action=\"plan\",le=\"14400\"}", "3"),
            ("butler_attempt_duration_seconds_bucket{action=\"plan\",le=\"+Inf\"}", "4"),
            ("butler_attempt_duration_seconds_sum{action=\"plan\"}", "14402.902"),
            ("butler_attempt_duration_seconds_count{action=\"plan\"}", "4"),
        ] {
            let expected = format!("{line} {value}");
            assert!(text.lines().any(|line| line == expected), "{expected}: {text}");
        }
    }
}
