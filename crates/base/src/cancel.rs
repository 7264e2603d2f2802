//! The one way in which a run is told to stop: by the registry or by a signal.
//!
//! The first reason stays; a later signal only adds urgency. Everything that waits selects on a
//! [`Stop`]. The teardown does not stop, but it has to be done in time: a [`Stop`] remembers when
//! the signal came, and [`Stop::within`] is the one place that knows how much time is left.

mod time;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::platform::Signal;

pub use time::{Step, Times};

/// Who wants the run to end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StopReason {
    /// The registry has ended the run (cancelled, timed out, discarded or skipped): nothing more
    /// may be reported.
    RunOver {
        /// What the registry said, `cancelled` for example, or `409` where only that is known.
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
struct State {
    reason: Option<StopReason>,
    over: bool,
    /// When the first signal came, whatever the reason is.
    signalled: Option<Instant>,
    /// When somebody insisted.
    urgent: Option<Instant>,
}

/// A handle on the stop of one run; clones share it.
#[derive(Clone, Debug)]
pub struct Stop {
    state: Arc<watch::Sender<State>>,
    times: Times,
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// A run that nobody has asked to stop yet.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Times::default())
    }

    /// The same for a run that has this much time once a signal has come.
    #[must_use]
    pub fn with(times: Times) -> Self {
        Self { state: Arc::new(watch::Sender::new(State::default())), times }
    }

    /// How much time there is once a signal has come.
    #[must_use]
    pub const fn times(&self) -> Times {
        self.times
    }

    /// Asks the run to stop. The first reason is kept; a second *signal* makes the stop urgent.
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

    /// Whether the registry has ended the run, so that it takes no more reports, whatever the
    /// first reason was.
    #[must_use]
    pub fn run_is_over(&self) -> bool {
        self.state.borrow().over
    }

    /// Waits until the run has to stop.
    pub async fn requested(&self) -> StopReason {
        self.wait(|state| state.reason.clone()).await
    }

    /// Waits until a signal has come, whatever the first reason was: somebody will kill soon.
    pub async fn signalled(&self) {
        self.wait(|state| state.signalled.map(|_| ())).await;
    }

    /// Waits until somebody insists: a signal after the first reason.
    pub async fn urgent(&self) {
        self.wait(|state| state.urgent.map(|_| ())).await;
    }

    async fn wait<T>(&self, mut read: impl FnMut(&State) -> Option<T>) -> T {
        let mut changes = self.state.subscribe();
        loop {
            if let Some(value) = read(&changes.borrow_and_update()) {
                return value;
            }
            if changes.changed().await.is_err() {
                // The sender lives in `self`, so this cannot be reached; waiting is the safe answer.
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
