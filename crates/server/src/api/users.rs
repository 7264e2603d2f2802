//! The list of users.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::state::Shared;
use super::user::{User, UserView};
use crate::store::Store;

/// `GET /access`.
pub(super) async fn list<S: Store>(State(state): State<Shared<S>>) -> Json<Value> {
    let users: Vec<UserView> = state.access.known().iter().map(User::view).collect();
    Json(json!({"items": users, "next": null}))
}
