//! Requests for a plan: of what the repository contains, once more after a failure, after the removal of a state
//! lock, or of a layer's end.

use std::fmt::Display;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::layers::{configured, view};
use super::runs;
use super::state::{ApiState, Shared};
use super::state_lock;
use crate::decision::usable;
use crate::event::Event;
use crate::model::{Action, Cause, Facts, Layer, NewRun, Phase, Revision, RunId, Strategy};
use crate::serve::RunView;
use crate::store::{Outcome, Snapshot, Store};

/// A run that was created, or that an earlier request has created.
type Created = (StatusCode, Json<Value>);

/// `POST /layers/NAME/plan`.
pub(super) async fn plan<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
    headers: HeaderMap,
) -> Result<Created, ApiError> {
    create(&state, &layer, Cause::Person { request: request_id(&headers)? }).await
}

/// `POST /layers/NAME/retry`: what failed is planned again, and then goes on as any plan does.
pub(super) async fn retry<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
    headers: HeaderMap,
) -> Result<Created, ApiError> {
    let view = view(&state, &layer)?;
    if !matches!(view.phase, Phase::Failed | Phase::Blocked) {
        let message = format!("nothing of the layer `{layer}` has failed; it is {:?}", view.phase);
        return Err(ApiError::conflict(message));
    }
    create(&state, &layer, Cause::Person { request: request_id(&headers)? }).await
}

/// What confirms that everything is to be destroyed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Destroy {
    /// The name of the layer.
    confirm: String,
}

/// `POST /layers/NAME/destroy`: a plan that destroys everything. It is applied only after an approval.
pub(super) async fn destroy<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
    headers: HeaderMap,
    Json(Destroy { confirm }): Json<Destroy>,
) -> Result<Created, ApiError> {
    if confirm != layer {
        let message = format!("`confirm` is `{confirm}`, and the layer is `{layer}`");
        return Err(ApiError::bad_request(message));
    }
    create(&state, &layer, Cause::Destroy { request: request_id(&headers)? }).await
}

/// `POST /layers/NAME/accept`: a plan that writes what was changed outside of Terraform into the state.
pub(super) async fn accept<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
    headers: HeaderMap,
) -> Result<Created, ApiError> {
    create(&state, &layer, Cause::Accept { request: request_id(&headers)? }).await
}

/// Why nothing of a layer can be accepted, as the end of a sentence.
fn why_not_accepted(layer: &Layer, facts: &Facts, revision: &Revision) -> Option<String> {
    let name = &layer.name;
    let is_applied = facts.applied.as_ref().is_some_and(|it| it.digest == revision.digest);
    let has_drift = facts.drift.as_ref().is_some_and(|found| found.difference.is_some());
    Some(match layer.strategy {
        Strategy::PlanOnly => "the strategy of the layer is `plan-only`".to_owned(),
        _ if !layer.has_backend => "the layer has no state backend".to_owned(),
        _ if !is_applied => format!(
            "its newest commit is not applied; `butler-runner layer plan {name}` shows what differs from it"
        ),
        _ if !has_drift => "the last check has found no drift".to_owned(),
        Strategy::Approve | Strategy::Auto => return None,
    })
}

/// Creates a plan of what was read last.
async fn create<S: Store>(
    state: &ApiState<S>,
    layer: &str,
    cause: Cause,
) -> Result<Created, ApiError> {
    Ok((StatusCode::ACCEPTED, Json(json!(insert(state, layer, cause).await?))))
}

/// Inserts the run that plans what was read last for this cause, if it does not exist.
pub(crate) async fn insert<S: Store>(
    state: &ApiState<S>,
    layer: &str,
    cause: Cause,
) -> Result<RunView, ApiError> {
    let view = view(state, layer)?;
    let name = &view.name;
    let cannot = |why: &dyn Display| {
        ApiError::conflict(format!("the layer `{name}` cannot be planned: {why}"))
    };
    let source = configured(state, name)?;
    let key = &source.configured.state_key;
    let Snapshot { observation, facts, .. } = state.store.snapshot(name, key, &[]).await?;
    if let Some(by) = facts.paused_by {
        let why = format!("paused by {by}; `butler-runner layer resume` continues");
        return Err(cannot(&why));
    }
    if let Some(why) = &source.configured.layer.conflict {
        return Err(cannot(why));
    }
    if let Some(formerly) = &source.configured.layer.formerly
        && state.store.former(name, &formerly.name).await?.is_some()
    {
        let why = format!("it takes over the history of `{}` first", formerly.name);
        return Err(cannot(&why));
    }
    let Some(observation) = observation else {
        return Err(cannot(&"its repository has not been read yet"));
    };
    let revision = usable(&observation).map_err(|reason| cannot(&reason))?.clone();
    let id = RunId::derived(name, &revision.digest, Action::Plan, &cause);
    let destroys = match &cause {
        // A repeated request can come after the lock was removed.
        Cause::Unlock { .. } if state.store.run(&id).await?.is_some() => false,
        Cause::Unlock { lock, .. } => state_lock::destroys_after(name, &facts, lock)?,
        cause => matches!(cause, Cause::Destroy { .. }),
    };
    if destroys && !source.configured.layer.has_backend {
        return Err(cannot(&"it has no state backend, so there is nothing to destroy"));
    }
    if destroys && source.entry.is_terragrunt() {
        return Err(cannot(&"a plan through Terragrunt cannot be saved and applied"));
    }
    if matches!(cause, Cause::Accept { .. })
        && state.store.run(&id).await?.is_none()
        && let Some(why) = why_not_accepted(&source.configured.layer, &facts, &revision)
    {
        let message = format!("nothing of the layer `{name}` can be accepted: {why}");
        return Err(ApiError::conflict(message));
    }
    let (action, change) = (Action::Plan, observation.change);
    let run = NewRun { id: id.clone(), action, cause, revision, change, destroys };
    // A repeated request has made the run before, and gets the same answer.
    let made = state.store.insert_run(name, run).await?;
    let Some((_, run)) = state.store.run(&id).await? else {
        let message = "a commit changed the layer at this moment; ask again";
        return Err(ApiError::conflict(message));
    };
    if made == Outcome::Made {
        // The receiver is gone when the server stops.
        let _ = state.events.send(Event::Changed(name.clone()));
    }
    runs::view(state, name, &run).await
}

/// What tells this request apart from others: the client's `Idempotency-Key`, or a random id.
pub(super) fn request_id(headers: &HeaderMap) -> Result<String, ApiError> {
    match headers.get("idempotency-key").map(|key| key.to_str()) {
        Some(Ok(key)) if (1..=200).contains(&key.len()) => Ok(key.to_owned()),
        Some(_) => Err(ApiError::bad_request("`Idempotency-Key` is 1 to 200 ASCII characters")),
        None => {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(|error| ApiError::internal(&error))?;
            Ok(hex::encode(bytes))
        }
    }
}
