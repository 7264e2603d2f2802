//! Hints for GitHub's error responses: missing permissions, or a problem with the workflow.

use reqwest::StatusCode;

use super::client::{GitHub, Login};
use crate::trigger::response::ApiResponse;
use crate::trigger::{Event, TriggerError};

impl GitHub {
    /// The error for this refusal, with a hint.
    pub(super) fn refused_with_hint(&self, what: &str, response: &ApiResponse) -> TriggerError {
        self.server.refused(what, response, self.advice(response))
    }

    fn advice(&self, response: &ApiResponse) -> Option<String> {
        match response.status {
            StatusCode::UNAUTHORIZED => Some(match &self.login {
                Login::Token(_) => {
                    "the token is wrong, expired, or revoked; classic tokens start with `ghp_`, fine-grained ones with `github_pat_`".to_owned()
                }
                Login::App(_) => "the App's token was rejected: check --app-id and its private key".to_owned(),
            }),
            StatusCode::FORBIDDEN => Some(self.advice_on_permission(response)),
            StatusCode::NOT_FOUND => Some(self.advice_on_not_found(response)),
            StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => self.advice_on_workflow(response),
            _ => None,
        }
    }

    /// The hint for a missing permission.
    fn advice_on_permission(&self, response: &ApiResponse) -> String {
        if let Some(sso) = response.header("x-github-sso") {
            let url = sso.split(';').find_map(|part| part.trim().strip_prefix("url="));
            let page = url.and_then(|url| url.split('?').next()).unwrap_or("the token's page");
            return format!("authorize the token for the organization's single sign-on: {page}");
        }
        let wanted = response.header("x-accepted-github-permissions");
        let scopes = response.header("x-oauth-scopes");
        let who = match &self.login {
            Login::Token(_) => "the token",
            Login::App(_) => "the App's installation",
        };
        match (wanted, scopes) {
            (_, Some(scopes)) => {
                let accepted = response.header("x-accepted-oauth-scopes").unwrap_or("repo");
                format!("a classic token needs the scope `{accepted}`; this one has `{scopes}`")
            }
            (Some(wanted), None) => format!("{who} needs the permission `{wanted}`"),
            (None, None) => format!("{who} needs {}", self.needed_permission()),
        }
    }

    /// The hint for "not found", which GitHub also answers if the login may not see the resource.
    fn advice_on_not_found(&self, response: &ApiResponse) -> String {
        let repository = format!("`{}/{}`", self.owner, self.name);
        let place = match &self.workflow {
            Some(workflow) => format!(
                "the repository {repository} and its workflow `{workflow}`, which has to be on the default branch,"
            ),
            None => format!("the repository {repository}"),
        };
        let needed = match response.header("x-accepted-github-permissions") {
            Some(wanted) => format!("the permission `{wanted}`"),
            None => self.needed_permission(),
        };
        format!(
            "GitHub hides what a token may not see: check {place} and that the token is for it, with {needed}"
        )
    }

    fn needed_permission(&self) -> String {
        match self.event {
            Event::WorkflowDispatch => "`actions: write` (classic: the scope `repo`)".to_owned(),
            Event::RepositoryDispatch => {
                "`contents: write` and `actions: read` (classic: the scope `repo`)".to_owned()
            }
        }
    }

    fn advice_on_workflow(&self, response: &ApiResponse) -> Option<String> {
        let workflow = self.workflow.as_deref().unwrap_or("the workflow");
        if response.body_contains("does not have 'workflow_dispatch' trigger") {
            return Some(format!(
                "add `workflow_dispatch` to `on:` of `{workflow}` on the branch --ref names, or use --event repository_dispatch"
            ));
        }
        if response.body_contains("disabled workflow") {
            return Some(format!("enable `{workflow}` on its page under Actions"));
        }
        if response.body_contains("no ref found") {
            return Some("check --ref: the branch or tag does not exist".to_owned());
        }
        if response.body_contains("unexpected inputs") || response.body_contains("required input") {
            return Some(format!(
                "`{workflow}` has to declare the inputs run_id and callback_token, and those of --input; `butler-runner generate github-actions` writes one that does"
            ));
        }
        None
    }
}
