//! How long a cluster may be away, for whoever waits for a run and not for one answer.
//!
//! Each time that it answers is the end of an absence: two short ones hours apart are no long one.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff};
use tokio::time::Instant;

use super::client::patience;
use super::error::ClusterError;

/// How long a cluster may be away before nobody waits for it any more. The run itself goes on.
const LIMIT: Duration = Duration::from_mins(10);
/// The pause between two requests once it has been away for a while.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// What is known of a cluster's absence.
#[derive(Default)]
pub(super) struct Absence {
    /// Whether it has ever let us do what we ask for.
    let_in: bool,
    since: Option<(Instant, ExponentialBackoff)>,
}

impl Absence {
    /// The cluster has answered.
    pub(super) fn is_over(&mut self) {
        self.since = None;
    }

    /// It has answered the last thing that is asked for: a login and permissions are there.
    pub(super) fn is_over_and_all_allowed(&mut self) {
        (self.let_in, self.since) = (true, None);
    }

    /// How long to wait before it is asked again; none where that is of no use.
    pub(super) fn pause(&mut self, error: &ClusterError) -> Option<Duration> {
        // An API server that has just been started knows nobody's permissions for a moment, and what
        // stands before one that is away refuses in ways of its own.
        let may_pass = matches!(
            error,
            ClusterError::Unauthorized { .. }
                | ClusterError::Forbidden { .. }
                | ClusterError::Refused { .. }
        );
        if !(error.is_undecided() || may_pass && self.let_in) {
            return None;
        }
        if self.since.is_none() {
            tracing::warn!(
                "{}; asking again for {} minutes",
                crate::error::chain(error),
                LIMIT.as_secs() / 60
            );
        }
        let (since, pauses) =
            self.since.get_or_insert_with(|| (Instant::now(), patience().build()));
        if since.elapsed() > LIMIT {
            return None;
        }
        Some(pauses.next().unwrap_or(LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::Request;
    use super::*;

    const REQUEST: Request = Request { verb: "list", resource: "pods" };

    fn silent() -> ClusterError {
        ClusterError::Silent { server: "s".to_owned(), request: REQUEST, source: None }
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_absence_without_an_answer_in_between_is_too_long() {
        let mut absence = Absence::default();
        for _ in 0..3 {
            assert!(absence.pause(&silent()).is_some());
            tokio::time::advance(LIMIT).await;
            assert!(absence.pause(&silent()).is_some(), "not longer than the limit");
            absence.is_over();
        }
        assert!(absence.pause(&silent()).is_some());
        tokio::time::advance(LIMIT + Duration::from_secs(1)).await;
        assert_eq!(absence.pause(&silent()), None);
    }

    #[test]
    fn permission_that_was_never_there_is_not_waited_for() {
        let forbidden =
            || ClusterError::Forbidden { request: REQUEST, namespace: "runs".to_owned() };
        let mut absence = Absence::default();
        absence.is_over();
        assert_eq!(absence.pause(&forbidden()), None);
        absence.is_over_and_all_allowed();
        assert!(absence.pause(&forbidden()).is_some());
        let missing =
            ClusterError::Missing { name: super::super::JobName::of("7"), namespace: "a".into() };
        assert_eq!(absence.pause(&missing), None);
    }
}
