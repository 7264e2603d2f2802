//! Retries of requests to the registry.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::Instant;

use super::RegistryError;
use butler_base::error::Advice;

/// The retry time for requests that the run can continue without.
const SHORT: Duration = Duration::from_mins(1);

/// The shortest time for an attempt.
const MIN_ATTEMPT: Duration = Duration::from_secs(1);

/// The longest pause between two attempts, before jitter, which at most doubles it. It is short so that
/// a run continues soon after the registry is back.
const MAX_PAUSE: Duration = Duration::from_secs(4);

/// The longest `Retry-After` that is followed: a longer one would leave no time for later attempts.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);

/// How often a request is retried after a response that probably stays the same. A proxy may show its own page
/// while the registry restarts, but an endpoint that is a web page stays one. A registry may fail for any run, but
/// one that keeps runs under UUIDs fails for every other id.
const RETRIES_OF_LASTING: usize = 2;

/// How long a request is retried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Patience {
    /// For requests that the run depends on: the configuration and the final status.
    Long,
    /// For requests that the run can continue without.
    Short,
    /// For requests that are repeated soon anyway: one attempt.
    Once,
}

/// The time limits of requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// For one attempt (`--request-timeout`).
    pub attempt: Duration,
    /// From the first attempt to the end of the last, with [`Patience::Long`]
    /// (`--registry-timeout`).
    pub long: Duration,
}

impl Limits {
    fn overall(self, patience: Patience) -> Duration {
        match patience {
            Patience::Long => self.long,
            Patience::Short => self.long.min(SHORT),
            Patience::Once => Duration::ZERO,
        }
    }
}

/// Calls `attempt` until it succeeds, fails permanently, or `patience` is over. Returns the last error.
pub(super) async fn retry<T, F: Future<Output = Result<T, RegistryError>>>(
    limits: Limits,
    patience: Patience,
    what: &str,
    mut attempt: impl FnMut() -> F,
) -> Result<T, RegistryError> {
    let begun = Instant::now();
    let left = || limits.overall(patience).saturating_sub(begun.elapsed());
    let mut delays = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(MAX_PAUSE)
        .with_jitter()
        .without_max_times()
        .build();
    let (mut lasting, mut last_logged, mut advised) = (0, None, false);
    loop {
        let limit = match patience {
            Patience::Once => limits.attempt,
            Patience::Long | Patience::Short => limits.attempt.min(left().max(MIN_ATTEMPT)),
        };
        let error = match tokio::time::timeout(limit, attempt()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(_) => RegistryError::Timeout { what: what.to_owned(), limit },
        };
        lasting += usize::from(error.is_lasting());
        let requested = error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER);
        // The last attempt begins as late as possible.
        let latest = left().saturating_sub(MIN_ATTEMPT);
        let delay = delays.next().unwrap_or(limits.attempt).max(requested).min(latest);
        let helps = error.is_transient() && lasting <= RETRIES_OF_LASTING;
        if !helps || latest.is_zero() {
            return Err(error);
        }
        let problem = butler_base::error::chain(&error);
        if last_logged.as_ref() == Some(&problem) {
            tracing::debug!(error = problem, ?delay, "{what} failed again");
        } else {
            // Once, with the first failure, because the retries may take minutes.
            let advice = error.advice().filter(|_| !std::mem::replace(&mut advised, true));
            let left = humantime::format_duration(Duration::from_secs(left().as_secs()));
            tracing::warn!(error = problem, advice, "{what} failed; trying again for up to {left}");
            last_logged = Some(problem);
        }
        tokio::time::sleep(delay).await;
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;

    const LIMITS: Limits =
        Limits { attempt: Duration::from_secs(30), long: Duration::from_mins(5) };

    /// Timers are this exact.
    const TICK: Duration = Duration::from_millis(1);

    fn busy(retry_after: u64) -> RegistryError {
        let retry_after = Some(Duration::from_secs(retry_after));
        refused(String::new(), retry_after)
    }

    fn busy_with(message: &str) -> RegistryError {
        refused(message.to_owned(), None)
    }

    fn refused(message: String, retry_after: Option<Duration>) -> RegistryError {
        RegistryError::Refused {
            what: String::new(),
            status: StatusCode::SERVICE_UNAVAILABLE,
            message,
            retry_after,
            redirect: None,
            odd_run_id: None,
        }
    }

    /// The number of attempts and the time until `retry` stops if each attempt fails with `error`.
    async fn count_attempts(
        patience: Patience,
        error: impl Fn() -> RegistryError,
    ) -> (usize, Duration) {
        let (begun, mut attempts) = (Instant::now(), 0);
        let result: Result<(), _> = retry(LIMITS, patience, "ask", || {
            attempts += 1;
            let error = error();
            async { Err(error) }
        })
        .await;
        assert!(result.is_err());
        (attempts, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn huge_retry_after_is_limited() {
        let (attempts, _) = count_attempts(Patience::Long, || busy(u64::MAX)).await;
        assert_eq!(attempts, 6, "once a minute, and once more when the time is nearly over");
        assert_eq!(
            count_attempts(Patience::Short, || busy(60)).await.0,
            2,
            "as late as there is time"
        );
        assert_eq!(count_attempts(Patience::Once, || busy(u64::MAX)).await.0, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn last_attempt_ends_within_the_retry_time() {
        for (patience, most) in [
            (Patience::Long, LIMITS.long),
            (Patience::Short, SHORT),
            (Patience::Once, LIMITS.attempt),
        ] {
            let begun = Instant::now();
            let result: Result<(), _> = retry(LIMITS, patience, "ask", std::future::pending).await;
            assert!(matches!(result, Err(RegistryError::Timeout { .. })));
            assert!(begun.elapsed() <= most + TICK, "{patience:?}: {:?}", begun.elapsed());
        }
    }

    #[derive(Clone, Default)]
    struct LogBuffer(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl std::io::Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_failure_is_logged_once_per_message() {
        let log = LogBuffer::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_writer(move || writer.clone())
            .finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let mut attempts = 0;
        let result: Result<(), _> = retry(LIMITS, Patience::Short, "ask", || {
            attempts += 1;
            let error = if attempts < 4 { busy(0) } else { busy_with("maintenance") };
            async { Err(error) }
        })
        .await;
        assert!(result.is_err() && attempts > 6, "{attempts}");
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("ask failed; trying again for up to ").count(), 2, "{text}");
        assert!(text.contains("maintenance"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn response_of_unknown_format_is_retried_twice() {
        let page = || RegistryError::UnknownFormat { what: String::new() };
        assert_eq!(count_attempts(Patience::Long, page).await.0, 3);
        let page = || butler_protocol::configuration::parse_config(b"<html>").unwrap_err().into();
        assert_eq!(count_attempts(Patience::Long, page).await.0, 3);
        assert!(count_attempts(Patience::Long, || busy(0)).await.0 > 10);
    }

    #[tokio::test(start_paused = true)]
    async fn failure_for_an_id_that_is_not_a_uuid_is_retried_twice() {
        let failed = |run_id: &str, status: StatusCode| {
            let error = match busy(0) {
                RegistryError::Refused { what, message, retry_after, redirect, .. } => {
                    let odd_run_id = None;
                    RegistryError::Refused {
                        what,
                        status,
                        message,
                        retry_after,
                        redirect,
                        odd_run_id,
                    }
                }
                other => other,
            };
            error.with_run_id_hint(&run_id.parse().unwrap())
        };
        for (run_id, status, is_lasting) in [
            ("run-42", StatusCode::INTERNAL_SERVER_ERROR, true),
            ("run-42", StatusCode::SERVICE_UNAVAILABLE, false),
            ("550e8400-e29b-41d4-a716-446655440000", StatusCode::INTERNAL_SERVER_ERROR, false),
        ] {
            let attempts = count_attempts(Patience::Long, || failed(run_id, status)).await.0;
            assert_eq!(attempts == 3, is_lasting, "{run_id} {status}: {attempts}");
        }
    }
}
