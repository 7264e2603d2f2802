//! Jenkins: a parametrized job, the place in the queue that it gets, and the build that comes of it.
//!
//! The server gives its own address in what it answers, which behind a proxy is often another one:
//! from those answers only numbers are taken, and every request goes to the address that was given.

mod find;
mod job;
mod login;
mod parameters;
mod queue;
mod run_reference;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, COOKIE};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use url::Url;
use zeroize::Zeroizing;

use super::credentials::{parse_token, sensitive};
use super::server::{Connection, Sent, Server};
use super::state::{check_number, is_number, state_of_word};
use super::{CiConfig, ConfigError, Order, RunState, Started, State, TriggerError};
use job::JobPath;
use run_reference::{QUEUE_PREFIX, RunReference, queue_item_number};

/// The parameter that says which run it is.
const RUN_ID: &str = "RUN_ID";

/// The one with its token.
const CALLBACK_TOKEN: &str = "CALLBACK_TOKEN";

/// The results of builds, and the states of a run without a result.
pub(super) const STATES: &[(&str, State)] = &[
    ("waiting in the queue", State::Queued),
    ("building", State::Running),
    ("SUCCESS", State::Succeeded),
    ("UNSTABLE", State::Failed),
    ("FAILURE", State::Failed),
    ("ABORTED", State::Cancelled),
    ("cancelled in the queue", State::Cancelled),
    ("NOT_BUILT", State::Skipped),
];

/// A job.
#[derive(Debug)]
pub struct Jenkins {
    server: Server,
    job: JobPath,
    user: Option<String>,
    token: Option<SecretString>,
}

/// As much of a build as is needed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Build {
    number: u64,
    #[serde(default)]
    building: bool,
    result: Option<String>,
    /// Its place in the queue, as it was.
    queue_id: Option<u64>,
    #[serde(default)]
    actions: Vec<Value>,
}

impl Jenkins {
    /// The job that `config` describes, with the API token of its user.
    ///
    /// # Errors
    /// When something is missing or cannot be.
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

    pub(super) async fn start(&self, order: &Order) -> Result<Started, TriggerError> {
        let next_build = self.check(order).await?;
        let why = match self.send(order).await? {
            Sent::Lost(why) => why,
            Sent::Answered(answer) => {
                let is_taken = answer.status.is_success();
                // An order that is like one in the queue is made one with that, and is sent there.
                let is_merged = answer.status == StatusCode::SEE_OTHER;
                let place = answer.header("location").and_then(queue_item_number);
                match place.filter(|_| is_taken || is_merged) {
                    Some(item) => {
                        if is_merged {
                            tracing::warn!(
                                "the run is already in the queue, with an earlier token"
                            );
                        }
                        return self.wait(item).await;
                    }
                    None if is_taken => "its response does not name the queue item".to_owned(),
                    None => return Err(self.refused_start(&answer)),
                }
            }
        };
        match self.find(order, next_build, why).await? {
            RunReference::Build(number) => Ok(self.build_started(number)),
            RunReference::QueueItem(item) => self.wait(item).await,
        }
    }

    async fn send(&self, order: &Order) -> Result<Sent, TriggerError> {
        let crumb = self.crumb().await?;
        let url = self.job_url(&["buildWithParameters"]);
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in &order.inputs {
            form.append_pair(name, value);
        }
        form.append_pair(RUN_ID, order.run_id.as_str());
        form.append_pair(CALLBACK_TOKEN, order.token.expose_secret());
        form.append_pair("BUTLER_ENDPOINT", order.endpoint.as_str());
        let form = Zeroizing::new(form.finish());
        let request = || {
            let request = self.with_login(self.server.http().post(url.clone()));
            let request = request
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form.to_string());
            match &crumb {
                None => request,
                Some(crumb) => request
                    .header(crumb.field.as_str(), sensitive(crumb.value.expose_secret()))
                    .header(COOKIE, sensitive(crumb.cookies.expose_secret())),
            }
        };
        self.server.order("start the job", request).await
    }

    pub(super) async fn state(&self, external_run_id: &str) -> Result<RunState, TriggerError> {
        if let Some(item) = external_run_id.strip_prefix(QUEUE_PREFIX).filter(|it| is_number(it)) {
            return self.state_in_queue(item).await;
        }
        let problem = "is neither a build's number nor `queue/` with the number of an item";
        check_number(external_run_id, problem)?;
        self.state_of_build(external_run_id).await
    }

    async fn state_of_build(&self, number: &str) -> Result<RunState, TriggerError> {
        let what = "read the build's state";
        let mut url = self.job_url(&[number, "api", "json"]);
        url.set_query(Some("tree=number,building,result"));
        let answer = self.get(what, &url).await?;
        let build: Build = self.server.parse(what, &answer)?;
        let (status, reported) = match build.result {
            Some(result) if !build.building => {
                (state_of_word(STATES, &result, State::Failed), result)
            }
            _ => (State::Running, "building".to_owned()),
        };
        let Started { external_run_id, external_url } = self.build_started(build.number);
        Ok(RunState { external_run_id, external_url, status, reported })
    }

    fn build_started(&self, number: u64) -> Started {
        let number = number.to_string();
        let url = format!("{}/", self.job_url(&[&number]));
        Started { external_run_id: number, external_url: Some(url) }
    }

    fn job_url(&self, segments: &[&str]) -> Url {
        self.server.url(self.job.segments().chain(segments.iter().copied()))
    }
}
