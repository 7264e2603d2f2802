//! Responses that refuse a request: `{"error": {"code", "message"}}`.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::{NoAnswer, RegistryFailure};

/// A request that is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
    }

    pub(crate) fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", message)
    }

    pub(crate) fn no_such_run() -> Self {
        Self::new(StatusCode::NOT_FOUND, "RUN_NOT_FOUND", "no such run")
    }

    pub(crate) fn not_found(message: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    pub(crate) fn over() -> Self {
        Self::new(StatusCode::CONFLICT, "APPROVAL_DENIED", "the run is over")
    }

    pub(crate) fn too_large(limit: u64) -> Self {
        let message = format!("the body must be at most {limit} bytes long, decompressed");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", message)
    }

    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }
}

/// The runner gets no details: they may contain values of other runs.
impl From<RegistryFailure> for Refusal {
    fn from(failure: RegistryFailure) -> Self {
        let message = "the registry cannot answer; its log has the reason";
        match failure.no_answer() {
            Some(NoAnswer::Ended(why)) => tracing::warn!("a run was ended: {why}"),
            Some(NoAnswer::NotYet(why)) => {
                tracing::debug!("a run must ask again: {why}");
                return Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message);
            }
            None => tracing::error!(error = failure.chain(), "the store of the registry failed"),
        }
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"error": {"message": self.message, "code": self.code}});
        (self.status, [(header::CONTENT_TYPE, "application/json")], body.to_string())
            .into_response()
    }
}
