//! A window that forbids a run, and the administrator who lets this run start.

use axum::extract::{Path, State};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::layers::configured;
use super::runs;
use super::state::{ApiState, Shared};
use super::user::User;
use crate::event::Event;
use crate::layers::LayerSource;
use crate::model::{LayerName, Run, WindowOverride};
use crate::store::{Outcome, Store};
use crate::windows::closed_actions;

/// The most characters of a reason.
const MOST: usize = 500;

/// Why a run may start although a window is closed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Override {
    /// The reason, 1 to 500 characters. It is kept with the run, and in the events.
    reason: String,
}

/// `POST /runs/ID/override-window`.
pub(super) async fn override_window<S: Store>(
    State(state): State<Shared<S>>,
    Extension(user): Extension<User>,
    Path(id): Path<String>,
    Json(Override { reason }): Json<Override>,
) -> Result<Json<Value>, ApiError> {
    let reason = reason.trim().to_owned();
    if reason.is_empty() || reason.chars().count() > MOST {
        let message = format!("`reason` is a text of 1 to {MOST} characters");
        return Err(ApiError::bad_request(message));
    }
    let (layer, run) = runs::run(&state, &id).await?;
    let source = configured(&state, &layer)?;
    if run.window_override.is_none() {
        if !is_forbidden(&state, &layer, &run, &source).await? {
            let message = format!("no window forbids the run `{id}` now");
            return Err(ApiError::conflict(message));
        }
        let given = WindowOverride { by: user.name.clone(), reason };
        match state.store.override_window(&layer, &run.id, given).await? {
            // The receiver is gone when the server stops.
            Outcome::Made => drop(state.events.send(Event::Changed(layer.clone()))),
            Outcome::Refused => {
                return Err(ApiError::conflict(format!("the run `{id}` runs already, or is over")));
            }
        }
    }
    let (layer, run) = runs::run(&state, &id).await?;
    Ok(Json(json!(runs::view(&state, &layer, &run).await?)))
}

/// Whether a window keeps this run, which is not over, from its start, and no user has overridden it.
pub(crate) async fn waits_for_window<S: Store>(
    state: &ApiState<S>,
    layer: &LayerName,
    run: &Run,
) -> Result<bool, ApiError> {
    match state.source(layer).filter(|source| !source.configured.windows.is_empty()) {
        Some(source) if run.window_override.is_none() && run.running().is_none() => {
            is_forbidden(state, layer, run, &source).await
        }
        _ => Ok(false),
    }
}

/// Whether a window is closed for what the run does. Asks the clock of the store, as the decision does.
async fn is_forbidden<S: Store>(
    state: &ApiState<S>,
    layer: &LayerName,
    run: &Run,
    source: &LayerSource,
) -> Result<bool, ApiError> {
    let now = state.store.snapshot(layer, "", &[]).await?.now;
    let closed = closed_actions(&source.configured.windows, now);
    Ok(closed.iter().any(|(action, _)| *action == run.action))
}
