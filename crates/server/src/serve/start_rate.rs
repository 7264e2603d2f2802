//! How many attempts may start in a minute.
//!
//! Limited are checks for drift, and what is due when the server has just started: a restart must not
//! ask everything of a cloud's API at the same time.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The time in which starts are counted.
const WINDOW: Duration = Duration::from_mins(1);

/// The starts of the last minute.
#[derive(Debug)]
pub(super) struct StartRate {
    most: u32,
    starts: VecDeque<Instant>,
}

impl StartRate {
    /// At most `most` starts in any minute.
    pub(super) const fn new(most: u32) -> Self {
        Self { most, starts: VecDeque::new() }
    }

    /// An attempt was started.
    pub(super) fn started(&mut self, now: Instant) {
        self.starts.push_back(now);
    }

    /// How many more may start, and how long it takes until there is one more.
    pub(super) fn left(&mut self, now: Instant) -> (u32, Duration) {
        while self.starts.front().is_some_and(|start| now.duration_since(*start) >= WINDOW) {
            self.starts.pop_front();
        }
        let count = u32::try_from(self.starts.len()).unwrap_or(u32::MAX);
        let again = self
            .starts
            .front()
            .map_or(Duration::ZERO, |start| WINDOW.saturating_sub(now.duration_since(*start)));
        (self.most.saturating_sub(count), again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_minute_has_more_starts_than_allowed() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut rate = StartRate::new(3);
        let mut started = Vec::new();
        for second in 0..600 {
            while rate.left(at(second)).0 > 0 {
                rate.started(at(second));
                started.push(second);
            }
        }
        assert_eq!(started.len(), 30);
        for second in 0..540 {
            let within = started.iter().filter(|start| (second..second + 60).contains(*start));
            assert!(within.count() <= 3);
        }
    }

    #[test]
    fn the_next_start_is_possible_when_the_oldest_one_is_a_minute_ago() {
        let begin = Instant::now();
        let mut rate = StartRate::new(1);
        rate.started(begin);
        let (left, again) = rate.left(begin + Duration::from_secs(20));
        assert_eq!((left, again), (0, Duration::from_secs(40)));
        assert_eq!(rate.left(begin + Duration::from_mins(1)).0, 1);
    }
}
