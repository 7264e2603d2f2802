//! The registry's endpoints for one run, and what their answers mean.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::retry::{Limits, Patience, retry};
use super::wire::{ConfigError, parse_config};
use super::{Address, AddressError, Callback, Callbacks};
use crate::spec::RunSpec;

/// How much of an error's body is read: registries have been seen to answer with hundreds of KB of SQL.
const ERROR_BODY: usize = 16 * 1024;

/// How much of an error's message is shown, in characters.
const ERROR_MESSAGE: usize = 300;

/// The largest answer that is taken for a configuration or a status.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

/// A run's status in the registry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RunStatus {
    /// Waiting, running, or something that a newer registry may call it.
    Open(String),
    /// `succeeded`, `failed` or `planned`: somebody has reported a result already.
    Reported(String),
    /// `cancelled`, `timed_out`, `discarded` or `skipped`: the registry takes no more reports.
    Over(String),
}

impl From<String> for RunStatus {
    fn from(status: String) -> Self {
        match status.as_str() {
            "cancelled" | "timed_out" | "discarded" | "skipped" => Self::Over(status),
            "succeeded" | "failed" | "planned" => Self::Reported(status),
            _ => Self::Open(status),
        }
    }
}

/// A run's configuration and where to report.
#[derive(Debug)]
pub struct Config {
    /// The run.
    pub spec: RunSpec,
    /// Where its reports go.
    pub callbacks: Callbacks,
    /// What is odd about the configuration but does not stop the run.
    pub warnings: Vec<String>,
}

/// Why the registry could not be asked or told something.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// No answer came.
    #[error("cannot reach the registry to {what}")]
    Unreachable {
        /// What was tried.
        what: String,
        /// What the HTTP client said.
        #[source]
        source: reqwest::Error,
    },
    /// The answer took too long.
    #[error("the registry did not answer within {limit:?} when asked to {what}")]
    Timeout {
        /// What was tried.
        what: String,
        /// The time limit of one attempt.
        limit: Duration,
    },
    /// The registry has ended the run (409).
    #[error("the registry has ended the run")]
    RunOver,
    /// The registry said no.
    #[error("the registry refused to {what}: {status}{message}")]
    Refused {
        /// What was tried.
        what: String,
        /// The HTTP status.
        status: StatusCode,
        /// `: ` and its own words, cut to a readable length; empty when it had none.
        message: String,
        /// What `Retry-After` asks for.
        retry_after: Option<Duration>,
    },
    /// The answer is not what the API promises.
    #[error("the registry's answer cannot be understood when asked to {what}")]
    Answer {
        /// What was tried.
        what: String,
    },
    /// The configuration cannot be carried out.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A URL cannot be formed.
    #[error(transparent)]
    Address(#[from] AddressError),
}

impl RegistryError {
    /// Whether the same request may succeed a little later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Answer { .. } => true,
            Self::Refused { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            // A configuration that stops in the middle was cut off on its way.
            Self::Config(error) => {
                matches!(error, ConfigError::Syntax { kind: "eof" | "syntax", .. })
            }
            Self::RunOver | Self::Address(_) => false,
        }
    }

    /// How long the registry asks to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl crate::error::Advice for RegistryError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } => {
                Some("check --endpoint (BUTLER_ENDPOINT), the network, the proxy, and --ca-bundle for a private CA".to_owned())
            }
            Self::Refused { status: StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, .. } => {
                Some("check --token (BUTLER_TOKEN): it must be the callback token of this very run".to_owned())
            }
            Self::Refused { status: StatusCode::NOT_FOUND, .. } => {
                Some("check --run-id (BUTLER_RUN_ID) and the path of --endpoint (BUTLER_ENDPOINT)".to_owned())
            }
            Self::Answer { .. } => Some("check that --endpoint (BUTLER_ENDPOINT) is the registry's API and not its web page".to_owned()),
            Self::Config(error) => error.advice(),
            _ => None,
        }
    }
}

/// The registry's API for one run.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    address: Address,
    token: SecretString,
    limits: Limits,
}

impl Client {
    /// A client for the run at `address` that shows `token`.
    #[must_use]
    pub const fn new(
        http: reqwest::Client,
        address: Address,
        token: SecretString,
        limits: Limits,
    ) -> Self {
        Self { http, address, token, limits }
    }

    /// The run's status.
    ///
    /// # Errors
    /// When the registry cannot be reached or refuses, after as much `patience` as is given.
    pub async fn status(&self, patience: Patience) -> Result<RunStatus, RegistryError> {
        #[derive(Deserialize)]
        struct Answer {
            status: String,
        }
        let what = "read the run's status";
        let url = self.address.of_run("status")?;
        retry(self.limits, patience, what, || async {
            let body = self.get(url.clone(), what).await?;
            let answer: Answer = serde_json::from_slice(&body)
                .map_err(|_| RegistryError::Answer { what: what.to_owned() })?;
            Ok(RunStatus::from(answer.status))
        })
        .await
    }

    /// The run's configuration. The raw answer is zeroed as soon as it is understood.
    ///
    /// # Errors
    /// When the registry cannot be reached or refuses, or the configuration cannot be carried out.
    pub async fn config(&self) -> Result<Config, RegistryError> {
        let what = "read the run's configuration";
        let url = self.address.of_run("config")?;
        let parsed = retry(self.limits, Patience::Long, what, || async {
            Ok(parse_config(&self.get(url.clone(), what).await?)?)
        })
        .await?;
        let mut warnings = Vec::new();
        if let Some(other) = parsed.run_id.filter(|id| id != self.address.run_id().as_str()) {
            warnings.push(format!(
                "the configuration is for run `{other}`, asked was `{}`",
                self.address.run_id()
            ));
        }
        let mut callbacks = self.callbacks()?;
        let given = [
            &mut callbacks.status,
            &mut callbacks.logs,
            &mut callbacks.plan,
            &mut callbacks.outputs,
        ];
        for (url, text) in given.into_iter().zip(parsed.callbacks) {
            match text.map(|text| self.address.callback(&text)) {
                None => {}
                Some(Ok(callback)) => *url = callback,
                Some(Err(error)) => warnings.push(format!("{error}; using `{url}` instead")),
            }
        }
        Ok(Config { spec: parsed.spec, callbacks, warnings })
    }

    /// Where reports go as long as no configuration says otherwise.
    ///
    /// # Errors
    /// When the run's id cannot be part of a URL.
    pub fn callbacks(&self) -> Result<Callbacks, AddressError> {
        let of_run = |callback: Callback| self.address.of_run(callback.name());
        Ok(Callbacks {
            status: of_run(Callback::Status)?,
            logs: of_run(Callback::Logs)?,
            plan: of_run(Callback::Plan)?,
            outputs: of_run(Callback::Outputs)?,
        })
    }

    /// Sends `body`, JSON, to a callback. Any 2xx is success, whatever it says.
    ///
    /// # Errors
    /// When the registry cannot be reached or refuses, after as much `patience` as is given.
    pub async fn post(
        &self,
        callback: Callback,
        callbacks: &Callbacks,
        body: Bytes,
        patience: Patience,
    ) -> Result<(), RegistryError> {
        self.post_with(
            callback,
            callbacks,
            || async { Ok(reqwest::Body::from(body.clone())) },
            patience,
        )
        .await
    }

    /// Sends a body that is made anew for each attempt, because it is too big to be kept.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub async fn post_with<F>(
        &self,
        callback: Callback,
        callbacks: &Callbacks,
        mut body: impl FnMut() -> F,
        patience: Patience,
    ) -> Result<(), RegistryError>
    where
        F: Future<Output = Result<reqwest::Body, RegistryError>>,
    {
        let what = format!("take the {}", callback.name());
        let url = callbacks.url(callback);
        retry(self.limits, patience, &what, || {
            let body = body();
            async {
                let response = self
                    .http
                    .post(url.clone())
                    .bearer_auth(self.token.expose_secret())
                    .header(reqwest::header::CONTENT_TYPE, "application/json")
                    .body(body.await?)
                    .send()
                    .await
                    .map_err(|source| unreachable(&what, source))?;
                accept(response, &what).await.map(drop)
            }
        })
        .await
    }

    async fn get(&self, url: url::Url, what: &str) -> Result<Zeroizing<Vec<u8>>, RegistryError> {
        let response = self
            .http
            .get(url)
            .bearer_auth(self.token.expose_secret())
            .header(reqwest::header::ACCEPT, "application/json")
            .send()
            .await
            .map_err(|source| unreachable(what, source))?;
        let mut response = accept(response, what).await?;
        read(&mut response, LARGEST_ANSWER)
            .await
            .map_err(|source| unreachable(what, source))?
            .ok_or_else(|| RegistryError::Answer { what: what.to_owned() })
    }
}

/// The URL is dropped from the error: it is in the message's own words, and shorter.
fn unreachable(what: &str, source: reqwest::Error) -> RegistryError {
    RegistryError::Unreachable { what: what.to_owned(), source: source.without_url() }
}

async fn accept(mut response: Response, what: &str) -> Result<Response, RegistryError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    if status == StatusCode::CONFLICT {
        return Err(RegistryError::RunOver);
    }
    let retry_after = response
        .headers()
        .get(reqwest::header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .map(Duration::from_secs);
    let body = read(&mut response, ERROR_BODY).await.ok().flatten().unwrap_or_default();
    Err(RegistryError::Refused {
        what: what.to_owned(),
        status,
        message: message(&body),
        retry_after,
    })
}

/// Reads a body into memory that is zeroed when it is dropped; none when it is longer than `limit`.
async fn read(
    response: &mut Response,
    limit: usize,
) -> Result<Option<Zeroizing<Vec<u8>>>, reqwest::Error> {
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
    // Growing would leave copies behind that nobody zeroes.
    let mut body = Zeroizing::new(Vec::with_capacity(announced.unwrap_or(64 * 1024).min(limit)));
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Ok(None);
        }
        if body.len() + chunk.len() > body.capacity() {
            let mut larger = Zeroizing::new(Vec::with_capacity(
                (body.capacity() * 2).max(body.len() + chunk.len()),
            ));
            larger.extend_from_slice(&body);
            body = larger;
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// `{"error":{"message","code"}}` in one line; nothing where there is nothing to say.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Answer {
        error: Details,
    }
    #[derive(Deserialize)]
    struct Details {
        message: Option<String>,
        code: Option<String>,
    }
    let text = match serde_json::from_slice::<Answer>(body) {
        Ok(Answer { error: Details { message, code } }) => {
            [code, message].into_iter().flatten().collect::<Vec<_>>().join(": ")
        }
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(ERROR_MESSAGE) {
        _ if text.is_empty() => String::new(),
        None => format!(": {text}"),
        Some((end, _)) => format!(": {} …", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_bodies_become_one_short_line() {
        assert_eq!(
            message(br#"{"error":{"message":"Run not\nfound","code":"RUN_NOT_FOUND"}}"#),
            ": RUN_NOT_FOUND: Run not found"
        );
        assert_eq!(message(b""), "");
        assert!(message("ü".repeat(100_000).as_bytes()).len() < 1000);
    }

    #[test]
    fn a_status_says_whether_the_run_is_still_ours() {
        for (status, expected) in [
            ("queued", RunStatus::Open("queued".to_owned())),
            ("applying", RunStatus::Open("applying".to_owned())),
            ("planned", RunStatus::Reported("planned".to_owned())),
            ("timed_out", RunStatus::Over("timed_out".to_owned())),
        ] {
            assert_eq!(RunStatus::from(status.to_owned()), expected);
        }
    }
}
