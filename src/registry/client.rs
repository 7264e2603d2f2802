//! The registry's endpoints for one run, and what their answers mean.

use bytes::Bytes;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::answer::{accept, read, unreachable};
use super::retry::{Limits, Patience, retry};
use super::wire::parse_config;
use super::{Address, AddressError, Callback, Callbacks, RegistryError};
use crate::http::Clients;
use crate::spec::RunSpec;

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

/// The registry's API for one run.
#[derive(Debug)]
pub struct Client {
    http: Clients,
    address: Address,
    token: SecretString,
    limits: Limits,
}

impl Client {
    /// A client for the run at `address` that shows `token`.
    #[must_use]
    pub const fn new(http: Clients, address: Address, token: SecretString, limits: Limits) -> Self {
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
            let body = self.get(&self.http.kept, url.clone(), what).await?;
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
            Ok(parse_config(&self.get(&self.http.closed, url.clone(), what).await?)?)
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
        let what = format!("take the {}", callback.name());
        let url = callbacks.url(callback);
        let http = match callback {
            Callback::Plan | Callback::Outputs => &self.http.closed,
            Callback::Status | Callback::Logs => &self.http.kept,
        };
        retry(self.limits, patience, &what, || async {
            let response = http
                .post(url.clone())
                .bearer_auth(self.token.expose_secret())
                .header(reqwest::header::CONTENT_TYPE, "application/json")
                .body(body.clone())
                .send()
                .await
                .map_err(|source| unreachable(&what, source))?;
            accept(response, &what).await.map(drop)
        })
        .await
    }

    async fn get(
        &self,
        http: &reqwest::Client,
        url: url::Url,
        what: &str,
    ) -> Result<Zeroizing<Vec<u8>>, RegistryError> {
        let response = http
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
