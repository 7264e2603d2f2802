//! The HTTP client for a CI system: one origin, no redirects, bounded waits, no start request sent twice.
//!
//! Read requests are retried. A start request is repeated only if it certainly had no effect: the
//! connection failed, or a rate limit refused it. Otherwise the result is [`Sent::Lost`], and the provider
//! searches for the run instead.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use url::{Host, Url};

use super::TriggerError;
use super::answer::Answer;
use super::rest::{Limit, limit};
use butler_base::http::{Redirects, clients};
use butler_base::secret::Redactor;

/// How long server errors are retried: long enough for a restart during a deployment.
const PATIENCE: Duration = Duration::from_mins(5);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The least that an attempt gets, and that a rate limit is waited for: some say zero.
const SHORTEST: Duration = Duration::from_secs(1);

/// How much of what a server says is shown, in characters.
const LONGEST_SHOWN: usize = 300;

/// How a CI system is spoken to.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Certificates that are trusted beside the system's.
    pub ca_bundle: Option<PathBuf>,
    /// How long one attempt of a request may take.
    pub attempt: Duration,
    /// When everything has to be over.
    pub deadline: Instant,
    /// What is told each secret before it is used, and masks them in what servers say.
    pub redactor: Arc<Redactor>,
}

/// A CI system's API.
#[derive(Debug)]
pub(super) struct Server {
    http: Client,
    base: Url,
    name: &'static str,
    connection: Connection,
}

/// What became of an order.
pub(super) enum Sent {
    /// It was answered.
    Answered(Answer),
    /// It is unclear whether the request had an effect, for this reason.
    Lost(String),
}

/// Why an attempt failed that may succeed later.
enum Trouble {
    /// There was no connection: the request cannot have been seen.
    NotSent(TriggerError),
    /// It may have been seen.
    Lost(TriggerError),
    /// A rate limit refused it; it had no effect.
    Limited(Limit),
}

impl Server {
    /// The API at `base`, whose path ends in `/`.
    pub(super) fn new(
        name: &'static str,
        base: Url,
        connection: &Connection,
    ) -> Result<Self, TriggerError> {
        if base.scheme() == "http" && !is_this_machine(&base) {
            tracing::warn!(
                "the connection to {name} does not use TLS: credentials are sent unencrypted"
            );
        }
        let http = clients(connection.ca_bundle.as_deref(), Redirects::Refuse)?.closed;
        Ok(Self { http, base, name, connection: connection.clone() })
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.connection.redactor
    }

    /// How much time is left for everything.
    pub(super) fn left(&self) -> Duration {
        self.connection.deadline.saturating_duration_since(Instant::now())
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
    /// When no answer came in time.
    pub(super) async fn ask(
        &self,
        what: &str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<Answer, TriggerError> {
        let mut patience = self.patience();
        loop {
            match self.attempt(what, &request).await? {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Limited(limit)) => {
                    self.rest(limit).await?;
                    patience = self.patience();
                }
                Err(Trouble::NotSent(error) | Trouble::Lost(error)) => {
                    patience.wait_or_fail(error).await?;
                }
            }
        }
    }

    /// Sends a start request. Repeats it only if it certainly had no effect.
    ///
    /// # Errors
    /// When the request had no effect.
    pub(super) async fn order(
        &self,
        what: &str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<Sent, TriggerError> {
        let mut patience = self.patience();
        loop {
            match self.attempt(what, &request).await? {
                Ok(answer) => return Ok(Sent::Answered(answer)),
                Err(Trouble::Limited(limit)) => {
                    self.rest(limit).await?;
                    patience = self.patience();
                }
                Err(Trouble::Lost(error)) => {
                    return Ok(Sent::Lost(butler_base::error::chain(&error)));
                }
                Err(Trouble::NotSent(error)) => patience.wait_or_fail(error).await?,
            }
        }
    }

    fn patience(&self) -> Patience {
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(250))
            .with_max_delay(LONGEST_PAUSE)
            .with_jitter()
            .without_max_times()
            .build();
        Patience { end: self.connection.deadline.min(Instant::now() + PATIENCE), pauses }
    }

    /// Waits for the end of a rate limit where there is time for that.
    async fn rest(&self, Limit { rest, until, which }: Limit) -> Result<(), TriggerError> {
        let rest = rest.max(SHORTEST);
        if rest.saturating_add(SHORTEST) > self.left() {
            return Err(TriggerError::RateLimited { server: self.name, until, which });
        }
        tracing::warn!("waiting until {until}: {} refuses requests ({which})", self.name);
        tokio::time::sleep(rest).await;
        Ok(())
    }

    /// One attempt. An error is for good.
    async fn attempt(
        &self,
        what: &str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<Result<Answer, Trouble>, TriggerError> {
        let limit_of_attempt = self.connection.attempt.min(self.left().max(SHORTEST));
        let (server, what_owned) = (self.name, what.to_owned());
        let answered = tokio::time::timeout(limit_of_attempt, async {
            Answer::read(request().send().await?).await
        });
        let answer = match answered.await {
            Err(_) => {
                let limit = limit_of_attempt;
                let error = TriggerError::Timeout { server, what: what_owned, limit };
                return Ok(Err(Trouble::Lost(error)));
            }
            Ok(Err(error)) => {
                let (is_connect, source) = (error.is_connect(), error.without_url());
                let is_for_good = butler_base::error::is_about_certificate(&source);
                let error = TriggerError::Unreachable { server, what: what_owned, source };
                return match (is_connect, is_for_good) {
                    (true, true) => Err(error),
                    (true, false) => Ok(Err(Trouble::NotSent(error))),
                    (false, _) => Ok(Err(Trouble::Lost(error))),
                };
            }
            Ok(Ok(answer)) => answer,
        };
        let status = answer.status;
        tracing::debug!(%status, path = answer.url.path(), "asked {server} to {what}");
        if let Some(limit) = limit(status, &answer.headers, answer.body()) {
            return Ok(Err(Trouble::Limited(limit)));
        }
        // A gateway that has waited for too long says so with 408 as well.
        if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT {
            let advice = Some(format!("{server} reports an internal error; try again later"));
            return Ok(Err(Trouble::Lost(self.refused(what, &answer, advice))));
        }
        Ok(Ok(answer))
    }

    /// The error for an answer that is a refusal, or sends elsewhere.
    pub(super) fn refused(
        &self,
        what: &str,
        answer: &Answer,
        advice: Option<String>,
    ) -> TriggerError {
        if answer.status.is_redirection() {
            return self.redirected(what, answer);
        }
        let advice = match answer.status {
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => Some(
                "the proxy asks for a login: put it into HTTPS_PROXY, or name the host in NO_PROXY"
                    .to_owned(),
            ),
            _ => advice,
        };
        let message = answer.message().map(|it| self.shown(&it)).filter(|it| !it.is_empty());
        let message = message.map(|it| format!(": {it}")).unwrap_or_default();
        let (server, what, status) = (self.name, what.to_owned(), answer.status);
        TriggerError::Refused { server, what, status, message, advice }
    }

    /// A server's message in one short line. Secrets are redacted before the text is cut, because a
    /// truncated secret would not be recognized.
    pub(super) fn shown(&self, text: &str) -> String {
        let masked = self.redactor().redact(text.as_bytes());
        let line = masked.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut line: String = butler_base::error::visible(&line).collect();
        if let Some((end, _)) = line.char_indices().nth(LONGEST_SHOWN) {
            line.truncate(end);
            line.push_str(" …");
        }
        line
    }

    fn redirected(&self, what: &str, answer: &Answer) -> TriggerError {
        let target = answer.location();
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
            "this is a sign-in page: the credentials were rejected, or --url is not the address of the API"
        } else if is_elsewhere {
            "requests are not sent there; set --url to this address if it is the same server"
        } else {
            "the resource has moved: use its new name"
        };
        let (server, what, advice) = (self.name, what.to_owned(), advice.to_owned());
        TriggerError::Redirected { server, what, to, advice }
    }

    /// Parses a response of the API.
    ///
    /// # Errors
    /// When it is not one.
    pub(super) fn parse<T: DeserializeOwned>(
        &self,
        what: &str,
        answer: &Answer,
    ) -> Result<T, TriggerError> {
        serde_json::from_slice(answer.body()).map_err(|_| {
            let seen = if answer.is_page() { "a web page" } else { "an unknown format" };
            TriggerError::NotTheApi { server: self.name, what: what.to_owned(), seen }
        })
    }
}

/// The retries after server errors.
struct Patience {
    end: Instant,
    pauses: ExponentialBackoff,
}

impl Patience {
    /// Waits for the next attempt, if there is time for one.
    async fn wait_or_fail(&mut self, error: TriggerError) -> Result<(), TriggerError> {
        let pause = self.pauses.next().unwrap_or(LONGEST_PAUSE);
        if Instant::now() + pause + SHORTEST > self.end {
            return Err(error);
        }
        tracing::warn!(error = %butler_base::error::chain(&error), ?pause, "trying again");
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// Whether what is sent there does not leave this machine.
fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
