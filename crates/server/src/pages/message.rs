//! A page that says why another one cannot be shown.

use askama::Template;
use axum::response::Response;

use super::layout::{Layout, Notice, respond};
use crate::api::{ApiError, ApiState, Browser};

#[derive(Template)]
#[template(path = "message.html")]
struct Message {
    layout: Layout,
    notice: Notice,
}

/// The page about an error.
pub(super) fn error_page<S>(
    state: &ApiState<S>,
    browser: Option<&Browser>,
    error: &ApiError,
) -> Response {
    let (status, ..) = error.parts();
    let title = status.canonical_reason().unwrap_or("Error").to_owned();
    let layout = Layout::new(state, browser, title);
    respond(status, &Message { layout, notice: Notice::of(error) })
}
