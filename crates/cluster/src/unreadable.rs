//! Why objects cannot be read, and when that is tried again.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use butler_base::error::chain;
use kube::runtime::watcher;

use crate::classify::classify_request_error;
use crate::client::Cluster;
use crate::retry_after::bounded;

/// How many tries in a row fail before a user is told of a watch that worked before. Each watch ends at times.
pub(crate) const WARN_AFTER: u32 = 3;

/// The first pause after a failure.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause, unless the API server asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why objects cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Unreadable {
    /// The code of the answer, if there was one.
    pub(crate) code: Option<u16>,
    /// The failure, for people.
    pub(crate) why: String,
    /// How long the API server wants to be left alone.
    pub(crate) retry_after: Option<Duration>,
}

impl Cluster {
    /// Why a request has failed.
    pub(crate) fn unreadable(&self, error: &kube::Error) -> Unreadable {
        let left = self.retry_after.left();
        match error {
            kube::Error::Api(status) => {
                let asked = status.details.as_ref().map(|it| it.retry_after_seconds.into());
                let asked = asked.map(Duration::from_secs).max(left).map(bounded);
                let message = &status.message;
                let why = match status.code {
                    code @ (429 | 500..) => format!("{message} ({code})"),
                    _ => message.clone(),
                };
                let retry_after = asked.filter(|asked| !asked.is_zero());
                Unreadable { code: Some(status.code), why, retry_after }
            }
            // Its own text can quote what a login's helper program printed.
            other => {
                let why = chain(&classify_request_error(other, &self.server));
                Unreadable { code: None, why, retry_after: left }
            }
        }
    }

    /// Why a watch has failed.
    pub(crate) fn unreadable_watch(&self, error: &watcher::Error) -> Unreadable {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => self.unreadable(error),
            watcher::Error::WatchError(status) => {
                self.unreadable(&kube::Error::Api(status.clone()))
            }
            watcher::Error::NoResourceVersion => {
                Unreadable { code: None, why: chain(error), retry_after: None }
            }
        }
    }
}

/// The pauses of a watch after failures in a row.
#[derive(Debug)]
pub(crate) struct WatchPauses {
    failures: u32,
    pauses: ExponentialBackoff,
}

impl Default for WatchPauses {
    fn default() -> Self {
        let pauses = ExponentialBuilder::default().with_min_delay(FIRST_PAUSE);
        let pauses = pauses.with_max_delay(LONGEST_PAUSE).without_max_times().with_jitter();
        Self { failures: 0, pauses: pauses.build() }
    }
}

impl WatchPauses {
    /// The pause after this failure.
    pub(crate) fn next(&mut self, error: &Unreadable) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let pause = self.pauses.next().unwrap_or(LONGEST_PAUSE);
        pause.max(error.retry_after.unwrap_or_default())
    }

    /// How many tries have failed in a row.
    pub(crate) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Notes that the watch works.
    pub(crate) fn reset(&mut self) {
        if self.failures > 0 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_are_as_long_as_the_server_asks() {
        let mut pauses = WatchPauses::default();
        let failed = |retry_after| Unreadable { code: None, why: String::new(), retry_after };
        let grown: Vec<Duration> = (0..20).map(|_| pauses.next(&failed(None))).collect();
        assert!(grown[0] >= FIRST_PAUSE && grown[0] <= FIRST_PAUSE * 2, "{grown:?}");
        assert!(grown.iter().all(|pause| *pause <= LONGEST_PAUSE * 2), "{grown:?}");
        assert!(grown[19] >= LONGEST_PAUSE, "{grown:?}");
        let asked = Duration::from_mins(4);
        assert_eq!(pauses.next(&failed(Some(asked))), asked);
        assert_eq!(pauses.failures(), 21);
        pauses.reset();
        assert!(pauses.next(&failed(None)) <= FIRST_PAUSE * 2);
    }
}
