//! Requests about followers.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use butler_cluster::pod_label;
use butler_follower::config::{Adapter, Follower};
use butler_follower::object::ObjectReference;
use butler_follower::state::Record;
use butler_follower::status::{EventStatus, FollowerStatus};
use butler_follower::{Head, Request, objects_to_read};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::ApiError;
use super::state::{ApiState, Shared};
use crate::serve::{FollowerAnswer, repository_of};
use crate::store::Store;

/// How long a request waits for the repository of its follower.
const READ: Duration = Duration::from_secs(30);

/// The time between two looks at a poll.
const LOOK: Duration = Duration::from_millis(50);

/// `GET /followers`.
pub(super) async fn list<S: Store>(
    State(state): State<Shared<S>>,
) -> Result<Json<Value>, ApiError> {
    let items = statuses(&state).await?;
    let problems = state.desired.followed.errors();
    Ok(Json(json!({"items": items, "next": null, "problems": problems})))
}

/// All followers, in the order of the registry, and then those whose definition is refused.
pub(crate) async fn statuses<S: Store>(
    state: &ApiState<S>,
) -> Result<Vec<FollowerStatus>, ApiError> {
    let registry = state.desired.followed.registries().borrow().clone();
    let now = state.store.clock().await?;
    let stored = state.store.followers().await?;
    let statuses = registry.followers.iter().map(|follower| {
        let known = stored.iter().find(|known| known.record.follower == follower.id);
        FollowerStatus::new(follower, known.map(|known| &known.record), now)
    });
    let refused = state.desired.refused_followers().into_iter();
    let refused = refused.map(|(id, why)| FollowerStatus::refused(&id, &why, now));
    Ok(statuses.chain(refused).collect())
}

/// The status of a follower whose definition is refused.
async fn refused<S: Store>(
    state: &ApiState<S>,
    id: &str,
) -> Result<Option<FollowerStatus>, ApiError> {
    let refused = state.desired.refused_followers().into_iter().find(|(refused, _)| refused == id);
    let Some((id, why)) = refused else { return Ok(None) };
    Ok(Some(FollowerStatus::refused(&id, &why, state.store.clock().await?)))
}

/// `GET /followers/ID`.
pub(super) async fn show<S: Store>(
    State(state): State<Shared<S>>,
    Path(id): Path<String>,
) -> Result<Json<FollowerStatus>, ApiError> {
    if let Some(refused) = refused(&state, &id).await? {
        return Ok(Json(refused));
    }
    let follower = follower(&state, &id)?;
    let stored = state.store.follower(&id).await?;
    let now = state.store.clock().await?;
    Ok(Json(FollowerStatus::new(&follower, stored.as_ref().map(|known| &known.record), now)))
}

/// `GET /followers/ID/events`.
pub(super) async fn events<S: Store>(
    State(state): State<Shared<S>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    follower(&state, &id)?;
    let stored = state.store.follower(&id).await?;
    let events = stored.map(|known| known.record.events).unwrap_or_default();
    let items: Vec<EventStatus> = events.iter().map(EventStatus::new).collect();
    Ok(Json(json!({"items": items, "next": null})))
}

/// Which stage is meant.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WhichStage {
    /// The stage. By default the one that is in flight, else the one that failed, else the last one with an object.
    stage: Option<String>,
}

/// The logs of a stage.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StageLogs {
    /// The stage.
    stage: String,
    /// Its object.
    object: String,
    /// What the stage waits for, or why it failed.
    message: String,
    /// The ends of the logs of its pods.
    items: Vec<ContainerLogView>,
    /// Where logs are, if the object has no pods.
    hint: Option<String>,
}

/// The end of the log of a container.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerLogView {
    pod: String,
    container: String,
    /// The last lines.
    text: Option<String>,
    /// Why they cannot be read.
    error: Option<String>,
}

/// `GET /followers/ID/logs`.
pub(super) async fn logs<S: Store>(
    State(state): State<Shared<S>>,
    Path(id): Path<String>,
    Query(which): Query<WhichStage>,
) -> Result<Json<StageLogs>, ApiError> {
    let follower = follower(&state, &id)?;
    let stored = state.store.follower(&id).await?;
    let record = stored.map_or_else(|| Record::new(&id), |known| known.record);
    let name = which.stage.or_else(|| stage_of_interest(&record));
    let name =
        name.ok_or_else(|| ApiError::conflict(format!("no stage of `{id}` has an object yet")))?;
    // Those of the commit that is being delivered.
    let head = Head::Unknown { why: String::new() };
    let objects = objects_to_read(&follower, &record, &head);
    let object = objects.into_iter().find(|(stage, _)| *stage == name).map(|(_, object)| object);
    let object = object.ok_or_else(|| {
        ApiError::not_found(format!("`{id}` has no stage `{name}` with an object"))
    })?;
    let (items, hint) = match pod_label(&object.kind) {
        Some(label) => {
            let label = format!("{label}={}", object.name);
            let objects = state.follower_cluster.objects().await;
            let objects = objects.map_err(ApiError::unavailable)?;
            let logs = Box::pin(objects.logs(object.namespace.as_deref(), &label));
            (logs.await.map_err(ApiError::unavailable)?, None)
        }
        None => (Vec::new(), Some(elsewhere(follower.adapter, &object))),
    };
    let items = items.into_iter().map(|log| {
        let (text, error) = match log.text {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(error)),
        };
        ContainerLogView { pod: log.pod, container: log.container, text, error }
    });
    let message = record.stage(&name).map(|stage| stage.message.clone()).unwrap_or_default();
    let items = items.collect();
    Ok(Json(StageLogs { stage: name, object: object.to_string(), message, items, hint }))
}

/// The stage that a person wants to see first.
fn stage_of_interest(record: &Record) -> Option<String> {
    let in_flight = record.in_flight.as_ref().map(|in_flight| in_flight.stage.clone());
    let failed = || record.failure.as_ref().map(|failure| failure.stage.clone());
    let last = || {
        let last = record.stages.iter().rfind(|stage| stage.submitted_at.is_some());
        last.map(|stage| stage.name.clone())
    };
    in_flight.or_else(failed).or_else(last)
}

/// Where the log of an object without pods is.
fn elsewhere(adapter: Adapter, object: &ObjectReference) -> String {
    match adapter {
        Adapter::Terraform => "`butler-runner layer show` names the run of the layer, and `butler-runner run logs` shows its log".to_owned(),
        Adapter::GithubActions | Adapter::GitlabCi | Adapter::Jenkins => {
            "the CI system has the log; the message of the stage has its address while it runs".to_owned()
        }
        Adapter::Kubernetes => format!("{object} has no pods of its own"),
    }
}

/// How a follower is run once.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RunOnce {
    /// Whether what is due may be triggered; a failed stage is then retried without a wait.
    confirm: bool,
    /// Whether only the record is refreshed.
    dry_run: bool,
}

/// What was decided.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Looked {
    /// The follower, as it is now.
    follower: FollowerStatus,
    /// The object that was submitted, if one was due.
    submitted: Option<String>,
}

/// `POST /followers/ID/run`.
pub(super) async fn run<S: Store>(
    State(state): State<Shared<S>>,
    Path(id): Path<String>,
    Json(RunOnce { confirm, dry_run }): Json<RunOnce>,
) -> Result<Json<Looked>, ApiError> {
    let request = match (confirm, dry_run) {
        (true, true) => {
            return Err(ApiError::bad_request("`confirm` and `dryRun` exclude each other"));
        }
        (true, false) => Request::Confirmed,
        (false, true) => Request::DryRun,
        (false, false) => Request::Unconfirmed,
    };
    if let Some(follower) = refused(&state, &id).await? {
        return Ok(Json(Looked { follower, submitted: None }));
    }
    let follower = follower(&state, &id)?;
    read_branch(&state, &follower).await?;
    let decision = match state.followers.ask(&id, request).await? {
        FollowerAnswer::Looked(decision) => decision,
        FollowerAnswer::Overtaken => {
            let message =
                format!("another server has decided about `{id}` at this moment; ask again");
            return Err(ApiError::conflict(message));
        }
        // It is in the registry.
        FollowerAnswer::Missing => {
            let message = format!("the server does not look at `{id}` yet; ask again");
            return Err(ApiError::unavailable(message));
        }
        FollowerAnswer::Busy => {
            return Err(ApiError::too_many(format!(
                "too many requests for `{id}` wait; ask later"
            )));
        }
    };
    let now = state.store.clock().await?;
    let submitted = decision.action.map(|action| action.object.to_string());
    let follower = FollowerStatus::new(&follower, Some(&decision.record), now);
    Ok(Json(Looked { follower, submitted }))
}

/// Reads the repository of a follower, so that its branch is that of this moment.
///
/// # Errors
/// If the repository does not answer in time. Why a poll has failed is a reason of the decision.
async fn read_branch<S: Store>(state: &ApiState<S>, follower: &Follower) -> Result<(), ApiError> {
    let config = state.desired.config();
    let Some(repository) = repository_of(&config, &follower.source) else { return Ok(()) };
    let poll = state.desired.request_poll(repository);
    let ended = async {
        while state.desired.ended_polls(repository) < poll {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(READ, ended).await.map_err(|_| {
        let seconds = READ.as_secs();
        ApiError::unavailable(format!(
            "the repository `{repository}` was not read within {seconds} s, so its newest commit is not known; ask again"
        ))
    })
}

fn follower<S>(state: &ApiState<S>, id: &str) -> Result<Follower, ApiError> {
    let registry = state.desired.followed.registries().borrow().clone();
    let found = registry.followers.iter().find(|follower| follower.id == id);
    found.cloned().ok_or_else(|| {
        let mut refused = state.desired.refused_followers().into_iter();
        if let Some((_, why)) = refused.find(|(refused, _)| refused == id) {
            return ApiError::conflict(format!("the definition of `{id}` is refused: {why}"));
        }
        ApiError::not_found(format!(
            "the registry of followers (`--followers`) does not have `{id}`"
        ))
    })
}
