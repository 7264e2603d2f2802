//! The time limit of a single check.

use std::time::Duration;

/// The timeout of one check, because the user waits for the page.
pub(super) const LONGEST: Duration = Duration::from_secs(15);

/// The result of `look`, or none after the timeout.
pub(super) async fn bounded<T>(look: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(LONGEST, look).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_is_waited_for_without_an_end() {
        assert_eq!(bounded(std::future::pending::<()>()).await, None);
        assert_eq!(bounded(async { 7 }).await, Some(7));
    }
}
