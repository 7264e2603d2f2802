//! Login and crumbs (Jenkins' protection against forged requests), and hints for refusals.

use reqwest::header::SET_COOKIE;
use reqwest::{RequestBuilder, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::client::Jenkins;
use crate::trigger::TriggerError;
use crate::trigger::response::ApiResponse;

/// A crumb, which each POST needs if the server's protection against forged requests is on. It is valid only
/// with the cookies of its session.
pub(super) struct Crumb {
    pub(super) field: String,
    pub(super) value: SecretString,
    pub(super) cookies: SecretString,
}

impl Jenkins {
    /// Requests a crumb; `None` if the server does not use crumbs.
    pub(super) async fn request_crumb(&self) -> Result<Option<Crumb>, TriggerError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Issued {
            crumb: SecretString,
            crumb_request_field: String,
        }
        let what = "get a crumb";
        let url = self.server.url(["crumbIssuer", "api", "json"]);
        let request = || self.with_login(self.server.http().get(url.clone()));
        let response = self.server.send_read(what, request).await?;
        if response.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !response.status.is_success() {
            return Err(self.refused_with_hint(what, &response));
        }
        let issued: Issued = self.server.parse(what, &response)?;
        let is_header = issued
            .crumb_request_field
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b"-._".contains(&it));
        if !is_header || issued.crumb_request_field.is_empty() {
            let (server, what) = ("Jenkins", what.to_owned());
            return Err(TriggerError::NotTheApi { server, what, seen: "a crumb without a header" });
        }
        let cookies = response.headers.get_all(SET_COOKIE).iter();
        let cookies: Vec<_> =
            cookies.filter_map(|it| it.to_str().ok()?.split(';').next()).collect();
        let session = cookies.iter().filter_map(|it| it.split_once('='));
        let session: Vec<_> = session.map(|(_, value)| SecretString::from(value)).collect();
        self.server.redactor().register(session.iter().chain([&issued.crumb]));
        Ok(Some(Crumb {
            field: issued.crumb_request_field,
            value: issued.crumb,
            cookies: cookies.join("; ").into(),
        }))
    }

    /// Sends a read request; every status except success is an error.
    pub(super) async fn get(&self, what: &str, url: &Url) -> Result<ApiResponse, TriggerError> {
        let request = || self.with_login(self.server.http().get(url.clone()));
        let response = self.server.send_read(what, request).await?;
        if response.status.is_success() {
            Ok(response)
        } else {
            Err(self.refused_with_hint(what, &response))
        }
    }

    pub(super) fn with_login(&self, request: RequestBuilder) -> RequestBuilder {
        let (Some(user), Some(token)) = (&self.user, &self.token) else { return request };
        request.basic_auth(user, Some(token.expose_secret()))
    }

    /// The error for a refused start request, with a hint.
    pub(super) fn refused_start(&self, response: &ApiResponse) -> TriggerError {
        // If the queue does not accept the job, Jenkins redirects to the job's page.
        let is_to_job_page = response.location().is_some_and(|url| self.job.is_at(url.path()));
        if response.status == StatusCode::FOUND && is_to_job_page {
            return TriggerError::UnusableJob {
                server: "Jenkins",
                problem: format!("the queue does not accept the job `{}`", self.job),
                advice:
                    "look at the job's page and at the log of Jenkins: a plugin may block the job"
                        .to_owned(),
            };
        }
        self.refused_with_hint("start the job", response)
    }

    /// The error for a refusal, with a hint.
    fn refused_with_hint(&self, what: &str, response: &ApiResponse) -> TriggerError {
        let job = &self.job;
        let who = response.header("x-you-are-authenticated-as").unwrap_or("anonymous");
        let who = self.server.shown(who);
        let advice = match response.status {
            StatusCode::UNAUTHORIZED => {
                "the API token was rejected: check --user and the token (the user's page > Security); a password does not work".to_owned()
            }
            StatusCode::FORBIDDEN if response.body_contains("crumb") => {
                "the crumb was rejected: behind a proxy that changes the client's address, let Jenkins' crumb issuer ignore that (proxy compatibility)".to_owned()
            }
            StatusCode::FORBIDDEN => match response.header("x-required-permission") {
                Some(wanted) => {
                    format!("`{who}` needs the permission `{}`", permission_title(&self.server.shown(wanted)))
                }
                None => format!("`{who}` needs the permissions Job/Build and Job/Read for `{job}`"),
            },
            StatusCode::NOT_FOUND => format!(
                "check --url and --job; Jenkins hides jobs for which `{who}` has no Job/Read"
            ),
            StatusCode::CONFLICT => format!("the job `{job}` is disabled: enable it on its page"),
            StatusCode::BAD_REQUEST => format!(
                "the job `{job}` has to have the parameters RUN_ID and CALLBACK_TOKEN (a password parameter)"
            ),
            _ => return self.server.refused(what, response, None),
        };
        self.server.refused(what, response, Some(advice))
    }
}

/// The permission's name in Jenkins' settings (`Job/Build`) for the one in headers
/// (`hudson.model.Item.Build`).
fn permission_title(id: &str) -> String {
    match id.strip_prefix("hudson.model.Item.") {
        Some(name) => format!("Job/{name}"),
        None => id.to_owned(),
    }
}
