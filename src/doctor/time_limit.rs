//! The time limit of a single check.

use std::time::Duration;

/// The timeout of one check, because the user waits for the page.
pub(super) const CHECK_TIMEOUT: Duration = Duration::from_secs(15);

/// The result of `look`, or none after the timeout.
pub(super) async fn with_timeout<T>(look: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(CHECK_TIMEOUT, look).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slow_check_ends_at_its_time_limit() {
        assert_eq!(with_timeout(std::future::pending::<()>()).await, None);
        assert_eq!(with_timeout(async { 7 }).await, Some(7));
    }
}
