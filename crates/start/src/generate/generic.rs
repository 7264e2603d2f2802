//! `generate generic`: the steps of a run as JSON, for CI systems without a separate target.
//!
//! `runner` is for a script that starts the runner, `manual` for a script without the runner. The callback
//! token is secret: the output contains a placeholder for it.

use serde::{Deserialize, Serialize};
use url::Url;

use super::secret_names::SecretNames;
use super::{GenerateError, Install, Options, Secret};

const TARGET: &str = "generic";

/// The placeholder for the token.
const TOKEN: &str = "<callback token, brce_...>";

/// The values of a run that the output contains. Missing values become placeholders.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunOutline {
    run_id: Option<String>,
    operation: Option<String>,
    terraform_version: Option<String>,
    source: Option<SourceOutline>,
    callbacks: Option<CallbacksOutline>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SourceOutline {
    git_repo: Option<String>,
    git_ref: Option<String>,
    working_directory: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CallbacksOutline {
    status_url: Option<String>,
}

#[derive(Serialize)]
struct GenericSteps {
    runner: Runner,
    manual: Manual,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Runner {
    install: String,
    command: &'static str,
    env_vars: EnvVars,
}

#[derive(Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
struct EnvVars {
    butler_endpoint: String,
    butler_run_id: String,
    butler_token: &'static str,
    #[serde(flatten)]
    network: std::collections::BTreeMap<&'static str, String>,
    /// Secrets of the run, each a placeholder.
    #[serde(flatten)]
    secrets: std::collections::BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manual {
    callback_url: String,
    token: &'static str,
    operation: String,
    terraform_version: String,
    git_repo: String,
    git_ref: String,
    working_directory: String,
}

/// Parses a run's configuration as a registry sends it.
///
/// # Errors
/// If the text is not valid JSON or a value has another type.
pub fn parse_run_outline(json: &[u8]) -> Result<RunOutline, serde_json::Error> {
    serde_json::from_slice(json)
}

/// The JSON for `run`.
///
/// # Errors
/// If the target does not support an option.
pub fn generic(options: &Options, run: &RunOutline) -> Result<String, GenerateError> {
    options.check(TARGET, &[])?;
    options.check_secrets(TARGET, SecretNames { allowed: |_| true, rule: "" })?;
    refuse_unsupported(options)?;
    let install = options.install_script("$PWD").unwrap_or_default();
    let endpoint = options.endpoint.as_ref().map(|url| url.as_str().trim_end_matches('/'));
    let endpoint = endpoint.unwrap_or("<the registry's address>").to_owned();
    let run_id = run.run_id.clone().unwrap_or_else(|| "<run id>".to_owned());
    let source = run.source.clone().unwrap_or_default();
    let status_url = run.callbacks.as_ref().and_then(|it| it.status_url.clone());
    let status_url = status_url.unwrap_or_else(|| format!("/v1/ci/module-runs/{run_id}/status"));
    let is_relative = status_url.starts_with('/');
    let callback_url = if is_relative { format!("{endpoint}{status_url}") } else { status_url };
    let or_else =
        |text: Option<String>, otherwise: &str| text.unwrap_or_else(|| otherwise.to_owned());
    let steps = GenericSteps {
        runner: Runner {
            install,
            command: "./butler-runner execute",
            env_vars: EnvVars {
                butler_endpoint: endpoint,
                butler_run_id: run_id,
                butler_token: TOKEN,
                network: options.network_variables().into_iter().collect(),
                secrets: options.secrets.iter().map(placeholder).collect(),
            },
        },
        manual: Manual {
            callback_url,
            token: TOKEN,
            operation: or_else(run.operation.clone(), "<operation>"),
            terraform_version: or_else(run.terraform_version.clone(), "<version>"),
            git_repo: source.git_repo.map_or_else(|| "<repository>".to_owned(), without_login),
            git_ref: or_else(source.git_ref, "<branch, tag or commit>"),
            working_directory: or_else(source.working_directory, "."),
        },
    };
    Ok(to_json(&steps))
}

/// The variable of a secret, and the placeholder for its value.
fn placeholder(secret: &Secret) -> (String, String) {
    (secret.variable.clone(), format!("<secret {}>", secret.name))
}

fn to_json(steps: &GenericSteps) -> String {
    serde_json::to_string_pretty(steps).expect("strings are always valid JSON") + "\n"
}

/// Refuses options that the output cannot express.
fn refuse_unsupported(options: &Options) -> Result<(), GenerateError> {
    let Options { install, cloud, gate, cache, labels, timeout, fragment, .. } = options;
    let job = "set it where your CI system describes the job";
    let wanted = [
        (
            matches!(install, Install::Image { .. }),
            "--image",
            "start `butler-runner execute` in the image, with the variables of `runner.envVars`",
        ),
        (
            !cloud.is_empty(),
            "--oidc",
            "log in before `runner.command`, by the means of your CI system",
        ),
        (gate.is_some(), "--gate", job),
        (*cache, "--cache", job),
        (!labels.is_empty(), "--label", job),
        (timeout.is_some(), "--timeout", job),
        (
            *fragment,
            "--fragment",
            "`runner.install` and `runner.command` are what a script includes",
        ),
    ];
    match wanted.into_iter().find(|(is_wanted, ..)| *is_wanted) {
        Some((_, option, instead)) => {
            Err(GenerateError::Unsupported { target: TARGET, option, instead })
        }
        None => Ok(()),
    }
}

/// A repository's address without user name and password.
fn without_login(address: String) -> String {
    let Ok(mut url) = address.parse::<Url>() else { return address };
    // The user of ssh is not secret, and is part of the address.
    let kept =
        url.set_password(None).is_ok() && (url.scheme() == "ssh" || url.set_username("").is_ok());
    if kept && url.as_str() != address { url.to_string() } else { address }
}
