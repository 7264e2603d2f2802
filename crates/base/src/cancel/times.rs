//! How much time a run has to end after a signal.

use std::time::Duration;

/// How much time a run has to end after a signal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    /// The grace period of the tool: for it to end after it was asked to.
    pub grace: Duration,
    /// For the tool after a second signal, if that is sooner. Terraform exits 5 s after its own second
    /// signal; a shorter time could lose state.
    pub urgent: Duration,
    /// For everything after the tool's end if the tool used its whole grace period.
    pub report: Duration,
}

impl Default for Times {
    /// For a run without a deadline.
    fn default() -> Self {
        Self {
            grace: Duration::from_mins(1),
            urgent: Duration::from_secs(5),
            report: Duration::from_secs(10),
        }
    }
}
