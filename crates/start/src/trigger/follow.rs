//! Polls the state of a run until it ends.

use std::time::Duration;

use tokio::time::Instant;

use super::error::TriggerError;
use super::provider::Provider;
use super::state::RunState;
use butler_base::pace::jittered;

/// The first pause between two questions for the state of a run.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest: runs take minutes, and each question counts against a rate limit.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

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
