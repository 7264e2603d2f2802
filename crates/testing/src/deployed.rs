//! The memory registry with the quirks of the registry that is deployed today. No library has them.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use butler_registry::memory::{self, MemoryRegistry};
use serde_json::json;

/// The routes of `registry` as they are deployed.
pub fn router(registry: Arc<MemoryRegistry>) -> Router {
    memory::router(registry).layer(from_fn(fail_batches))
}

/// A batch of log lines that the database refuses is answered with 500 and the text of its SQL.
async fn fail_batches(request: Request, next: Next) -> Response {
    let is_batch = request.method() == Method::POST && request.uri().path().ends_with("/logs");
    let response = next.run(request).await;
    if !is_batch || response.status() != StatusCode::BAD_REQUEST {
        return response;
    }
    let message =
        "insert into \"module_run_logs\" (\"run_id\", \"sequence\") values ($1, $2) failed";
    let body = json!({"error": {"message": message, "code": "INTERNAL"}});
    (StatusCode::INTERNAL_SERVER_ERROR, body.to_string()).into_response()
}
