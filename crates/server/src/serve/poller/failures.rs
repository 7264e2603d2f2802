//! Polls of a repository that fail: when the next one begins, and what is logged.

use std::time::{Duration, Instant};

use crate::decision::fraction;

/// The longest time between two polls of a repository that cannot be read, unless its own `poll` is longer.
const LONGEST: Duration = Duration::from_mins(10);

/// The longest pause that a host can ask for.
const LONGEST_ASKED: Duration = Duration::from_hours(1);

/// The polls that have failed since the last one that succeeded.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u32,
    since: Option<Instant>,
}

impl Failures {
    /// Counts a poll that has failed, and logs the first one.
    pub(super) fn failed(&mut self, repository: &str, error: &str) {
        self.count = self.count.saturating_add(1);
        if self.since.is_none() {
            self.since = Some(Instant::now());
            tracing::warn!(
                repository,
                "{error}; further failures are not logged until the repository can be read again"
            );
        }
    }

    /// Forgets the polls that have failed, and logs that the repository can be read again.
    pub(super) fn succeeded(&mut self, repository: &str) {
        if let Some(since) = self.since.take() {
            let (count, seconds) = (std::mem::take(&mut self.count), since.elapsed().as_secs());
            tracing::info!(
                repository,
                "the repository can be read again, after {count} {} in {seconds} s",
                if count == 1 { "failure" } else { "failures" }
            );
        }
    }

    /// The time until the next poll. The first pause is `poll`, as between polls that succeed. It doubles with each
    /// further failure, differs by up to a tenth between repositories, and is not shorter than the pause that the host
    /// has `asked` for.
    pub(super) fn pause(
        &self,
        repository: &str,
        poll: Duration,
        asked: Option<Duration>,
    ) -> Duration {
        let doubled = 1_u32.checked_shl(self.count.saturating_sub(1)).unwrap_or(u32::MAX);
        let pause = poll.saturating_mul(doubled).min(LONGEST.max(poll));
        let spread = 0.9 + 0.2 * fraction(&[repository.as_bytes()]);
        let pause = if self.count > 1 { pause.mul_f64(spread) } else { pause };
        pause.max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_become_rarer_with_each_failure_and_obey_the_host() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
        for (count, poll, asked, expected) in [
            (1, minute, None, minute),
            (2, minute, None, 2 * minute),
            (3, minute, None, 4 * minute),
            (5, minute, None, 10 * minute),
            (80, minute, None, 10 * minute),
            (4, second, None, 8 * second),
            (3, 30 * minute, None, 30 * minute),
            (1, minute, Some(5 * minute), 5 * minute),
            (5, minute, Some(second), 10 * minute),
            (1, minute, Some(Duration::MAX), 60 * minute),
        ] {
            let failures = Failures { count, since: None };
            let pause = failures.pause("infra", poll, asked);
            let differs = pause.abs_diff(expected);
            assert!(differs <= expected / 10, "{count} {poll:?} {asked:?}: {pause:?}");
            assert!(count > 1 || pause == expected, "{pause:?}");
        }
        let failures = Failures { count: 3, since: None };
        let pause = |repository| failures.pause(repository, minute, None);
        assert_ne!(pause("infra"), pause("other"));
    }

    #[test]
    fn success_ends_the_row_of_failures() {
        let mut failures = Failures::default();
        failures.succeeded("infra");
        for _ in 0..3 {
            failures.failed("infra", "no");
        }
        assert_eq!(failures.count, 3);
        failures.succeeded("infra");
        assert_eq!((failures.count, failures.since), (0, None));
    }
}
