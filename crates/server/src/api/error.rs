//! Errors of the API: `{"error": {"code", "message", "hint"}}`.

use std::io::{self, ErrorKind};

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::artifacts::BucketError;
use crate::model::server_of;
use crate::store::StoreError;

/// An answer other than success.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl ApiError {
    /// The status, what failed, and what to do.
    pub(crate) fn parts(&self) -> (StatusCode, &str, Option<&str>) {
        (self.status, &self.message, self.hint.as_deref())
    }

    /// 401: no valid token.
    pub(super) fn unauthorized() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            code: "unauthorized",
            message: "the request has no valid token".to_owned(),
            hint: Some(
                "send `Authorization: Bearer TOKEN`; without `--access-file`, the administrator's \
                 token is in `admin.token` of the data directory"
                    .to_owned(),
            ),
        }
    }

    /// 401: a delivery of a webhook without a valid signature.
    pub(crate) fn unsigned(repository: &str) -> Self {
        let message =
            format!("the delivery has no valid signature of the repository `{repository}`");
        let hint = "the secret of the webhook at the git host must be the content of `webhook.secret-file`; \
                    `butler-runner config webhook` prints the settings";
        let error = Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message);
        Self { hint: Some(hint.to_owned()), ..error }
    }

    /// 413: the limit is in bytes.
    pub(crate) fn too_large(most: usize) -> Self {
        let message = format!("the body of a request has at most {} KiB", most >> 10);
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    }

    /// 429.
    pub(crate) fn too_many(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many", message)
    }

    /// What a handler has answered, for a page.
    pub(crate) fn answered(status: StatusCode, message: String, hint: Option<String>) -> Self {
        Self { hint, ..Self::new(status, "refused", message) }
    }

    /// 403: the token is valid, but not for this.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// 421: the server is not reached under this name.
    pub(super) fn misdirected(host: &str) -> Self {
        let message = format!("`{host}` is not a name of this server");
        let hint = "to use this name, start the server with `--allowed-host NAME` or `--public-url \
                    URL` (`BUTLER_ALLOWED_HOST`, `BUTLER_PUBLIC_URL`)";
        let error = Self::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", message);
        Self { hint: Some(hint.to_owned()), ..error }
    }

    /// 404.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", message)
    }

    /// 503: something outside of the server does not answer.
    pub(crate) fn unavailable(message: String) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// 503: another server has not copied what it should have.
    pub(super) fn not_copied(place: &str) -> Self {
        let message = format!(
            "the server `{}` has not copied the log and the plan of this attempt to the object store",
            server_of(place)
        );
        let hint = "ask that server, or try again later; its log and its metric `butler_attempts_not_copied` tell \
                    whether it reaches the object store";
        Self { hint: Some(hint.to_owned()), ..Self::unavailable(message) }
    }

    /// 409: a person must act first.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// 403: a page of another site sent the request.
    pub(super) fn other_origin(origin: &str) -> Self {
        let message = format!("the origin `{origin}` may not change anything on this server");
        let hint = "open the server under its own address; behind a proxy, start it with \
                    `--public-url URL` (`BUTLER_PUBLIC_URL`)";
        Self { hint: Some(hint.to_owned()), ..Self::forbidden(message) }
    }

    /// An answer that no handler has made: a request that does not have the form that is expected.
    pub(super) fn malformed(status: StatusCode, code: &'static str, message: String) -> Self {
        let hint = "`/api/v1/openapi.json` describes all requests".to_owned();
        Self { status, code, message, hint: Some(hint) }
    }

    /// 400.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", message)
    }

    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None }
    }

    /// 503: no space is left for a change.
    fn full(message: impl Into<String>) -> Self {
        let hint = "free space in the data directory of the server or in its database, and try again; nothing was \
                    changed";
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "disk-full", message);
        Self { hint: Some(hint.to_owned()), ..error }
    }

    /// 500: the cause is logged, and not sent, unless it is a full disk.
    pub(crate) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!("a request failed: {}", butler_base::error::chain(error));
        if is_full(error) {
            return Self::full("the disk of the server is full");
        }
        let message = "the server could not answer; its log has the cause";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

impl From<BucketError> for ApiError {
    fn from(error: BucketError) -> Self {
        if let BucketError::Io(error) = &error {
            return Self::internal(error);
        }
        let message = butler_base::error::chain(&error);
        let hint = "ask the server that has executed the attempt, or try again later";
        let answer = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        Self { hint: Some(hint.to_owned()), ..answer }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if let StoreError::Full(_) = &error {
            tracing::error!("a request failed: {error}");
            return Self::full("the disk of the server's store is full");
        }
        Self::internal(&error)
    }
}

/// Whether a write has failed because no space is left.
fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| {
        let system = error.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(system, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
    })
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { status, code, message, hint } = self;
        let body = json!({"error": {"code": code, "message": message, "hint": hint}});
        (status, Json(body)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_named_and_other_causes_are_not() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot write")]
        struct Outer(#[source] io::Error);
        let io = |kind: ErrorKind| io::Error::from(kind);
        let nested = Outer(io(ErrorKind::StorageFull));
        let wrapped = io::Error::new(ErrorKind::StorageFull, "failed to write to `/secret/path`");
        let store: ApiError = StoreError::Full("`/secret/path`: its disk is full".into()).into();
        let away: ApiError = StoreError::Unavailable("/secret/path".into()).into();
        for (name, error, status) in [
            ("full", ApiError::internal(&io(ErrorKind::StorageFull)), 503),
            ("quota", ApiError::internal(&io(ErrorKind::QuotaExceeded)), 503),
            ("a cause", ApiError::internal(&nested), 503),
            ("with a path", ApiError::internal(&wrapped), 503),
            ("the store", store, 503),
            ("another store", away, 500),
            ("denied", ApiError::internal(&io(ErrorKind::PermissionDenied)), 500),
        ] {
            let (found, message, hint) = error.parts();
            assert_eq!(found.as_u16(), status, "{name}");
            assert_eq!(message.contains("disk"), status == 503, "{name}: {message}");
            assert!(!format!("{message} {hint:?}").contains("/secret/path"), "{name}");
        }
    }
}
