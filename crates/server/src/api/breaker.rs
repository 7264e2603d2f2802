//! The breaker, which failures of several layers in a row open: shows it, and allows automatic applies again.

use axum::extract::State;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;

use super::error::ApiError;
use super::state::Shared;
use super::user::User;
use crate::event::Event;
use crate::model::{Breaker, LayerName, RunId};
use crate::serve::{Timestamp, describe};
use crate::store::{Outcome, Store};

/// The breaker.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BreakerView {
    /// Whether automatic applies of all layers are stopped.
    open: bool,
    /// Since when, if it is open.
    since: Option<Timestamp>,
    /// The failures that have opened it, one of each layer, the oldest first. Runs that were removed since are missing.
    failures: Vec<FailureView>,
}

/// An automatic apply that has failed.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct FailureView {
    layer: LayerName,
    run: RunId,
    attempt: u32,
    ended: Timestamp,
    /// How it ended, in words.
    outcome: Option<String>,
}

/// `GET /breaker`.
pub(super) async fn show<S: Store>(
    State(state): State<Shared<S>>,
) -> Result<Json<BreakerView>, ApiError> {
    let opened = state.store.open_breaker().await?;
    let open = opened.is_some();
    let (since, failures) = opened.map(|it| (it.since, it.failures)).unwrap_or_default();
    let failures = failures.into_iter().map(|failure| FailureView {
        layer: failure.layer,
        run: failure.run,
        attempt: failure.attempt,
        ended: Timestamp(failure.ended),
        outcome: describe(failure.ending),
    });
    let (since, failures) = (since.map(Timestamp), failures.collect());
    Ok(Json(BreakerView { open, since, failures }))
}

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
///
/// # Errors
/// If the store does not answer.
pub(crate) async fn problem<S: Store>(store: &S) -> Result<Option<String>, ApiError> {
    Ok(store.open_breaker().await?.map(|opened| {
        let layers: Vec<&str> = opened.failures.iter().map(|it| it.layer.as_str()).collect();
        let layers =
            if layers.is_empty() { String::new() } else { format!(" ({})", layers.join(", ")) };
        format!(
            "automatic applies of all layers are stopped, because those of {} layers in a row have \
             failed{layers}: `butler-runner breaker show` lists them; after the cause is removed, \
             `butler-runner breaker reset` of an administrator allows automatic applies again",
            Breaker::FAILURES
        )
    }))
}
