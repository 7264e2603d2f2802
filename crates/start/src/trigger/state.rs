//! How a run stands, in the registry's words, and how it is followed to its end.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::{ConfigError, Provider, ProviderName, TriggerError, github, gitlab, jenkins};
use butler_base::pace::jittered;

/// The first pause between two questions for the state of a run.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest: runs take minutes, and each question counts against a rate limit.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// A status of the registry's that a CI system can know.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for somebody or something outside of the CI system's queue.
    Pending,
    /// It waits for its turn or for a machine.
    Queued,
    /// It is under way.
    Running,
    /// It did what it was to do.
    Succeeded,
    /// It failed.
    Failed,
    /// Somebody ended it.
    Cancelled,
    /// It took too long.
    TimedOut,
    /// It was never carried out.
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

/// What a provider's own words for states mean, all that are known.
#[must_use]
pub const fn reported_states(provider: ProviderName) -> &'static [(&'static str, State)] {
    match provider {
        ProviderName::GitHub => github::STATES,
        ProviderName::GitLab => gitlab::STATES,
        ProviderName::Jenkins => jenkins::STATES,
    }
}

/// What `word` means by `states`; `otherwise` for one that is newer than this list.
pub(super) fn meaning(states: &[(&str, State)], word: &str, otherwise: State) -> State {
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

/// Asks for the state of a run until it is over or `deadline` has come. Says each change.
///
/// # Errors
/// As [`Provider::state`] has them.
pub async fn follow(
    provider: &Provider,
    external_run_id: &str,
    deadline: Instant,
) -> Result<RunState, TriggerError> {
    let mut pause = FIRST_PAUSE;
    // The CI system may give it another name on its way: a place in the queue becomes a build.
    let mut known: Option<RunState> = None;
    loop {
        let id = known.as_ref().map_or(external_run_id, |known| &known.external_run_id);
        let state = provider.state(id).await?;
        if known.as_ref().is_none_or(|known| *known != state) {
            tracing::info!(reported = %state.reported, "the run is {}", state.status.name());
        }
        if state.status.is_over() || Instant::now() + pause >= deadline {
            return Ok(state);
        }
        tokio::time::sleep(jittered(pause)).await;
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        known = Some(state);
    }
}
