//! Answers in the form of JSON:API.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A resource of JSON:API.
pub(super) fn resource(kind: &str, id: &str, attributes: &Value, relationships: &Value) -> Value {
    json!({"id": id, "type": kind, "attributes": attributes, "relationships": relationships})
}

/// A document of JSON:API with one resource.
pub(super) fn document(data: &Value) -> Response {
    reply(StatusCode::OK, &json!({"data": data}))
}

pub(super) fn reply(status: StatusCode, value: &Value) -> Response {
    let kind = [
        (header::CONTENT_TYPE, "application/vnd.api+json"),
        (header::HeaderName::from_static("tfp-api-version"), "2.6"),
        (header::HeaderName::from_static("tfp-appname"), "HCP Terraform"),
    ];
    (status, kind, value.to_string()).into_response()
}

pub(super) fn not_found() -> Response {
    let error = json!({"status": "404", "title": "not found"});
    reply(StatusCode::NOT_FOUND, &json!({"errors": [error]}))
}
