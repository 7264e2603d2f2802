//! Times, relative to now, with the exact one beside them.

use std::fmt::{Display, Formatter};
use std::time::{Duration, UNIX_EPOCH};

use crate::model::Moment;

/// A moment as HTML.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    at: Moment,
    now: Moment,
}

impl When {
    pub(super) const fn new(at: Moment, now: Moment) -> Self {
        Self { at, now }
    }
}

impl Display for When {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let time = UNIX_EPOCH + Duration::from_millis(self.at.as_millis());
        let exact = humantime::format_rfc3339_seconds(time);
        let relative = relative(self.at, self.now);
        write!(formatter, "<time datetime=\"{exact}\" title=\"{exact}\">{relative}</time>")
    }
}

/// `4 min ago`, `in 2 h`.
fn relative(at: Moment, now: Moment) -> String {
    let (at, now) = (at.as_millis(), now.as_millis());
    let amount = span(Duration::from_millis(at.abs_diff(now)));
    match amount {
        None => "now".to_owned(),
        Some(amount) if at > now => format!("in {amount}"),
        Some(amount) => format!("{amount} ago"),
    }
}

/// The largest unit of a time; `None` below a second.
pub(super) fn span(time: Duration) -> Option<String> {
    Some(match time.as_secs() {
        0 => return None,
        seconds @ 1..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_in_their_largest_unit() {
        let now = Moment::from_millis(1_000_000_000_000);
        let at = |seconds: i64| {
            Moment::from_millis(now.as_millis().saturating_add_signed(seconds * 1000))
        };
        for (seconds, expected) in [
            (0, "now"),
            (-1, "1 s ago"),
            (-59, "59 s ago"),
            (-60, "1 min ago"),
            (-3599, "59 min ago"),
            (-3600, "1 h ago"),
            (-172_799, "47 h ago"),
            (-172_800, "2 days ago"),
            (90, "in 1 min"),
        ] {
            assert_eq!(relative(at(seconds), now), expected);
        }
        let shown = When::new(at(-120), now).to_string();
        let exact = "2001-09-09T01:44:40Z";
        assert_eq!(shown, format!("<time datetime=\"{exact}\" title=\"{exact}\">2 min ago</time>"));
    }
}
