//! Hints for GitLab's error responses: a missing token, missing permissions, or project settings.

use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};

use super::client::GitLab;
use crate::trigger::TriggerError;
use crate::trigger::response::ApiResponse;

impl GitLab {
    /// The error for a refused read request, with a hint.
    pub(super) fn refused_read(&self, what: &str, response: &ApiResponse) -> TriggerError {
        let advice = match response.status {
            StatusCode::UNAUTHORIZED => "the access token (BUTLER_CI_API_TOKEN, apiCredentials) is wrong, expired, or revoked".to_owned(),
            StatusCode::FORBIDDEN => "the access token needs the scope `read_api` (and for a pipeline's variables the role that may see them)".to_owned(),
            StatusCode::NOT_FOUND if self.access.is_none() => format!(
                "GitLab hides private projects: give an access token with the scope `read_api` in BUTLER_CI_API_TOKEN, and check `{}`", self.project
            ),
            StatusCode::NOT_FOUND => format!(
                "GitLab hides what a token may not see: check `{}` and the id, and that the access token is of a member of the project", self.project
            ),
            _ => return self.server.refused(what, response, None),
        };
        self.server.refused(what, response, Some(advice))
    }

    /// The error for a refused start request, with a hint.
    pub(super) fn refused_start(
        &self,
        what: &str,
        response: &ApiResponse,
        token: &SecretString,
        git_ref: &str,
    ) -> TriggerError {
        let other_kind = ["glpat-", "glcbt-", "gldt-"]
            .into_iter()
            .find(|prefix| token.expose_secret().starts_with(prefix));
        let advice = match response.status {
            StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED if other_kind == Some("glpat-") => {
                "this is an access token; pipelines are started with a trigger token (`glptt-...`, Settings > CI/CD > Pipeline trigger tokens)".to_owned()
            }
            StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED => format!(
                "check `{}`, and that the trigger token is one of this project's and its owner still a member", self.project
            ),
            StatusCode::FORBIDDEN => "the owner of the trigger token needs the role Developer, and may have to be allowed to run pipelines on this branch".to_owned(),
            StatusCode::BAD_REQUEST if response.body_contains("reference not found") => {
                format!("check --ref: the project has no branch or tag `{git_ref}`")
            }
            StatusCode::BAD_REQUEST if response.body_contains("pipeline variables") => {
                "allow the owner of the trigger token to set pipeline variables (Settings > CI/CD > Variables: minimum role)".to_owned()
            }
            StatusCode::BAD_REQUEST => {
                "check the project's .gitlab-ci.yml: its rules have to let pipelines of triggers run".to_owned()
            }
            _ => return self.server.refused(what, response, None),
        };
        self.server.refused(what, response, Some(advice))
    }
}
