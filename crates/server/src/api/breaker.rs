//! Allows automatic applies again, after failures in a row have stopped them.

use axum::extract::State;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;

use super::error::ApiError;
use super::state::Shared;
use super::user::User;
use crate::event::Event;
use crate::model::Breaker;
use crate::store::{Outcome, Store};

/// A breaker that is closed.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResetView {
    /// Whether it was open before.
    was_open: bool,
}

/// `POST /breaker/reset`.
pub(super) async fn reset<S: Store>(
    State(state): State<Shared<S>>,
    Extension(user): Extension<User>,
) -> Result<Json<ResetView>, ApiError> {
    let was_open = state.store.reset_breaker(&user.name).await? == Outcome::Made;
    // The receiver is gone when the server stops.
    let _ = state.events.send(Event::BreakerReset);
    Ok(Json(ResetView { was_open }))
}

/// What a list of layers says about an open breaker.
pub(super) fn problem(breaker: Breaker) -> Option<String> {
    let failures = Breaker::FAILURES;
    (breaker == Breaker::Open).then(|| {
        format!(
            "automatic applies of all layers are stopped, because {failures} in a row have failed; after the \
             cause is removed, `POST /api/v1/breaker/reset` by an administrator allows them again"
        )
    })
}
