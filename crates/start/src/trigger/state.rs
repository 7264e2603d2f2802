//! The state of a run, in the registry's terms.

use serde::Serialize;

use super::config::ConfigError;

/// A status of the registry's that a CI system can know.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for an approval or another condition outside of the queue.
    Pending,
    /// It waits for its turn or for a machine.
    Queued,
    /// It is under way.
    Running,
    /// It did what it was to do.
    Succeeded,
    /// It failed.
    Failed,
    /// A user or another process cancelled it.
    Cancelled,
    /// It took too long.
    TimedOut,
    /// It was never executed.
    Skipped,
}

impl State {
    /// Whether nothing more comes.
    #[must_use]
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Queued | Self::Running)
    }

    /// What the registry calls it.
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

/// What became of a run.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    /// What the CI system calls it.
    pub external_run_id: String,
    /// Its page, where it has one.
    pub external_url: Option<String>,
    /// How it stands.
    pub status: State,
    /// The same in the CI system's own words.
    pub reported: String,
}

/// What `word` means by `states`; `otherwise` for one that is newer than this list.
pub(super) fn state_of_word(states: &[(&str, State)], word: &str, otherwise: State) -> State {
    states.iter().find(|(known, _)| *known == word).map_or(otherwise, |(_, state)| *state)
}

/// Makes sure that the number of a run is one, and so leads nowhere else.
pub(super) fn check_number(id: &str, problem: &str) -> Result<(), ConfigError> {
    if is_number(id) {
        return Ok(());
    }
    Err(ConfigError::Value { key: "externalRunId", problem: problem.to_owned() })
}

/// Whether these are digits and nothing else.
pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
