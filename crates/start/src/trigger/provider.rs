//! The CI systems that can start a run, behind one interface.

use std::sync::Arc;

use secrecy::SecretString;
use tokio::time::Instant;

use super::config::{CiConfig, ProviderName};
use super::credentials::{CredentialReference, CredentialsError};
use super::error::TriggerError;
use super::github::{self, GitHub};
use super::gitlab::{self, GitLab};
use super::jenkins::{self, Jenkins};
use super::server::Connection;
use super::settings::TriggerSettings;
use super::start_request::{StartRequest, StartedRun};
use super::state::{RunState, RunStatus};
use butler_base::secret::Redactor;

/// A CI system and the workflow, project or job in it that starts runs.
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
    /// The provider that `config` describes. Registers the credentials with the redactor before their first
    /// use.
    ///
    /// # Errors
    /// If a setting or the credentials are missing or not valid.
    pub fn new(
        name: ProviderName,
        config: &CiConfig,
        settings: &TriggerSettings,
        deadline: Instant,
        redactor: &Arc<Redactor>,
    ) -> Result<Self, TriggerError> {
        let resolve = |reference: &Option<CredentialReference>, own: &Option<SecretString>| {
            let found = match reference {
                Some(reference) => Some(reference.resolve(name.title(), &settings.secrets)?),
                None => own.clone(),
            };
            redactor.register(found.iter());
            Ok::<_, CredentialsError>(found)
        };
        let credential = resolve(&config.credentials, &settings.ci_token)?;
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
                let access = resolve(&config.api_credentials, &settings.ci_api_token)?;
                GitLab::new(config, credential, access, &connection).map(Self::GitLab)
            }
            ProviderName::Jenkins => {
                Jenkins::new(config, credential, &connection).map(Self::Jenkins)
            }
        }
    }

    /// Starts a run. Waits until the CI system names the run, at most until the deadline.
    ///
    /// # Errors
    /// If no run was started, or if that is unclear ([`TriggerError::may_have_started`]).
    pub async fn start(&self, start: &StartRequest) -> Result<StartedRun, TriggerError> {
        match self {
            Self::GitHub(github) => github.start(start).await,
            Self::GitLab(gitlab) => gitlab.start(start).await,
            Self::Jenkins(jenkins) => jenkins.start(start).await,
        }
    }

    /// Searches for a run that an earlier process has started: among the newest runs, by its id.
    ///
    /// # Errors
    /// If the CI system cannot be reached, or refuses the request.
    pub async fn find(&self, start: &StartRequest) -> Result<Option<StartedRun>, TriggerError> {
        match self {
            Self::GitHub(github) => github.find_existing(start).await,
            Self::GitLab(gitlab) => gitlab.find_existing(start).await,
            Self::Jenkins(jenkins) => jenkins.find_existing(start).await,
        }
    }

    /// Reads the state of a run.
    ///
    /// # Errors
    /// If the CI system cannot be reached, refuses the request, or does not have this run.
    pub async fn state(&self, external_run_id: &str) -> Result<RunState, TriggerError> {
        match self {
            Self::GitHub(github) => github.state(external_run_id).await,
            Self::GitLab(gitlab) => gitlab.state(external_run_id).await,
            Self::Jenkins(jenkins) => jenkins.state(external_run_id).await,
        }
    }
}

/// The known states in the CI system's words, and their meaning.
#[must_use]
pub const fn reported_states(provider: ProviderName) -> &'static [(&'static str, RunStatus)] {
    match provider {
        ProviderName::GitHub => github::STATES,
        ProviderName::GitLab => gitlab::STATES,
        ProviderName::Jenkins => jenkins::STATES,
    }
}
