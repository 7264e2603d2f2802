//! The steps of a teardown, and each step's share of the time after a signal.

use std::time::Duration;

/// What the runner does after the tool has ended, in this order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Looking for a state lock that the tool left behind, and removing it.
    Lock,
    /// Pushing a state that could not be stored; reading the state, to report what was applied, and the
    /// outputs.
    State,
    /// Writing the last lines of the log into a local file.
    Files,
    /// Delivering the last lines of the log, at the same time.
    Logs,
    /// Delivering the plan.
    Plan,
    /// Delivering the outputs.
    Outputs,
    /// Delivering the final status. It includes the wipe of the files, so this share is the largest.
    Status,
    /// Delivering it again if the registry accepted the first request and did not answer.
    StatusAgain,
    /// Showing the last lines on a terminal that is blocked.
    Terminal,
}

impl Step {
    /// All steps, in their order.
    pub const ALL: [Self; 9] = [
        Self::Lock,
        Self::State,
        Self::Files,
        Self::Logs,
        Self::Plan,
        Self::Outputs,
        Self::Status,
        Self::StatusAgain,
        Self::Terminal,
    ];

    /// Whether the step is skipped once the registry has ended the run.
    pub(super) const fn is_for_the_registry(self) -> bool {
        !matches!(self, Self::Lock | Self::State | Self::Files | Self::Terminal)
    }

    /// How long the step may take after a signal, even if more time is left.
    pub(super) const fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Lock | Self::State | Self::Files | Self::Logs | Self::Outputs => 3,
            Self::Plan => 2,
            Self::Status | Self::StatusAgain => 4,
            Self::Terminal => 1,
        })
    }

    /// The percentage of [`Times::report`](super::Times::report) that is reserved for the steps after
    /// this one.
    pub(super) const fn left_for_others(self) -> u32 {
        match self {
            Self::Lock => 75,
            Self::State => 60,
            // Ten percent are in between, for a command to end that must not be killed immediately.
            Self::Files | Self::Logs => 48,
            Self::Plan => 42,
            Self::Outputs => 35,
            Self::Status => 20,
            Self::StatusAgain | Self::Terminal => 0,
        }
    }
}
