//! How long the state may be read after a stop.

use std::time::Duration;

use crate::engine::Engine;
use crate::report::RunLog;
use butler_base::cancel::{Step, StopReason};

/// How long state and outputs may be read after the registry has ended the run.
const READING_AFTER_CANCEL: Duration = Duration::from_secs(3);

/// Waits for the result of `read`, at most for this time, and less after a stop.
pub(super) async fn within<T>(
    engine: &Engine<'_, RunLog>,
    most: Duration,
    read: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        read = tokio::time::timeout(most, read) => read.ok(),
        _ = grace_after_stop(engine) => None,
    }
}

/// Completes when the time for reading state and outputs after a stop is over.
pub(super) async fn grace_after_stop(engine: &Engine<'_, RunLog>) -> StopReason {
    let late = engine.stop.overdue(Step::State);
    let reason = engine.stop.requested().await;
    tokio::select! {
        () = late => {}
        () = tokio::time::sleep(READING_AFTER_CANCEL), if engine.stop.run_is_over() => {}
    }
    reason
}
