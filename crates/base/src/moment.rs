//! Points in time, which the caller passes in: decisions have no clock.

use std::fmt;
use std::ops::Add;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, by one clock for all who compare moments, such as that of a store.
///
/// Servers whose own clocks differ agree about leases, schedules and retries. The clock can go backwards:
/// [`Moment::since`] is zero then.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
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

/// The date and time in UTC (RFC 3339), or the milliseconds after the year 9999.
impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The formatter of times ends with the year 9999.
        const LAST: u64 = 253_402_300_799_000;
        if self.0 > LAST {
            return write!(formatter, "{}ms", self.0);
        }
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(self.0);
        write!(formatter, "{}", humantime::format_rfc3339_seconds(time))
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
        assert_eq!(early.to_string(), "1970-01-01T00:00:01Z");
        assert_eq!(Moment::from_millis(u64::MAX).to_string(), format!("{}ms", u64::MAX));
    }
}
