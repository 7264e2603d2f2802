//! The client of a job: starts builds and reads them.

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, COOKIE};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::job::JobPath;
use super::run_reference::{QUEUE_PREFIX, RunReference, queue_item_number};
use crate::trigger::credentials::{parse_token, sensitive_header};
use crate::trigger::server::{Connection, Server, StartOutcome};
use crate::trigger::state::{check_number, is_number, status_of_word};
use crate::trigger::{
    CiConfig, ConfigError, RunState, RunStatus, RunnerAccess, StartRequest, StartedRun,
    TriggerError,
};

/// The parameter with the run's id.
pub(super) const RUN_ID: &str = "RUN_ID";

/// The parameter with the callback token.
pub(super) const CALLBACK_TOKEN: &str = "CALLBACK_TOKEN";

/// The results of builds, and the runner's words for a run without a result.
pub(in crate::trigger) const STATES: &[(&str, RunStatus)] = &[
    ("waiting in the queue", RunStatus::Queued),
    ("building", RunStatus::Running),
    ("SUCCESS", RunStatus::Succeeded),
    ("UNSTABLE", RunStatus::Failed),
    ("FAILURE", RunStatus::Failed),
    ("ABORTED", RunStatus::Cancelled),
    ("cancelled in the queue", RunStatus::Cancelled),
    ("NOT_BUILT", RunStatus::Skipped),
];

/// A job on a Jenkins server.
#[derive(Debug)]
pub struct Jenkins {
    pub(super) server: Server,
    pub(super) job: JobPath,
    pub(super) user: Option<String>,
    pub(super) token: Option<SecretString>,
}

/// The fields of a build that the runner reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Build {
    pub(super) number: u64,
    #[serde(default)]
    building: bool,
    result: Option<String>,
    /// The id of the queue item that became the build.
    pub(super) queue_id: Option<u64>,
    #[serde(default)]
    pub(super) actions: Vec<Value>,
}

impl Jenkins {
    /// The job that `config` describes, with the API token of its user.
    ///
    /// # Errors
    /// If a setting is missing or not valid, or the token cannot be sent.
    pub fn new(
        config: &CiConfig,
        token: Option<SecretString>,
        connection: &Connection,
    ) -> Result<Self, TriggerError> {
        let missing = |what, how| ConfigError::Missing { server: "Jenkins", what, how };
        let base = config
            .url
            .clone()
            .ok_or_else(|| missing("its address", "add --url https://jenkins.example.com"))?;
        let job = config.job.as_deref().ok_or_else(|| missing("a job", "add --job FOLDER/NAME"))?;
        let job = JobPath::parse(job).ok_or_else(|| ConfigError::Value {
            key: "job",
            problem: "is not the path of a job".to_owned(),
        })?;
        let token = token.map(|it| parse_token("Jenkins", &it)).transpose()?;
        if token.is_some() && config.user.is_none() {
            return Err(missing("the user whose API token this is", "add --user NAME").into());
        }
        let user = config.user.clone();
        if user.as_ref().is_some_and(|user| user.contains(':')) {
            let problem = "holds a colon".to_owned();
            return Err(ConfigError::Value { key: "user", problem }.into());
        }
        let server = Server::new("Jenkins", base, connection)?;
        Ok(Self { server, job, user, token })
    }

    pub(in crate::trigger) async fn start(
        &self,
        start: &StartRequest,
    ) -> Result<StartedRun, TriggerError> {
        let next_build = self.check_parameters(start).await?;
        let why = match self.send_start(start).await? {
            StartOutcome::Lost(why) => why,
            StartOutcome::Responded(response) => {
                let is_accepted = response.status.is_success();
                // Jenkins merges a request with an equal one that is queued and redirects to its item.
                let is_merged = response.status == StatusCode::SEE_OTHER;
                let item = response.header("location").and_then(queue_item_number);
                match item.filter(|_| is_accepted || is_merged) {
                    Some(item) => {
                        if is_merged {
                            tracing::warn!(
                                "the run is already in the queue, with an earlier token"
                            );
                        }
                        return self.wait_for_build(item).await;
                    }
                    None if is_accepted => "its response does not name the queue item".to_owned(),
                    None => return Err(self.refused_start(&response)),
                }
            }
        };
        match self.find(start, next_build, why).await? {
            RunReference::Build(number) => Ok(self.started_build(number)),
            RunReference::QueueItem(item) => self.wait_for_build(item).await,
        }
    }

    async fn send_start(&self, start: &StartRequest) -> Result<StartOutcome, TriggerError> {
        let crumb = self.request_crumb().await?;
        let url = self.job_url(&["buildWithParameters"]);
        let form = form(start);
        let request = || {
            let request = self.with_login(self.server.http().post(url.clone()));
            let request = request
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form.clone());
            match &crumb {
                None => request,
                Some(crumb) => request
                    .header(crumb.field.as_str(), sensitive_header(crumb.value.expose_secret()))
                    .header(COOKIE, sensitive_header(crumb.cookies.expose_secret())),
            }
        };
        self.server.send_start("start the job", request).await
    }

    pub(in crate::trigger) async fn state(
        &self,
        external_run_id: &str,
    ) -> Result<RunState, TriggerError> {
        if let Some(item) = external_run_id.strip_prefix(QUEUE_PREFIX).filter(|it| is_number(it)) {
            return self.state_in_queue(item).await;
        }
        let problem = "is neither a build's number nor `queue/` with the number of an item";
        check_number(external_run_id, problem)?;
        self.state_of_build(external_run_id).await
    }

    pub(super) async fn state_of_build(&self, number: &str) -> Result<RunState, TriggerError> {
        let what = "read the build's state";
        let mut url = self.job_url(&[number, "api", "json"]);
        url.set_query(Some("tree=number,building,result"));
        let response = self.get(what, &url).await?;
        let build: Build = self.server.parse(what, &response)?;
        let (status, reported) = match build.result {
            Some(result) if !build.building => {
                (status_of_word(STATES, &result, RunStatus::Failed), result)
            }
            _ => (RunStatus::Running, "building".to_owned()),
        };
        let StartedRun { external_run_id, external_url } = self.started_build(build.number);
        Ok(RunState { external_run_id, external_url, status, reported })
    }

    pub(super) fn started_build(&self, number: u64) -> StartedRun {
        let number = number.to_string();
        let url = format!("{}/", self.job_url(&[&number]));
        StartedRun { external_run_id: number, external_url: Some(url) }
    }

    pub(super) fn job_url(&self, segments: &[&str]) -> Url {
        self.server.url(self.job.segments().chain(segments.iter().copied()))
    }
}

/// The parameters of a build, as a form.
fn form(start: &StartRequest) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in &start.inputs {
        form.append_pair(name, value);
    }
    form.append_pair(RUN_ID, start.run_id.as_str());
    if let Some(RunnerAccess { endpoint, token }) = &start.runner {
        form.append_pair(CALLBACK_TOKEN, token.expose_secret());
        form.append_pair("BUTLER_ENDPOINT", endpoint.as_str());
    }
    form.finish()
}
