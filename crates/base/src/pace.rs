//! Randomized intervals that are a little shorter than specified, so that runners that were started
//! at the same time do not send their requests to a registry, or retry a lock, at the same time.
//! A wait is never longer than specified: with `--cancel-interval 30s`, the runner notices a
//! cancellation within 30 s.

use std::time::Duration;

/// How much shorter the first of many waits is at most, as a share of it: this separates runners
/// that start in the same second.
const FIRST: f64 = 0.5;

/// How much shorter any later wait is at most: keeping runners apart needs few additional requests.
const OTHERS: f64 = 0.1;

/// Repeated waits of about the same length.
#[derive(Debug)]
pub struct Pace {
    interval: Duration,
    shorter: f64,
}

impl Pace {
    /// Waits of at most `interval`.
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        Self { interval, shorter: FIRST }
    }

    /// The length of the next wait.
    pub fn wait(&mut self) -> Duration {
        let shorter = std::mem::replace(&mut self.shorter, OTHERS);
        shortened(self.interval, shorter)
    }
}

/// A single wait of at most `duration`, up to a tenth shorter.
#[must_use]
pub fn jittered(duration: Duration) -> Duration {
    shortened(duration, OTHERS)
}

fn shortened(duration: Duration, most: f64) -> Duration {
    duration.mul_f64(1.0 - most * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    /// The shortest and the longest of many.
    fn range(mut wait: impl FnMut() -> Duration) -> (Duration, Duration) {
        let waits: Vec<_> = std::iter::repeat_with(&mut wait).take(1000).collect();
        (*waits.iter().min().unwrap(), *waits.iter().max().unwrap())
    }

    #[test]
    fn waits_are_never_longer_than_the_interval_and_the_first_varies_most() {
        for (shares, (shortest, longest)) in [
            ([0.5, 0.55, 0.95], range(|| Pace::new(INTERVAL).wait())),
            ([0.9, 0.91, 0.99], {
                let mut pace = Pace::new(INTERVAL);
                pace.wait();
                range(|| pace.wait())
            }),
            ([0.9, 0.91, 0.99], range(|| jittered(INTERVAL))),
        ] {
            let [least, low, high] = shares.map(|share| INTERVAL.mul_f64(share));
            assert!(least <= shortest && shortest < low, "{shortest:?}");
            assert!(high < longest && longest <= INTERVAL, "{longest:?}");
        }
        assert_eq!(jittered(Duration::ZERO), Duration::ZERO);
    }
}
