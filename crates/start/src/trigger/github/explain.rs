//! What GitHub's refusals mean: which permission is missing, or what about the workflow is not right.

use reqwest::StatusCode;

use super::{GitHub, Login};
use crate::trigger::answer::Answer;
use crate::trigger::{Event, TriggerError};

impl GitHub {
    /// The error for this refusal, with what to do about it.
    pub(super) fn explained(&self, what: &str, answer: &Answer) -> TriggerError {
        self.server.refused(what, answer, self.advice(answer))
    }

    fn advice(&self, answer: &Answer) -> Option<String> {
        match answer.status {
            StatusCode::UNAUTHORIZED => Some(match &self.login {
                Login::Token(_) => {
                    "the token is wrong, expired, or revoked; classic tokens start with `ghp_`, fine-grained ones with `github_pat_`".to_owned()
                }
                Login::App(_) => "the App's token was rejected: check --app-id and its private key".to_owned(),
            }),
            StatusCode::FORBIDDEN => Some(self.permission(answer)),
            StatusCode::NOT_FOUND => Some(self.hidden(answer)),
            StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => self.workflow_problem(answer),
            _ => None,
        }
    }

    /// What it is that the login may not.
    fn permission(&self, answer: &Answer) -> String {
        if let Some(sso) = answer.header("x-github-sso") {
            let url = sso.split(';').find_map(|part| part.trim().strip_prefix("url="));
            let page = url.and_then(|url| url.split('?').next()).unwrap_or("the token's page");
            return format!("authorize the token for the organization's single sign-on: {page}");
        }
        let wanted = answer.header("x-accepted-github-permissions");
        let scopes = answer.header("x-oauth-scopes");
        let who = match &self.login {
            Login::Token(_) => "the token",
            Login::App(_) => "the App's installation",
        };
        match (wanted, scopes) {
            (_, Some(scopes)) => {
                let accepted = answer.header("x-accepted-oauth-scopes").unwrap_or("repo");
                format!("a classic token needs the scope `{accepted}`; this one has `{scopes}`")
            }
            (Some(wanted), None) => format!("{who} needs the permission `{wanted}`"),
            (None, None) => format!("{who} needs {}", self.needed()),
        }
    }

    /// GitHub hides what a login may not see.
    fn hidden(&self, answer: &Answer) -> String {
        let repository = format!("`{}/{}`", self.owner, self.name);
        let place = match &self.workflow {
            Some(workflow) => format!(
                "the repository {repository} and its workflow `{workflow}`, which has to be on the default branch,"
            ),
            None => format!("the repository {repository}"),
        };
        let needed = match answer.header("x-accepted-github-permissions") {
            Some(wanted) => format!("the permission `{wanted}`"),
            None => self.needed(),
        };
        format!(
            "GitHub hides what a token may not see: check {place} and that the token is for it, with {needed}"
        )
    }

    fn needed(&self) -> String {
        match self.event {
            Event::WorkflowDispatch => "`actions: write` (classic: the scope `repo`)".to_owned(),
            Event::RepositoryDispatch => {
                "`contents: write` and `actions: read` (classic: the scope `repo`)".to_owned()
            }
        }
    }

    fn workflow_problem(&self, answer: &Answer) -> Option<String> {
        let workflow = self.workflow.as_deref().unwrap_or("the workflow");
        if answer.body_contains("does not have 'workflow_dispatch' trigger") {
            return Some(format!(
                "add `workflow_dispatch` to `on:` of `{workflow}` on the branch --ref names, or use --event repository_dispatch"
            ));
        }
        if answer.body_contains("disabled workflow") {
            return Some(format!("enable `{workflow}` on its page under Actions"));
        }
        if answer.body_contains("no ref found") {
            return Some("check --ref: the branch or tag does not exist".to_owned());
        }
        if answer.body_contains("unexpected inputs") || answer.body_contains("required input") {
            return Some(format!(
                "`{workflow}` has to declare the inputs run_id and callback_token, and those of --input; `butler-runner generate github-actions` writes one that does"
            ));
        }
        None
    }
}
