//! GitHub Actions: `workflow_dispatch` and `repository_dispatch`, and the run that they made.
//!
//! Newer servers say which run a `workflow_dispatch` made (`return_run_details`). Where they do not,
//! and when the answer was lost, the run is found by its name, which carries the id of the run.

mod app;
mod dispatch;
mod explain;
mod find;
mod headers;

use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::answer::Answer;
use super::server::{Connection, Server};
use super::state::{check_number, state_of_word};
use super::{CiConfig, ConfigError, Event, RunState, State, TriggerError};
use app::App;
use headers::with_headers;

/// The API of github.com.
const API: &str = "https://api.github.com/";

/// The statuses of a run, and the conclusions of one that is completed.
pub(super) const STATES: &[(&str, State)] = &[
    ("requested", State::Pending),
    ("waiting", State::Pending),
    ("pending", State::Pending),
    ("queued", State::Queued),
    ("in_progress", State::Running),
    ("success", State::Succeeded),
    ("neutral", State::Succeeded),
    ("failure", State::Failed),
    ("startup_failure", State::Failed),
    ("cancelled", State::Cancelled),
    ("timed_out", State::TimedOut),
    ("stale", State::TimedOut),
    ("skipped", State::Skipped),
    ("action_required", State::Pending),
];

/// A workflow.
#[derive(Debug)]
pub struct GitHub {
    server: Server,
    owner: String,
    name: String,
    workflow: Option<String>,
    event: Event,
    git_ref: Option<String>,
    login: Login,
}

/// How the runner logs in.
#[derive(Debug)]
enum Login {
    /// A personal access token, or an App token from another program.
    Token(SecretString),
    /// An App's own key.
    App(Box<App>),
}

/// As much of a run as is needed.
#[derive(Deserialize)]
struct Run {
    id: u64,
    html_url: Option<String>,
    display_title: Option<String>,
    path: Option<String>,
    status: Option<String>,
    conclusion: Option<String>,
}

impl GitHub {
    /// The workflow that `config` describes, with a token or an App's private key to log in with.
    ///
    /// # Errors
    /// When something is missing or cannot be.
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
            Login::Token(super::credentials::parse_token("GitHub", credential)?)
        };
        let base = match &config.url {
            Some(url) => api(url),
            None => Url::parse(API).expect("a constant that is a URL"),
        };
        let workflow = config.workflow_file.as_deref();
        // A path is what people copy; the API wants the name.
        let workflow = workflow.map(|it| it.rsplit('/').next().unwrap_or(it).to_owned());
        if workflow.as_deref().is_some_and(is_nowhere) {
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

    pub(super) async fn state(&self, external_run_id: &str) -> Result<RunState, TriggerError> {
        let what = "read the run's state";
        check_number(external_run_id, "is not the number of a workflow run")?;
        let url = self.url(["actions", "runs", external_run_id]);
        let answer = self.get(what, &url).await?;
        let run: Run = self.server.parse(what, &answer)?;
        let (status, reported) = state(run.status.as_deref(), run.conclusion.as_deref());
        Ok(RunState {
            external_run_id: run.id.to_string(),
            external_url: run.html_url,
            status,
            reported,
        })
    }

    async fn default_branch(&self) -> Result<String, TriggerError> {
        #[derive(Deserialize)]
        struct Repository {
            default_branch: String,
        }
        let what = "read the repository's default branch";
        let answer = self.get(what, &self.url([])).await?;
        Ok(self.server.parse::<Repository>(what, &answer)?.default_branch)
    }

    /// A URL below the repository.
    fn url<const N: usize>(&self, segments: [&str; N]) -> Url {
        self.server.url(["repos", &self.owner, &self.name].into_iter().chain(segments))
    }

    /// Asks with the login. An App's token that has run out meanwhile is renewed once.
    async fn get(&self, what: &str, url: &Url) -> Result<Answer, TriggerError> {
        let mut renewed = false;
        loop {
            let token = self.token().await?;
            let request = || with_headers(self.server.http().get(url.clone()), &token);
            let answer = self.server.ask(what, request).await?;
            match answer.status {
                status if status.is_success() => return Ok(answer),
                StatusCode::UNAUTHORIZED if !renewed && self.forget_token() => renewed = true,
                _ => return Err(self.explained(what, &answer)),
            }
        }
    }

    async fn token(&self) -> Result<SecretString, TriggerError> {
        match &self.login {
            Login::Token(token) => Ok(token.clone()),
            Login::App(app) => app.token(&self.server, &self.owner, &self.name, self.event).await,
        }
    }

    /// Whether there was a token that can be renewed.
    fn forget_token(&self) -> bool {
        match &self.login {
            Login::Token(_) => false,
            Login::App(app) => app.forget(),
        }
    }
}

/// The API of the server that people call so: github.com and servers of companies have their API
/// elsewhere than their pages.
fn api(url: &Url) -> Url {
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

/// What leads to no place of its own in a path.
fn is_nowhere(name: &str) -> bool {
    matches!(name, "" | "." | "..")
}

/// What GitHub allows in names of owners and repositories; never a path's `/` or `..`.
fn is_name(text: &str) -> bool {
    !is_nowhere(text)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

fn state(status: Option<&str>, conclusion: Option<&str>) -> (State, String) {
    match (status, conclusion) {
        (Some("completed"), Some(conclusion)) => {
            let state = state_of_word(STATES, conclusion, State::Failed);
            (state, format!("completed: {conclusion}"))
        }
        (Some(status), _) => (state_of_word(STATES, status, State::Running), status.to_owned()),
        (None, _) => (State::Pending, "unknown".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_of_each_kind_of_server_is_found() {
        for (given, expected) in [
            ("https://github.com/", "https://api.github.com/"),
            ("https://api.github.com/", "https://api.github.com/"),
            ("https://ghe.example.com/", "https://ghe.example.com/api/v3/"),
            ("https://ghe.example.com/api/v3/", "https://ghe.example.com/api/v3/"),
            ("https://octo.ghe.com/", "https://api.octo.ghe.com/"),
            ("https://api.octo.ghe.com/", "https://api.octo.ghe.com/"),
        ] {
            assert_eq!(api(&Url::parse(given).unwrap()).as_str(), expected);
        }
    }

    #[test]
    fn a_word_that_is_newer_than_this_neither_ends_a_run_nor_makes_it_a_success() {
        assert_eq!(state(Some("dreaming"), None).0, State::Running);
        assert_eq!(state(Some("completed"), Some("dreamt")).0, State::Failed);
        assert_eq!(state(Some("completed"), Some("success")).0, State::Succeeded);
    }

    #[test]
    fn names_are_no_paths() {
        assert!(is_name("infra.live") && !is_name("..") && !is_name("a/b") && !is_name(""));
    }
}
