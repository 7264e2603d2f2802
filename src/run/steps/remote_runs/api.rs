//! The requests to the server of a run, by the API of HCP Terraform.

use std::time::Duration;

use reqwest::{Method, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::engine::RemoteRun;
use butler_base::error::chain;

/// The longest time for a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The document that names the services of a host.
const DISCOVERY: &str = "/.well-known/terraform.json";

/// The service with runs.
const SERVICE: &str = "tfe.v2";

/// The largest answer that is read, in bytes.
const LARGEST: usize = 1 << 20;

/// The statuses in which a run has ended.
const ENDED: [&str; 7] = [
    "applied",
    "canceled",
    "discarded",
    "errored",
    "force_canceled",
    "planned_and_finished",
    "policy_soft_failed",
];

/// A request to end a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RunAction {
    /// Stops the plan or the apply that is executed.
    Cancel,
    /// Gives up a plan that waits for its apply.
    Discard,
}

/// The status of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct RunStatus(pub(super) String);

impl RunStatus {
    /// Whether nothing more happens in the run.
    pub(super) fn has_ended(&self) -> bool {
        ENDED.contains(&&*self.0)
    }
}

/// The API of the server of one run.
pub(super) struct Api {
    client: reqwest::Client,
    runs: Url,
    token: SecretString,
}

#[derive(Deserialize)]
struct RunDocument {
    data: RunData,
}

#[derive(Deserialize)]
struct RunData {
    attributes: RunAttributes,
}

#[derive(Deserialize)]
struct RunAttributes {
    status: String,
}

impl Api {
    /// Requests the address of the API from the host.
    ///
    /// # Errors
    /// The reason for users if the host does not name it.
    pub(super) async fn find(
        client: reqwest::Client,
        run: &RemoteRun,
        token: SecretString,
    ) -> Result<Self, String> {
        let host = run.host.as_str();
        let address = format!("https://{host}{DISCOVERY}");
        let failed = |why: String| format!("`{address}` does not name the API of {host}: {why}");
        let base = Url::parse(&address).map_err(|error| failed(error.to_string()))?;
        let request = client.get(base.clone());
        let services = read(request).await.map_err(failed)?;
        let services: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(&services).map_err(|error| failed(error.to_string()))?;
        let service = services.get(SERVICE).and_then(|service| service.as_str());
        let service = service.ok_or_else(|| failed(format!("there is no service {SERVICE}")))?;
        let api = base.join(service).map_err(|error| failed(error.to_string()))?;
        // The token is sent there.
        if api.scheme() != "https" {
            return Err(failed("its address does not begin with https".to_owned()));
        }
        let runs = api.join("runs/").map_err(|error| failed(error.to_string()))?;
        Ok(Self { client, runs, token })
    }

    fn request(&self, method: Method, path: &str) -> Result<reqwest::RequestBuilder, String> {
        let url = self.runs.join(path).map_err(|error| error.to_string())?;
        let request = self.client.request(method, url);
        Ok(request.bearer_auth(self.token.expose_secret()))
    }

    /// Requests the status of a run.
    ///
    /// # Errors
    /// The reason for users if it is not known.
    pub(super) async fn status(&self, run: &RemoteRun) -> Result<RunStatus, String> {
        let body = read(self.request(Method::GET, &run.id)?).await?;
        let document: RunDocument = serde_json::from_slice(&body)
            .map_err(|error| format!("not the answer of the API: {error}"))?;
        Ok(RunStatus(document.data.attributes.status))
    }

    /// Requests an action. Returns whether the status of the run allowed it.
    ///
    /// # Errors
    /// The reason for users if the server does not answer, or refuses it for another reason.
    pub(super) async fn act(&self, run: &RemoteRun, action: RunAction) -> Result<bool, String> {
        let name = match action {
            RunAction::Cancel => "cancel",
            RunAction::Discard => "discard",
        };
        let request = self.request(Method::POST, &format!("{}/actions/{name}", run.id))?;
        let answer = request.timeout(TIMEOUT).send().await;
        let status = answer.map_err(|error| chain(&error.without_url()))?.status();
        match status {
            StatusCode::CONFLICT => Ok(false),
            status if status.is_success() => Ok(true),
            status => Err(format!("the server answered {status} to `{name}`")),
        }
    }
}

/// The body of the answer to a request.
async fn read(request: reqwest::RequestBuilder) -> Result<Vec<u8>, String> {
    let failed = |error: reqwest::Error| chain(&error.without_url());
    let mut answer = request.timeout(TIMEOUT).send().await.map_err(failed)?;
    if !answer.status().is_success() {
        return Err(format!("the server answered {}", answer.status()));
    }
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(failed)? {
        if body.len() + part.len() > LARGEST {
            return Err("the answer is too large".to_owned());
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}
