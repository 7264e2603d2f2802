//! The state of a run, in the registry's terms.

use serde::Serialize;

use super::config::ConfigError;

/// The status of a run, in the registry's terms.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run waits for an approval or another condition outside of the queue.
    Pending,
    /// The run waits in the queue or for a machine.
    Queued,
    /// The run has started.
    Running,
    /// The run ended without an error.
    Succeeded,
    /// The run failed.
    Failed,
    /// A user or another process cancelled the run.
    Cancelled,
    /// The CI system's timeout ended the run.
    TimedOut,
    /// The run was never executed.
    Skipped,
}

impl RunStatus {
    /// Whether the status is final.
    #[must_use]
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Queued | Self::Running)
    }

    /// The registry's name of the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Skipped => "skipped",
        }
    }
}

/// The state of a run.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    /// The CI system's id of the run.
    pub external_run_id: String,
    /// The address of the run's page, if it has one.
    pub external_url: Option<String>,
    /// The status, in the registry's terms.
    pub status: RunStatus,
    /// The status in the CI system's words.
    pub reported: String,
}

/// The status for `word` in `states`; `otherwise` for a word that the list does not contain.
pub(super) fn status_of_word(
    states: &[(&str, RunStatus)],
    word: &str,
    otherwise: RunStatus,
) -> RunStatus {
    states.iter().find(|(known, _)| *known == word).map_or(otherwise, |(_, state)| *state)
}

/// Checks that the id of a run is a number, because it becomes a segment of a URL.
pub(super) fn check_number(id: &str, problem: &str) -> Result<(), ConfigError> {
    if is_number(id) {
        return Ok(());
    }
    Err(ConfigError::Value { key: "externalRunId", problem: problem.to_owned() })
}

/// Whether the text consists of digits only.
pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
