//! Browsers that are signed in: their cookie, and the token of their forms.

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use butler_registry::TokenHash;
use secrecy::{ExposeSecret, SecretString};

use super::error::ApiError;
use super::hosts::Hosts;
use super::reached::Reached;
use super::state::ApiState;
use super::user::User;
use crate::store::Store;

/// A week, in seconds: sessions end earlier if they are not used.
const MAX_AGE: u32 = 7 * 24 * 3600;

/// A browser that is signed in.
#[derive(Clone, Debug)]
pub(crate) struct Browser {
    pub(crate) user: User,
    /// What its forms must contain. A page of another site cannot read it.
    pub(crate) form_token: String,
    /// The hash of its cookie.
    pub(crate) session: TokenHash,
}

/// Whether a request is one of the person, who is in front of the browser then.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SentBy {
    /// The person has opened a page, or sent a form. The session is used.
    Person,
    /// An open page asks for what is new by itself. A session that only does this ends after some hours.
    Page,
}

/// The browser that sends a request, if it is signed in and its user still exists.
///
/// # Errors
/// If the store does not answer.
pub(crate) async fn browser<S: Store>(
    state: &ApiState<S>,
    request: &Parts,
    sent_by: SentBy,
) -> Result<Option<Browser>, ApiError> {
    let Some(reached) = request.extensions.get::<Reached>() else { return Ok(None) };
    let Some(cookie) = cookie(&state.hosts, reached, &request.headers) else { return Ok(None) };
    let id = TokenHash::of(cookie);
    let session = match sent_by {
        SentBy::Person => state.store.use_session(id).await?,
        SentBy::Page => state.store.session(id).await?,
    };
    let Some(session) = session else { return Ok(None) };
    let users = state.access.known();
    let user = users.iter().find(|user| user.token == session.user);
    Ok(user.map(|user| Browser { user: user.clone(), form_token: form_token(cookie), session: id }))
}

/// Signs a browser in as the user whose token has this hash, with a new session. An earlier one of the same
/// browser ends: a cookie that was known before is worth nothing. Returns the `Set-Cookie` header.
///
/// # Errors
/// If the store does not answer, or the system has no random numbers.
pub(crate) async fn begin<S: Store>(
    state: &ApiState<S>,
    reached: &Reached,
    headers: &HeaderMap,
    user: TokenHash,
) -> Result<String, ApiError> {
    if let Some(earlier) = cookie(&state.hosts, reached, headers) {
        state.store.end_session(TokenHash::of(earlier)).await?;
    }
    let cookie = random().map_err(|error| ApiError::internal(&error))?;
    state.store.begin_session(TokenHash::of(cookie.expose_secret()), user).await?;
    Ok(set_cookie(&state.hosts, reached, cookie.expose_secret(), MAX_AGE))
}

/// The `Set-Cookie` header that makes a browser forget its session.
pub(crate) fn forget(hosts: &Hosts, reached: &Reached) -> String {
    set_cookie(hosts, reached, "", 0)
}

/// 256 random bits.
fn random() -> std::io::Result<SecretString> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(hex::encode(bytes).into())
}

/// The token of the forms that a browser with this cookie gets.
fn form_token(cookie: &str) -> String {
    TokenHash::of(&format!("form {cookie}")).to_string()
}

fn set_cookie(hosts: &Hosts, reached: &Reached, value: &str, max_age: u32) -> String {
    let CookieName(name) = CookieName::of(hosts, reached);
    let secure = if hosts.is_secure(reached) { "; Secure" } else { "" };
    // Without a slash at the end, the path is sent for `/butler` too.
    let path = if hosts.base().is_empty() { "/" } else { hosts.base() };
    format!("{name}={value}; Path={path}; Max-Age={max_age}; HttpOnly; SameSite=Lax{secure}")
}

/// The name of the cookie. Over TLS, browsers accept it only from this host, and only over TLS.
#[derive(Clone, Copy)]
struct CookieName(&'static str);

impl CookieName {
    fn of(hosts: &Hosts, reached: &Reached) -> Self {
        Self(match (hosts.is_secure(reached), hosts.base()) {
            (true, "") => "__Host-butler",
            // `__Host-` requires the path `/`, which other applications of the host have too.
            (true, _) => "__Secure-butler",
            (false, _) => "butler",
        })
    }
}

/// The cookie of a session that a browser sends.
fn cookie<'a>(hosts: &Hosts, reached: &Reached, headers: &'a HeaderMap) -> Option<&'a str> {
    let CookieName(name) = CookieName::of(hosts, reached);
    let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(known, _)| known.trim() == name).map(|(_, value)| value.trim())
}
