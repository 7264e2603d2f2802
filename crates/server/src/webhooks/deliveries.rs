//! What was delivered, and how polls follow it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures_util::FutureExt as _;
use tokio::sync::Notify;

/// The time between the begins of two polls that deliveries cause, at least.
const SPACING: Duration = Duration::from_secs(5);

/// The time between two lines of the log about refused deliveries of a repository, at least.
const LOGGING: Duration = Duration::from_mins(1);

/// How long polls are rarer after a delivery.
const TRUST: Duration = Duration::from_hours(1);

/// How much longer the time between two polls is then.
const RARER: u32 = 10;

/// The longest time between two polls that are rarer.
const LONGEST: Duration = Duration::from_mins(10);

/// The deliveries of all repositories since the server started.
#[derive(Debug, Default)]
pub struct Deliveries(Mutex<BTreeMap<String, Repository>>);

#[derive(Debug, Default)]
struct Repository {
    due: Arc<Notify>,
    /// The last one about commits.
    followed: Option<Instant>,
    /// The last one with a valid signature.
    last: Option<SystemTime>,
    /// When a refusal was logged last.
    logged: Option<Instant>,
    counts: DeliveryCounts,
}

/// How many deliveries a repository had since the server started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DeliveryCounts {
    /// Those with a valid signature about commits.
    pub accepted: u64,
    /// Those with a valid signature about something else than commits.
    pub ignored: u64,
    /// Those without a valid signature.
    pub refused: u64,
}

impl Deliveries {
    fn of<T>(&self, repository: &str, work: impl FnOnce(&mut Repository) -> T) -> T {
        let mut all = self.all();
        if let Some(known) = all.get_mut(repository) {
            return work(known);
        }
        work(all.entry(repository.to_owned()).or_default())
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Repository>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A delivery with a valid signature, which can be about commits or not.
    pub(super) fn accept(&self, repository: &str, is_about_commits: bool) {
        self.of(repository, |it| {
            it.last = Some(SystemTime::now());
            if is_about_commits {
                it.followed = Some(Instant::now());
                it.counts.accepted += 1;
                it.due.notify_one();
            } else {
                it.counts.ignored += 1;
            }
        });
    }

    /// A delivery without a valid signature. Returns whether it is to be logged: one in a minute is, because
    /// any client can send them.
    pub(super) fn refuse(&self, repository: &str) -> bool {
        self.of(repository, |it| {
            it.counts.refused += 1;
            let is_due = it.logged.is_none_or(|at| at.elapsed() >= LOGGING);
            if is_due {
                it.logged = Some(Instant::now());
            }
            is_due
        })
    }

    /// Waits for a delivery about commits that no poll has followed. Then waits until five seconds have passed since
    /// `followed`, when the last poll that a delivery has caused began. One poll follows all deliveries until it begins.
    pub(crate) async fn due(&self, repository: &str, followed: Option<Instant>) {
        let due = self.of(repository, |it| Arc::clone(&it.due));
        due.notified().await;
        if let Some(begun) = followed {
            tokio::time::sleep(SPACING.saturating_sub(begun.elapsed())).await;
        }
        // The poll that begins now follows what was delivered meanwhile too.
        let _ = due.notified().now_or_never();
    }

    /// The time between two polls, if `poll` is that without deliveries.
    pub(crate) fn interval(&self, repository: &str, poll: Duration) -> Duration {
        let followed = self.of(repository, |it| it.followed);
        interval(poll, followed.map(|at| at.elapsed()))
    }

    /// What was delivered about a repository.
    #[must_use]
    pub fn counts(&self, repository: &str) -> DeliveryCounts {
        self.of(repository, |it| it.counts)
    }

    /// When the last delivery with a valid signature arrived.
    #[must_use]
    pub fn last(&self, repository: &str) -> Option<SystemTime> {
        self.of(repository, |it| it.last)
    }
}

/// Polls are rarer for an hour after a delivery, but never more frequent.
fn interval(poll: Duration, since_delivery: Option<Duration>) -> Duration {
    match since_delivery {
        Some(since) if since < TRUST => poll.saturating_mul(RARER).min(LONGEST).max(poll),
        _ => poll,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_rarer_for_an_hour_after_a_delivery() {
        let (second, minute, hour) =
            (Duration::from_secs(1), Duration::from_mins(1), Duration::from_hours(1));
        for (poll, since, expected) in [
            (minute, None, minute),
            (second, Some(second), 10 * second),
            (minute, Some(59 * minute), 10 * minute),
            (minute, Some(hour), minute),
            (5 * minute, Some(second), 10 * minute),
            (2 * hour, Some(second), 2 * hour),
        ] {
            assert_eq!(interval(poll, since), expected, "{poll:?} {since:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn first_delivery_begins_a_poll_at_once() {
        let deliveries = Deliveries::default();
        deliveries.accept("infra", true);
        let began = tokio::time::Instant::now();
        deliveries.due("infra", None).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn one_poll_follows_all_deliveries_of_five_seconds() {
        let deliveries = Deliveries::default();
        for _ in 0..1_000 {
            deliveries.accept("infra", true);
        }
        deliveries.accept("infra", false);
        let during = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            deliveries.accept("infra", true);
        };
        let began = tokio::time::Instant::now();
        tokio::join!(deliveries.due("infra", Some(Instant::now())), during);
        let waited = began.elapsed();
        assert!(waited <= SPACING && waited + Duration::from_secs(1) > SPACING, "{waited:?}");
        // Nothing is left to follow.
        let next = tokio::time::timeout(Duration::from_hours(1), deliveries.due("infra", None));
        assert!(next.await.is_err());
        let expected = DeliveryCounts { accepted: 1_001, ignored: 1, refused: 0 };
        assert_eq!(deliveries.counts("infra"), expected);
        assert_eq!(deliveries.counts("other"), DeliveryCounts::default());
    }
}
