//! Signs browsers in and out.

use std::time::Instant;

use askama::Template;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use butler_registry::TokenHash;

use super::address::is_local;
use super::form::Form;
use super::layout::{Layout, Notice, respond};
use super::message::error_page;
use crate::api::{ApiError, ApiState, Browser, Reached, Shared, begin, forget};
use crate::store::Store;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    layout: Layout,
    next: String,
    /// Whether users have tokens of their own. If not, the page tells where the administrator's token is.
    has_access_file: bool,
}

/// Where the browser is sent after it has signed in, and the one-time code.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    next: String,
    code: Option<String>,
}

/// `GET /sign-in`. A one-time code signs a browser of this machine in as the administrator.
pub(super) async fn show<S: Store>(
    State(state): State<Shared<S>>,
    Extension(reached): Extension<Reached>,
    headers: HeaderMap,
    Query(Asked { next, code }): Query<Asked>,
) -> Response {
    let Some(code) = code else { return form(&state, StatusCode::OK, next, None) };
    let is_here = reached.client.is_some_and(|client| client.is_loopback());
    let administrator = state.access.only_administrator();
    let user = administrator.filter(|_| is_here && state.sign_ins.use_code(&code, Instant::now()));
    if let Some(user) = user {
        return signed_in(&state, (&reached, &headers), user, "/").await;
    }
    let message = "The code in this address is not valid: it signs one browser of the server's machine in, within ten \
                   minutes after the server was started.";
    refused(&state, next, message).await
}

/// `POST /sign-in`.
pub(super) async fn sign_in<S: Store>(
    State(state): State<Shared<S>>,
    Extension(reached): Extension<Reached>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let form = match Form::read(body).await {
        Ok(form) => form,
        Err(error) => return error_page(&state, None, &error),
    };
    let next = form.get("next").unwrap_or_default();
    let given = form.get("access-token").unwrap_or_default().trim();
    match state.access.user(given) {
        Some(user) => signed_in(&state, (&reached, &headers), user.token, next).await,
        None => refused(&state, next.to_owned(), "This token is not valid.").await,
    }
}

/// `POST /sign-out`.
pub(super) async fn sign_out<S: Store>(
    State(state): State<Shared<S>>,
    Extension(reached): Extension<Reached>,
    Extension(browser): Extension<Browser>,
) -> Response {
    if let Err(error) = state.store.end_session(browser.session).await {
        return error_page(&state, Some(&browser), &error.into());
    }
    let cookie = forget(&state.hosts, &reached);
    let to = format!("{}/sign-in", state.hosts.base());
    ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response()
}

/// Begins a session for the browser that has sent this request.
async fn signed_in<S: Store>(
    state: &ApiState<S>,
    (reached, headers): (&Reached, &HeaderMap),
    user: TokenHash,
    next: &str,
) -> Response {
    let cookie = match begin(state, reached, headers, user).await {
        Ok(cookie) => cookie,
        Err(error) => return error_page(state, None, &error),
    };
    let next = if is_local(next) { next } else { "/" };
    let to = format!("{}{next}", state.hosts.base());
    ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response()
}

/// Answers a wrong token or code, slowly.
async fn refused<S>(state: &ApiState<S>, next: String, message: &str) -> Response {
    if !state.sign_ins.delay().await {
        let message =
            "too many browsers have sent wrong tokens at this moment; try again in a second";
        return error_page(state, None, &ApiError::too_many(message));
    }
    tracing::warn!("a browser has sent a wrong token or code to sign in");
    let notice = Notice { title: "You are not signed in", message: message.to_owned(), hint: None };
    form(state, StatusCode::UNAUTHORIZED, next, Some(notice))
}

fn form<S>(
    state: &ApiState<S>,
    status: StatusCode,
    next: String,
    notice: Option<Notice>,
) -> Response {
    let layout = Layout::new(state, None, "Sign in").with(notice, "/sign-in");
    let has_access_file = state.access.only_administrator().is_none();
    respond(status, &SignIn { layout, next, has_access_file })
}
