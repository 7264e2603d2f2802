//! What people decide about plans: apply them, or not.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::ApiError;
use super::layers::{configured, view};
use super::runs;
use super::state::{ApiState, Shared};
use super::user::User;
use crate::event::Event;
use crate::model::{Action, Cause, Layer, LayerName, PlanDigest, Run, RunId, SavedPlan, Strategy};
use crate::serve::RunView;
use crate::store::{Outcome, Snapshot, Store};

/// Which plan is approved.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Approval {
    /// The SHA-256 of the plan file, as `planDigest` of the run that made the plan.
    plan_digest: PlanDigest,
}

/// `POST /runs/ID/approve`: the plan of this run is applied.
pub(super) async fn approve<S: Store>(
    State(state): State<Shared<S>>,
    Extension(user): Extension<User>,
    Path(id): Path<String>,
    Json(Approval { plan_digest }): Json<Approval>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let run = approve_one(&state, &user, &id, &plan_digest).await?;
    Ok((StatusCode::ACCEPTED, Json(json!(run))))
}

/// Applies the plan of a run if it has this digest. Returns the run that does.
async fn approve_one<S: Store>(
    state: &ApiState<S>,
    user: &User,
    id: &str,
    plan_digest: &PlanDigest,
) -> Result<RunView, ApiError> {
    let (layer, planned) = runs::run(state, id).await?;
    let saved = plan_of(&planned)?;
    if saved.digest != *plan_digest {
        return Err(ApiError::conflict(format!(
            "the plan of the run `{id}` has the digest {}, and you have approved another one: {}",
            saved.digest.as_str(),
            plan_digest.as_str()
        )));
    }
    apply_plan(state, &layer, &planned, saved, &user.name).await
}

/// The most plans of one decision.
const MOST: usize = 200;

/// The plans that one decision approves: the SHA-256 of each plan file, by the run that made the plan.
pub(super) type Several = BTreeMap<RunId, PlanDigest>;

/// What became of one of several approvals.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Approved {
    /// The run that made the plan.
    run: RunId,
    /// The run that applies it, unless the approval was refused.
    apply_run: Option<RunView>,
    /// Why it was refused.
    error: Option<String>,
}

/// `POST /approvals`: the plans of these runs are applied. Each one that cannot be has its reason, and does not keep the
/// others from it. Refused if none can be.
pub(super) async fn approve_several<S: Store>(
    State(state): State<Shared<S>>,
    Extension(user): Extension<User>,
    Json(plans): Json<Several>,
) -> Result<Json<Value>, ApiError> {
    if plans.is_empty() || plans.len() > MOST {
        let message = format!("a decision names 1 to {MOST} plans, and this one {}", plans.len());
        return Err(ApiError::bad_request(message));
    }
    let (mut items, mut refused) = (Vec::new(), Vec::new());
    for (run, digest) in plans {
        let approved = approve_one(&state, &user, run.as_str(), &digest).await;
        let (apply_run, error) = match approved {
            Ok(apply) => (Some(apply), None),
            Err(error) => (None, Some(error.parts().1.to_owned())),
        };
        refused.extend(error.clone());
        items.push(Approved { run, apply_run, error });
    }
    if refused.len() == items.len() {
        return Err(ApiError::conflict(refused.join("; ")));
    }
    Ok(Json(json!({"items": items, "next": null})))
}

/// `POST /layers/NAME/apply`: the newest plan of the layer is applied, which approves it.
pub(super) async fn apply<S: Store>(
    State(state): State<Shared<S>>,
    Extension(user): Extension<User>,
    Path(layer): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let layer = view(&state, &layer)?.name.clone();
    let facts = state.store.snapshot(&layer, "", &[]).await?.facts;
    let planned = facts.runs.iter().rev().find(|run| run.plan.is_some()).ok_or_else(|| {
        ApiError::conflict(format!(
            "the layer `{layer}` has no plan that could be applied; `butler-runner layer plan {layer}` \
             makes one"
        ))
    })?;
    // The newest plan can be newer than the one that the user has seen, so it must be approved by its digest.
    if planned.destroys {
        return Err(ApiError::conflict(format!(
            "the newest plan of the layer `{layer}` destroys everything; `butler-runner layer approve \
             {layer}` shows it and asks"
        )));
    }
    let run = apply_plan(&state, &layer, planned, plan_of(planned)?, &user.name).await?;
    Ok((StatusCode::ACCEPTED, Json(json!(run))))
}

/// Creates the run that applies a plan, or answers the one that exists.
async fn apply_plan<S: Store>(
    state: &ApiState<S>,
    layer: &LayerName,
    planned: &Run,
    saved: &SavedPlan,
    by: &str,
) -> Result<RunView, ApiError> {
    let id = apply_id(layer, planned, saved);
    let source = configured(state, layer)?;
    let known = state.store.run(&id).await?;
    // A repeated approval gets the same answer, also if the plan was applied meanwhile.
    if known.is_none_or(|(_, run)| run.approved_by.is_none() && run.attempts.is_empty()) {
        let snapshot = state.store.snapshot(layer, "", &[]).await?;
        if let Some(why) = why_not_applied(&source.configured.layer, &snapshot, planned, saved) {
            let message = format!("the plan of the run `{}` cannot be applied: {why}", planned.id);
            return Err(ApiError::conflict(message));
        }
        match state.store.approve(layer, &saved.digest, by).await? {
            // The receiver is gone when the server stops.
            Outcome::Made => drop(state.events.send(Event::Changed(layer.clone()))),
            // Another request or a commit came first. The next lines find out which.
            Outcome::Refused => {}
        }
    }
    let Some((_, run)) = state.store.run(&id).await? else {
        let message =
            "a commit or a newer plan has taken over at this moment; look at the layer again";
        return Err(ApiError::conflict(message));
    };
    if run.closed.is_some() && run.attempts.is_empty() {
        let message = format!(
            "the apply of this plan was cancelled or superseded; `butler-runner layer plan {layer}` makes \
             a new plan"
        );
        return Err(ApiError::conflict(message));
    }
    runs::view(state, layer, &run).await
}

/// The id of the run that applies a plan.
fn apply_id(layer: &LayerName, planned: &Run, saved: &SavedPlan) -> RunId {
    let action = if planned.destroys { Action::Destroy } else { Action::Apply };
    let cause = Cause::Plan { plan: saved.digest.clone() };
    RunId::derived(layer, planned.digest(), action, &cause)
}

/// The run that applies the plan of a run, if there is one. Unlike the one of [`RunView`], it is also found after
/// a commit.
///
/// # Errors
/// If the store does not answer.
pub(crate) async fn apply_of<S: Store>(
    state: &ApiState<S>,
    layer: &LayerName,
    planned: &Run,
) -> Result<Option<RunId>, ApiError> {
    let Some(saved) = &planned.plan else { return Ok(None) };
    let found = state.store.run(&apply_id(layer, planned, saved)).await?;
    Ok(found.map(|(_, run)| run.id))
}

/// Why the plan of a run cannot be approved, as the end of a sentence.
///
/// # Errors
/// If the store does not answer.
pub(crate) async fn why_not<S: Store>(
    state: &ApiState<S>,
    layer: &LayerName,
    planned: &Run,
    saved: &SavedPlan,
) -> Result<Option<String>, ApiError> {
    let Some(source) = state.source(layer) else {
        return Ok(Some("the layer is no longer in the configuration".to_owned()));
    };
    let snapshot = state.store.snapshot(layer, "", &[]).await?;
    Ok(why_not_applied(&source.configured.layer, &snapshot, planned, saved))
}

/// Why a plan cannot be applied, as the end of a sentence.
fn why_not_applied(
    layer: &Layer,
    snapshot: &Snapshot,
    planned: &Run,
    saved: &SavedPlan,
) -> Option<String> {
    let again = format!("`butler-runner layer plan {}` makes a new plan", layer.name);
    let facts = &snapshot.facts;
    let newest = facts.runs.iter().rev().find(|run| run.plan.is_some());
    let change = snapshot.observation.as_ref().map(|read| read.change);
    let (is_superseded, is_newest) =
        (change != Some(planned.change), newest.is_some_and(|run| run.id == planned.id));
    let is_expired = snapshot.now >= saved.saved + layer.plan_lifetime;
    Some(match (saved, layer.strategy) {
        _ if saved.is_empty => "it changes nothing".to_owned(),
        _ if saved.discarded.is_some() => {
            let by = saved.discarded.as_deref().unwrap_or_default();
            format!("it was discarded by {by}; {again}")
        }
        _ if is_superseded => "a newer commit has changed the layer".to_owned(),
        _ if !is_newest => "there is a newer plan".to_owned(),
        _ if saved.stale.is_some() => format!("it is stale; {again}"),
        _ if is_expired => format!("it has expired (`plan-lifetime`); {again}"),
        (_, Strategy::PlanOnly) if !planned.destroys => {
            "the strategy of the layer is `plan-only`".to_owned()
        }
        _ if !layer.has_backend => "the layer has no state backend".to_owned(),
        _ if !saved.is_stored => {
            format!(
                "it was made while the strategy was `plan-only`, and its file is not kept; {again}"
            )
        }
        _ => {
            let by = facts.paused_by.as_deref()?;
            format!("the layer is paused by {by}; `butler-runner layer resume` continues")
        }
    })
}

/// `POST /runs/ID/discard`: the plan of this run is never applied.
pub(super) async fn discard<S: Store>(
    State(state): State<Shared<S>>,
    Extension(user): Extension<User>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let (layer, planned) = runs::run(&state, &id).await?;
    let saved = plan_of(&planned)?;
    if saved.discarded.is_none() {
        match state.store.discard(&layer, &saved.digest, &user.name).await? {
            // The receiver is gone when the server stops.
            Outcome::Made => drop(state.events.send(Event::Changed(layer.clone()))),
            Outcome::Refused => {
                let message = format!(
                    "the plan of the run `{id}` cannot be discarded: it is empty or stale, or its \
                     apply has begun (`butler-runner run cancel` stops that)"
                );
                return Err(ApiError::conflict(message));
            }
        }
    }
    let (layer, run) = runs::run(&state, &id).await?;
    Ok(Json(json!(runs::view(&state, &layer, &run).await?)))
}

/// The plan that a run has made.
fn plan_of(run: &Run) -> Result<&SavedPlan, ApiError> {
    let why = if run.action == Action::Plan { "has made no plan" } else { "is not a plan" };
    run.plan.as_ref().ok_or_else(|| ApiError::conflict(format!("the run `{}` {why}", run.id)))
}
