//! Polls the state of a run until it ends.

use std::time::Duration;

use tokio::time::Instant;

use super::error::TriggerError;
use super::provider::Provider;
use super::state::RunState;
use butler_base::pace::jittered;

/// The first pause between two requests for the state of a run.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause: runs take minutes, and each request counts against a rate limit.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Polls the state of a run until the run ends or `deadline` is reached. Logs each change.
///
/// # Errors
/// Those of [`Provider::state`].
pub async fn follow(
    provider: &Provider,
    external_run_id: &str,
    deadline: Instant,
) -> Result<RunState, TriggerError> {
    let mut pause = FIRST_PAUSE;
    // The id may change while the run waits: in Jenkins, a queue item becomes a build.
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
