//! All requests of the API, and the role that each needs.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, RawPathParams, Request, State};
use axum::http::{Method, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};

use super::error::ApiError;
use super::hosts::check_address;
use super::reached::Reached;
use super::refusals::{MOST_BODY, errors_as_json};
use super::state::{ApiState, Shared};
use super::user::Role;
use super::{events, health, layers, runs};
use crate::store::Store;

/// The path of the API.
const BASE: &str = "/api/v1";

/// One request of the API.
pub struct Route<S> {
    /// The method.
    pub method: Method,
    /// The path below `/api/v1`.
    pub path: &'static str,
    /// The lowest role that may send it.
    pub role: Role,
    /// What it does, in one sentence.
    pub summary: &'static str,
    handler: MethodRouter<Shared<S>>,
}

impl<S> std::fmt::Debug for Route<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {} ({})", self.method, self.path, self.role.name())
    }
}

/// All requests.
#[must_use]
pub fn routes<S: Store + 'static>() -> Vec<Route<S>> {
    let read = |path, summary, handler| Route {
        method: Method::GET,
        path,
        role: Role::Viewer,
        summary,
        handler,
    };
    let change =
        |path, role, summary, handler| Route { method: Method::POST, path, role, summary, handler };
    vec![
        read("/layers", "Lists layers.", get(layers::list::<S>)),
        read("/layers/{layer}", "Shows a layer.", get(layers::show::<S>)),
        change("/layers/{layer}/plan", Role::Operator, "Plans a layer.", post(layers::plan::<S>)),
        change(
            "/layers/{layer}/sync",
            Role::Operator,
            "Reads the repository of a layer at once.",
            post(layers::sync::<S>),
        ),
        change(
            "/layers/{layer}/pause",
            Role::Administrator,
            "Starts nothing more for a layer.",
            post(layers::pause::<S>),
        ),
        change(
            "/layers/{layer}/resume",
            Role::Administrator,
            "Ends the pause of a layer.",
            post(layers::resume::<S>),
        ),
        read("/runs", "Lists the runs of a layer, the newest first.", get(runs::list::<S>)),
        read("/runs/{run}", "Shows a run.", get(runs::show::<S>)),
        read("/runs/{run}/logs", "Reads the log of an attempt.", get(runs::logs::<S>)),
        read("/runs/{run}/plan", "Reads the plan of a run.", get(runs::plan::<S>)),
        change(
            "/runs/{run}/cancel",
            Role::Operator,
            "Cancels a run: closes it if it waits, and stops its attempt.",
            post(runs::cancel::<S>),
        ),
        read(
            "/events",
            "Lists what happened, the oldest first, or follows it as `text/event-stream`.",
            get(events::list::<S>),
        ),
        read("/repositories", "Lists repositories.", get(layers::repositories::<S>)),
        change(
            "/repositories/{repository}/sync",
            Role::Operator,
            "Reads a repository at once.",
            post(layers::sync_repository::<S>),
        ),
    ]
}

/// The router of the API. Each request is authorized before its handler is called, and requests for
/// another host are refused before that.
pub fn router<S: Store + 'static>(state: Arc<ApiState<S>>) -> Router {
    let mut router = Router::new();
    let mut document = Map::new();
    for route in routes::<S>() {
        describe(&mut document, &route);
        let state = (Arc::clone(&state), route.role);
        let handler = route.handler.layer(from_fn_with_state(state, authorize::<S>));
        router = router.route(&format!("{BASE}{}", route.path), handler);
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "butler-runner", "version": env!("CARGO_PKG_VERSION")},
        "servers": [{"url": BASE}],
        "paths": document,
        "components": {"schemas": {"Error": error_schema()}},
    });
    let openapi = get(move || async move { Json(document) });
    let hosts = from_fn_with_state(Arc::new(state.hosts.clone()), check_address);
    router
        .route(&format!("{BASE}/openapi.json"), openapi)
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz::<S>))
        .fallback(unknown)
        .layer(hosts)
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(from_fn(errors_as_json))
        .with_state(state)
}

async fn unknown(request: Request) -> ApiError {
    ApiError::not_found(format!("there is no `{}`", request.uri().path()))
}

/// The form of all errors.
fn error_schema() -> Value {
    let text = json!({"type": "string"});
    let error = json!({
        "type": "object",
        "required": ["code", "message", "hint"],
        "properties": {"code": text, "message": text, "hint": {"type": ["string", "null"]}},
    });
    json!({"type": "object", "required": ["error"], "properties": {"error": error}})
}

/// Adds a request to the OpenAPI document.
fn describe<S>(document: &mut Map<String, Value>, route: &Route<S>) {
    let names = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{').and_then(|part| part.strip_suffix('}')));
    let parameters: Vec<Value> = names
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let operation = json!({
        "summary": route.summary,
        "description": format!("Needs the role {}.", route.role.name()),
        "parameters": parameters,
        "responses": {
            "default": {
                "description": "An error: the request has a wrong form or body, needs another role, \
                                or a person must act first.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    });
    let path = document.entry(route.path).or_insert_with(|| json!({}));
    path[route.method.as_str().to_ascii_lowercase()] = operation;
}

/// Finds the user, compares the role and the layers, and hands the user on to the handler.
async fn authorize<S: Store + 'static>(
    State((state, role)): State<(Shared<S>, Role)>,
    parameters: RawPathParams,
    mut request: Request,
    next: Next,
) -> Response {
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let Some(user) = token.and_then(|token| state.access.user(token)) else {
        return ApiError::unauthorized().into_response();
    };
    if user.role < role {
        let message = format!(
            "`{}` has the role {}, and this needs {}",
            user.name,
            user.role.name(),
            role.name()
        );
        return ApiError::forbidden(message).into_response();
    }
    if !request.method().is_safe() {
        let layer = match layer(&state, &parameters).await {
            Ok(layer) => layer,
            Err(error) => return error.into_response(),
        };
        if !user.may_change(layer.as_deref()) {
            let what = layer.map_or("more than one layer".to_owned(), |name| format!("`{name}`"));
            let message =
                format!("`{}` may not change {what}: `layers` of the access file", user.name);
            return ApiError::forbidden(message).into_response();
        }
        let client = request.extensions().get::<Reached>().and_then(|reached| reached.client);
        let (path, client) = (request.uri().path(), client.map(tracing::field::display));
        tracing::info!(user = user.name, client, path, "a user asks for a change");
    }
    request.extensions_mut().insert(user);
    next.run(request).await
}

/// The layer that a request is about: the one in the path, or that of the run in the path.
async fn layer<S: Store>(
    state: &ApiState<S>,
    parameters: &RawPathParams,
) -> Result<Option<String>, ApiError> {
    for (name, value) in parameters {
        match name {
            "layer" => return Ok(Some(value.to_owned())),
            "run" => return Ok(Some(runs::run(state, value).await?.0.to_string())),
            _ => {}
        }
    }
    Ok(None)
}
