//! The client for the registry's endpoints of one run.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use reqwest::{RequestBuilder, Response};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::archive::{MAX_ARCHIVE, store};
use super::idempotency_key::idempotency_key;
use super::response::{accept, accept_report, read, unreachable, was_cut_off};
use super::retry::{Limits, Patience, retry};
use super::{Address, AddressError, Body, Callback, Callbacks, Part, RegistryError};
use butler_base::http::{Clients, Peer};
use butler_protocol::configuration::{StopStatus, parse_config};
use butler_protocol::spec::RunSpec;

/// The largest accepted configuration or status, in bytes.
const MAX_RESPONSE: usize = 64 * 1024 * 1024;

/// The largest number of idle connections: one for reports and one for status requests.
const IDLE_CONNECTIONS: usize = 2;

/// A run's status in the registry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RunStatus {
    /// Waiting, running, or a status of a newer registry.
    Open(String),
    /// `succeeded`, `failed` or `planned`: a result has been reported already.
    Reported(String),
    /// `cancelled`, `timed_out`, `discarded` or `skipped`: the registry accepts no more reports.
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

/// A run's configuration and callbacks.
#[derive(Debug)]
pub struct Config {
    /// The run.
    pub spec: RunSpec,
    /// Its settings for Terraform, as JSON text.
    pub terraform_settings: Option<SecretString>,
    /// Where its reports go.
    pub callbacks: Callbacks,
    /// The final status of the run if a signal stops it.
    pub stop_status: StopStatus,
    /// Warnings about the configuration.
    pub warnings: Vec<String>,
}

/// The registry's API for one run.
#[derive(Debug)]
pub struct Client {
    http: Clients,
    address: Address,
    token: SecretString,
    limits: Limits,
    /// Whether the registry has responded, so that there can be an idle connection.
    answered: AtomicBool,
    /// How many statuses were sent without a response.
    unanswered_statuses: AtomicUsize,
}

impl Client {
    /// A client for the run at `address` that authenticates with `token`.
    #[must_use]
    pub const fn new(http: Clients, address: Address, token: SecretString, limits: Limits) -> Self {
        Self {
            http,
            address,
            token,
            limits,
            answered: AtomicBool::new(false),
            unanswered_statuses: AtomicUsize::new(0),
        }
    }

    /// The run's status.
    ///
    /// # Errors
    /// When the registry cannot be reached or refuses, after the retries that `patience` allows.
    pub async fn status(&self, patience: Patience) -> Result<RunStatus, RegistryError> {
        #[derive(Deserialize)]
        struct StatusResponse {
            status: String,
        }
        let what = "read the run's status";
        let url = self.address.of_run("status")?;
        retry(self.limits, patience, what, || async {
            let body = self.get(&self.http.kept, url.clone(), what).await;
            let body = body.map_err(|error| error.with_run_id_hint(self.address.run_id()))?;
            let response: StatusResponse = serde_json::from_slice(&body)
                .map_err(|_| RegistryError::UnknownFormat { what: what.to_owned() })?;
            Ok(RunStatus::from(response.status))
        })
        .await
    }

    /// The run's configuration.
    ///
    /// # Errors
    /// When the registry cannot be reached or refuses, or the configuration cannot be executed.
    pub async fn config(&self) -> Result<Config, RegistryError> {
        let what = "read the run's configuration";
        let url = self.address.of_run("config")?;
        let parsed = retry(self.limits, Patience::Long, what, || async {
            Ok(parse_config(&self.get(&self.http.closed, url.clone(), what).await?)?)
        })
        .await?;
        let mut warnings = Vec::new();
        if let Some(other) = parsed.run_id.filter(|id| id != self.address.run_id().as_str()) {
            warnings.push(format!(
                "the response is the configuration of run `{other}`, not of run `{}`",
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
        let [status, logs, plan, outputs, result] = parsed.callbacks;
        for (url, text) in given.into_iter().zip([status, logs, plan, outputs]) {
            match text.map(|text| self.address.callback(&text)) {
                None => {}
                Some(Ok(callback)) => *url = callback,
                Some(Err(error)) => warnings.push(format!("{error}; using `{url}` instead")),
            }
        }
        match result.map(|text| self.address.callback(&text)).transpose() {
            Ok(result) => callbacks.result = result,
            Err(error) => warnings.push(format!("{error}; the account of the run is not sent")),
        }
        Ok(Config {
            spec: parsed.spec,
            terraform_settings: parsed.terraform_settings,
            callbacks,
            stop_status: parsed.stop_status,
            warnings,
        })
    }

    /// Whether a status was sent without a response, so that the registry may still store it.
    #[must_use]
    pub fn has_unanswered_status(&self) -> bool {
        self.unanswered_statuses.load(Ordering::Relaxed) > 0
    }

    /// Downloads the archive `what` (`the saved plan`), at the callback `url`, to `file`. A retry begins with an
    /// empty file. `--request-timeout` is for each part of the archive, and not for all of it.
    ///
    /// # Errors
    /// When `url` is not below the endpoint, when the registry cannot be reached or refuses, or when the
    /// response is larger than 256 MiB, is not a tar, or cannot be written.
    pub async fn archive(
        &self,
        what: &'static str,
        url: &str,
        file: &File,
    ) -> Result<(), RegistryError> {
        let act = &format!("send {what}");
        let url = self.address.callback(url)?;
        let limits = Limits { attempt: self.limits.long, ..self.limits };
        retry(limits, Patience::Long, act, || async {
            let request =
                || self.http.kept.get(url.clone()).bearer_auth(self.token.expose_secret());
            let response = tokio::time::timeout(self.limits.attempt, self.send(request, act));
            let response = response.await.map_err(|_| RegistryError::Timeout {
                what: act.clone(),
                limit: self.limits.attempt,
            })??;
            store(accept(response, act).await?, file, what, self.limits.attempt).await
        })
        .await
    }

    /// Sends the saved plan at `path` to the callback `url`.
    ///
    /// # Errors
    /// When `url` is not below the endpoint, when the file is larger than 256 MiB or cannot be read, or when
    /// the registry cannot be reached or refuses.
    pub async fn send_plan_file(&self, url: &str, path: &Path) -> Result<(), RegistryError> {
        let (act, what) = ("take the saved plan", "the saved plan");
        let url = self.address.callback(url)?;
        let length = path.metadata().map(|metadata| metadata.len());
        let length = length.map_err(|source| RegistryError::File { act: "read", what, source })?;
        if length > MAX_ARCHIVE {
            return Err(RegistryError::FileTooLarge { what, limit: MAX_ARCHIVE });
        }
        let path = Arc::new(path.to_owned());
        let body = Body::from(vec![Part::File { path, place: 0..length }]);
        let limits = Limits { attempt: self.limits.long, ..self.limits };
        retry(limits, Patience::Long, act, || async {
            let request = || {
                self.http
                    .closed
                    .put(url.clone())
                    .bearer_auth(self.token.expose_secret())
                    .header(reqwest::header::CONTENT_TYPE, "application/x-tar")
                    .header(reqwest::header::CONTENT_LENGTH, body.length())
                    .body(body.open())
            };
            accept_report(self.send(request, act).await?, act).await
        })
        .await
    }

    /// The default callbacks, which a configuration can replace.
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
            result: None,
        })
    }

    /// Sends `body`, JSON, to a callback. Success is a 2xx with a JSON object, or without a body: a
    /// web page with any status does not store it. Every attempt, also in later calls with this body,
    /// sends the same bytes with the same `Idempotency-Key`. A report that the registry does not take is not sent.
    ///
    /// # Errors
    /// When the registry cannot be reached or refuses, after the retries that `patience` allows.
    pub async fn post(
        &self,
        callback: Callback,
        callbacks: &Callbacks,
        body: Body,
        patience: Patience,
    ) -> Result<(), RegistryError> {
        let what = format!("take the {}", callback.name());
        let Some(url) = callbacks.url(callback) else { return Ok(()) };
        let key = idempotency_key(&self.token, callback, &body);
        let http = match callback {
            Callback::Plan | Callback::Outputs | Callback::Result => &self.http.closed,
            Callback::Status | Callback::Logs => &self.http.kept,
        };
        retry(self.limits, patience, &what, || async {
            let request = || {
                http.post(url.clone())
                    .bearer_auth(self.token.expose_secret())
                    .header(reqwest::header::CONTENT_TYPE, "application/json")
                    .header("idempotency-key", &key)
                    // The HTTP library does not know the length of a streamed body.
                    .header(reqwest::header::CONTENT_LENGTH, body.length())
                    .body(body.open())
            };
            let counted = usize::from(callback == Callback::Status);
            // If the future is dropped here, the counter stays incremented: the request may have arrived.
            self.unanswered_statuses.fetch_add(counted, Ordering::Relaxed);
            let answered = match self.send(request, &what).await {
                Ok(response) => accept_report(response, &what).await,
                Err(error) => Err(error),
            };
            if !answered.as_ref().is_err_and(RegistryError::may_be_stored) {
                self.unanswered_statuses.fetch_sub(counted, Ordering::Relaxed);
            }
            answered
        })
        .await
    }

    /// Sends a request, and immediately again if an idle connection was closed: the registry
    /// closes them after 5 s, and may do so just as one is used. That does not count as a failure or an
    /// attempt. The HTTP library itself repeats a request only if no byte of it was written.
    async fn send(
        &self,
        request: impl Fn() -> RequestBuilder,
        what: &str,
    ) -> Result<Response, RegistryError> {
        let mut idle = if self.answered.load(Ordering::Relaxed) { IDLE_CONNECTIONS } else { 0 };
        loop {
            match self.http.observed.send(Peer::Registry, request()).await {
                Ok(response) => {
                    self.answered.store(true, Ordering::Relaxed);
                    return Ok(response);
                }
                Err(error) if idle > 0 && was_cut_off(&error) => idle -= 1,
                Err(error) => return Err(unreachable(what, error)),
            }
        }
    }

    async fn get(
        &self,
        http: &reqwest::Client,
        url: url::Url,
        what: &str,
    ) -> Result<Vec<u8>, RegistryError> {
        let request = || {
            http.get(url.clone())
                .bearer_auth(self.token.expose_secret())
                .header(reqwest::header::ACCEPT, "application/json")
        };
        let response = self.send(request, what).await?;
        let mut response = accept(response, what).await?;
        read(&mut response, MAX_RESPONSE)
            .await
            .map_err(|source| unreachable(what, source))?
            .ok_or_else(|| RegistryError::UnknownFormat { what: what.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::Duration;

    use bytes::Bytes;
    use url::Url;

    use super::*;

    /// Answers one request on each connection with the next of `statuses`. Returns the head and
    /// the body of each request.
    fn serve(listener: &std::net::TcpListener, statuses: &[&str]) -> Vec<(String, String)> {
        let serve_one = |status: &&str| {
            let (mut connection, _) = listener.accept().unwrap();
            let mut text = String::new();
            let length = |text: &str| -> Option<usize> {
                let head = text.split_once("\r\n\r\n")?.0.to_ascii_lowercase();
                let (_, length) = head.split_once("content-length: ")?;
                Some(head.len() + 4 + length.lines().next()?.parse::<usize>().ok()?)
            };
            while length(&text).is_none_or(|length| text.len() < length) {
                let mut chunk = [0; 1000];
                let read = connection.read(&mut chunk).unwrap();
                assert_ne!(read, 0, "{text}");
                text.push_str(std::str::from_utf8(&chunk[..read]).unwrap());
            }
            write!(
                connection,
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            )
            .unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            (head.to_owned(), body.to_owned())
        };
        statuses.iter().map(serve_one).collect()
    }

    #[tokio::test]
    async fn body_of_parts_is_sent_with_its_length_and_is_identical_on_retry() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/api", listener.local_addr().unwrap());
        let server =
            std::thread::spawn(move || serve(&listener, &["503 Service Unavailable", "200 OK"]));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("body");
        std::fs::write(&path, "x".repeat(10) + &"y".repeat(100_000) + "z").unwrap();
        let path = std::sync::Arc::new(path);
        let body = Body::from(vec![
            Part::Bytes(Bytes::from_static(b"<")),
            Part::File { path: path.clone(), place: 10..100_010 },
            Part::Bytes(Bytes::from_static(b"|")),
            Part::File { path, place: 100_010..100_011 },
            Part::Bytes(Bytes::from_static(b">")),
        ]);
        let address = Address::new(Url::parse(&endpoint).unwrap(), "550e8400".parse().unwrap());
        let limits = Limits { attempt: Duration::from_secs(10), long: Duration::from_secs(10) };
        let http = butler_base::http::clients(None, butler_base::http::Redirects::Refuse).unwrap();
        let client = Client::new(http, address, SecretString::from("brce_x"), limits);
        let callbacks = client.callbacks().unwrap();
        client.post(Callback::Plan, &callbacks, body, Patience::Short).await.unwrap();
        let expected = format!("<{}|z>", "y".repeat(100_000));
        for (head, body) in server.join().unwrap() {
            assert!(head.to_ascii_lowercase().contains("content-length: 100004"), "{head}");
            assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{head}");
            assert!(body == expected, "{} bytes", body.len());
        }
    }

    #[test]
    fn run_status_is_open_reported_or_over() {
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
