//! The pauses between two attempts of a request to a cluster.

use std::time::Duration;

use backon::ExponentialBuilder;

/// The pauses between attempts, about 30 s in total.
pub(crate) fn backoff() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(8))
        .with_max_times(7)
        .with_jitter()
}
