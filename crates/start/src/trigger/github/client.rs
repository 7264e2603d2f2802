//! The client of a workflow: login, addresses, and reading runs.

use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::app::App;
use super::headers::with_headers;
use crate::trigger::response::ApiResponse;
use crate::trigger::server::{Connection, Server};
use crate::trigger::state::{check_number, status_of_word};
use crate::trigger::{CiConfig, ConfigError, Event, RunState, RunStatus, StartedRun, TriggerError};

/// The API of github.com.
const API: &str = "https://api.github.com/";

/// The statuses of runs, and the conclusions of completed ones.
pub(in crate::trigger) const STATES: &[(&str, RunStatus)] = &[
    ("requested", RunStatus::Pending),
    ("waiting", RunStatus::Pending),
    ("pending", RunStatus::Pending),
    ("queued", RunStatus::Queued),
    ("in_progress", RunStatus::Running),
    ("success", RunStatus::Succeeded),
    ("neutral", RunStatus::Succeeded),
    ("failure", RunStatus::Failed),
    ("startup_failure", RunStatus::Failed),
    ("cancelled", RunStatus::Cancelled),
    ("timed_out", RunStatus::TimedOut),
    ("stale", RunStatus::TimedOut),
    ("skipped", RunStatus::Skipped),
    ("action_required", RunStatus::Pending),
];

/// A workflow of a repository on github.com or GitHub Enterprise.
#[derive(Debug)]
pub struct GitHub {
    pub(super) server: Server,
    pub(super) owner: String,
    pub(super) name: String,
    pub(super) workflow: Option<String>,
    pub(super) event: Event,
    pub(super) git_ref: Option<String>,
    pub(super) login: Login,
}

/// The credentials of the runner.
#[derive(Debug)]
pub(super) enum Login {
    /// A personal access token, or an App token from another program.
    Token(SecretString),
    /// An App's own key.
    App(Box<App>),
}

/// The fields of a workflow run that the runner reads.
#[derive(Deserialize)]
pub(super) struct Run {
    pub(super) id: u64,
    pub(super) html_url: Option<String>,
    pub(super) display_title: Option<String>,
    pub(super) path: Option<String>,
    status: Option<String>,
    conclusion: Option<String>,
}

impl From<Run> for StartedRun {
    fn from(run: Run) -> Self {
        Self { external_run_id: run.id.to_string(), external_url: run.html_url }
    }
}

impl GitHub {
    /// The workflow that `config` describes. `credential` is a token or an App's private key.
    ///
    /// # Errors
    /// If a setting is missing or not valid, or the credential cannot be used.
    pub fn new(
        config: &CiConfig,
        credential: &SecretString,
        connection: &Connection,
    ) -> Result<Self, TriggerError> {
        let missing = |what, how| ConfigError::Missing { server: "GitHub", what, how };
        let repository = config
            .repository
            .as_deref()
            .ok_or_else(|| missing("a repository", "add --repository OWNER/NAME"))?;
        let (owner, name) = repository
            .split_once('/')
            .filter(|(owner, name)| is_name(owner) && is_name(name))
            .ok_or_else(|| ConfigError::Value {
                key: "repository",
                problem: "is not OWNER/NAME".to_owned(),
            })?;
        let event = config.event.unwrap_or_default();
        let (owner, name) = (owner.to_owned(), name.to_owned());
        let login = if credential.expose_secret().contains("-----BEGIN") {
            let id = config
                .app_id
                .clone()
                .ok_or_else(|| missing("the App's id beside its private key", "add --app-id ID"))?;
            let installation = config.installation_id.clone();
            Login::App(Box::new(App::new(id, installation, credential)?))
        } else {
            Login::Token(crate::trigger::credentials::parse_token("GitHub", credential)?)
        };
        let base = match &config.url {
            Some(url) => api_url(url),
            None => Url::parse(API).expect("a constant that is a URL"),
        };
        let workflow = config.workflow_file.as_deref();
        // Users copy paths; the API needs the file name.
        let workflow = workflow.map(|it| it.rsplit('/').next().unwrap_or(it).to_owned());
        if workflow.as_deref().is_some_and(is_not_a_segment) {
            let problem = "is not a file name".to_owned();
            return Err(ConfigError::Value { key: "workflowFile", problem }.into());
        }
        Ok(Self {
            server: Server::new("GitHub", base, connection)?,
            owner,
            name,
            workflow,
            event,
            git_ref: config.git_ref.clone(),
            login,
        })
    }

    pub(in crate::trigger) async fn state(
        &self,
        external_run_id: &str,
    ) -> Result<RunState, TriggerError> {
        let what = "read the run's state";
        check_number(external_run_id, "is not the number of a workflow run")?;
        let url = self.url(["actions", "runs", external_run_id]);
        let response = self.get(what, &url).await?;
        let run: Run = self.server.parse(what, &response)?;
        let (status, reported) = parse_status(run.status.as_deref(), run.conclusion.as_deref());
        Ok(RunState {
            external_run_id: run.id.to_string(),
            external_url: run.html_url,
            status,
            reported,
        })
    }

    pub(super) async fn default_branch(&self) -> Result<String, TriggerError> {
        #[derive(Deserialize)]
        struct Repository {
            default_branch: String,
        }
        let what = "read the repository's default branch";
        let response = self.get(what, &self.url([])).await?;
        Ok(self.server.parse::<Repository>(what, &response)?.default_branch)
    }

    /// A URL below the repository.
    pub(super) fn url<const N: usize>(&self, segments: [&str; N]) -> Url {
        self.server.url(["repos", &self.owner, &self.name].into_iter().chain(segments))
    }

    /// Sends a read request with the login. If an App's token has expired, it is renewed and the request
    /// repeated once.
    pub(super) async fn get(&self, what: &str, url: &Url) -> Result<ApiResponse, TriggerError> {
        let mut renewed = false;
        loop {
            let token = self.token().await?;
            let request = || with_headers(self.server.http().get(url.clone()), &token);
            let response = self.server.send_read(what, request).await?;
            match response.status {
                status if status.is_success() => return Ok(response),
                StatusCode::UNAUTHORIZED if !renewed && self.discard_token() => renewed = true,
                _ => return Err(self.refused_with_hint(what, &response)),
            }
        }
    }

    pub(super) async fn token(&self) -> Result<SecretString, TriggerError> {
        match &self.login {
            Login::Token(token) => Ok(token.clone()),
            Login::App(app) => app.token(&self.server, &self.owner, &self.name, self.event).await,
        }
    }

    /// Discards the token if it can be renewed. Returns whether it was discarded.
    pub(super) fn discard_token(&self) -> bool {
        match &self.login {
            Login::Token(_) => false,
            Login::App(app) => app.discard_token(),
        }
    }
}

/// The address of the API of a server with this address: github.com and GitHub Enterprise have it on
/// another host or path than their pages.
fn api_url(url: &Url) -> Url {
    let mut api = url.clone();
    let host = url.host_str().unwrap_or_default().to_owned();
    if url.path() != "/" {
        return api;
    }
    let moved = match host.as_str() {
        "github.com" | "www.github.com" => api.set_host(Some("api.github.com")).is_ok(),
        "api.github.com" => true,
        _ if host.ends_with(".ghe.com") => {
            host.starts_with("api.") || api.set_host(Some(&format!("api.{host}"))).is_ok()
        }
        _ => false,
    };
    if !moved {
        api.set_path("/api/v3/");
    }
    api
}

/// Whether `name` cannot be a segment of a path.
fn is_not_a_segment(name: &str) -> bool {
    matches!(name, "" | "." | "..")
}

/// Whether GitHub allows `text` as a name of an owner or repository. A `/` or `..` is never allowed.
fn is_name(text: &str) -> bool {
    !is_not_a_segment(text)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

fn parse_status(status: Option<&str>, conclusion: Option<&str>) -> (RunStatus, String) {
    match (status, conclusion) {
        (Some("completed"), Some(conclusion)) => {
            let state = status_of_word(STATES, conclusion, RunStatus::Failed);
            (state, format!("completed: {conclusion}"))
        }
        (Some(status), _) => {
            (status_of_word(STATES, status, RunStatus::Running), status.to_owned())
        }
        (None, _) => (RunStatus::Pending, "unknown".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_url_is_derived_from_the_server_address() {
        for (given, expected) in [
            ("https://github.com/", "https://api.github.com/"),
            ("https://api.github.com/", "https://api.github.com/"),
            ("https://ghe.example.com/", "https://ghe.example.com/api/v3/"),
            ("https://ghe.example.com/api/v3/", "https://ghe.example.com/api/v3/"),
            ("https://octo.ghe.com/", "https://api.octo.ghe.com/"),
            ("https://api.octo.ghe.com/", "https://api.octo.ghe.com/"),
        ] {
            assert_eq!(api_url(&Url::parse(given).unwrap()).as_str(), expected);
        }
    }

    #[test]
    fn unknown_status_is_running_and_unknown_conclusion_is_failed() {
        assert_eq!(parse_status(Some("dreaming"), None).0, RunStatus::Running);
        assert_eq!(parse_status(Some("completed"), Some("dreamt")).0, RunStatus::Failed);
        assert_eq!(parse_status(Some("completed"), Some("success")).0, RunStatus::Succeeded);
    }

    #[test]
    fn names_cannot_contain_path_segments() {
        assert!(is_name("infra.live") && !is_name("..") && !is_name("a/b") && !is_name(""));
    }
}
