//! Starts a workflow: looks how things stand, gives the order, and says which run it made.

use reqwest::StatusCode;
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::GitHub;
use super::headers::with_headers;
use crate::trigger::answer::Answer;
use crate::trigger::server::Sent;
use crate::trigger::{ConfigError, Event, Order, Started, TriggerError};

/// What is wanted, as errors say it.
const WHAT: &str = "start the workflow";

/// What `repository_dispatch` is called; workflows wait for it by this name.
const EVENT_TYPE: &str = "butler-run";

/// How many top-level properties a payload may have (REST API, "Create a repository dispatch event").
const LARGEST_PAYLOAD: usize = 10;

impl GitHub {
    pub(in crate::trigger) async fn start(&self, order: &Order) -> Result<Started, TriggerError> {
        if self.event == Event::WorkflowDispatch && self.workflow.is_none() {
            let (server, what) = ("GitHub", "a workflow file for workflow_dispatch");
            let how = "add --workflow-file NAME.yml, or --event repository_dispatch";
            return Err(ConfigError::Missing { server, what, how }.into());
        }
        // Says before anything is started whether runs can be seen at all, what time it is there,
        // and which runs of this name there are already.
        let before = self.look_before(order).await?;
        let sent = match self.event {
            Event::WorkflowDispatch => {
                let git_ref = match &self.git_ref {
                    Some(git_ref) => git_ref.clone(),
                    None => self.default_branch().await?,
                };
                self.dispatch_workflow(order, &git_ref).await?
            }
            Event::RepositoryDispatch => {
                self.order(&self.url(["dispatches"]), &payload(order)?).await?
            }
        };
        match sent {
            Sent::Lost(why) => {
                tracing::warn!(
                    "the response to the start request was lost ({why}); searching for the run"
                );
                self.find(order, &before, Some(why)).await
            }
            Sent::Answered(answer) if answer.status.is_success() => {
                match self.run_from_response(&answer) {
                    Some(started) => Ok(started),
                    None => self.find(order, &before, None).await,
                }
            }
            Sent::Answered(answer) => Err(self.explained(WHAT, &answer)),
        }
    }

    async fn dispatch_workflow(&self, order: &Order, git_ref: &str) -> Result<Sent, TriggerError> {
        let workflow = self.workflow.as_deref().unwrap_or_default();
        let url = self.url(["actions", "workflows", workflow, "dispatches"]);
        let inputs = order.job_inputs(&[
            ("run_id", order.run_id.as_str()),
            ("callback_token", order.token.expose_secret()),
        ]);
        let body = json!({"ref": git_ref, "inputs": inputs, "return_run_details": true});
        let sent = self.order(&url, &body).await?;
        match &sent {
            // A server that does not know the word has started nothing.
            Sent::Answered(answer)
                if matches!(answer.status.as_u16(), 400 | 422)
                    && answer.body_contains("return_run_details") =>
            {
                let body = json!({"ref": git_ref, "inputs": inputs});
                self.order(&url, &body).await
            }
            _ => Ok(sent),
        }
    }

    /// The run that the answer to the order names, where it names one.
    fn run_from_response(&self, answer: &Answer) -> Option<Started> {
        #[derive(Deserialize)]
        struct Details {
            workflow_run_id: u64,
            html_url: Option<String>,
        }
        if answer.status == StatusCode::NO_CONTENT {
            return None;
        }
        let details: Details = self.server.parse("", answer).ok()?;
        Some(Started {
            external_run_id: details.workflow_run_id.to_string(),
            external_url: details.html_url,
        })
    }

    /// Sends an order with the login. An App's token that is not taken starts nothing: it may have run
    /// out during a rate limit, and is renewed once.
    async fn order(&self, url: &Url, body: &Value) -> Result<Sent, TriggerError> {
        let mut renewed = false;
        loop {
            let token = self.token().await?;
            let request = || with_headers(self.server.http().post(url.clone()), &token).json(body);
            match self.server.order(WHAT, request).await? {
                Sent::Answered(answer)
                    if answer.status == StatusCode::UNAUTHORIZED
                        && !renewed
                        && self.forget_token() =>
                {
                    renewed = true;
                }
                sent => return Ok(sent),
            }
        }
    }
}

/// What the deployed registry sends, and what was added.
fn payload(order: &Order) -> Result<Value, TriggerError> {
    let payload = order.job_inputs(&[
        ("butler_url", order.endpoint.as_str()),
        ("run_id", order.run_id.as_str()),
        ("callback_token", order.token.expose_secret()),
    ]);
    if payload.len() > LARGEST_PAYLOAD {
        let (server, most, given) = ("GitHub", LARGEST_PAYLOAD, payload.len());
        return Err(ConfigError::TooMany { server, most, given }.into());
    }
    Ok(json!({"event_type": EVENT_TYPE, "client_payload": payload}))
}
