//! What all pages have: the head, the navigation, and the headers of the answer.

use std::convert::Infallible;

use askama::Template;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::assets::{SCRIPT_NAME, STYLE_NAME};
use crate::api::{ApiError, ApiState, Browser, Role};

/// Pages load only their own style sheet and script, send forms only here, and are in no frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What the template of each page begins with.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) title: String,
    /// The path of the public URL: empty, or like `/butler`.
    pub(super) base: String,
    pub(super) style: &'static str,
    pub(super) script: &'static str,
    pub(super) version: &'static str,
    /// Name and role of the user, if the browser is signed in.
    pub(super) user: Option<(String, &'static str)>,
    pub(super) is_administrator: bool,
    /// Whether the server has followers.
    pub(super) has_followers: bool,
    pub(super) form_token: String,
    /// Makes a form that is sent twice count once.
    pub(super) key: String,
    /// The events after which the page is refreshed: a path of the API, or empty.
    pub(super) events: String,
    /// The path of the page if its address is that of a form which was refused; else empty.
    pub(super) page: String,
    /// Something that a person has to know first.
    pub(super) notice: Option<Notice>,
}

/// Why something was not done.
#[derive(Clone, Debug)]
pub(super) struct Notice {
    pub(super) title: &'static str,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Notice {
    /// The files of an attempt cannot be read.
    pub(super) fn without_files(error: &ApiError) -> Self {
        let (_, message, hint) = error.parts();
        let title = "The log and the plan are not complete";
        Self { title, message: sentence(message), hint: hint.map(str::to_owned) }
    }

    pub(super) fn of(error: &ApiError) -> Self {
        let (status, message, hint) = error.parts();
        let title = if status.is_server_error() {
            "It is not known whether this was done"
        } else {
            "Nothing was done"
        };
        Self { title, message: sentence(message), hint: hint.map(str::to_owned) }
    }
}

impl Layout {
    pub(super) fn new<S>(
        state: &ApiState<S>,
        browser: Option<&Browser>,
        title: impl Into<String>,
    ) -> Self {
        let user = browser.map(|browser| &browser.user);
        Self {
            title: title.into(),
            base: state.hosts.base().to_owned(),
            style: &STYLE_NAME,
            script: &SCRIPT_NAME,
            version: env!("CARGO_PKG_VERSION"),
            user: user.map(|user| (user.name.clone(), user.role.name())),
            is_administrator: user.is_some_and(|user| user.role == Role::Administrator),
            has_followers: !state.desired.followed.registries().borrow().followers.is_empty(),
            form_token: browser.map(|browser| browser.form_token.clone()).unwrap_or_default(),
            key: key(),
            events: String::new(),
            page: String::new(),
            notice: None,
        }
    }

    /// Refreshes the page when something happens to all layers, or to one.
    pub(super) fn refreshed(mut self, layer: Option<&str>, after: u64) -> Self {
        let after = after.to_string();
        let mut pairs = vec![("after", after.as_str())];
        pairs.extend(layer.map(|layer| ("layer", layer)));
        self.events = super::address::with_query(&format!("{}/api/v1/events", self.base), &pairs);
        self
    }

    /// With a notice about a form that was refused. The page of the form has this path, below that of the
    /// public URL.
    pub(super) fn with(mut self, notice: Option<Notice>, path: &str) -> Self {
        if notice.is_some() {
            self.page = format!("{}{path}", self.base);
        }
        self.notice = notice;
        self
    }
}

/// A random key. It only tells forms apart: without random numbers, a form counts each time that it is sent.
fn key() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map(|()| hex::encode(bytes)).unwrap_or_default()
}

/// `text` as a sentence: messages of errors and reasons begin with a small letter. A name, such as that of a
/// file, stays as it is.
pub(super) fn sentence(text: &str) -> String {
    let word = text.split(' ').next().unwrap_or_default().trim_end_matches([',', ':', ';']);
    let is_word = word.chars().all(|it| it.is_ascii_alphabetic() || matches!(it, '-' | '\''));
    let mut characters = text.chars();
    let first = characters
        .next()
        .map(|first| if is_word { first.to_uppercase().to_string() } else { first.to_string() });
    let rest = characters.as_str();
    let end = if rest.ends_with(['.', '?', '!', '…', ':']) { "" } else { "." };
    format!("{}{rest}{end}", first.unwrap_or_default())
}

/// A large part of a page, which is sent as it is and not copied into the page of each reader.
pub(super) struct Placeholder {
    /// Random, so that nothing else on the page is taken for the place.
    mark: String,
    content: Bytes,
}

impl Placeholder {
    pub(super) fn new(content: Bytes) -> Self {
        Self { mark: format!("<!-- {} -->", key()), content }
    }
}

/// The place, when the page is made.
impl std::fmt::Display for Placeholder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.mark)
    }
}

/// The answer with a page.
pub(super) fn respond(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => answer(status, Body::from(html)),
        Err(error) => ApiError::internal(&error).into_response(),
    }
}

/// The answer with a page that has a large part.
pub(super) fn respond_with(
    status: StatusCode,
    page: &impl Template,
    large: &Placeholder,
) -> Response {
    let html = match page.render() {
        Ok(html) => html,
        Err(error) => return ApiError::internal(&error).into_response(),
    };
    let start = html.find(&large.mark);
    let html = Bytes::from(html);
    let parts = match start {
        Some(start) => {
            let rest = html.slice(start + large.mark.len()..);
            vec![html.slice(..start), large.content.clone(), rest]
        }
        None => vec![html],
    };
    let parts = parts.into_iter().map(Ok::<_, Infallible>);
    answer(status, Body::from_stream(futures_util::stream::iter(parts)))
}

fn answer(status: StatusCode, html: Body) -> Response {
    let headers: [(HeaderName, &str); 6] = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Forms need the origin, which `no-referrer` would hide.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    (status, headers, html).into_response()
}
