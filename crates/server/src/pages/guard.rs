//! Lets a browser pass that is signed in and may open a page.

use axum::extract::{RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use butler_registry::TokenHash;

use super::address::with_query;
use super::form::Form;
use super::message::error_page;
use crate::api::{ApiError, ApiState, Role, SentBy, Shared, browser, permit};
use crate::store::Store;

/// Asks a browser that is not signed in to do so; refuses a form without its token, and what the role or the
/// layers of the user do not allow.
pub(super) async fn guard<S: Store + 'static>(
    State((state, role)): State<(Shared<S>, Role)>,
    parameters: RawPathParams,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, mut body) = request.into_parts();
    let is_refresh = parts.method.is_safe() && parts.headers.contains_key("butler-refresh");
    let sent_by = if is_refresh { SentBy::Page } else { SentBy::Person };
    let browser = match browser(&state, &parts, sent_by).await {
        Ok(Some(browser)) => browser,
        Ok(None) => return to_sign_in(&state, &parts),
        Err(error) => return error_page(&state, None, &error),
    };
    if !parts.method.is_safe() {
        let form = match Form::read(std::mem::take(&mut body)).await {
            Ok(form) => form,
            Err(error) => return error_page(&state, Some(&browser), &error),
        };
        // Compared as hashes: in constant time.
        let given = TokenHash::of(form.get("token").unwrap_or_default());
        if given != TokenHash::of(&browser.form_token) {
            let error = ApiError::forbidden(
                "the form is not from this session; open the page again, and repeat what you did",
            );
            return error_page(&state, Some(&browser), &error);
        }
        parts.extensions.insert(form);
    }
    if let Err(error) = permit(&state, &browser.user, role, &parts, &parameters).await {
        return error_page(&state, Some(&browser), &error);
    }
    parts.extensions.insert(browser);
    next.run(Request::from_parts(parts, body)).await
}

fn to_sign_in<S>(state: &ApiState<S>, parts: &Parts) -> Response {
    let sign_in = format!("{}/sign-in", state.hosts.base());
    // After a form, only its page can be opened again, and its path is not always one.
    let asked = parts.uri.path_and_query().map(PathAndQuery::as_str).unwrap_or_default();
    let next = if parts.method.is_safe() && asked != "/" { asked } else { "" };
    let pairs: &[(&str, &str)] = if next.is_empty() { &[] } else { &[("next", next)] };
    Redirect::to(&with_query(&sign_in, pairs)).into_response()
}
