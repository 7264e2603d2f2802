//! Waits that are a little shorter than was promised, each by chance, so that runners which were
//! started together do not ask together: neither a registry nor a lock hears all of them at once.
//!
//! Never longer: who says `--cancel-interval 30s` has a cancelled run seen within 30 s.

use std::time::Duration;

/// How much shorter the first of many waits is at most, as a share of it: this is what parts runners
/// of the same second.
const FIRST: f64 = 0.5;

/// How much shorter any other wait is at most: what keeps them apart costs few requests.
const OTHERS: f64 = 0.1;

/// Waits of about the same length, one after the other.
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

    /// How long to wait this time.
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
    fn no_wait_is_longer_than_promised_and_the_first_is_the_least_alike() {
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
