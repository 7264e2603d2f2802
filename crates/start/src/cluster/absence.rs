//! Retries of requests while the cluster does not answer, and the log messages about the outage.
//!
//! Each answer ends an outage: two short outages do not add up. Permanent errors (an untrusted
//! certificate, a refused login, an unknown host) are not retried, unless the cluster has accepted
//! the login before.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff};
use tokio::time::Instant;

use super::backoff::backoff;
use super::error::{ClusterError, Request};
use butler_base::error::chain;

/// How long one answer is waited for: what restarts behind a load balancer is back by then.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How long a cluster may be away while a run is followed, which goes on meanwhile.
const RUN_LIMIT: Duration = Duration::from_mins(10);
/// The pause between two requests once it has been away for a while.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// How long a cluster may be unavailable.
pub(super) struct Patience {
    limit: Duration,
    /// Whether the cluster has ever accepted all requests.
    was_accepted: bool,
    since: Option<(Instant, ExponentialBackoff)>,
}

impl Patience {
    const fn of(limit: Duration) -> Self {
        Self { limit, was_accepted: false, since: None }
    }

    /// For one answer.
    pub(super) const fn for_an_answer() -> Self {
        Self::of(ANSWER_LIMIT)
    }

    /// For a process that follows a run.
    pub(super) const fn for_a_run() -> Self {
        Self::of(RUN_LIMIT)
    }

    /// The same, and no longer than until then.
    pub(super) fn until(mut self, deadline: Instant) -> Self {
        self.limit = self.limit.min(deadline.saturating_duration_since(Instant::now()));
        self
    }

    /// The cluster has answered.
    pub(super) fn reset(&mut self) {
        self.since = None;
    }

    /// It has answered the last thing that is asked for: a login and permissions are there.
    pub(super) fn mark_accepted(&mut self) {
        self.was_accepted = true;
    }

    /// The pause before the next attempt; `None` if a retry cannot help.
    pub(super) fn pause(&mut self, error: &ClusterError) -> Option<Duration> {
        // An API server that has just started has not loaded its permissions yet, and a proxy in front of
        // an unavailable server returns errors of its own.
        if !(error.is_undecided() || self.was_accepted && error.may_pass()) {
            return None;
        }
        let (since, pauses) = self.since.get_or_insert_with(|| (Instant::now(), backoff().build()));
        let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
        let pause = pause.max(error.retry_after().unwrap_or_default());
        (since.elapsed() + pause <= self.limit).then_some(pause)
    }
}

/// Logs an outage of the cluster: once when it begins and once when it is over. Concurrent requests share
/// one.
#[derive(Default)]
pub(super) struct Outage {
    unanswered: Mutex<BTreeSet<Request>>,
}

impl Outage {
    /// The request failed and will be sent again, for as long as `patience` says.
    pub(super) fn begin(&self, request: Request, error: &ClusterError, patience: &Patience) {
        let is_new = {
            let mut unanswered = self.unanswered();
            let is_new = unanswered.is_empty();
            unanswered.insert(request);
            is_new
        };
        if is_new {
            tracing::warn!("{}; trying again for {}", chain(error), spoken(patience.limit));
        }
    }

    /// The request was answered.
    pub(super) fn end(&self, request: Request) {
        let is_over = {
            let mut unanswered = self.unanswered();
            unanswered.remove(&request) && unanswered.is_empty()
        };
        if is_over {
            tracing::info!("the cluster answers again");
        }
    }

    fn unanswered(&self) -> std::sync::MutexGuard<'_, BTreeSet<Request>> {
        self.unanswered.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn spoken(limit: Duration) -> String {
    match limit.as_secs() {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds => format!("{} minutes", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request = Request { verb: "list", resource: "pods" };

    fn silent() -> ClusterError {
        ClusterError::Silent { server: "s".to_owned(), why: "refused".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_absence_without_an_answer_in_between_is_too_long() {
        let mut patience = Patience::for_a_run();
        for _ in 0..3 {
            assert!(patience.pause(&silent()).is_some());
            tokio::time::advance(RUN_LIMIT.checked_sub(LONGEST_PAUSE).unwrap()).await;
            assert!(patience.pause(&silent()).is_some(), "not longer than the limit");
            patience.reset();
        }
        assert!(patience.pause(&silent()).is_some());
        tokio::time::advance(RUN_LIMIT + Duration::from_secs(1)).await;
        assert_eq!(patience.pause(&silent()), None);
    }

    #[test]
    fn permission_that_was_never_there_is_not_waited_for() {
        let forbidden =
            || ClusterError::Forbidden { request: REQUEST, namespace: "runs".to_owned() };
        let mut patience = Patience::for_a_run();
        patience.reset();
        assert_eq!(patience.pause(&forbidden()), None);
        patience.mark_accepted();
        assert!(patience.pause(&forbidden()).is_some());
        let missing =
            ClusterError::Missing { name: super::super::JobName::of("7"), namespace: "a".into() };
        assert_eq!(patience.pause(&missing), None);
    }

    #[test]
    fn server_says_how_long_it_wants_to_be_left_alone() {
        let busy = ClusterError::Failing {
            request: REQUEST,
            namespace: "runs".to_owned(),
            message: "too many requests".to_owned(),
            retry_after: Some(Duration::from_secs(20)),
        };
        let mut patience = Patience::for_an_answer();
        assert_eq!(patience.pause(&busy), Some(Duration::from_secs(20)));
    }
}
