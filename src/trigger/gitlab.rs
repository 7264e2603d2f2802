//! GitLab CI: a pipeline that a trigger token starts.
//!
//! The trigger token starts pipelines and can do nothing else; an access token, where there is one,
//! reads them. It is also what finds a pipeline whose answer was lost.

use std::path::Path;
use std::time::{Duration, SystemTime};

use reqwest::{RequestBuilder, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use super::credentials::word;
use super::server::{Answer, Limits, Sent, Server};
use super::state::meaning;
use super::{
    CiConfig, ConfigError, CredentialsError, Order, RunState, Started, State, TriggerError,
};
use crate::http::now;

/// Where GitLab itself is.
const GITLAB: &str = "https://gitlab.com/";

/// The variable that says which run it is.
const RUN_ID: &str = "RUN_ID";

/// How far the clocks of the server's machines may be apart.
const SKEW: Duration = Duration::from_secs(10);

/// How many pipelines are asked for at a time (the most that the API gives), and how often.
const PAGE: usize = 100;
const PAGES: usize = 5;

/// How long a pipeline whose answer was lost is looked for: it is there as soon as it is created.
const LOOK: Duration = Duration::from_secs(20);

/// How long is waited between two looks.
const PAUSE: Duration = Duration::from_secs(2);

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
    status: String,
    web_url: Option<String>,
    name: Option<String>,
    created_at: Option<String>,
}

impl GitLab {
    /// The project that `config` describes, with a trigger token, and an access token where there
    /// is one. A single token that is no trigger token is also tried for reading.
    ///
    /// # Errors
    /// When something is missing or cannot be.
    pub fn new(
        config: &CiConfig,
        credential: Option<SecretString>,
        access: Option<SecretString>,
        ca_bundle: Option<&Path>,
        limits: Limits,
    ) -> Result<Self, TriggerError> {
        let project = config.repository.clone().ok_or(ConfigError::Missing {
            server: "GitLab",
            what: "a project",
            how: "add --repository GROUP/PROJECT, or its number",
        })?;
        let trigger = credential.map(|it| word("GitLab", &it)).transpose()?;
        let access = access.map(|it| word("GitLab", &it)).transpose()?;
        let reads = |token: &SecretString| !token.expose_secret().starts_with("glptt-");
        let access = access.or_else(|| trigger.clone().filter(reads));
        let mut base = match &config.url {
            Some(url) => url.clone(),
            None => Url::parse(GITLAB).expect("a constant that is a URL"),
        };
        if !base.path().ends_with("/api/v4/") {
            let path = format!("{}api/v4/", base.path());
            base.set_path(&path);
        }
        let server = Server::new("GitLab", base, ca_bundle, limits)?;
        let project = project.trim_matches('/').to_owned();
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
        let mut variables: serde_json::Map<String, Value> =
            order.inputs.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        variables.insert(RUN_ID.to_owned(), json!(order.run_id.as_str()));
        variables.insert("CALLBACK_TOKEN".to_owned(), json!(order.token.expose_secret()));
        variables.insert("BUTLER_ENDPOINT".to_owned(), json!(order.endpoint.as_str()));
        // In the body: URLs are logged on their way.
        let body = json!({"token": token.expose_secret(), "ref": git_ref, "variables": variables});
        let url = self.url(["trigger", "pipeline"]);
        let begun = Instant::now();
        match self.server.order(what, || self.server.http().post(url.clone()).json(&body)).await? {
            Sent::Answered(answer) if answer.status.is_success() => {
                let pipeline: Pipeline = self.server.understand(what, &answer)?;
                Ok(Started {
                    external_run_id: pipeline.id.to_string(),
                    external_url: pipeline.web_url,
                })
            }
            Sent::Answered(answer) => Err(self.refused_start(what, &answer, token, &git_ref)),
            Sent::Lost(why) => {
                tracing::warn!(
                    "the answer to the order was lost ({why}); looking for the pipeline"
                );
                self.find(order, &git_ref, begun, why).await
            }
        }
    }

    pub(super) async fn state(&self, external_run_id: &str) -> Result<RunState, TriggerError> {
        let what = "read the pipeline's state";
        if !external_run_id.bytes().all(|byte| byte.is_ascii_digit()) || external_run_id.is_empty()
        {
            let problem = "is no number of a pipeline".to_owned();
            return Err(ConfigError::Value { key: "externalRunId", problem }.into());
        }
        let answer = self.get(what, &self.url(["pipelines", external_run_id])).await?;
        let pipeline: Pipeline = self.server.understand(what, &answer)?;
        Ok(RunState {
            external_run_id: pipeline.id.to_string(),
            external_url: pipeline.web_url,
            status: meaning(STATES, &pipeline.status, State::Running),
            reported: pipeline.status,
        })
    }

    /// Looks for the pipeline of an order whose answer was lost.
    async fn find(
        &self,
        order: &Order,
        git_ref: &str,
        begun: Instant,
        why: String,
    ) -> Result<Started, TriggerError> {
        let unsure = |why: String, reason: &str| TriggerError::Unsure {
            server: "GitLab",
            why,
            advice: format!(
                "look at the pipelines of `{}` before you start it again{reason}",
                self.project
            ),
        };
        if self.access.is_none() {
            let reason = "; with an access token (BUTLER_CI_API_TOKEN) the runner looks itself";
            return Err(unsure(why, reason));
        }
        let end = (Instant::now() + LOOK).min(self.server.limits().deadline);
        loop {
            match self.find_once(order, git_ref, begun).await {
                Ok(Some(started)) => return Ok(started),
                Ok(None) if Instant::now() + PAUSE < end => tokio::time::sleep(PAUSE).await,
                Ok(None) => return Err(unsure(why, "")),
                Err(error) => {
                    let found = crate::error::chain(&error);
                    return Err(unsure(format!("{why}; {found}"), ""));
                }
            }
        }
    }

    async fn find_once(
        &self,
        order: &Order,
        git_ref: &str,
        begun: Instant,
    ) -> Result<Option<Started>, TriggerError> {
        #[derive(Deserialize)]
        struct Variable {
            key: String,
            value: Value,
        }
        let what = "list the project's pipelines";
        for number in 1..=PAGES {
            let mut url = self.url(["pipelines"]);
            url.query_pairs_mut()
                .append_pair("source", "trigger")
                .append_pair("ref", git_ref)
                .append_pair("order_by", "id")
                .append_pair("per_page", &PAGE.to_string())
                .append_pair("page", &number.to_string());
            let answer = self.get(what, &url).await?;
            // By the server's clock, so that it does not matter what ours says.
            let since = now(&answer.headers) - begun.elapsed() - SKEW;
            let pipelines: Vec<Pipeline> = self.server.understand(what, &answer)?;
            let is_last = pipelines.len() < PAGE;
            for pipeline in pipelines {
                if created(&pipeline).is_some_and(|at| at < since) {
                    return Ok(None);
                }
                let id = pipeline.id.to_string();
                let named = pipeline.name.as_deref().unwrap_or_default();
                let is_it = super::github::names(named, order.run_id.as_str()) || {
                    let what = "read the pipeline's variables";
                    let answer = self.get(what, &self.url(["pipelines", &id, "variables"])).await?;
                    let variables: Vec<Variable> = self.server.understand(what, &answer)?;
                    variables
                        .iter()
                        .any(|it| it.key == RUN_ID && it.value == *order.run_id.as_str())
                };
                if is_it {
                    return Ok(Some(Started {
                        external_run_id: id,
                        external_url: pipeline.web_url,
                    }));
                }
            }
            if is_last {
                break;
            }
        }
        Ok(None)
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
        Ok(self.server.understand::<Project>(what, &answer)?.default_branch)
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
        let advice = match answer.status {
            StatusCode::UNAUTHORIZED => "the access token (BUTLER_CI_API_TOKEN, apiCredentials) is wrong, has run out or was revoked".to_owned(),
            StatusCode::FORBIDDEN => "the access token needs the scope `read_api` (and for a pipeline's variables the role that may see them)".to_owned(),
            StatusCode::NOT_FOUND if self.access.is_none() => format!(
                "GitLab hides private projects: give an access token with the scope `read_api` in BUTLER_CI_API_TOKEN, and check `{}`", self.project
            ),
            StatusCode::NOT_FOUND => format!(
                "GitLab hides what a token may not see: check `{}` and the id, and that the access token is of a member of the project", self.project
            ),
            _ => return Err(self.server.refused(what, &answer, None)),
        };
        Err(self.server.refused(what, &answer, Some(advice)))
    }

    fn with_access(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.access {
            Some(token) => {
                let mut value = reqwest::header::HeaderValue::from_str(token.expose_secret())
                    .expect("a word of visible ASCII");
                value.set_sensitive(true);
                request.header("private-token", value)
            }
            None => request,
        }
    }

    fn refused_start(
        &self,
        what: &str,
        answer: &Answer,
        token: &SecretString,
        git_ref: &str,
    ) -> TriggerError {
        let is_other = ["glpat-", "glcbt-", "gldt-"]
            .into_iter()
            .find(|prefix| token.expose_secret().starts_with(prefix));
        let advice = match answer.status {
            StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED if is_other == Some("glpat-") => {
                "this is an access token; pipelines are started with a trigger token (`glptt-...`, Settings > CI/CD > Pipeline trigger tokens)".to_owned()
            }
            StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED => format!(
                "check `{}`, and that the trigger token is one of this project's and its owner still a member", self.project
            ),
            StatusCode::FORBIDDEN => "the owner of the trigger token needs the role Developer, and may have to be allowed to run pipelines on this branch".to_owned(),
            StatusCode::BAD_REQUEST if answer.says("reference not found") => {
                format!("check --ref: the project has no branch or tag `{git_ref}`")
            }
            StatusCode::BAD_REQUEST if answer.says("pipeline variables") => {
                "allow the owner of the trigger token to set pipeline variables (Settings > CI/CD > Variables: minimum role)".to_owned()
            }
            StatusCode::BAD_REQUEST => {
                "check the project's .gitlab-ci.yml: its rules have to let pipelines of triggers run".to_owned()
            }
            _ => return self.server.refused(what, answer, None),
        };
        self.server.refused(what, answer, Some(advice))
    }
}

fn created(pipeline: &Pipeline) -> Option<SystemTime> {
    time(pipeline.created_at.as_deref()?)
}

/// A moment by RFC 3339: in UTC, or with an offset, as servers with a time zone of their own say it.
fn time(text: &str) -> Option<SystemTime> {
    let (local, offset) = text.len().checked_sub(6).and_then(|at| text.split_at_checked(at))?;
    let (is_ahead, hours, minutes) = match (offset.get(..1), offset.get(1..3), offset.get(4..6)) {
        (Some(sign @ ("+" | "-")), Some(hours), Some(minutes)) => (sign == "+", hours, minutes),
        _ => return humantime::parse_rfc3339(text).ok(),
    };
    let minutes = hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?;
    let local = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let offset = Duration::from_secs(minutes * 60);
    if is_ahead { local.checked_sub(offset) } else { local.checked_add(offset) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_the_same_in_every_time_zone() {
        let expected = humantime::parse_rfc3339("2026-11-21T17:00:00Z").ok();
        for text in [
            "2026-11-21T17:00:00.000Z",
            "2026-11-21T18:30:00.000+01:30",
            "2026-11-21T12:00:00-05:00",
        ] {
            assert_eq!(time(text), expected, "{text}");
        }
        for text in ["", "soon", "2026-11-21", "2026-11-21T12:00:00-0a:00"] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
