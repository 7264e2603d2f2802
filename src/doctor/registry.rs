//! Whether the registry answers, and takes the token.

use std::time::SystemTime;

use reqwest::header::DATE;
use secrecy::SecretString;
use url::Url;

use super::finding::Finding;
use super::network::Clock;
use super::time_limit::{LONGEST, bounded};
use crate::registry::{Address, Client, Limits, Patience, RegistryError, RunStatus};
use crate::settings::{RegistryAccess, Settings, SettingsError};
use butler_base::error::{Advice, chain, is_about_certificate};
use butler_base::http::{self, Clients, Redirects};
use butler_protocol::spec::RunId;

const CHECK: &str = "registry";

/// What is found of the registry, and what time it is there.
pub(super) async fn look(
    access: Result<&RegistryAccess, &SettingsError>,
    run: &Settings,
) -> (Vec<Finding>, Option<Clock>) {
    let access = match access {
        Ok(access) => access,
        Err(error) => return (vec![Finding::error(CHECK, error)], None),
    };
    let Some(endpoint) = &access.endpoint else {
        let note = "no registry is configured: only runs with --local or --config are possible";
        return (vec![Finding::note(CHECK, note)], None);
    };
    let clients = match http::clients(run.tool.ca_bundle.as_deref(), Redirects::Refuse) {
        Ok(clients) => clients,
        Err(error) => return (vec![Finding::failed(CHECK, chain(&error))], None),
    };
    let clock = match reach(&clients, endpoint).await {
        Ok(clock) => clock,
        Err(finding) => return (vec![finding], None),
    };
    let finding = match (&access.run_id, &access.token) {
        (Some(run_id), Some(token)) => accepts(clients, endpoint, run_id, token).await,
        (None, Some(_)) => unasked(endpoint, "run id"),
        (Some(_), None) => unasked(endpoint, "token"),
        (None, None) => unasked(endpoint, "run id and a token"),
    };
    (vec![finding], clock)
}

/// Asks for the endpoint itself, without the token. Any answer will do.
async fn reach(clients: &Clients, endpoint: &Url) -> Result<Option<Clock>, Finding> {
    let answer = bounded(clients.kept.get(endpoint.clone()).send()).await;
    let error = match answer {
        Some(Ok(answer)) => {
            let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
            let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
            let here = SystemTime::now();
            return Ok(date.map(|there| Clock { whose: "the registry".to_owned(), there, here }));
        }
        Some(Err(error)) => error,
        None => {
            let silence = format!("`{endpoint}` did not respond within {} s", LONGEST.as_secs());
            return Err(Finding::failed(CHECK, silence)
                .hint("check --endpoint (BUTLER_ENDPOINT), the network and the proxy"));
        }
    };
    let is_about_certificate = is_about_certificate(&error);
    let message = format!("cannot reach `{endpoint}`: {}", chain(&error.without_url()));
    let hint = if is_about_certificate {
        "set the file with its CA certificate with --ca-bundle (BUTLER_CA_BUNDLE)"
    } else {
        "check --endpoint (BUTLER_ENDPOINT), the network and the proxy"
    };
    Err(Finding::failed(CHECK, message).hint(hint))
}

fn unasked(endpoint: &Url, missing: &str) -> Finding {
    let message = format!("`{endpoint}` responds; access was not checked without a {missing}");
    Finding::ok(CHECK, message)
}

async fn accepts(
    clients: Clients,
    endpoint: &Url,
    run_id: &RunId,
    token: &SecretString,
) -> Finding {
    let address = Address::new(endpoint.clone(), run_id.clone());
    let limits = Limits { attempt: LONGEST, long: LONGEST };
    let client = Client::new(clients, address, token.clone(), limits);
    let over = |status: &str| {
        Finding::warning(
            CHECK,
            format!("`{endpoint}` accepts the token, but run {run_id} is {status}"),
        )
        .hint("start a new run: each run is executed once")
    };
    match client.status(Patience::Once).await {
        Ok(RunStatus::Open(status)) => {
            Finding::ok(CHECK, format!("`{endpoint}` accepts the token of run {run_id} ({status})"))
        }
        Ok(RunStatus::Reported(status) | RunStatus::Over(status)) => over(&status),
        Err(RegistryError::RunOver) => over("over"),
        Err(error) => Finding {
            hint: error.advice(),
            ..Finding::failed(CHECK, format!("`{endpoint}`: {}", chain(&error)))
        },
    }
}
