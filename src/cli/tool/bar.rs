//! A progress bar for downloads in the live line of the terminal.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::screen::Screen;
use crate::tool::{Meter, Transfer};

/// Smaller downloads finish before a user can read a progress bar.
const SMALL: u64 = 1_000_000;

/// How many characters the bar itself has.
const WIDTH: u64 = 24;

/// A meter that shows a bar on `screen`.
pub(in crate::cli) fn meter(screen: &Screen) -> Meter {
    let (bar, screen) = (Mutex::new(Bar::default()), screen.clone());
    Arc::new(move |transfer| {
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        screen.note(bar.line(Instant::now(), transfer));
    })
}

#[derive(Default)]
struct Bar {
    /// When the download began, and how many bytes it had then.
    start: Option<(Instant, u64)>,
}

impl Bar {
    /// The bar; `None` for small and complete downloads.
    fn line(&mut self, now: Instant, transfer: Transfer) -> Option<String> {
        let Transfer { done, total } = transfer;
        if total.is_some_and(|total| total < SMALL || total == done) {
            *self = Self::default();
            return None;
        }
        let (start, before) = *self.start.get_or_insert((now, done));
        let elapsed = u64::try_from(now.duration_since(start).as_millis()).unwrap_or(u64::MAX);
        let rate = (done.saturating_sub(before)).saturating_mul(1000).checked_div(elapsed);
        let mut line = String::new();
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
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn bar_shows_amount_rate_and_remaining_time_and_disappears() {
        let (mut bar, start) = (Bar::default(), Instant::now());
        let mut line = |milliseconds, done, total| {
            let now = start + Duration::from_millis(milliseconds);
            bar.line(now, Transfer { done, total })
        };
        let total = Some(40_000_000);
        let bare = "[------------------------] 0.0 of 40.0 MB (0 %)";
        assert_eq!(line(0, 0, total).unwrap(), bare);
        let half = "[############------------] 20.0 of 40.0 MB (50 %), 10.0 MB/s, 2 s left";
        assert_eq!(line(2000, 20_000_000, total).unwrap(), half);
        assert_eq!(line(2001, 40_000_000, total), None);
        assert_eq!(line(3000, 0, None).unwrap(), "0.0 MB");
        assert_eq!(line(4000, 999, Some(1000)), None);
    }
}
