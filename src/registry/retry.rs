//! Tries a request again for as long as that can help.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::Instant;

use super::RegistryError;

/// How long what the run can go on without is tried.
const SHORT: Duration = Duration::from_mins(1);

/// How much of the registry's time a request is worth.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Patience {
    /// For what loses the run when it is lost: the configuration and the final status.
    Long,
    /// For what the run can go on without.
    Short,
    /// For what is asked again soon anyway: one attempt.
    Once,
}

/// The time limits of requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// For one attempt (`--request-timeout`).
    pub attempt: Duration,
    /// From the first attempt to the last, with [`Patience::Long`] (`--registry-timeout`).
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

/// Calls `attempt` until it succeeds, fails for good, or `patience` is over; the last error counts.
pub(super) async fn retry<T, F: Future<Output = Result<T, RegistryError>>>(
    limits: Limits,
    patience: Patience,
    what: &str,
    mut attempt: impl FnMut() -> F,
) -> Result<T, RegistryError> {
    let deadline = Instant::now() + limits.overall(patience);
    let mut delays = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(15))
        .with_jitter()
        .without_max_times()
        .build();
    loop {
        let error = match tokio::time::timeout(limits.attempt, attempt()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(_) => RegistryError::Timeout { what: what.to_owned(), limit: limits.attempt },
        };
        let delay =
            delays.next().unwrap_or(limits.attempt).max(error.retry_after().unwrap_or_default());
        if !error.is_transient() || Instant::now() + delay > deadline {
            return Err(error);
        }
        tracing::warn!(error = %crate::error::chain(&error), ?delay, "{what} failed; trying again");
        tokio::time::sleep(delay).await;
    }
}
