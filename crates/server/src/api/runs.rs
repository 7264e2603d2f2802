//! Requests about runs.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::state::{ApiState, Shared};
use crate::attempts::{AttemptDirectory, LeftOut};
use crate::event::Event;
use crate::model::{Closed, Ending, LayerName, Run, RunId, StopReason};
use crate::serve::RunView;
use crate::store::{AttemptId, Note, Outcome, Store};

/// The most runs of one answer.
const MOST_RUNS: u32 = 100;

/// The most lines of one answer.
const MOST_LINES: usize = 5_000;

/// Which runs are listed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    layer: String,
    limit: Option<u32>,
    after: Option<String>,
}

/// Which lines are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Lines {
    after: u32,
    attempt: Option<u32>,
}

pub(super) async fn list<S: Store>(
    State(state): State<Shared<S>>,
    Query(which): Query<Which>,
) -> Result<Json<Value>, ApiError> {
    let Ok(layer) = which.layer.parse::<LayerName>() else {
        return Err(ApiError::not_found(format!("there is no layer `{}`", which.layer)));
    };
    let limit = which.limit.unwrap_or(MOST_RUNS).clamp(1, MOST_RUNS);
    let after = which.after.map(RunId::new);
    if let Some(after) = &after {
        let known = state.store.run(after).await?;
        if known.is_none_or(|(of, _)| of != layer) {
            let message = format!("the layer `{layer}` has no run `{after}` (`after`)");
            return Err(ApiError::bad_request(message));
        }
    }
    let mut runs = state.store.history(&layer, after.as_ref(), limit + 1).await?;
    let has_more = runs.len() > limit as usize;
    runs.truncate(limit as usize);
    let next = runs.last().filter(|_| has_more).map(|run| run.id.clone());
    let items: Vec<RunView> = runs.iter().map(|run| RunView::new(&layer, run)).collect();
    Ok(Json(json!({"items": items, "next": next})))
}

/// A run, and its layer.
pub(super) async fn run<S: Store>(
    state: &ApiState<S>,
    id: &str,
) -> Result<(LayerName, Run), ApiError> {
    let found = state.store.run(&RunId::new(id)).await?;
    found.ok_or_else(|| ApiError::not_found(format!("there is no run `{id}`")))
}

pub(super) async fn show<S: Store>(
    State(state): State<Shared<S>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let (layer, run) = run(&state, &id).await?;
    Ok(Json(json!(RunView::new(&layer, &run))))
}

/// Closes a run that waits, or records that its attempt is to stop. The server sends the request to
/// the process, and repeats it until it has arrived.
pub(super) async fn cancel<S: Store>(
    State(state): State<Shared<S>>,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let mut refused = None;
    loop {
        let (layer, known) = run(&state, &id).await?;
        // The store also refuses a run that failed before the digest changed: it gets no further
        // attempt, and never changes again.
        if is_over(&known) || refused.as_ref() == Some(&known) {
            return Err(ApiError::conflict(format!("the run `{id}` is over")));
        }
        let changed = match known.running() {
            Some(attempt) => {
                let number = attempt.number;
                let attempt = AttemptId { layer: layer.clone(), run: known.id.clone(), number };
                let note = Note::StopRequested(StopReason::Cancelled);
                state.store.note(&attempt, note).await?
            }
            None => state.store.close_run(&layer, &known.id, Closed::Cancelled).await?,
        };
        if changed == Outcome::Made {
            // The receiver is gone when the server stops.
            let _ = state.events.send(Event::Changed(layer.clone()));
            let (layer, run) = run(&state, &id).await?;
            return Ok((StatusCode::ACCEPTED, Json(json!(RunView::new(&layer, &run)))));
        }
        // An attempt has begun or ended since the run was read.
        refused = Some(known);
    }
}

/// Whether nothing follows from the run that could be cancelled.
fn is_over(run: &Run) -> bool {
    let is_final = match run.last_end() {
        Some((Ending::Failed(class), _)) => !class.is_retried(),
        Some((Ending::Stopped(_) | Ending::StalePlan, _)) => true,
        _ => false,
    };
    // A failed apply is planned again.
    run.is_over() || (is_final && !run.action.changes_infrastructure())
}

/// The directory of an attempt: the one with this number, or the newest one.
fn directory<S>(
    state: &ApiState<S>,
    layer: LayerName,
    run: &Run,
    number: Option<u32>,
) -> Result<AttemptDirectory, ApiError> {
    let number = number.or_else(|| run.attempts.last().map(|attempt| attempt.number));
    let attempt = run.attempts.iter().find(|attempt| Some(attempt.number) == number);
    let Some(attempt) = attempt else {
        return Err(ApiError::not_found(format!("the run `{}` has no such attempt", run.id)));
    };
    let id = AttemptId { layer, run: run.id.clone(), number: attempt.number };
    Ok(AttemptDirectory::of(&state.data.attempts(), &id))
}

pub(super) async fn logs<S: Store>(
    State(state): State<Shared<S>>,
    Path(id): Path<String>,
    Query(lines): Query<Lines>,
) -> Result<Json<Value>, ApiError> {
    let (layer, run) = run(&state, &id).await?;
    if run.attempts.is_empty() && lines.attempt.is_none() {
        return Ok(Json(json!({"items": [], "next": null, "leftOut": null})));
    }
    let directory = directory(&state, layer, &run, lines.attempt)?;
    let read = tokio::task::spawn_blocking(move || {
        let log = directory.log();
        Ok::<_, std::io::Error>((log.lines(lines.after, MOST_LINES)?, log.left_out()?))
    });
    let (items, left_out) = read
        .await
        .map_err(|error| ApiError::internal(&error))?
        .map_err(|error| ApiError::internal(&error))?;
    let next = items.last().filter(|_| items.len() == MOST_LINES).map(|line| line.sequence);
    let left_out =
        left_out.map(|LeftOut { lines, bytes, .. }| json!({"lines": lines, "bytes": bytes}));
    Ok(Json(json!({"items": items, "next": next, "leftOut": left_out})))
}

pub(super) async fn plan<S: Store>(
    State(state): State<Shared<S>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (layer, run) = run(&state, &id).await?;
    let directory = directory(&state, layer, &run, None)?;
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let wants_text = accepted.is_some_and(|accepted| accepted.contains("text/plain"));
    let read = tokio::task::spawn_blocking(move || {
        if wants_text { directory.plan_text() } else { directory.plan_json() }
    });
    let plan = read
        .await
        .map_err(|error| ApiError::internal(&error))?
        .map_err(|error| ApiError::internal(&error))?
        .ok_or_else(|| ApiError::not_found(format!("the run `{id}` has no plan")))?;
    let kind = if wants_text { "text/plain; charset=utf-8" } else { "application/json" };
    Ok(([(header::CONTENT_TYPE, kind)], plan).into_response())
}
