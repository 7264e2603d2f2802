//! The style sheet and the script of all pages.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};

/// The style sheet of the report, and the rules that only these pages need.
static STYLE: LazyLock<String> = LazyLock::new(|| {
    format!("{}{}", butler_result::STYLE, include_str!("../../templates/pages.css"))
});

/// The script. Pages are complete without it.
const SCRIPT: &str = include_str!("../../templates/pages.js");

/// The names contain a hash of the content, so that browsers keep each one for ever.
pub(super) static STYLE_NAME: LazyLock<String> = LazyLock::new(|| format!("{}.css", hash(&STYLE)));

/// See [`STYLE_NAME`].
pub(super) static SCRIPT_NAME: LazyLock<String> = LazyLock::new(|| format!("{}.js", hash(SCRIPT)));

fn hash(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..8])
}

/// `GET /assets/NAME`.
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    let (kind, text) = match name {
        name if name == *STYLE_NAME => ("text/css; charset=utf-8", STYLE.as_str()),
        name if name == *SCRIPT_NAME => ("text/javascript; charset=utf-8", SCRIPT),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text).into_response()
}
