//! A handle on the stop of one run, and the reason for it.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::times::Times;
use crate::platform::Signal;

/// Why the run has to stop.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StopReason {
    /// The registry has ended the run (cancelled, timed out, discarded or skipped) and accepts no more
    /// reports.
    RunOver {
        /// The status that the registry returned, such as `cancelled`, or `409` if only the HTTP status
        /// is known.
        status: String,
    },
    /// A signal reached the runner; the run is reported as cancelled.
    Signal(Signal),
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RunOver { status } => write!(formatter, "the registry ended the run ({status})"),
            Self::Signal(signal) => write!(formatter, "the runner received {signal}"),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct StopState {
    reason: Option<StopReason>,
    /// Whether the registry has ended the run.
    pub(super) over: bool,
    /// When the first signal arrived, even if it was not the first reason.
    pub(super) signalled: Option<Instant>,
    /// When a signal arrived after the first reason.
    pub(super) urgent: Option<Instant>,
}

/// A handle on the stop of one run; clones share it.
#[derive(Clone, Debug)]
pub struct Stop {
    pub(super) state: Arc<watch::Sender<StopState>>,
    pub(super) times: Times,
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// A run that was not asked to stop yet, with the default [`Times`].
    #[must_use]
    pub fn new() -> Self {
        Self::with(Times::default())
    }

    /// A run that was not asked to stop yet, and has `times` to end after a signal.
    #[must_use]
    pub fn with(times: Times) -> Self {
        Self { state: Arc::new(watch::Sender::new(StopState::default())), times }
    }

    /// How much time the run has to end after a signal.
    #[must_use]
    pub const fn times(&self) -> Times {
        self.times
    }

    /// Asks the run to stop. The first reason is kept; a signal after it makes the stop urgent.
    pub fn request(&self, reason: StopReason) {
        let now = Instant::now();
        self.state.send_modify(|state| {
            state.over |= matches!(reason, StopReason::RunOver { .. });
            if let StopReason::Signal(_) = reason {
                if state.reason.is_some() {
                    state.urgent.get_or_insert(now);
                }
                state.signalled.get_or_insert(now);
            }
            state.reason.get_or_insert(reason);
        });
    }

    /// Why the run has to stop, if it has to.
    #[must_use]
    pub fn reason(&self) -> Option<StopReason> {
        self.state.borrow().reason.clone()
    }

    /// Whether the registry has ended the run and accepts no more reports, even if a signal was the
    /// first reason.
    #[must_use]
    pub fn run_is_over(&self) -> bool {
        self.state.borrow().over
    }

    /// Waits until the run has to stop.
    pub async fn requested(&self) -> StopReason {
        self.wait(|state| state.reason.clone()).await
    }

    /// Waits for a signal, even if it is not the first reason. SIGKILL usually follows soon.
    pub async fn signalled(&self) {
        self.wait(|state| state.signalled.map(|_| ())).await;
    }

    /// Waits for a signal after the first reason.
    pub async fn urgent(&self) {
        self.wait(|state| state.urgent.map(|_| ())).await;
    }

    async fn wait<T>(&self, mut read: impl FnMut(&StopState) -> Option<T>) -> T {
        let mut changes = self.state.subscribe();
        loop {
            if let Some(value) = read(&changes.borrow_and_update()) {
                return value;
            }
            if changes.changed().await.is_err() {
                // Unreachable, because `self` owns the sender; waiting is the safe fallback.
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn first_reason_stays_and_second_signal_is_urgent() {
        let stop = Stop::new();
        assert_eq!(stop.reason(), None);
        stop.request(StopReason::Signal(Signal::SIGTERM));
        stop.request(StopReason::RunOver { status: "cancelled".to_owned() });
        assert_eq!(stop.requested().await, StopReason::Signal(Signal::SIGTERM));
        assert_eq!(stop.state.borrow().urgent, None);
        assert!(stop.run_is_over());
        stop.signalled().await;
        stop.request(StopReason::Signal(Signal::SIGINT));
        stop.urgent().await;
        assert_eq!(stop.reason(), Some(StopReason::Signal(Signal::SIGTERM)));
    }
}
