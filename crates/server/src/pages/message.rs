//! A page that says why another one cannot be shown.

use askama::Template;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};

use super::layout::{Layout, Notice, respond};
use crate::api::{ApiError, ApiState, Browser, SentBy, Shared, browser, unknown};
use crate::store::Store;

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

/// The answer about a path that does not exist: a page for people, JSON for programs.
pub(super) async fn not_found<S: Store + 'static>(
    State(state): State<Shared<S>>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let error = unknown(parts.uri.path());
    if parts.method != Method::GET || !is_for_people(&parts.headers) {
        return error.into_response();
    }
    let browser = browser(&state, &parts, SentBy::Person).await.ok().flatten();
    error_page(&state, browser.as_ref(), &error)
}

/// Browsers ask for HTML first when a person opens an address.
fn is_for_people(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.trim_start().starts_with("text/html"))
}
