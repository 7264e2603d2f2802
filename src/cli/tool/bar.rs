//! A progress bar on a terminal: one line on standard error that is gone when it is done.
//!
//! After each drawing the cursor is back at the beginning of the line, so that a line of the log
//! goes over the bar and not behind it. It has no colours.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::settings::{Environment, variable};
use crate::tool::{Meter, Transfer};

/// How often it is drawn.
const PAUSE: Duration = Duration::from_millis(100);

/// What is smaller is there before anybody has read a bar.
const SMALL: u64 = 1_000_000;

/// How many characters the bar itself has.
const WIDTH: u64 = 24;

/// Goes to the beginning of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// A meter that draws a bar, where standard error is a terminal that can move its cursor.
pub(super) fn meter(environment: &Environment) -> Option<Meter> {
    let is_dumb = environment.value(variable::TERM.name).is_none_or(|term| term == "dumb");
    if is_dumb || !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = Mutex::new(Bar::default());
    Some(Arc::new(move |transfer| {
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = bar.line(Instant::now(), transfer) {
            // Where standard error is gone there is nobody to tell.
            let _ = write!(std::io::stderr(), "{line}");
        }
    }))
}

/// Clears the line of whatever bar was not drawn to its end.
pub(super) fn clear(meter: Option<&Meter>) {
    if meter.is_some() {
        let _ = write!(std::io::stderr(), "{CLEAR}");
    }
}

#[derive(Default)]
struct Bar {
    /// When the download began, and with how much.
    begun: Option<(Instant, u64)>,
    drawn: Option<Instant>,
}

impl Bar {
    /// What is to be written now, if anything.
    fn line(&mut self, now: Instant, transfer: Transfer) -> Option<String> {
        let Transfer { done, total } = transfer;
        if total.is_some_and(|total| total < SMALL) {
            return None;
        }
        if total == Some(done) {
            *self = Self::default();
            return Some(CLEAR.to_owned());
        }
        let (start, before) = *self.begun.get_or_insert((now, done));
        if self.drawn.is_some_and(|drawn| now.duration_since(drawn) < PAUSE) {
            return None;
        }
        self.drawn = Some(now);
        let elapsed = u64::try_from(now.duration_since(start).as_millis()).unwrap_or(u64::MAX);
        let rate = (done.saturating_sub(before)).saturating_mul(1000).checked_div(elapsed);
        let mut line = String::from(CLEAR);
        if let Some(percent) = transfer.percent() {
            let filled = percent * WIDTH / 100;
            let cells = (0..WIDTH).map(|cell| if cell < filled { '#' } else { '-' });
            line.push('[');
            line.extend(cells);
            line.push_str("] ");
        }
        line.push_str(&transfer.to_string());
        if let Some(rate) = rate.filter(|rate| *rate > 0) {
            let tenths = rate / 100_000;
            let _ = write!(line, ", {}.{} MB/s", tenths / 10, tenths % 10);
            if let Some(total) = total {
                let _ = write!(line, ", {} s left", total.saturating_sub(done).div_ceil(rate));
            }
        }
        line.push('\r');
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_shows_amount_rate_and_what_is_left_and_goes_away() {
        let (mut bar, start) = (Bar::default(), Instant::now());
        let mut line = |milliseconds, done, total| {
            let now = start + Duration::from_millis(milliseconds);
            bar.line(now, Transfer { done, total })
        };
        let total = Some(40_000_000);
        let bare = "[------------------------] 0.0 of 40.0 MB (0 %)";
        assert_eq!(line(0, 0, total).unwrap(), format!("{CLEAR}{bare}\r"));
        assert_eq!(line(50, 1_000_000, total), None);
        let half = "[############------------] 20.0 of 40.0 MB (50 %), 10.0 MB/s, 2 s left";
        assert_eq!(line(2000, 20_000_000, total).unwrap(), format!("{CLEAR}{half}\r"));
        assert_eq!(line(2001, 40_000_000, total).unwrap(), CLEAR);
        assert_eq!(line(3000, 0, None).unwrap(), format!("{CLEAR}0.0 MB\r"));
        assert_eq!(line(4000, 999, Some(1000)), None);
    }
}
