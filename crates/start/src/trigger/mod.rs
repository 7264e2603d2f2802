//! Has a CI system start a run, and reads back what became of it.
//!
//! A [`Provider`] is a CI system with one place in it where runs are started: a workflow, a project, a
//! job. Nothing is ever ordered twice: an order whose answer was lost is looked for, not repeated.
//! Credentials go to the origin of the provider's own URL and nowhere else, and never along a
//! redirect. One module a provider; what they share is how they are spoken to (`server`).

mod answer;
mod config;
mod credentials;
mod error;
mod github;
mod gitlab;
mod jenkins;
mod lost;
mod rest;
mod server;
mod settings;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::Instant;
use url::Url;

pub use config::{
    CiConfig, ConfigError, Event, LARGEST_CONFIG, ProviderName, parse_input, parse_url,
};
pub use credentials::{CredentialReference, CredentialsError};
pub use error::TriggerError;
pub use server::Connection;
pub use state::{RunState, State, follow, reported_states};

use butler_base::http::HttpError;
use butler_base::secret::Redactor;

use butler_protocol::spec::RunId;
use github::GitHub;
use gitlab::GitLab;
use jenkins::Jenkins;
pub use settings::TriggerSettings;

/// A run that is to be started.
#[derive(Debug)]
pub struct Order {
    /// The registry, as the runner will be told it.
    pub endpoint: Url,
    /// Which run.
    pub run_id: RunId,
    /// The callback token, which the CI system hands to the runner.
    pub token: SecretString,
    /// What else the job is told, by name; nothing secret.
    pub inputs: BTreeMap<String, String>,
}

impl Order {
    /// What the job is told: the inputs, and with them `own`, by the names that the provider has for
    /// what the runner sends itself.
    fn told(&self, own: &[(&str, &str)]) -> Map<String, Value> {
        let inputs = self.inputs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let told = inputs.chain(own.iter().copied());
        told.map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
    }
}

/// What the CI system made of an order.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    /// What the CI system calls it; [`Provider::state`] takes it.
    pub external_run_id: String,
    /// Its page, where it has one.
    pub external_url: Option<String>,
}

/// A place where runs are started.
#[derive(Debug)]
pub enum Provider {
    /// A workflow of GitHub Actions.
    GitHub(GitHub),
    /// A project of GitLab CI.
    GitLab(GitLab),
    /// A job of Jenkins.
    Jenkins(Jenkins),
}

impl Provider {
    /// The place that `config` describes, with its credentials, which the redactor is told before
    /// they are used.
    ///
    /// # Errors
    /// When something is missing or cannot be.
    pub fn new(
        name: ProviderName,
        config: &CiConfig,
        settings: &TriggerSettings,
        deadline: Instant,
        redactor: &Arc<Redactor>,
    ) -> Result<Self, TriggerError> {
        let find = |reference: &Option<CredentialReference>, own: &Option<SecretString>| {
            let found = match reference {
                Some(reference) => Some(reference.find(name.title(), &settings.secrets)?),
                None => own.clone(),
            };
            redactor.register(found.iter());
            Ok::<_, CredentialsError>(found)
        };
        let credential = find(&config.credentials, &settings.ci_token)?;
        let connection = Connection {
            ca_bundle: settings.ca_bundle.clone(),
            attempt: settings.request_timeout,
            deadline,
            redactor: redactor.clone(),
        };
        match name {
            ProviderName::GitHub => {
                let credential = credential.ok_or(CredentialsError::Missing {
                    server: name.title(),
                    wanted: "a token, or the private key of an App,",
                })?;
                GitHub::new(config, &credential, &connection).map(Self::GitHub)
            }
            ProviderName::GitLab => {
                let access = find(&config.api_credentials, &settings.ci_api_token)?;
                GitLab::new(config, credential, access, &connection).map(Self::GitLab)
            }
            ProviderName::Jenkins => {
                Jenkins::new(config, credential, &connection).map(Self::Jenkins)
            }
        }
    }

    /// Starts a run. Waits until the CI system says which one it is, for as long as the limits allow.
    ///
    /// # Errors
    /// When nothing was started, or nobody knows whether something was
    /// ([`TriggerError::may_have_started`]).
    pub async fn start(&self, order: &Order) -> Result<Started, TriggerError> {
        match self {
            Self::GitHub(github) => github.start(order).await,
            Self::GitLab(gitlab) => gitlab.start(order).await,
            Self::Jenkins(jenkins) => jenkins.start(order).await,
        }
    }

    /// What became of a run that was started here.
    ///
    /// # Errors
    /// When the CI system cannot be reached, refuses, or knows no such run.
    pub async fn state(&self, external_run_id: &str) -> Result<RunState, TriggerError> {
        match self {
            Self::GitHub(github) => github.state(external_run_id).await,
            Self::GitLab(gitlab) => gitlab.state(external_run_id).await,
            Self::Jenkins(jenkins) => jenkins.state(external_run_id).await,
        }
    }
}
