//! Tries a request again for as long as that can help.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::Instant;

use super::RegistryError;

/// How long a request is worth trying.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Patience {
    /// From the first attempt to the end of the last.
    pub overall: Duration,
    /// For one attempt.
    pub attempt: Duration,
}

/// How long one attempt may take: longer than any healthy registry needs, short enough to try again.
const ATTEMPT: Duration = Duration::from_secs(30);

impl Patience {
    /// For what loses the run when it is lost: the configuration and the final status.
    pub const LONG: Self = Self { overall: Duration::from_mins(5), attempt: ATTEMPT };
    /// For what the run can go on without.
    pub const SHORT: Self = Self { overall: Duration::from_mins(1), attempt: ATTEMPT };
    /// For what must be said before a platform that has sent a signal kills.
    pub const STOPPED: Self =
        Self { overall: Duration::from_secs(5), attempt: Duration::from_secs(5) };
    /// For what is asked again soon anyway.
    pub const ONCE: Self = Self { overall: Duration::ZERO, attempt: ATTEMPT };
}

/// Calls `attempt` until it succeeds, fails for good, or `patience` is over; the last error counts.
pub(super) async fn retry<T, F: Future<Output = Result<T, RegistryError>>>(
    patience: Patience,
    what: &str,
    mut attempt: impl FnMut() -> F,
) -> Result<T, RegistryError> {
    let deadline = Instant::now() + patience.overall;
    let mut delays = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(15))
        .with_jitter()
        .without_max_times()
        .build();
    loop {
        let error = match tokio::time::timeout(patience.attempt, attempt()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(_) => RegistryError::Timeout {
                what: what.to_owned(),
                seconds: patience.attempt.as_secs(),
            },
        };
        let delay = delays.next().unwrap_or(ATTEMPT).max(error.retry_after().unwrap_or_default());
        if !error.is_transient() || Instant::now() + delay > deadline {
            return Err(error);
        }
        tracing::warn!(error = %crate::error::chain(&error), ?delay, "{what} failed; trying again");
        tokio::time::sleep(delay).await;
    }
}
