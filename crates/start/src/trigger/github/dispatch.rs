//! Starts a workflow: lists the existing runs, sends the start request, and determines which run it created.

use reqwest::StatusCode;
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::client::GitHub;
use super::headers::with_headers;
use crate::trigger::response::ApiResponse;
use crate::trigger::server::StartOutcome;
use crate::trigger::{ConfigError, Event, RunnerAccess, StartRequest, StartedRun, TriggerError};

/// The request, as errors name it.
const WHAT: &str = "start the workflow";

/// The type of the `repository_dispatch` event, to which workflows subscribe.
const EVENT_TYPE: &str = "butler-run";

/// The largest number of top-level properties of a payload (REST API, "Create a repository dispatch event").
const MOST_PROPERTIES: usize = 10;

impl GitHub {
    pub(in crate::trigger) async fn start(
        &self,
        start: &StartRequest,
    ) -> Result<StartedRun, TriggerError> {
        if self.event == Event::WorkflowDispatch && self.workflow.is_none() {
            let (server, what) = ("GitHub", "a workflow file for workflow_dispatch");
            let how = "add --workflow-file NAME.yml, or --event repository_dispatch";
            return Err(ConfigError::Missing { server, what, how }.into());
        }
        // Before the start, because it fails without an effect if runs cannot be listed. The server's time
        // and the known runs tell the new run from earlier ones.
        let before = self.list_runs_before_start(start).await?;
        let sent = match self.event {
            Event::WorkflowDispatch => {
                let git_ref = match &self.git_ref {
                    Some(git_ref) => git_ref.clone(),
                    None => self.default_branch().await?,
                };
                self.dispatch_workflow(start, &git_ref).await?
            }
            Event::RepositoryDispatch => {
                self.send_start(&self.url(["dispatches"]), &payload(start)?).await?
            }
        };
        match sent {
            StartOutcome::Lost(why) => {
                tracing::warn!(
                    "the response to the start request was lost ({why}); searching for the run"
                );
                self.find(start, &before, Some(why)).await
            }
            StartOutcome::Responded(response) if response.status.is_success() => {
                match self.run_from_response(&response) {
                    Some(started) => Ok(started),
                    None => self.find(start, &before, None).await,
                }
            }
            StartOutcome::Responded(response) => Err(self.refused_with_hint(WHAT, &response)),
        }
    }

    async fn dispatch_workflow(
        &self,
        start: &StartRequest,
        git_ref: &str,
    ) -> Result<StartOutcome, TriggerError> {
        let workflow = self.workflow.as_deref().unwrap_or_default();
        let url = self.url(["actions", "workflows", workflow, "dispatches"]);
        let mut own = vec![("run_id", start.run_id.as_str())];
        own.extend(start.runner.as_ref().map(|it| ("callback_token", it.token.expose_secret())));
        let inputs = start.job_inputs(&own);
        let body = json!({"ref": git_ref, "inputs": inputs, "return_run_details": true});
        let sent = self.send_start(&url, &body).await?;
        match &sent {
            // A server that rejects the unknown parameter has not started a run.
            StartOutcome::Responded(response)
                if matches!(response.status.as_u16(), 400 | 422)
                    && response.body_contains("return_run_details") =>
            {
                let body = json!({"ref": git_ref, "inputs": inputs});
                self.send_start(&url, &body).await
            }
            _ => Ok(sent),
        }
    }

    /// The run that the response names, if it names one.
    fn run_from_response(&self, response: &ApiResponse) -> Option<StartedRun> {
        #[derive(Deserialize)]
        struct Details {
            workflow_run_id: u64,
            html_url: Option<String>,
        }
        if response.status == StatusCode::NO_CONTENT {
            return None;
        }
        let details: Details = self.server.parse("", response).ok()?;
        Some(StartedRun {
            external_run_id: details.workflow_run_id.to_string(),
            external_url: details.html_url,
        })
    }

    /// Sends a start request with the login. An App's token may have expired during a rate limit. A request
    /// with a rejected token has no effect, so the token is renewed and the request repeated once.
    async fn send_start(&self, url: &Url, body: &Value) -> Result<StartOutcome, TriggerError> {
        let mut renewed = false;
        loop {
            let token = self.token().await?;
            let request = || with_headers(self.server.http().post(url.clone()), &token).json(body);
            match self.server.send_start(WHAT, request).await? {
                StartOutcome::Responded(response)
                    if response.status == StatusCode::UNAUTHORIZED
                        && !renewed
                        && self.discard_token() =>
                {
                    renewed = true;
                }
                sent => return Ok(sent),
            }
        }
    }
}

/// The payload of a `repository_dispatch`: the properties that the registry sends too, and the inputs.
fn payload(start: &StartRequest) -> Result<Value, TriggerError> {
    let mut own = vec![("run_id", start.run_id.as_str())];
    if let Some(RunnerAccess { endpoint, token }) = &start.runner {
        own.extend([("butler_url", endpoint.as_str()), ("callback_token", token.expose_secret())]);
    }
    let payload = start.job_inputs(&own);
    if payload.len() > MOST_PROPERTIES {
        let (server, most, given) = ("GitHub", MOST_PROPERTIES, payload.len());
        return Err(ConfigError::TooMany { server, most, given }.into());
    }
    Ok(json!({"event_type": EVENT_TYPE, "client_payload": payload}))
}
