//! Retries of requests while the cluster does not respond, and the log messages about the outage.
//!
//! Each response ends an outage: two short outages do not add up. Permanent errors (an untrusted
//! certificate, a refused login, an unknown host) are not retried, unless the cluster has accepted
//! the login before.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff};
use tokio::time::Instant;

use crate::backoff::backoff;
use crate::error::{ClusterError, Request};
use butler_base::error::chain;

/// The longest outage during a single request: an API server behind a load balancer restarts within this time.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// The longest outage while the runner follows a run. The run continues during the outage.
const RUN_LIMIT: Duration = Duration::from_mins(10);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The time and the pauses for retries during an outage.
pub(crate) struct OutageRetries {
    limit: Duration,
    /// Whether the cluster has accepted the login and the permissions before.
    was_accepted: bool,
    since: Option<(Instant, ExponentialBackoff)>,
}

impl OutageRetries {
    const fn new(limit: Duration) -> Self {
        Self { limit, was_accepted: false, since: None }
    }

    /// The retries of a single request.
    pub(crate) const fn for_request() -> Self {
        Self::new(REQUEST_LIMIT)
    }

    /// No retries: the caller asks again later.
    pub(crate) const fn none() -> Self {
        Self::new(Duration::ZERO)
    }

    /// The retries of a process that follows a run.
    pub(crate) const fn for_run() -> Self {
        Self::new(RUN_LIMIT)
    }

    /// Limits the retries to the time until `deadline`.
    pub(crate) fn until(mut self, deadline: Instant) -> Self {
        self.limit = self.limit.min(deadline.saturating_duration_since(Instant::now()));
        self
    }

    /// Ends the outage after a response.
    pub(crate) fn reset(&mut self) {
        self.since = None;
    }

    /// Notes that the cluster accepted the login and all permissions, so that later rejections are retried.
    pub(crate) fn mark_accepted(&mut self) {
        self.was_accepted = true;
    }

    /// The pause before the next attempt; `None` if a retry cannot help. `asked` is the pause that the API server has
    /// asked for in a header.
    pub(crate) fn pause(
        &mut self,
        error: &ClusterError,
        asked: Option<Duration>,
    ) -> Option<Duration> {
        // An API server that has just started has not loaded its permissions yet, and a proxy in front of
        // an unavailable server returns its own errors.
        if !(error.is_outcome_unknown() || self.was_accepted && error.may_be_temporary()) {
            return None;
        }
        let (since, pauses) = self.since.get_or_insert_with(|| (Instant::now(), backoff().build()));
        let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
        let asked = error.retry_after().max(asked).unwrap_or_default();
        let pause = pause.max(asked);
        (since.elapsed() + pause <= self.limit).then_some(pause)
    }
}

/// Logs an outage of the cluster: once when it begins and once when it is over. Concurrent requests share
/// one.
#[derive(Default)]
pub(crate) struct Outage {
    unanswered: Mutex<BTreeSet<Request>>,
}

impl Outage {
    /// Notes a failed request that is retried; logs the begin of an outage.
    pub(crate) fn begin(&self, request: Request, error: &ClusterError, retries: &OutageRetries) {
        let is_new = {
            let mut unanswered = self.unanswered();
            let is_new = unanswered.is_empty();
            unanswered.insert(request);
            is_new
        };
        if is_new {
            tracing::warn!("{}; trying again for {}", chain(error), format_limit(retries.limit));
        }
    }

    /// Notes a response; logs the end of the outage after the last unanswered request.
    pub(crate) fn end(&self, request: Request) {
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

fn format_limit(limit: Duration) -> String {
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
        ClusterError::NoResponse { server: "s".to_owned(), why: "refused".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_in_between_resets_the_outage_limit() {
        let mut retries = OutageRetries::for_run();
        for _ in 0..3 {
            assert!(retries.pause(&silent(), None).is_some());
            tokio::time::advance(RUN_LIMIT.checked_sub(LONGEST_PAUSE).unwrap()).await;
            assert!(retries.pause(&silent(), None).is_some(), "not longer than the limit");
            retries.reset();
        }
        assert!(retries.pause(&silent(), None).is_some());
        tokio::time::advance(RUN_LIMIT + Duration::from_secs(1)).await;
        assert_eq!(retries.pause(&silent(), None), None);
    }

    #[test]
    fn missing_permission_is_retried_only_after_it_was_granted_before() {
        let forbidden =
            || ClusterError::Forbidden { request: REQUEST, namespace: "runs".to_owned() };
        let mut retries = OutageRetries::for_run();
        retries.reset();
        assert_eq!(retries.pause(&forbidden(), None), None);
        retries.mark_accepted();
        assert!(retries.pause(&forbidden(), None).is_some());
        let missing =
            ClusterError::NoJob { name: crate::JobName::for_run("7"), namespace: "a".into() };
        assert_eq!(retries.pause(&missing, None), None);
    }

    #[test]
    fn pause_is_at_least_the_servers_retry_after() {
        let busy = ClusterError::Failing {
            request: REQUEST,
            namespace: "runs".to_owned(),
            message: "too many requests".to_owned(),
            retry_after: Some(Duration::from_secs(20)),
        };
        let mut retries = OutageRetries::for_request();
        assert_eq!(retries.pause(&busy, None), Some(Duration::from_secs(20)));
        // A proxy sends only the header.
        let asked = Some(Duration::from_secs(25));
        assert_eq!(retries.pause(&silent(), asked), asked);
    }
}
