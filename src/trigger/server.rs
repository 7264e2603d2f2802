//! Speaks to a CI system: one origin, no redirects, bounded waits, and no order sent twice.
//!
//! A question that changes nothing is repeated for as long as that can help. An order is only
//! repeated when it certainly was not carried out: there was no connection, or a rate limit refused
//! it. What is lost otherwise is [`Sent::Lost`], and the provider looks for the run instead.

use std::path::Path;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use url::Url;
use zeroize::Zeroizing;

use super::TriggerError;
use super::rest::{Limit, limit};
use crate::http::{Redirects, clients};
use crate::secret::append;

/// The largest answer that is taken: a page of a hundred workflow runs is about a megabyte.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

/// How much of an error's message is shown, in characters.
const LONGEST_MESSAGE: usize = 300;

/// How long a question is repeated: a server that is being deployed anew is back by then.
const PATIENCE: Duration = Duration::from_mins(5);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The least that an attempt gets.
const SHORTEST: Duration = Duration::from_secs(1);

/// How long it may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One attempt of a request.
    pub attempt: Duration,
    /// Everything.
    pub deadline: Instant,
}

/// A CI system's API.
#[derive(Debug)]
pub(super) struct Server {
    http: Client,
    base: Url,
    name: &'static str,
    limits: Limits,
}

/// An answer that is no redirect, no rate limit and no failure of the server's own.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Zeroizing<Vec<u8>>,
}

/// What became of an order.
pub(super) enum Sent {
    /// It was answered.
    Answered(Answer),
    /// Nobody knows whether it was carried out, because of this.
    Lost(String),
}

/// Why an attempt failed that may succeed later.
enum Trouble {
    /// There was no connection: the request cannot have been seen.
    NotSent(TriggerError),
    /// It may have been seen.
    Lost(TriggerError),
    /// It was refused for the time being, and not carried out.
    Limited(Limit),
}

impl Server {
    /// The API at `base`, whose path ends in `/`.
    pub(super) fn new(
        name: &'static str,
        base: Url,
        ca_bundle: Option<&Path>,
        limits: Limits,
    ) -> Result<Self, TriggerError> {
        let http = clients(ca_bundle, Redirects::Refuse)?.closed;
        Ok(Self { http, base, name, limits })
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) const fn limits(&self) -> Limits {
        self.limits
    }

    /// How much time is left for everything.
    pub(super) fn left(&self) -> Duration {
        self.limits.deadline.saturating_duration_since(Instant::now())
    }

    /// The URL of these path segments below the API's address.
    pub(super) fn url<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// The HTTP client, to make a request with.
    pub(super) const fn http(&self) -> &Client {
        &self.http
    }

    /// Sends a request that changes nothing, again where that can help.
    ///
    /// # Errors
    /// When no answer came in time, or none of the API's own.
    pub(super) async fn ask(
        &self,
        what: &str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<Answer, TriggerError> {
        let patience = Instant::now() + PATIENCE;
        let mut pauses = pauses();
        loop {
            let (error, pause) = match self.attempt(what, &request).await? {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Limited(limit)) => {
                    self.rest(limit).await?;
                    continue;
                }
                Err(Trouble::NotSent(error) | Trouble::Lost(error)) => {
                    (error, pauses.next().unwrap_or(LONGEST_PAUSE))
                }
            };
            if Instant::now() + pause + SHORTEST > self.limits.deadline.min(patience) {
                return Err(error);
            }
            tracing::warn!(error = %crate::error::chain(&error), ?pause, "trying again");
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends an order, again only where it certainly was not carried out.
    ///
    /// # Errors
    /// When it was not carried out.
    pub(super) async fn order(
        &self,
        what: &str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<Sent, TriggerError> {
        let patience = Instant::now() + PATIENCE;
        let mut pauses = pauses();
        loop {
            match self.attempt(what, &request).await? {
                Ok(answer) => return Ok(Sent::Answered(answer)),
                Err(Trouble::Limited(limit)) => self.rest(limit).await?,
                Err(Trouble::Lost(error)) => return Ok(Sent::Lost(crate::error::chain(&error))),
                Err(Trouble::NotSent(error)) => {
                    let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
                    if Instant::now() + pause + SHORTEST > self.limits.deadline.min(patience) {
                        return Err(error);
                    }
                    tracing::warn!(error = %crate::error::chain(&error), ?pause, "trying again");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Waits for the end of a rate limit where there is time for that.
    async fn rest(&self, Limit { rest, until, which }: Limit) -> Result<(), TriggerError> {
        if rest.saturating_add(SHORTEST) > self.left() {
            return Err(TriggerError::RateLimited { server: self.name, until, which });
        }
        tracing::warn!("waiting until {until}: {} is at {which}", self.name);
        tokio::time::sleep(rest).await;
        Ok(())
    }

    /// One attempt. An error is for good.
    async fn attempt(
        &self,
        what: &str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<Result<Answer, Trouble>, TriggerError> {
        let limit_of_attempt = self.limits.attempt.min(self.left().max(SHORTEST));
        let (server, what_owned) = (self.name, what.to_owned());
        let sent = tokio::time::timeout(limit_of_attempt, async {
            let mut response = request().send().await?;
            let body = read(&mut response).await?;
            Ok::<_, reqwest::Error>((response, body))
        });
        let (response, body) = match sent.await {
            Err(_) => {
                let limit = limit_of_attempt;
                let error = TriggerError::Timeout { server, what: what_owned, limit };
                return Ok(Err(Trouble::Lost(error)));
            }
            Ok(Err(error)) => {
                let (is_connect, source) = (error.is_connect(), error.without_url());
                let is_for_good = crate::error::is_about_certificate(&source);
                let error = TriggerError::Unreachable { server, what: what_owned, source };
                return match (is_connect, is_for_good) {
                    (true, true) => Err(error),
                    (true, false) => Ok(Err(Trouble::NotSent(error))),
                    (false, _) => Ok(Err(Trouble::Lost(error))),
                };
            }
            Ok(Ok(read)) => read,
        };
        let status = response.status();
        tracing::debug!(%status, path = response.url().path(), "asked {server} to {what}");
        if let Some(limit) = limit(status, response.headers(), &body) {
            return Ok(Err(Trouble::Limited(limit)));
        }
        if status.is_redirection() {
            return Err(self.redirected(what, &response));
        }
        let headers = response.headers().clone();
        let answer = Answer { status, headers, body };
        if status.is_server_error() {
            let advice = Some(format!("{server} itself has a problem; try again later"));
            return Ok(Err(Trouble::Lost(self.refused(what, &answer, advice))));
        }
        Ok(Ok(answer))
    }

    /// The error for an answer that is a refusal.
    pub(super) fn refused(
        &self,
        what: &str,
        answer: &Answer,
        advice: Option<String>,
    ) -> TriggerError {
        let advice = match answer.status {
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => Some(
                "the proxy asks for a login: put it into HTTPS_PROXY, or name the host in NO_PROXY"
                    .to_owned(),
            ),
            _ => advice,
        };
        let message = answer.message().map(|it| format!(": {it}")).unwrap_or_default();
        let (server, what, status) = (self.name, what.to_owned(), answer.status);
        TriggerError::Refused { server, what, status, message, advice }
    }

    fn redirected(&self, what: &str, response: &Response) -> TriggerError {
        let location = response.headers().get(LOCATION).and_then(|it| it.to_str().ok());
        let target = location.and_then(|it| response.url().join(it).ok());
        let to = target.as_ref().map_or_else(
            || "nowhere".to_owned(),
            |url| format!("{}{}", url.origin().ascii_serialization(), url.path()),
        );
        let path = target.as_ref().map(|url| url.path().to_lowercase()).unwrap_or_default();
        let is_elsewhere = target.is_some_and(|url| url.origin() != self.base.origin());
        let advice = if ["login", "sign_in", "signin", "oauth", "saml", "sso"]
            .iter()
            .any(|it| path.contains(it))
        {
            "that is a sign-in page: the credentials were not taken, or --url is not the API's address"
        } else if is_elsewhere {
            "nothing is sent there; set --url to it if it is the same server"
        } else {
            "what was asked for has moved: use its new name"
        };
        TriggerError::Redirected {
            server: self.name,
            what: what.to_owned(),
            to,
            advice: advice.to_owned(),
        }
    }

    /// Reads an answer of the API's.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn understand<T: DeserializeOwned>(
        &self,
        what: &str,
        answer: &Answer,
    ) -> Result<T, TriggerError> {
        serde_json::from_slice(&answer.body).map_err(|_| {
            let seen = if answer.is_page() { "a web page" } else { "an answer of another form" };
            TriggerError::NotTheApi { server: self.name, what: what.to_owned(), seen }
        })
    }
}

impl Answer {
    /// A header's text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
    }

    /// Whether it is for people.
    fn is_page(&self) -> bool {
        let is_html = |value: &reqwest::header::HeaderValue| {
            value.to_str().is_ok_and(|value| value.starts_with("text/html"))
        };
        self.headers.get(CONTENT_TYPE).is_some_and(is_html)
            || self.body.trim_ascii_start().starts_with(b"<")
    }

    /// What it says, in one line that is not too long.
    pub(super) fn message(&self) -> Option<String> {
        let text = match serde_json::from_slice::<Value>(&self.body) {
            Ok(value) => {
                let parts = ["message", "error", "error_description", "errors"];
                let parts = parts.iter().filter_map(|key| value.get(key)).filter_map(said);
                parts.collect::<Vec<_>>().join(": ")
            }
            Err(_) if self.is_page() => title(&self.body)?,
            Err(_) => String::from_utf8_lossy(&self.body).into_owned(),
        };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut line: String = crate::error::visible(&line).collect();
        if let Some((end, _)) = line.char_indices().nth(LONGEST_MESSAGE) {
            line.truncate(end);
            line.push_str(" …");
        }
        Some(line).filter(|line| !line.is_empty())
    }

    /// Whether it says this, in whatever case.
    pub(super) fn says(&self, words: &str) -> bool {
        let text = String::from_utf8_lossy(&self.body).to_lowercase();
        text.contains(words)
    }
}

/// Strings, and what is in lists and objects.
fn said(value: &Value) -> Option<String> {
    let join = |parts: Vec<String>| Some(parts.join(", ")).filter(|text| !text.is_empty());
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(values) => join(values.iter().filter_map(said).collect()),
        Value::Object(values) => match values.get("message") {
            Some(message) => said(message),
            None => join(values.values().filter_map(said).collect()),
        },
        _ => None,
    }
}

/// The title of a page.
fn title(page: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(page);
    let (_, after) = text.split_once("<title>")?;
    after.split_once("</title>").map(|(title, _)| title.to_owned())
}

fn pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(LONGEST_PAUSE)
        .with_jitter()
        .without_max_times()
        .build()
}

/// Reads a body into memory that is zeroed when it is dropped; of one that is too long, the
/// beginning.
async fn read(response: &mut Response) -> Result<Zeroizing<Vec<u8>>, reqwest::Error> {
    let mut body = Zeroizing::new(Vec::with_capacity(64 * 1024));
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > LARGEST_ANSWER {
            break;
        }
        append(&mut body, &chunk);
    }
    Ok(body)
}
