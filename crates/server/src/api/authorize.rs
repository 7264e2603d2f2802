//! Finds the user of a request, and decides whether it may be made.

use axum::extract::{RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use butler_registry::TokenHash;

use super::error::ApiError;
use super::reached::Reached;
use super::runs;
use super::session::{SentBy, browser};
use super::state::{ApiState, Shared};
use super::stream::Reader;
use super::user::{Role, User};
use crate::store::Store;

/// Who may send a request.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    /// The lowest role.
    pub(super) role: Role,
    /// Whether the token of Jobs of followers is accepted.
    pub(super) takes_follower_token: bool,
}

/// Finds the user of a request of the API, and hands it on to the handler if the request may be made.
///
/// Programs send a token. Browsers that are signed in may also read, for pages that follow what happens; their
/// changes are forms of pages, which have a token of their own.
pub(super) async fn authorize<S: Store + 'static>(
    State((state, rule)): State<(Shared<S>, Rule)>,
    parameters: RawPathParams,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let (user, session) = match find_user(&state, &parts, rule).await {
        Ok(Some(found)) => found,
        Ok(None) => return ApiError::unauthorized().into_response(),
        Err(error) => return error.into_response(),
    };
    if let Err(error) = permit(&state, &user, rule.role, &parts, &parameters).await {
        return error.into_response();
    }
    parts.extensions.insert(Reader { user: user.clone(), session });
    parts.extensions.insert(user);
    next.run(Request::from_parts(parts, body)).await
}

/// The user, and the session if it is a browser.
async fn find_user<S: Store>(
    state: &ApiState<S>,
    request: &Parts,
    rule: Rule,
) -> Result<Option<(User, Option<TokenHash>)>, ApiError> {
    // A proxy with a password of its own can hand on `Authorization: Basic`, which is not for this server.
    if let Some(token) = bearer(&request.headers) {
        let job = || rule.takes_follower_token.then(|| state.access.follower_job(token)).flatten();
        return Ok(state.access.user(token).or_else(job).map(|user| (user, None)));
    }
    if !request.method.is_safe() {
        return Ok(None);
    }
    let browser = browser(state, request, SentBy::Page).await?;
    Ok(browser.map(|browser| (browser.user, Some(browser.session))))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// Compares role and layers of a user with what a request needs. A change is logged with its user.
///
/// # Errors
/// If the user may not send the request, or the run in the path does not exist.
pub(crate) async fn permit<S: Store>(
    state: &ApiState<S>,
    user: &User,
    role: Role,
    request: &Parts,
    parameters: &RawPathParams,
) -> Result<(), ApiError> {
    if user.role < role {
        let message = format!(
            "`{}` has the role {}, and this needs {}",
            user.name,
            user.role.name(),
            role.name()
        );
        return Err(ApiError::forbidden(message));
    }
    if request.method.is_safe() {
        return Ok(());
    }
    let layer = layer(state, parameters).await?;
    if !user.may_change(layer.as_deref()) {
        let what = layer.map_or("more than one layer".to_owned(), |name| format!("`{name}`"));
        let message = format!("`{}` may not change {what}: `layers` of the access file", user.name);
        return Err(ApiError::forbidden(message));
    }
    let client = request.extensions.get::<Reached>().and_then(|reached| reached.client);
    let (path, client) = (request.uri.path(), client.map(tracing::field::display));
    tracing::info!(user = user.name, client, path, "a user asks for a change");
    Ok(())
}

/// The layer that a request is about: the one in the path, or that of the run in the path.
async fn layer<S: Store>(
    state: &ApiState<S>,
    parameters: &RawPathParams,
) -> Result<Option<String>, ApiError> {
    for (name, value) in parameters {
        match name {
            "layer" => return Ok(Some(value.to_owned())),
            "run" => return Ok(Some(runs::run(state, value).await?.0.to_string())),
            _ => {}
        }
    }
    Ok(None)
}
