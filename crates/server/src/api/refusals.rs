//! Answers of the framework to requests that do not have the form that is expected, as JSON.
//!
//! The framework answers with plain text before a handler is called: wrong methods, queries, paths
//! and bodies. One layer around all routes makes them equal to other errors, so a new route needs
//! nothing for it.

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::ApiError;

/// The largest body of a request, in bytes.
pub(super) const MOST_BODY: usize = 1 << 20;

/// The longest text of the framework, in bytes.
const MOST_TEXT: usize = 1 << 16;

/// Gives each error the form of [`ApiError`].
pub(super) async fn errors_as_json(request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || has_form(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, MOST_TEXT).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let (with_type, body) = error(status, &method, &path, &text).into_response().into_parts();
    // `Allow` stays.
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(with_type.headers);
    Response::from_parts(parts, body)
}

/// Refuses bodies that are too large, also if the handler does not read them.
pub(super) async fn limit_bodies(request: Request, next: Next) -> Response {
    if declared_length(request.headers()).is_some_and(|length| length > MOST_BODY as u64) {
        return ApiError::too_large(MOST_BODY).into_response();
    }
    next.run(request).await
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether the answer has a form of its own: JSON, or a page.
fn has_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json") || kind.starts_with("text/html"))
}

/// The error with this status. `text` is the text of the framework.
fn error(status: StatusCode, method: &Method, path: &str, text: &str) -> ApiError {
    let (code, message) = match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            ("method-not-allowed", format!("`{path}` does not allow `{method}`"))
        }
        StatusCode::PAYLOAD_TOO_LARGE => {
            ("too-large", format!("the body of a request has at most {} KiB", MOST_BODY >> 10))
        }
        _ if status.is_server_error() => ("internal", "the server could not answer".to_owned()),
        _ => {
            let detail = text.strip_prefix("Failed to ").and_then(|text| text.split_once(": "));
            let detail = detail.map_or(text, |(_, detail)| detail);
            ("bad-request", format!("the request is not valid: {detail}"))
        }
    };
    ApiError::malformed(status, code, message)
}
