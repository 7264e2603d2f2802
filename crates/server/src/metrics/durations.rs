//! How long polls and transactions of the store take.

use std::time::Duration;

use super::families::{Family, POLL_DURATION, TRANSACTION_DURATION};
use super::histogram::Histogram;
use super::text::Exposition;

/// The bounds for polls, in seconds. An update of a mirror ends after ten minutes.
const POLLS: [f64; 11] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0];

/// The bounds for transactions, in seconds. A transaction waits at most ten seconds for a backup.
const TRANSACTIONS: [f64; 12] =
    [0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0];

/// The durations of polls of all repositories.
#[derive(Debug)]
pub struct PollDurations {
    succeeded: Histogram,
    failed: Histogram,
}

impl Default for PollDurations {
    fn default() -> Self {
        Self { succeeded: Histogram::new(&POLLS), failed: Histogram::new(&POLLS) }
    }
}

impl PollDurations {
    /// Counts a poll that has ended.
    pub fn observe(&self, has_succeeded: bool, took: Duration) {
        let histogram = if has_succeeded { &self.succeeded } else { &self.failed };
        histogram.observe(took);
    }

    /// Writes the metric.
    pub fn write(&self, text: &mut Exposition) {
        let series = [("succeeded", &self.succeeded), ("failed", &self.failed)];
        write(&POLL_DURATION, series, text);
    }
}

/// The durations of transactions of the store.
#[derive(Debug)]
pub struct TransactionDurations {
    reads: Histogram,
    writes: Histogram,
}

impl Default for TransactionDurations {
    fn default() -> Self {
        Self { reads: Histogram::new(&TRANSACTIONS), writes: Histogram::new(&TRANSACTIONS) }
    }
}

impl TransactionDurations {
    /// Counts a transaction that has ended, also one that has failed.
    pub fn observe(&self, has_written: bool, took: Duration) {
        let histogram = if has_written { &self.writes } else { &self.reads };
        histogram.observe(took);
    }

    /// Writes the metric.
    pub fn write(&self, text: &mut Exposition) {
        write(&TRANSACTION_DURATION, [("read", &self.reads), ("write", &self.writes)], text);
    }
}

fn write(family: &Family, series: [(&str, &Histogram); 2], text: &mut Exposition) {
    text.family(family);
    for (value, histogram) in series {
        text.histogram(family, &[value], histogram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_by_what_took_them() {
        let (polls, transactions) = (PollDurations::default(), TransactionDurations::default());
        polls.observe(false, Duration::from_mins(2));
        transactions.observe(true, Duration::from_micros(700));
        transactions.observe(false, Duration::from_micros(50));
        let mut text = Exposition::default();
        polls.write(&mut text);
        transactions.write(&mut text);
        let text = text.into_text();
        for expected in [
            "butler_poll_duration_seconds_bucket{result=\"failed\",le=\"60\"} 0",
            "butler_poll_duration_seconds_bucket{result=\"failed\",le=\"300\"} 1",
            "butler_poll_duration_seconds_sum{result=\"failed\"} 120",
            "butler_poll_duration_seconds_count{result=\"succeeded\"} 0",
            "butler_store_transaction_duration_seconds_bucket{kind=\"write\",le=\"0.0005\"} 0",
            "butler_store_transaction_duration_seconds_bucket{kind=\"write\",le=\"0.001\"} 1",
            "butler_store_transaction_duration_seconds_bucket{kind=\"read\",le=\"0.0001\"} 1",
            "butler_store_transaction_duration_seconds_bucket{kind=\"read\",le=\"+Inf\"} 1",
            "butler_store_transaction_duration_seconds_count{kind=\"write\"} 1",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected}: {text}");
        }
    }
}
