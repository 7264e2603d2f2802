//! The registry's endpoints for one run, and what their answers mean.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use reqwest::{RequestBuilder, Response};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::answer::{accept, read, unreachable, was_cut_off};
use super::key::idempotency_key;
use super::retry::{Limits, Patience, retry};
use super::wire::parse_config;
use super::{Address, AddressError, Callback, Callbacks, RegistryError};
use crate::spec::RunSpec;

/// The largest answer that is taken for a configuration or a status.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

/// How many idle connections there can be: a report's and that of the question for the status.
const IDLE_CONNECTIONS: usize = 2;

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

/// The registry's API for one run.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    address: Address,
    token: SecretString,
    limits: Limits,
    /// Whether anything was answered yet, so that there can be an idle connection.
    answered: AtomicBool,
    /// Statuses that were sent and not answered.
    doubtful: AtomicUsize,
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
        Self {
            http,
            address,
            token,
            limits,
            answered: AtomicBool::new(false),
            doubtful: AtomicUsize::new(0),
        }
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

    /// Whether a status was sent and never answered, so that nobody knows whether or when it is
    /// stored.
    #[must_use]
    pub fn has_doubtful_status(&self) -> bool {
        self.doubtful.load(Ordering::Relaxed) > 0
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

    /// Sends `body`, JSON, to a callback. Any 2xx is success, whatever it says. Every attempt sends
    /// the same bytes with the same `Idempotency-Key`, here and in later calls with this body.
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
        let what = format!("take the {}", callback.name());
        let url = callbacks.url(callback);
        let key = idempotency_key(&self.token, callback, &body);
        retry(self.limits, patience, &what, || async {
            let request = self
                .http
                .post(url.clone())
                .bearer_auth(self.token.expose_secret())
                .header(reqwest::header::CONTENT_TYPE, "application/json")
                .header("idempotency-key", &key)
                .body(body.clone());
            let counted = usize::from(callback == Callback::Status);
            // What is given up while it waits is never taken off again.
            self.doubtful.fetch_add(counted, Ordering::Relaxed);
            let sent = self.send(request, &what).await;
            let settled = match &sent {
                // A gateway's answers: what is behind it may have got the request, and be slow.
                Ok(answer) => !matches!(answer.status().as_u16(), 502 | 504),
                Err(error) => error.was_not_sent(),
            };
            if settled {
                self.doubtful.fetch_sub(counted, Ordering::Relaxed);
            }
            accept(sent?, &what).await.map(drop)
        })
        .await
    }

    /// Sends a request, at once again where an idle connection turned out to be closed: the registry
    /// closes them after 5 s, and may do so just as one is used. That is no failure and no attempt.
    /// The HTTP library itself does so only as long as nothing of the request was written.
    async fn send(&self, request: RequestBuilder, what: &str) -> Result<Response, RegistryError> {
        let mut idle = if self.answered.load(Ordering::Relaxed) { IDLE_CONNECTIONS } else { 0 };
        let request = request.build().map_err(|source| unreachable(what, source))?;
        loop {
            let copy = request.try_clone().expect("its body is in memory, not a stream");
            match self.http.execute(copy).await {
                Ok(response) => {
                    self.answered.store(true, Ordering::Relaxed);
                    return Ok(response);
                }
                Err(error) if idle > 0 && was_cut_off(&error) => idle -= 1,
                Err(error) => return Err(unreachable(what, error)),
            }
        }
    }

    async fn get(&self, url: url::Url, what: &str) -> Result<Zeroizing<Vec<u8>>, RegistryError> {
        let request = self
            .http
            .get(url)
            .bearer_auth(self.token.expose_secret())
            .header(reqwest::header::ACCEPT, "application/json");
        let response = self.send(request, what).await?;
        let mut response = accept(response, what).await?;
        read(&mut response, LARGEST_ANSWER)
            .await
            .map_err(|source| unreachable(what, source))?
            .ok_or_else(|| RegistryError::Answer { what: what.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
