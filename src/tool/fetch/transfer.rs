//! The progress of a download: a bar on a terminal, a line every ten seconds elsewhere.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The interval between two log lines about a download.
const QUIET: Duration = Duration::from_secs(10);

/// The progress of a download.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transfer {
    /// How many bytes were received.
    pub done: u64,
    /// The size in bytes, if the site sent it.
    pub total: Option<u64>,
}

/// Is called after each chunk of a download.
pub type Meter = Arc<dyn Fn(Transfer) + Send + Sync>;

impl fmt::Display for Transfer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // To a tenth of a megabyte, in whole numbers: a float would have to be cast.
        let tenths = |bytes: u64| bytes / 100_000;
        let (done, total) = (tenths(self.done), self.total.map(tenths));
        write!(formatter, "{}.{}", done / 10, done % 10)?;
        match (total, self.percent()) {
            (Some(total), Some(percent)) => {
                write!(formatter, " of {}.{} MB ({percent} %)", total / 10, total % 10)
            }
            _ => formatter.write_str(" MB"),
        }
    }
}

impl Transfer {
    /// The received part in percent.
    #[must_use]
    pub fn percent(&self) -> Option<u64> {
        let total = self.total.filter(|total| *total > 0)?;
        Some((self.done.saturating_mul(100) / total).min(100))
    }
}

/// Reports the progress of a download.
pub(in crate::tool) struct Watch<'a> {
    meter: Option<&'a Meter>,
    say: &'a (dyn Fn(&str) + Sync),
    last: Instant,
}

impl<'a> Watch<'a> {
    /// Reports each chunk to `meter` or, if that is missing, a line to `say` every ten seconds.
    pub(in crate::tool) fn new(meter: Option<&'a Meter>, say: &'a (dyn Fn(&str) + Sync)) -> Self {
        Self { meter, say, last: Instant::now() }
    }

    pub(in crate::tool) fn moved(&mut self, transfer: Transfer) {
        self.moved_at(Instant::now(), transfer);
    }

    fn moved_at(&mut self, now: Instant, transfer: Transfer) {
        match self.meter {
            Some(meter) => meter(transfer),
            None if now.duration_since(self.last) >= QUIET => {
                self.last = now;
                (self.say)(&format!("downloaded {transfer}"));
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn transfer_is_shown_in_megabytes() {
        for (done, total, shown) in [
            (0, Some(27_612_345), "0.0 of 27.6 MB (0 %)"),
            (13_806_000, Some(27_612_345), "13.8 of 27.6 MB (49 %)"),
            (27_612_345, Some(27_612_345), "27.6 of 27.6 MB (100 %)"),
            (1_250_000, None, "1.2 MB"),
            (1, Some(0), "0.0 MB"),
        ] {
            assert_eq!(Transfer { done, total }.to_string(), shown);
        }
    }

    #[test]
    fn slow_download_is_logged_every_ten_seconds() {
        let lines = Mutex::new(Vec::new());
        let say = |line: &str| lines.lock().unwrap().push(line.to_owned());
        let mut watch = Watch::new(None, &say);
        let start = watch.last;
        for second in 0..25 {
            let done = second * 1_000_000;
            let now = start + Duration::from_secs(second);
            watch.moved_at(now, Transfer { done, total: Some(100_000_000) });
        }
        let lines = lines.into_inner().unwrap();
        assert_eq!(
            lines,
            ["downloaded 10.0 of 100.0 MB (10 %)", "downloaded 20.0 of 100.0 MB (20 %)"]
        );
    }
}
