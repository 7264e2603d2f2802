//! How long the API server wants to be left alone: the header `Retry-After` of its answers.
//!
//! The client library passes on what the body of an answer says, and drops the header. A proxy, and an API server
//! that is too busy to make a body, send only the header.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Response, StatusCode};
use tokio::time::Instant;

/// The longest pause that a server can ask for. A wrong number must not stop the requests for ever.
const LONGEST: Duration = Duration::from_mins(5);

/// Until when the API server wants to be left alone, as its last answer with the header said.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetryAfter(Arc<Mutex<Option<Instant>>>);

impl RetryAfter {
    /// Notes the header of an answer that says that the server is too busy.
    pub(crate) fn note<B>(&self, response: &Response<B>) {
        let status = response.status();
        if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
            return;
        }
        let given = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        // The other form is a date, which no API server sends.
        if let Some(seconds) = given.and_then(|given| given.trim().parse().ok()) {
            *self.lock() = Some(Instant::now() + bounded(Duration::from_secs(seconds)));
        }
    }

    /// How long a request must not be repeated.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.lock().map(|until| until.saturating_duration_since(Instant::now()));
        left.filter(|left| !left.is_zero())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pause that a server has asked for, as far as it is honoured.
pub(crate) fn bounded(asked: Duration) -> Duration {
    asked.min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn header_of_a_busy_server_is_a_pause_with_a_bound() {
        for (status, given, expected) in [
            (429, Some("7"), Some(Duration::from_secs(7))),
            (503, Some(" 20 "), Some(Duration::from_secs(20))),
            (500, Some("1"), Some(Duration::from_secs(1))),
            (429, Some("99999999999"), Some(LONGEST)),
            (429, Some("0"), None),
            (429, Some("-1"), None),
            (429, Some("Wed, 21 Oct 2026 07:28:00 GMT"), None),
            (429, None, None),
            (200, Some("7"), None),
            (403, Some("7"), None),
        ] {
            let retry_after = RetryAfter::default();
            let mut response = Response::builder().status(status);
            if let Some(given) = given {
                response = response.header(RETRY_AFTER, given);
            }
            retry_after.note(&response.body(()).unwrap());
            assert_eq!(retry_after.left(), expected, "{status} {given:?}");
            tokio::time::advance(LONGEST).await;
            assert_eq!(retry_after.left(), None, "{status} {given:?}");
        }
    }
}
