//! GitLab CI: a pipeline that a trigger token starts.
//!
//! The trigger token starts pipelines and can do nothing else; an access token, where there is one,
//! reads them. It is also what finds a pipeline whose answer was lost.

mod explain;
mod find;

use reqwest::RequestBuilder;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use url::Url;

use super::answer::Answer;
use super::credentials::{parse_token, sensitive};
use super::server::{Connection, Sent, Server};
use super::state::{check_number, state_of_word};
use super::{
    CiConfig, ConfigError, CredentialsError, Order, RunState, Started, State, TriggerError,
};

/// Where GitLab itself is.
const GITLAB: &str = "https://gitlab.com/";

/// The variable that says which run it is.
const RUN_ID: &str = "RUN_ID";

/// The statuses of pipelines.
pub(super) const STATES: &[(&str, State)] = &[
    ("created", State::Pending),
    ("manual", State::Pending),
    ("scheduled", State::Pending),
    ("waiting_for_callback", State::Pending),
    ("waiting_for_resource", State::Queued),
    ("preparing", State::Queued),
    ("pending", State::Queued),
    ("running", State::Running),
    ("canceling", State::Running),
    ("success", State::Succeeded),
    ("failed", State::Failed),
    ("canceled", State::Cancelled),
    ("skipped", State::Skipped),
];

/// A project.
#[derive(Debug)]
pub struct GitLab {
    server: Server,
    project: String,
    git_ref: Option<String>,
    /// Starts pipelines.
    trigger: Option<SecretString>,
    /// Reads them.
    access: Option<SecretString>,
}

/// As much of a pipeline as is needed.
#[derive(Deserialize)]
struct Pipeline {
    id: u64,
    status: Option<String>,
    web_url: Option<String>,
    name: Option<String>,
    created_at: Option<String>,
}

impl From<Pipeline> for Started {
    fn from(pipeline: Pipeline) -> Self {
        Self { external_run_id: pipeline.id.to_string(), external_url: pipeline.web_url }
    }
}

impl GitLab {
    /// The project that `config` describes, with a trigger token, and an access token where there
    /// is one. A single token that is not a trigger token is also used for reading.
    ///
    /// # Errors
    /// When something is missing or cannot be.
    pub fn new(
        config: &CiConfig,
        credential: Option<SecretString>,
        access: Option<SecretString>,
        connection: &Connection,
    ) -> Result<Self, TriggerError> {
        let project = config.repository.as_deref().ok_or(ConfigError::Missing {
            server: "GitLab",
            what: "a project",
            how: "add --repository GROUP/PROJECT, or its number",
        })?;
        let project = project.trim_matches('/').to_owned();
        if matches!(&*project, "" | "." | "..") {
            let problem = "is neither GROUP/PROJECT nor a number".to_owned();
            return Err(ConfigError::Value { key: "repository", problem }.into());
        }
        let trigger = credential.map(|it| parse_token("GitLab", &it)).transpose()?;
        let access = access.map(|it| parse_token("GitLab", &it)).transpose()?;
        let reads = |token: &SecretString| {
            !["glptt-", "glcbt-"].iter().any(|kind| token.expose_secret().starts_with(kind))
        };
        let access = access.or_else(|| trigger.clone().filter(reads));
        let mut base = match &config.url {
            Some(url) => url.clone(),
            None => Url::parse(GITLAB).expect("a constant that is a URL"),
        };
        if !base.path().ends_with("/api/v4/") {
            let path = format!("{}api/v4/", base.path());
            base.set_path(&path);
        }
        let server = Server::new("GitLab", base, connection)?;
        Ok(Self { server, project, git_ref: config.git_ref.clone(), trigger, access })
    }

    pub(super) async fn start(&self, order: &Order) -> Result<Started, TriggerError> {
        let what = "start the pipeline";
        let token = self.trigger.as_ref().ok_or(CredentialsError::Missing {
            server: "GitLab",
            wanted: "a trigger token (`glptt-...`)",
        })?;
        let git_ref = match &self.git_ref {
            Some(git_ref) => git_ref.clone(),
            None => self.default_branch().await?,
        };
        let variables = order.job_inputs(&[
            (RUN_ID, order.run_id.as_str()),
            ("CALLBACK_TOKEN", order.token.expose_secret()),
            ("BUTLER_ENDPOINT", order.endpoint.as_str()),
        ]);
        // In the body: URLs are logged on their way.
        let body = json!({"token": token.expose_secret(), "ref": git_ref, "variables": variables});
        let url = self.url(["trigger", "pipeline"]);
        let begun = Instant::now();
        let request = || self.server.http().post(url.clone()).json(&body);
        let why = match self.server.order(what, request).await? {
            Sent::Answered(answer) if answer.status.is_success() => {
                match self.server.parse::<Pipeline>(what, &answer) {
                    Ok(pipeline) => return Ok(pipeline.into()),
                    Err(error) => butler_base::error::chain(&error),
                }
            }
            Sent::Answered(answer) => {
                return Err(self.refused_start(what, &answer, token, &git_ref));
            }
            Sent::Lost(why) => why,
        };
        self.find(order, &git_ref, begun, why).await
    }

    pub(super) async fn state(&self, external_run_id: &str) -> Result<RunState, TriggerError> {
        let what = "read the pipeline's state";
        check_number(external_run_id, "is not the number of a pipeline")?;
        let answer = self.get(what, &self.url(["pipelines", external_run_id])).await?;
        let pipeline: Pipeline = self.server.parse(what, &answer)?;
        let (status, reported) = match &pipeline.status {
            Some(word) => (state_of_word(STATES, word, State::Running), word.clone()),
            None => (State::Pending, "unknown".to_owned()),
        };
        let Started { external_run_id, external_url } = pipeline.into();
        Ok(RunState { external_run_id, external_url, status, reported })
    }

    async fn default_branch(&self) -> Result<String, TriggerError> {
        #[derive(Deserialize)]
        struct Project {
            default_branch: String,
        }
        let what = "read the project's default branch";
        if self.access.is_none() {
            return Err(ConfigError::Missing {
                server: "GitLab",
                what: "a branch or tag",
                how: "add --ref NAME; a trigger token cannot ask for the default branch",
            }
            .into());
        }
        let answer = self.get(what, &self.url([])).await?;
        Ok(self.server.parse::<Project>(what, &answer)?.default_branch)
    }

    fn url<const N: usize>(&self, segments: [&str; N]) -> Url {
        // The path of a project is one segment (API, "Namespaced paths").
        self.server.url(["projects", &self.project].into_iter().chain(segments))
    }

    async fn get(&self, what: &str, url: &Url) -> Result<Answer, TriggerError> {
        let request = || self.with_access(self.server.http().get(url.clone()));
        let answer = self.server.ask(what, request).await?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        Err(self.refused_question(what, &answer))
    }

    fn with_access(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.access {
            Some(token) => request.header("private-token", sensitive(token.expose_secret())),
            None => request,
        }
    }
}
