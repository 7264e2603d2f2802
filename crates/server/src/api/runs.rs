//! Requests about runs.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use butler_base::blocking::blocking;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::state::{ApiState, Shared};
use crate::attempts::AttemptDirectory;
use crate::event::Event;
use crate::model::{Attempt, Closed, Ending, LayerName, Moment, Run, RunId, StopReason};
use crate::serve::{RunView, Timestamp};
use crate::store::{AttemptId, Note, Outcome, Store};

/// The most runs of one answer.
const MOST_RUNS: u32 = 100;

/// Which runs are listed.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Only runs of this layer.
    layer: Option<String>,
    /// The most runs of the answer, at most 100.
    limit: Option<u32>,
    /// The last run of the answer before: only older ones.
    after: Option<String>,
}

pub(super) async fn list<S: Store>(
    State(state): State<Shared<S>>,
    Query(which): Query<Which>,
) -> Result<Json<Value>, ApiError> {
    let layer = which.layer.map(|name| {
        name.parse().map_err(|_| ApiError::not_found(format!("there is no layer `{name}`")))
    });
    let layer: Option<LayerName> = layer.transpose()?;
    let limit = which.limit.unwrap_or(MOST_RUNS).clamp(1, MOST_RUNS);
    let after = which.after.map(RunId::new);
    if let Some(after) = &after {
        let known = state.store.run(after).await?;
        let is_listed =
            known.is_some_and(|(of, _)| layer.as_ref().is_none_or(|layer| *layer == of));
        if !is_listed {
            let of = layer.map_or("the server".to_owned(), |layer| format!("the layer `{layer}`"));
            return Err(ApiError::bad_request(format!("{of} has no run `{after}` (`after`)")));
        }
    }
    let mut runs: Vec<(LayerName, Run)> = match layer {
        Some(layer) => {
            let runs = state.store.history(&layer, after.as_ref(), limit + 1).await?;
            runs.into_iter().map(|run| (layer.clone(), run)).collect()
        }
        None => state.store.newest_runs(after.as_ref(), limit + 1).await?,
    };
    let has_more = runs.len() > limit as usize;
    runs.truncate(limit as usize);
    let next = runs.last().filter(|_| has_more).map(|(_, run)| run.id.clone());
    let mut snapshots = BTreeMap::new();
    let mut items = Vec::new();
    for (layer, run) in &runs {
        if !snapshots.contains_key(layer) {
            snapshots.insert(layer, state.store.snapshot(layer, "", &[]).await?);
        }
        if let Some(snapshot) = snapshots.get(layer) {
            items.push(RunView::new(layer, state.source(layer).as_deref(), snapshot, run));
        }
    }
    Ok(Json(json!({"items": items, "next": next})))
}

/// A run, and its layer.
pub(crate) async fn run<S: Store>(
    state: &ApiState<S>,
    id: &str,
) -> Result<(LayerName, Run), ApiError> {
    let found = state.store.run(&RunId::new(id)).await?;
    found.ok_or_else(|| ApiError::not_found(format!("there is no run `{id}`")))
}

/// What people see of a run.
pub(crate) async fn view<S: Store>(
    state: &ApiState<S>,
    layer: &LayerName,
    run: &Run,
) -> Result<RunView, ApiError> {
    let snapshot = state.store.snapshot(layer, "", &[]).await?;
    Ok(RunView::new(layer, state.source(layer).as_deref(), &snapshot, run))
}

pub(super) async fn show<S: Store>(
    State(state): State<Shared<S>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let (layer, run) = run(&state, &id).await?;
    Ok(Json(json!(view(&state, &layer, &run).await?)))
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
        // A run that the store refuses never changes again.
        if view(&state, &layer, &known).await?.over || refused.as_ref() == Some(&known) {
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
            return Ok((StatusCode::ACCEPTED, Json(json!(view(&state, &layer, &run).await?))));
        }
        // An attempt has begun or ended since the run was read.
        refused = Some(known);
    }
}

/// The number of the attempt that is asked for, or of the newest one.
pub(crate) fn attempt(run: &Run, asked: Option<u32>) -> Result<u32, ApiError> {
    let mut numbers = run.attempts.iter().map(|attempt| attempt.number);
    let found = match asked {
        Some(asked) => numbers.find(|number| *number == asked),
        None => numbers.next_back(),
    };
    found.ok_or_else(|| ApiError::not_found(format!("the run `{}` has no such attempt", run.id)))
}

/// How long another server may take to copy the first lines of an attempt, or its last ones.
pub(super) const COPIED_IN: Duration = Duration::from_secs(15);

/// The directory of an attempt of this run, with what another server has copied of it.
///
/// # Errors
/// If the object store does not answer, or the other server has not copied in time what should be there.
pub(crate) async fn directory<S>(
    state: &ApiState<S>,
    layer: LayerName,
    run: &Run,
    number: u32,
) -> Result<AttemptDirectory, ApiError> {
    let attempt = run.attempts.iter().find(|attempt| attempt.number == number);
    let place = attempt.map_or("", |attempt| attempt.place.as_str());
    let id = AttemptId { layer, run: run.id.clone(), number };
    let directory = state.files.of(&id, place).await?;
    if let Some(attempt) = attempt
        && state.files.is_awaited(&id, place)
        && is_late(attempt, directory.log().exists(), Timestamp::of(SystemTime::now()).0)
    {
        return Err(ApiError::not_copied(place));
    }
    Ok(directory)
}

/// Whether files of an attempt of another server are missing that should have been copied by now.
fn is_late(attempt: &Attempt, has_log: bool, now: Moment) -> bool {
    match attempt.end {
        // It has left nothing.
        Some((Ending::NeverStarted, _)) => false,
        Some((_, ended)) => now.since(ended) > COPIED_IN,
        // Lines follow while it runs.
        None => !has_log && now.since(attempt.created) > COPIED_IN,
    }
}

pub(super) async fn plan<S: Store>(
    State(state): State<Shared<S>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (layer, run) = run(&state, &id).await?;
    let number = attempt(&run, None)?;
    let directory = directory(&state, layer, &run, number).await?;
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let wants_text = accepted.is_some_and(|accepted| accepted.contains("text/plain"));
    let read =
        blocking(move |_| if wants_text { directory.plan_text() } else { directory.plan_json() });
    let plan = read
        .await
        .map_err(|error| ApiError::internal(&error))?
        .ok_or_else(|| ApiError::not_found(format!("the run `{id}` has no plan")))?;
    let kind = if wants_text { "text/plain; charset=utf-8" } else { "application/json" };
    Ok(([(header::CONTENT_TYPE, kind)], plan).into_response())
}

#[cfg(test)]
mod tests {
    use butler_registry::TokenHash;

    use super::*;

    #[test]
    fn missing_files_are_late_after_a_while() {
        let at = |seconds: u64| Moment::from_millis(seconds * 1000);
        let token = TokenHash::of("brce_test");
        let running = Attempt::new(1, "b".into(), "infra".into(), token, 1, at(100), at(900));
        let ended = |ending| Attempt { end: Some((ending, at(200))), ..running.clone() };
        let (succeeded, lost) = (ended(Ending::Succeeded), ended(Ending::Lost));
        let never = ended(Ending::NeverStarted);
        for (name, attempt, has_log, now, late) in [
            ("it has begun", &running, false, 110, false),
            ("its first lines are missing", &running, false, 116, true),
            ("lines follow", &running, true, 190, false),
            ("it has ended", &succeeded, true, 210, false),
            ("its last lines are missing", &succeeded, true, 216, true),
            ("all lines are missing", &succeeded, false, 216, true),
            ("a lost one", &lost, true, 300, true),
            ("it was never started", &never, false, 900, false),
            ("the clock of the other server is ahead", &running, false, 50, false),
        ] {
            assert_eq!(is_late(attempt, has_log, at(now)), late, "{name}");
        }
    }
}
