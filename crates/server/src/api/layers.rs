//! Requests about layers and repositories.

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use serde_json::{Value, json};
use url::Url;

use super::error::ApiError;
use super::state::{ApiState, Shared};
use super::user::User;
use crate::event::Event;
use crate::model::{Action, Cause, Gate, LayerName, NewRun, Observation, Phase, RunId};
use crate::serve::{DriftView, LayerView, RunView, Timestamp};
use crate::store::{Outcome, Snapshot, Store};

/// The most layers of one answer, and how many there are if the request does not say.
const MOST: usize = 1_000;

/// Which layers are listed.
#[derive(Debug, Default)]
struct Filter {
    phases: Vec<String>,
    waiting: Option<String>,
    drift: Option<String>,
    repository: Option<String>,
    q: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
}

impl Filter {
    /// `phase` can be given several times.
    fn parse(pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        let mut filter = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "phase" => filter.phases.push(value),
                "waiting" => filter.waiting = Some(value),
                "drift" => filter.drift = Some(value),
                "repository" => filter.repository = Some(value),
                "q" => filter.q = Some(value),
                "after" => filter.after = Some(value),
                "limit" => {
                    let limit = value.parse::<usize>();
                    filter.limit = Some(limit.map_err(|_| {
                        ApiError::bad_request(format!("`limit` is a number, not `{value}`"))
                    })?);
                }
                _ => {
                    return Err(ApiError::bad_request(format!(
                        "`{name}` is not a parameter: use phase, waiting, drift, repository, q, \
                         limit or after"
                    )));
                }
            }
        }
        let known = Phase::ALL.map(name_of);
        match filter.phases.iter().find(|phase| !known.contains(phase)) {
            Some(phase) => {
                let known = known.join(", ");
                Err(ApiError::bad_request(format!("`{phase}` is not a phase: use {known}")))
            }
            None => Ok(filter),
        }
    }

    fn allows(&self, view: &LayerView) -> bool {
        let phases = &self.phases;
        let is =
            |given: &Option<String>, value: &str| given.as_deref().is_none_or(|it| it == value);
        let has_phase =
            phases.is_empty() || phases.iter().any(|phase| *phase == name_of(view.phase));
        let waits = view.reasons.iter().any(|reason| reason.gate == Gate::Approval);
        let drift = match view.drift {
            DriftView::Found => "found",
            DriftView::None => "none",
            DriftView::Unchecked => "unchecked",
            DriftView::Unknown => "unknown",
        };
        has_phase
            && self.waiting.as_deref().is_none_or(|waiting| waiting == "approval" && waits)
            && is(&self.drift, drift)
            && is(&self.repository, view.repository.as_deref().unwrap_or_default())
            && self.q.as_deref().is_none_or(|part| view.name.as_str().contains(part))
            && self.after.as_deref().is_none_or(|after| view.name.as_str() > after)
    }
}

fn name_of(phase: Phase) -> String {
    format!("{phase:?}")
}

pub(super) async fn list<S: Store>(
    State(state): State<Shared<S>>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, ApiError> {
    let filter = Filter::parse(pairs)?;
    let limit = filter.limit.unwrap_or(MOST).clamp(1, MOST);
    let mut items: Vec<_> =
        state.views.all().into_iter().filter(|view| filter.allows(view)).take(limit + 1).collect();
    let next = (items.len() > limit).then(|| items[limit - 1].name.clone());
    items.truncate(limit);
    Ok(Json(
        json!({"items": items.iter().map(|view| &**view).collect::<Vec<_>>(), "next": next, "problems": state.desired.problems()}),
    ))
}

/// The view of a layer.
fn view<S>(state: &ApiState<S>, layer: &str) -> Result<std::sync::Arc<LayerView>, ApiError> {
    let name: Option<LayerName> = layer.parse().ok();
    let view = name.and_then(|name| state.views.layer(&name));
    view.ok_or_else(|| ApiError::not_found(format!("there is no layer `{layer}`")))
}

pub(super) async fn show<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!(*view(&state, &layer)?)))
}

pub(super) async fn plan<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let view = view(&state, &layer)?;
    if let Some(reason) = view.reasons.iter().find(|reason| reason.gate == Gate::Pause) {
        return Err(ApiError::conflict(format!("the layer `{layer}` cannot be planned: {reason}")));
    }
    let name = &view.name;
    let Snapshot { observation, .. } = state.store.snapshot(name, "", &[]).await?;
    let revision = observation.as_ref().and_then(Observation::revision).cloned();
    let (Some(revision), Some(observation)) = (revision, &observation) else {
        let message =
            format!("the repository does not have the layer `{layer}`, or was not read yet");
        return Err(ApiError::conflict(message));
    };
    let cause = Cause::Person { request: request_id(&headers)? };
    let id = RunId::derived(name, &revision.digest, Action::Plan, &cause);
    let (action, change) = (Action::Plan, observation.change);
    let run = NewRun { id: id.clone(), action, cause, revision, change, destroys: false };
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
    Ok((StatusCode::ACCEPTED, Json(json!(RunView::new(name, &run)))))
}

/// What tells this request apart from others: the client's `Idempotency-Key`, or a random id.
fn request_id(headers: &HeaderMap) -> Result<String, ApiError> {
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

pub(super) async fn sync<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let view = view(&state, &layer)?;
    let repository = view.repository.as_deref().unwrap_or_default();
    sync_now(&state, repository)?;
    Ok((StatusCode::ACCEPTED, Json(json!({"repository": repository}))))
}

pub(super) async fn sync_repository<S: Store>(
    State(state): State<Shared<S>>,
    Path(repository): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    sync_now(&state, &repository)?;
    Ok((StatusCode::ACCEPTED, Json(json!({"repository": repository}))))
}

fn sync_now<S>(state: &ApiState<S>, repository: &str) -> Result<(), ApiError> {
    if !state.desired.config().repositories.contains_key(repository) {
        return Err(ApiError::not_found(format!("there is no repository `{repository}`")));
    }
    state.desired.due(repository).notify_one();
    Ok(())
}

pub(super) async fn pause<S: Store>(
    State(state): State<Shared<S>>,
    Extension(user): Extension<User>,
    Path(layer): Path<String>,
) -> Result<Json<Value>, ApiError> {
    set_pause(&state, &layer, Some(&user.name)).await
}

pub(super) async fn resume<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
) -> Result<Json<Value>, ApiError> {
    set_pause(&state, &layer, None).await
}

async fn set_pause<S: Store>(
    state: &ApiState<S>,
    layer: &str,
    by: Option<&str>,
) -> Result<Json<Value>, ApiError> {
    let view = view(state, layer)?;
    state.store.pause(&view.name, by).await?;
    // The receiver is gone when the server stops.
    let _ = state.events.send(Event::Changed(view.name.clone()));
    Ok(Json(json!({"name": view.name, "pausedBy": by})))
}

/// The address of a repository without name and password. The name of an SSH login is not secret.
pub(super) fn without_login(address: &str) -> String {
    let Ok(mut url) = Url::parse(address) else { return address.to_owned() };
    // A URL without a host has no login.
    let _ = url.set_password(None);
    if url.scheme() != "ssh" {
        let _ = url.set_username("");
    }
    url.into()
}

pub(super) async fn repositories<S: Store>(
    State(state): State<Shared<S>>,
) -> Result<Json<Value>, ApiError> {
    let config = state.desired.config();
    let polls = state.desired.polls();
    let items: Vec<Value> = config
        .repositories
        .iter()
        .map(|(name, repository)| {
            let poll = polls.get(name);
            json!({
                "name": name,
                "url": without_login(&repository.entry.url.value),
                "lastPoll": poll.map(|poll| Timestamp::of(poll.at)),
                "error": poll.and_then(|poll| poll.error.clone()),
            })
        })
        .collect();
    Ok(Json(json!({"items": items, "next": null})))
}
