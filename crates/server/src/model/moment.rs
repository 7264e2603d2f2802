//! Points in time, as the clock of the store tells them.

use std::ops::Add;
use std::time::Duration;

/// Milliseconds since the Unix epoch, by the clock of the store.
///
/// One clock decides about leases, schedules and retries, so that servers whose own clocks differ
/// agree. It can go backwards: [`Moment::since`] is zero then.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    Hash,
    Ord,
    PartialEq,
    PartialOrd,
    serde::Deserialize,
    serde::Serialize,
)]
#[serde(transparent)]
pub struct Moment(u64);

impl Moment {
    /// The moment this many milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The time that passed since `earlier`; zero if that is in the future.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Saturates: a moment that is too far away never comes.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards_or_overflows() {
        let (early, late) = (Moment::from_millis(1000), Moment::from_millis(3500));
        assert_eq!(late.since(early), Duration::from_millis(2500));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(late + Duration::MAX, Moment::from_millis(u64::MAX));
        assert_eq!(early + Duration::from_secs(2), Moment::from_millis(3000));
    }
}
