//! The client of a project: starts pipelines and reads them.

use reqwest::RequestBuilder;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use url::Url;

use crate::trigger::credentials::{parse_token, sensitive_header};
use crate::trigger::response::ApiResponse;
use crate::trigger::server::{Connection, Server, StartOutcome};
use crate::trigger::state::{check_number, status_of_word};
use crate::trigger::{
    CiConfig, ConfigError, CredentialsError, RunState, RunStatus, RunnerAccess, StartRequest,
    StartedRun, TriggerError,
};

/// The default address.
const GITLAB: &str = "https://gitlab.com/";

/// The pipeline variable with the run's id.
pub(super) const RUN_ID: &str = "RUN_ID";

/// The statuses of pipelines.
pub(in crate::trigger) const STATES: &[(&str, RunStatus)] = &[
    ("created", RunStatus::Pending),
    ("manual", RunStatus::Pending),
    ("scheduled", RunStatus::Pending),
    ("waiting_for_callback", RunStatus::Pending),
    ("waiting_for_resource", RunStatus::Queued),
    ("preparing", RunStatus::Queued),
    ("pending", RunStatus::Queued),
    ("running", RunStatus::Running),
    ("canceling", RunStatus::Running),
    ("success", RunStatus::Succeeded),
    ("failed", RunStatus::Failed),
    ("canceled", RunStatus::Cancelled),
    ("skipped", RunStatus::Skipped),
];

/// A project on gitlab.com or another server.
#[derive(Debug)]
pub struct GitLab {
    pub(super) server: Server,
    pub(super) project: String,
    git_ref: Option<String>,
    /// The trigger token, which starts pipelines.
    trigger: Option<SecretString>,
    /// The access token, which reads pipelines.
    pub(super) access: Option<SecretString>,
}

/// The fields of a pipeline that the runner reads.
#[derive(Deserialize)]
pub(super) struct Pipeline {
    pub(super) id: u64,
    status: Option<String>,
    web_url: Option<String>,
    pub(super) name: Option<String>,
    pub(super) created_at: Option<String>,
}

impl From<Pipeline> for StartedRun {
    fn from(pipeline: Pipeline) -> Self {
        Self { external_run_id: pipeline.id.to_string(), external_url: pipeline.web_url }
    }
}

impl GitLab {
    /// The project that `config` describes, with a trigger token and an optional access token. A single
    /// token that is not a trigger token is also used for reading.
    ///
    /// # Errors
    /// If a setting is missing or not valid, or a token cannot be sent.
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
        let can_read = |token: &SecretString| {
            !["glptt-", "glcbt-"].iter().any(|kind| token.expose_secret().starts_with(kind))
        };
        let access = access.or_else(|| trigger.clone().filter(can_read));
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

    pub(in crate::trigger) async fn start(
        &self,
        start: &StartRequest,
    ) -> Result<StartedRun, TriggerError> {
        let what = "start the pipeline";
        let token = self.trigger.as_ref().ok_or(CredentialsError::Missing {
            server: "GitLab",
            wanted: "a trigger token (`glptt-...`)",
        })?;
        let git_ref = self.reference().await?;
        let mut own = vec![(RUN_ID, start.run_id.as_str())];
        if let Some(RunnerAccess { endpoint, token }) = &start.runner {
            own.extend([
                ("CALLBACK_TOKEN", token.expose_secret()),
                ("BUTLER_ENDPOINT", endpoint.as_str()),
            ]);
        }
        let variables = start.job_inputs(&own);
        // The token is in the body, because proxies log URLs.
        let body = json!({"token": token.expose_secret(), "ref": git_ref, "variables": variables});
        let url = self.url(["trigger", "pipeline"]);
        let begun = Instant::now();
        let request = || self.server.http().post(url.clone()).json(&body);
        let why = match self.server.send_start(what, request).await? {
            StartOutcome::Responded(response) if response.status.is_success() => {
                match self.server.parse::<Pipeline>(what, &response) {
                    Ok(pipeline) => return Ok(pipeline.into()),
                    Err(error) => butler_base::error::chain(&error),
                }
            }
            StartOutcome::Responded(response) => {
                return Err(self.refused_start(what, &response, token, &git_ref));
            }
            StartOutcome::Lost(why) => why,
        };
        self.find(start, &git_ref, begun, why).await
    }

    pub(in crate::trigger) async fn state(
        &self,
        external_run_id: &str,
    ) -> Result<RunState, TriggerError> {
        let what = "read the pipeline's state";
        check_number(external_run_id, "is not the number of a pipeline")?;
        let response = self.get(what, &self.url(["pipelines", external_run_id])).await?;
        let pipeline: Pipeline = self.server.parse(what, &response)?;
        let (status, reported) = match &pipeline.status {
            Some(word) => (status_of_word(STATES, word, RunStatus::Running), word.clone()),
            None => (RunStatus::Pending, "unknown".to_owned()),
        };
        let StartedRun { external_run_id, external_url } = pipeline.into();
        Ok(RunState { external_run_id, external_url, status, reported })
    }

    /// The branch or tag.
    pub(super) async fn reference(&self) -> Result<String, TriggerError> {
        match &self.git_ref {
            Some(git_ref) => Ok(git_ref.clone()),
            None => self.default_branch().await,
        }
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
        let response = self.get(what, &self.url([])).await?;
        Ok(self.server.parse::<Project>(what, &response)?.default_branch)
    }

    pub(super) fn url<const N: usize>(&self, segments: [&str; N]) -> Url {
        // The path of a project is one segment (API, "Namespaced paths").
        self.server.url(["projects", &self.project].into_iter().chain(segments))
    }

    pub(super) async fn get(&self, what: &str, url: &Url) -> Result<ApiResponse, TriggerError> {
        let request = || self.with_access(self.server.http().get(url.clone()));
        let response = self.server.send_read(what, request).await?;
        if response.status.is_success() {
            return Ok(response);
        }
        Err(self.refused_read(what, &response))
    }

    fn with_access(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.access {
            Some(token) => request.header("private-token", sensitive_header(token.expose_secret())),
            None => request,
        }
    }
}
