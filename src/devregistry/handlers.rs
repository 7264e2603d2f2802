//! The endpoints, with the checks and the special cases of the real registry.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Value, json};

use super::state::{Registry, Request, Run, hash};
use butler_base::event::LogLine;

/// The path of the API, as in the real registry.
pub const BASE_PATH: &str = "/api/registry";

/// Bodies over this size are refused with 413.
const BODY_LIMIT: usize = 52_428_800;

/// A batch with more entries fails with 500.
const BATCH_LIMIT: usize = 13_107;

/// The router for `registry`, to be served as it is or behind layers that inject faults.
pub fn router(registry: Arc<Registry>) -> Router {
    let path = format!("{BASE_PATH}/v1/ci/module-runs/{{run_id}}/{{endpoint}}");
    Router::new()
        .route(&path, get(handle).post(handle))
        .fallback(|| async { failure(StatusCode::NOT_FOUND, "NOT_FOUND", "no such path") })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(registry)
}

async fn handle(
    State(registry): State<Arc<Registry>>,
    Path((run_id, endpoint)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let Some(token) = token.filter(|token| !token.starts_with("breg_")) else {
        return failure(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "a callback token is required");
    };
    let mut runs = registry.runs();
    let Some(run) = runs.get_mut(&run_id) else {
        return failure(StatusCode::NOT_FOUND, "RUN_NOT_FOUND", "no such run");
    };
    if run.token != hash(token) {
        return failure(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "the token is not the run's");
    }
    let response = match (&method, endpoint.as_str()) {
        (&Method::GET, "status") => ok(&json!({"status": run.status})),
        _ if run.is_over() => failure(StatusCode::CONFLICT, "APPROVAL_DENIED", "the run is over"),
        (&Method::GET, "config") => {
            let config = (
                StatusCode::OK,
                [
                    (header::CONTENT_TYPE, "application/json"),
                    (header::CACHE_CONTROL, "no-store, no-cache"),
                    (header::PRAGMA, "no-cache"),
                ],
                run.config.to_string(),
            );
            config.into_response()
        }
        (&Method::POST, name) => match serde_json::from_slice::<Value>(&body) {
            Err(error) => failure(StatusCode::BAD_REQUEST, "BAD_REQUEST", &error.to_string()),
            Ok(body) => match name {
                "status" => post_status(run, body),
                "logs" => post_logs(run, body),
                "plan" => post_plan(run, body),
                "outputs" => post_outputs(run, body),
                _ => failure(StatusCode::NOT_FOUND, "NOT_FOUND", "no such path"),
            },
        },
        _ => failure(StatusCode::NOT_FOUND, "NOT_FOUND", "no such path"),
    };
    let answer = response.status().as_u16();
    run.received.requests.push(Request { method: method.to_string(), endpoint, answer });
    response
}

fn post_status(run: &mut Run, body: Value) -> Response {
    let status = body.get("status").and_then(Value::as_str).unwrap_or_default();
    let code = body.get("exit_code");
    if status.is_empty()
        || status.len() > 32
        || code.is_some_and(|code| !code.is_i64() && !code.is_null())
    {
        return failure(
            StatusCode::BAD_REQUEST,
            "BAD_REQUEST",
            "status or exit_code is missing or wrong",
        );
    }
    status.clone_into(&mut run.status);
    run.received.statuses.push(body);
    ok(&json!({"status": "ok"}))
}

fn post_logs(run: &mut Run, body: Value) -> Response {
    #[derive(Deserialize)]
    struct Logs {
        logs: Vec<LogLine>,
    }
    let Ok(Logs { logs }) = serde_json::from_value(body) else {
        return failure(StatusCode::BAD_REQUEST, "BAD_REQUEST", "logs are missing or wrong");
    };
    let unstorable =
        |line: &LogLine| line.content.contains('\0') || i32::try_from(line.sequence).is_err();
    if logs.len() > BATCH_LIMIT || logs.iter().any(unstorable) {
        return failure(
            StatusCode::INTERNAL_SERVER_ERROR,
            "INTERNAL",
            "insert into module_run_logs failed",
        );
    }
    let count = logs.len();
    run.received.logs.extend(logs);
    ok(&json!({"status": "ok", "count": count}))
}

fn post_plan(run: &mut Run, body: Value) -> Response {
    let filled = |name| match body.get(name) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(_)) => true,
        _ => false,
    };
    if !filled("plan_json") && !filled("plan_text") {
        return failure(
            StatusCode::BAD_REQUEST,
            "BAD_REQUEST",
            "plan_json or plan_text is required",
        );
    }
    run.received.plans.push(body);
    ok(&json!({"status": "ok"}))
}

fn post_outputs(run: &mut Run, body: Value) -> Response {
    if !body.get("outputs").is_some_and(Value::is_object) {
        return failure(StatusCode::BAD_REQUEST, "BAD_REQUEST", "outputs are required");
    }
    run.received.outputs.push(body);
    ok(&json!({"status": "ok"}))
}

fn ok(body: &Value) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], Body::from(body.to_string()))
        .into_response()
}

fn failure(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({"error": {"message": message, "code": code}});
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
