//! Frees the state of a layer: from the lease of an attempt that ended without a trace, or from a lock of
//! Terraform whose holder has ended.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ApiError;
use super::layers::view;
use super::planning;
use super::state::{ApiState, Shared};
use crate::event::Event;
use crate::model::{Cause, Ending, LayerName, Liveness, LockId, Run, RunId};
use crate::serve::RunView;
use crate::store::{AttemptId, AttemptResult, Note, Outcome, Store};

/// How the state is freed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Unlock {
    /// Whether an attempt that may still run counts as lost.
    force: bool,
    /// The id of the lock of Terraform that a plan removes first. The server's lease stays.
    state_lock: Option<String>,
}

/// A layer whose state is free, or is freed by a run.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Unlocked {
    /// The layer.
    name: LayerName,
    /// The run whose attempt counts as lost.
    lost: Option<RunId>,
    /// The run that removes the lock of Terraform, and then plans.
    run: Option<RunView>,
}

/// `POST /layers/NAME/unlock`.
pub(super) async fn unlock<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
    Query(unlock): Query<Unlock>,
    headers: HeaderMap,
) -> Result<Json<Unlocked>, ApiError> {
    let Some(lock) = unlock.state_lock else {
        return free(&state, &layer, unlock.force).await;
    };
    if unlock.force {
        return Err(ApiError::bad_request(
            "`force` frees the server's lease, and `stateLock` names a lock of Terraform: send one of them",
        ));
    }
    let lock: LockId =
        lock.try_into().map_err(|error| ApiError::bad_request(format!("`stateLock`: {error}")))?;
    let cause = Cause::Unlock { request: planning::request_id(&headers)?, lock };
    let run = planning::insert(&state, &layer, cause).await?;
    Ok(Json(Unlocked { name: run.layer.clone(), lost: None, run: Some(run) }))
}

/// Frees the lease of an attempt. The end of an attempt frees it too, so only an attempt without an end can have
/// one.
async fn free<S: Store>(
    state: &ApiState<S>,
    layer: &str,
    force: bool,
) -> Result<Json<Unlocked>, ApiError> {
    let view = view(state, layer)?;
    let name = &view.name;
    let key = state.source(name).map(|source| source.configured.state_key.clone());
    let facts = state.store.snapshot(name, &key.unwrap_or_default(), &[]).await?.facts;
    if let Some(lease) = facts.lease.filter(|lease| lease.layer != *name) {
        return Err(ApiError::conflict(format!(
            "the layer `{}` uses the state of `{name}`; unlock that layer",
            lease.layer
        )));
    }
    let running = facts.runs.iter().find_map(|run| Some((run, run.running()?)));
    let Some((Run { id, .. }, attempt)) = running else {
        return Ok(Json(Unlocked { name: name.clone(), lost: None, run: None }));
    };
    let (number, place) = (attempt.number, &attempt.place);
    let is_gone = matches!(attempt.probed, Some((Liveness::Gone, _)));
    if !is_gone && !force {
        return Err(ApiError::conflict(format!(
            "attempt {number} of run {id} has not ended on {place}; `butler-runner run cancel {id}` \
             stops it; if its process does not exist any more, `butler-runner layer unlock {name} \
             --force` frees the state"
        )));
    }
    let id = AttemptId { layer: name.clone(), run: id.clone(), number };
    // From here on, reports of the attempt are refused. One that comes first wins.
    let gone = Note::Probed { liveness: Liveness::Gone, reports: attempt.reports };
    if state.store.note(&id, gone).await? == Outcome::Refused {
        let message = format!("attempt {number} of run {} has reported at this moment", id.run);
        return Err(ApiError::conflict(message));
    }
    // Refused if the attempt has ended meanwhile: its state is free then.
    let lost = state.store.finish(&id, AttemptResult::ended(Ending::Lost)).await?;
    // The receiver is gone when the server stops.
    let _ = state.events.send(Event::Finished(name.clone()));
    let lost = (lost == Outcome::Made).then_some(id.run);
    Ok(Json(Unlocked { name: id.layer, lost, run: None }))
}
