//! When actions are forbidden.
//!
//! A [`Window`] is compiled once for each configuration, because it is asked at each decision about each
//! of its layers. The answer depends on the time alone.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use crate::model::{Action, Moment};

/// One minute, the unit of schedules.
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// A time that begins again and again, in which actions are forbidden.
#[derive(Clone, Debug)]
pub struct Window {
    deny: Vec<Action>,
    /// In UTC: it is asked with the time on the clock of `zone`.
    schedule: Crontab,
    duration: Duration,
    zone: TimeZone,
}

impl Window {
    /// A window that begins at the times of a cron expression of five fields, in a time zone of the IANA
    /// database. `None` if one of the two is not valid.
    #[must_use]
    pub fn new(deny: &[Action], schedule: &str, duration: Duration, zone: &str) -> Option<Self> {
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let schedule = parse_crontab_with(schedule, options).ok()?;
        // The database of this executable, as in the check of the configuration.
        let zone = TimeZoneDatabase::bundled().get(zone).ok()?;
        Some(Self { deny: deny.to_vec(), schedule, duration, zone })
    }

    /// The end of the window, if it is closed at `now`: from each start on, until its time is over.
    fn closed_until(&self, now: Moment) -> Option<Moment> {
        let now = Timestamp::from_millisecond(i64::try_from(now.as_millis()).ok()?).ok()?;
        let duration = SignedDuration::try_from(self.duration).unwrap_or(SignedDuration::MAX);
        let since = now.checked_sub(duration).unwrap_or(Timestamp::UNIX_EPOCH);
        let start = self.first_start(since.max(Timestamp::UNIX_EPOCH), now)?;
        let start = Moment::from_millis(u64::try_from(start.as_millisecond()).ok()?);
        Some(start + self.duration)
    }

    /// The first start after `after`, if it is not after `until`.
    ///
    /// A start that the clock skips is at the end of the skipped time: otherwise, nothing would be forbidden
    /// on that day. A start in an hour that the clock repeats is one in each of the two.
    fn first_start(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let mut from = after;
        loop {
            let offset = self.zone.to_offset(from);
            let changed = self.zone.following(from).next();
            let start = from_clock(self.next(on_clock(from, offset)?)?, offset)?;
            let changed = changed.filter(|it| it.timestamp() <= until);
            let Some(changed) = changed else { return (start <= until).then_some(start) };
            if start < changed.timestamp() {
                return Some(start);
            }
            // The time that the clock skips, and the first minute of the time that follows.
            let shown = on_clock(changed.timestamp(), changed.offset())?;
            let skipped = on_clock(changed.timestamp(), offset)?.min(shown);
            if self.next(skipped.checked_sub(MINUTE).ok()?)? <= shown {
                return Some(changed.timestamp());
            }
            from = changed.timestamp();
        }
    }

    /// The next time of the schedule, on a clock.
    fn next(&self, clock: Timestamp) -> Option<Timestamp> {
        self.schedule.find_next(MakeTimestamp(clock)).ok().map(|next| next.timestamp())
    }
}

/// What a clock with this offset shows at `moment`, as if it were in UTC.
fn on_clock(moment: Timestamp, offset: Offset) -> Option<Timestamp> {
    moment.checked_add(SignedDuration::from_secs(offset.seconds().into())).ok()
}

/// When a clock with this offset shows `clock`.
fn from_clock(clock: Timestamp, offset: Offset) -> Option<Timestamp> {
    clock.checked_sub(SignedDuration::from_secs(offset.seconds().into())).ok()
}

/// The actions that these windows forbid at `now`, each with the end of the last window that is closed now.
#[must_use]
pub fn closed_actions(windows: &[Arc<Window>], now: Moment) -> Vec<(Action, Moment)> {
    let mut closed = BTreeMap::new();
    for window in windows {
        let Some(end) = window.closed_until(now) else { continue };
        for action in &window.deny {
            let known = closed.entry(*action).or_insert(end);
            *known = end.max(*known);
        }
    }
    closed.into_iter().collect()
}
