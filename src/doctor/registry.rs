//! Checks whether the registry responds and accepts the token.

use std::time::SystemTime;

use reqwest::header::DATE;
use secrecy::SecretString;
use url::Url;

use super::finding::Finding;
use super::network::ClockReading;
use super::time_limit::{CHECK_TIMEOUT, with_timeout};
use crate::registry::{Address, Client, Limits, Patience, RegistryError, RunStatus};
use crate::settings::{RegistryAccess, Settings, SettingsError};
use butler_base::error::{Advice, chain, is_about_certificate};
use butler_base::http::{self, Clients, Redirects};
use butler_protocol::spec::RunId;

const CHECK: &str = "registry";

/// The finding about the registry, and its clock.
pub(super) async fn check_registry(
    access: Result<&RegistryAccess, &SettingsError>,
    run: &Settings,
) -> (Vec<Finding>, Option<ClockReading>) {
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
    let clock = match reach_endpoint(&clients, endpoint).await {
        Ok(clock) => clock,
        Err(finding) => return (vec![finding], None),
    };
    let finding = match (&access.run_id, &access.token) {
        (Some(run_id), Some(token)) => check_access(clients, endpoint, run_id, token).await,
        (None, Some(_)) => access_not_checked(endpoint, "run id"),
        (Some(_), None) => access_not_checked(endpoint, "token"),
        (None, None) => access_not_checked(endpoint, "run id and a token"),
    };
    (vec![finding], clock)
}

/// Requests the endpoint without the token. Any response proves that it is reachable.
async fn reach_endpoint(
    clients: &Clients,
    endpoint: &Url,
) -> Result<Option<ClockReading>, Finding> {
    let answer = with_timeout(clients.kept.get(endpoint.clone()).send()).await;
    let error = match answer {
        Some(Ok(answer)) => {
            let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
            let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
            let here = SystemTime::now();
            return Ok(date.map(|there| ClockReading {
                server: "the registry".to_owned(),
                there,
                here,
            }));
        }
        Some(Err(error)) => error,
        None => {
            let silence =
                format!("`{endpoint}` did not respond within {} s", CHECK_TIMEOUT.as_secs());
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

fn access_not_checked(endpoint: &Url, missing: &str) -> Finding {
    let message = format!("`{endpoint}` responds; access was not checked without a {missing}");
    Finding::ok(CHECK, message)
}

async fn check_access(
    clients: Clients,
    endpoint: &Url,
    run_id: &RunId,
    token: &SecretString,
) -> Finding {
    let address = Address::new(endpoint.clone(), run_id.clone());
    let limits = Limits { attempt: CHECK_TIMEOUT, long: CHECK_TIMEOUT };
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
