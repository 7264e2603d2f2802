//! The HTTP client for a CI system: one origin, no redirects, bounded waits. A start request is never repeated
//! if it may have had an effect.
//!
//! Read requests are retried. A start request is repeated only if it certainly had no effect: the
//! connection failed, or a rate limit refused it. Otherwise the result is [`StartOutcome::Lost`], and the provider
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
use super::rate_limit::{RateLimit, parse_rate_limit};
use super::response::ApiResponse;
use butler_base::http::{Redirects, clients};
use butler_base::secret::Redactor;

/// The time limit for retries after server errors: long enough for a restart during a deployment.
const RETRY_LIMIT: Duration = Duration::from_mins(5);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The shortest timeout of an attempt, and the shortest wait for a rate limit: some servers send zero.
const SHORTEST: Duration = Duration::from_secs(1);

/// The longest part of a server's message that errors show, in characters.
const LONGEST_SHOWN: usize = 300;

/// Settings of the connection to a CI system.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Additional trusted certificates.
    pub ca_bundle: Option<PathBuf>,
    /// The timeout of one attempt of a request.
    pub attempt: Duration,
    /// The end of all requests and waits.
    pub deadline: Instant,
    /// Masks secrets in messages of servers. Each secret is registered before its first use.
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

/// The outcome of a start request.
pub(super) enum StartOutcome {
    /// The CI system responded.
    Responded(ApiResponse),
    /// It is unclear whether the request had an effect, for this reason.
    Lost(String),
}

/// A failed attempt that may succeed later.
enum RetryableFailure {
    /// The connection failed, so the server cannot have received the request.
    NotSent(TriggerError),
    /// The server may have received the request.
    Lost(TriggerError),
    /// A rate limit refused the request, which had no effect.
    RateLimited(RateLimit),
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

    /// The time until the deadline.
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

    /// The HTTP client, for building requests.
    pub(super) const fn http(&self) -> &Client {
        &self.http
    }

    /// Sends a read request. Retries it after connection errors, server errors and rate limits.
    ///
    /// # Errors
    /// If no response arrives before the retries end.
    pub(super) async fn send_read(
        &self,
        what: &str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<ApiResponse, TriggerError> {
        let mut retries = self.new_retries();
        loop {
            match self.attempt(what, &request).await? {
                Ok(response) => return Ok(response),
                Err(RetryableFailure::RateLimited(limit)) => {
                    self.wait_for_rate_limit(limit).await?;
                    retries = self.new_retries();
                }
                Err(RetryableFailure::NotSent(error) | RetryableFailure::Lost(error)) => {
                    retries.wait_or_fail(error).await?;
                }
            }
        }
    }

    /// Sends a start request. Repeats it only if it certainly had no effect.
    ///
    /// # Errors
    /// If the request had no effect.
    pub(super) async fn send_start(
        &self,
        what: &str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<StartOutcome, TriggerError> {
        let mut retries = self.new_retries();
        loop {
            match self.attempt(what, &request).await? {
                Ok(response) => return Ok(StartOutcome::Responded(response)),
                Err(RetryableFailure::RateLimited(limit)) => {
                    self.wait_for_rate_limit(limit).await?;
                    retries = self.new_retries();
                }
                Err(RetryableFailure::Lost(error)) => {
                    return Ok(StartOutcome::Lost(butler_base::error::chain(&error)));
                }
                Err(RetryableFailure::NotSent(error)) => retries.wait_or_fail(error).await?,
            }
        }
    }

    fn new_retries(&self) -> Retries {
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(250))
            .with_max_delay(LONGEST_PAUSE)
            .with_jitter()
            .without_max_times()
            .build();
        Retries { end: self.connection.deadline.min(Instant::now() + RETRY_LIMIT), pauses }
    }

    /// Waits for the end of a rate limit.
    ///
    /// # Errors
    /// If the limit lasts longer than the remaining time.
    async fn wait_for_rate_limit(
        &self,
        RateLimit { wait, until, which }: RateLimit,
    ) -> Result<(), TriggerError> {
        let wait = wait.max(SHORTEST);
        if wait.saturating_add(SHORTEST) > self.left() {
            return Err(TriggerError::RateLimited { server: self.name, until, which });
        }
        tracing::warn!("waiting until {until}: {} refuses requests ({which})", self.name);
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Sends a request once. The outer error is permanent, the inner one may succeed later.
    async fn attempt(
        &self,
        what: &str,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<Result<ApiResponse, RetryableFailure>, TriggerError> {
        let limit_of_attempt = self.connection.attempt.min(self.left().max(SHORTEST));
        let (server, what_owned) = (self.name, what.to_owned());
        let answered = tokio::time::timeout(limit_of_attempt, async {
            ApiResponse::read(request().send().await?).await
        });
        let response = match answered.await {
            Err(_) => {
                let limit = limit_of_attempt;
                let error = TriggerError::Timeout { server, what: what_owned, limit };
                return Ok(Err(RetryableFailure::Lost(error)));
            }
            Ok(Err(error)) => {
                let (is_connect, source) = (error.is_connect(), error.without_url());
                let is_permanent = butler_base::error::is_about_certificate(&source);
                let error = TriggerError::Unreachable { server, what: what_owned, source };
                return match (is_connect, is_permanent) {
                    (true, true) => Err(error),
                    (true, false) => Ok(Err(RetryableFailure::NotSent(error))),
                    (false, _) => Ok(Err(RetryableFailure::Lost(error))),
                };
            }
            Ok(Ok(response)) => response,
        };
        let status = response.status;
        tracing::debug!(%status, path = response.url.path(), "asked {server} to {what}");
        if let Some(limit) = parse_rate_limit(status, &response.headers, response.body()) {
            return Ok(Err(RetryableFailure::RateLimited(limit)));
        }
        // Gateways also answer 408 after their own timeout.
        if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT {
            let advice = Some(format!("{server} reports an internal error; try again later"));
            return Ok(Err(RetryableFailure::Lost(self.refused(what, &response, advice))));
        }
        Ok(Ok(response))
    }

    /// The error for a refusal or a redirect.
    pub(super) fn refused(
        &self,
        what: &str,
        response: &ApiResponse,
        advice: Option<String>,
    ) -> TriggerError {
        if response.status.is_redirection() {
            return self.redirected(what, response);
        }
        let advice = match response.status {
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => Some(
                "the proxy asks for a login: put it into HTTPS_PROXY, or name the host in NO_PROXY"
                    .to_owned(),
            ),
            _ => advice,
        };
        let message = response.message().map(|it| self.shown(&it)).filter(|it| !it.is_empty());
        let message = message.map(|it| format!(": {it}")).unwrap_or_default();
        let (server, what, status) = (self.name, what.to_owned(), response.status);
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

    fn redirected(&self, what: &str, response: &ApiResponse) -> TriggerError {
        let target = response.location();
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
    /// If the body does not have the format of the API.
    pub(super) fn parse<T: DeserializeOwned>(
        &self,
        what: &str,
        response: &ApiResponse,
    ) -> Result<T, TriggerError> {
        serde_json::from_slice(response.body()).map_err(|_| {
            let seen = if response.is_page() { "a web page" } else { "an unknown format" };
            TriggerError::NotTheApi { server: self.name, what: what.to_owned(), seen }
        })
    }
}

/// The retries after server errors.
struct Retries {
    end: Instant,
    pauses: ExponentialBackoff,
}

impl Retries {
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

/// Whether requests to this address stay on this machine.
fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
