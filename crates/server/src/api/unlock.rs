//! Frees the state of a layer whose attempt ended without a trace.

use axum::Json;
use axum::extract::{Path, Query, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ApiError;
use super::layers::view;
use super::state::Shared;
use crate::event::Event;
use crate::model::{Ending, LayerName, Liveness, Run, RunId};
use crate::store::{AttemptId, AttemptResult, Note, Outcome, Store};

/// How the state is freed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Unlock {
    /// Whether an attempt that may still run counts as lost.
    force: bool,
}

/// A layer whose state is free.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Unlocked {
    /// The layer.
    name: LayerName,
    /// The run whose attempt counts as lost.
    lost: Option<RunId>,
}

/// `POST /layers/NAME/unlock`. The end of an attempt frees its lease, so only an attempt without an
/// end can have one.
pub(super) async fn unlock<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
    Query(unlock): Query<Unlock>,
) -> Result<Json<Unlocked>, ApiError> {
    let view = view(&state, &layer)?;
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
        return Ok(Json(Unlocked { name: name.clone(), lost: None }));
    };
    let (number, place) = (attempt.number, &attempt.place);
    let is_gone = matches!(attempt.probed, Some((Liveness::Gone, _)));
    if !is_gone && !unlock.force {
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
    Ok(Json(Unlocked { name: id.layer, lost }))
}
