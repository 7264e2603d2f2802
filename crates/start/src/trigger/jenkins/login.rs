//! How a request logs in, what guards against forged ones, and what refusals mean.

use reqwest::header::SET_COOKIE;
use reqwest::{RequestBuilder, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::Jenkins;
use crate::trigger::TriggerError;
use crate::trigger::answer::Answer;

/// What a POST needs where the server guards against forged requests. It belongs to a session.
pub(super) struct Crumb {
    pub(super) field: String,
    pub(super) value: SecretString,
    pub(super) cookies: SecretString,
}

impl Jenkins {
    /// What guards against forged requests, where the server wants it.
    pub(super) async fn crumb(&self) -> Result<Option<Crumb>, TriggerError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Issued {
            crumb: SecretString,
            crumb_request_field: String,
        }
        let what = "get a crumb";
        let url = self.server.url(["crumbIssuer", "api", "json"]);
        let request = || self.with_login(self.server.http().get(url.clone()));
        let answer = self.server.ask(what, request).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(self.explained(what, &answer));
        }
        let issued: Issued = self.server.parse(what, &answer)?;
        let is_header = issued
            .crumb_request_field
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b"-._".contains(&it));
        if !is_header || issued.crumb_request_field.is_empty() {
            let (server, what) = ("Jenkins", what.to_owned());
            return Err(TriggerError::NotTheApi { server, what, seen: "a crumb without a header" });
        }
        let cookies = answer.headers.get_all(SET_COOKIE).iter();
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

    /// Asks for something that has to be there.
    pub(super) async fn get(&self, what: &str, url: &Url) -> Result<Answer, TriggerError> {
        let request = || self.with_login(self.server.http().get(url.clone()));
        let answer = self.server.ask(what, request).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(self.explained(what, &answer)) }
    }

    pub(super) fn with_login(&self, request: RequestBuilder) -> RequestBuilder {
        let (Some(user), Some(token)) = (&self.user, &self.token) else { return request };
        request.basic_auth(user, Some(token.expose_secret()))
    }

    /// The error for this refusal of an order, with what to do about it.
    pub(super) fn refused_start(&self, answer: &Answer) -> TriggerError {
        // What the queue does not take is sent back to the job's own page.
        let is_sent_back = answer.location().is_some_and(|url| self.job.is_at(url.path()));
        if answer.status == StatusCode::FOUND && is_sent_back {
            return TriggerError::Unfit {
                server: "Jenkins",
                problem: format!("the queue does not accept the job `{}`", self.job),
                advice:
                    "look at the job's page and at the log of Jenkins: a plugin may block the job"
                        .to_owned(),
            };
        }
        self.explained("start the job", answer)
    }

    /// The error for this refusal, with what to do about it.
    fn explained(&self, what: &str, answer: &Answer) -> TriggerError {
        let job = &self.job;
        let who = answer.header("x-you-are-authenticated-as").unwrap_or("anonymous");
        let who = self.server.shown(who);
        let advice = match answer.status {
            StatusCode::UNAUTHORIZED => {
                "the API token was rejected: check --user and the token (the user's page > Security); a password does not work".to_owned()
            }
            StatusCode::FORBIDDEN if answer.body_contains("crumb") => {
                "the crumb was rejected: behind a proxy that changes the client's address, let Jenkins' crumb issuer ignore that (proxy compatibility)".to_owned()
            }
            StatusCode::FORBIDDEN => match answer.header("x-required-permission") {
                Some(wanted) => {
                    format!("`{who}` needs the permission `{}`", permission(&self.server.shown(wanted)))
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
            _ => return self.server.refused(what, answer, None),
        };
        self.server.refused(what, answer, Some(advice))
    }
}

/// `Job/Build`, which Jenkins calls `hudson.model.Item.Build` in its headers.
fn permission(id: &str) -> String {
    match id.strip_prefix("hudson.model.Item.") {
        Some(name) => format!("Job/{name}"),
        None => id.to_owned(),
    }
}
