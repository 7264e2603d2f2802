//! Counts of durations up to each bound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Durations, counted by their bounds. An observation needs no lock.
#[derive(Debug)]
pub(super) struct Histogram {
    /// The upper bounds in seconds, the lowest first.
    bounds: &'static [f64],
    /// The observations that are longer than the bound before, and at most as long as this one. The last
    /// one counts those that are longer than all bounds.
    buckets: Box<[AtomicU64]>,
    /// The sum of all observations, in nanoseconds.
    sum: AtomicU64,
}

impl Histogram {
    /// No observation yet.
    #[must_use]
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::default()).collect();
        Self { bounds, buckets, sum: AtomicU64::default() }
    }

    /// Counts a duration.
    pub(super) fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
    }

    /// How many durations were counted.
    #[must_use]
    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// Each bound with the number of observations that are not longer, then the number of all.
    pub(super) fn cumulative(&self) -> (Vec<(f64, u64)>, u64) {
        let mut up_to = 0;
        let mut counts = self.buckets.iter().map(|bucket| {
            up_to += bucket.load(Ordering::Relaxed);
            up_to
        });
        let bounded = self.bounds.iter().copied().zip(counts.by_ref()).collect();
        // `zip` takes no further count when the bounds are used up.
        (bounded, counts.next().unwrap_or_default())
    }

    /// The sum of all observations.
    pub(super) fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_contains_the_shorter_ones_and_the_last_one_everything() {
        let histogram = Histogram::new(&[0.001, 1.0, 5.0]);
        for micros in [1_000, 1_001, 1_000_000, 1_000_001, 5_000_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        assert_eq!(histogram.cumulative(), (vec![(0.001, 1), (1.0, 3), (5.0, 4)], 5));
        assert_eq!(histogram.count(), 5);
        assert_eq!(histogram.sum(), Duration::from_micros(7_002_003));
    }

    #[test]
    fn no_observation_of_parallel_threads_is_lost() {
        let histogram = Histogram::new(&[1.0]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        histogram.observe(Duration::from_millis(1));
                    }
                });
            }
        });
        assert_eq!(histogram.cumulative(), (vec![(1.0, 4_000)], 4_000));
        assert_eq!(histogram.sum(), Duration::from_secs(4));
    }
}
