//! Requests about repositories.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::state::{ApiState, Shared};
use crate::config::without_login;
use crate::serve::Timestamp;
use crate::store::Store;

/// A poll that was asked for.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct PollView {
    /// The repository.
    repository: String,
    /// The number of the poll. It has ended when `polls` of the repository is not smaller.
    poll: u64,
}

pub(super) async fn sync<S: Store>(
    State(state): State<Shared<S>>,
    Path(repository): Path<String>,
) -> Result<(StatusCode, Json<PollView>), ApiError> {
    poll(&state, &repository)
}

/// Makes the next poll of a repository begin at once.
pub(super) fn poll<S>(
    state: &ApiState<S>,
    repository: &str,
) -> Result<(StatusCode, Json<PollView>), ApiError> {
    if !state.desired.config().repositories.contains_key(repository) {
        return Err(ApiError::not_found(format!("there is no repository `{repository}`")));
    }
    let poll = state.desired.request_poll(repository);
    Ok((StatusCode::ACCEPTED, Json(PollView { repository: repository.to_owned(), poll })))
}

/// A repository.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RepositoryView {
    /// The name.
    name: String,
    /// The address, without a login.
    url: String,
    /// When the last poll has ended.
    last_poll: Option<Timestamp>,
    /// Why it failed.
    error: Option<String>,
    /// A sentence about the address, if its host redirects to another one.
    warning: Option<String>,
    /// The number of the last poll that has ended, since the server started.
    polls: u64,
    /// When the last webhook with a valid signature arrived, since the server started.
    last_delivery: Option<Timestamp>,
}

pub(super) async fn list<S: Store>(
    State(state): State<Shared<S>>,
) -> Result<Json<Value>, ApiError> {
    let config = state.desired.config();
    let polls = state.desired.polls();
    let items = config.repositories.iter().map(|(name, repository)| {
        let poll = polls.get(name);
        RepositoryView {
            name: name.clone(),
            url: without_login(&repository.entry.url.value),
            last_poll: poll.map(|poll| Timestamp::of(poll.at)),
            error: poll.and_then(|poll| poll.error.clone()),
            warning: state.desired.move_of(name),
            polls: state.desired.ended_polls(name),
            last_delivery: state.deliveries.last(name).map(Timestamp::of),
        }
    });
    let items: Vec<RepositoryView> = items.collect();
    Ok(Json(json!({"items": items, "next": null})))
}
