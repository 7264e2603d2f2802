//! The border of the run, until it is there: what the command line calls.

use crate::settings::{Arguments, Environment, Settings};

/// Carries out a run. Returns the exit code.
pub async fn execute(settings: Settings) -> u8 {
    tracing::error!(?settings, "runs cannot be carried out yet");
    std::future::ready(1).await
}

/// Shows a run from beginning to end, with a registry of its own. Returns the exit code.
pub async fn demo(_arguments: Arguments, _environment: Environment) -> u8 {
    tracing::error!("there is nothing to show yet");
    std::future::ready(1).await
}
