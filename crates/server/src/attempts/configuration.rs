//! The configuration of an attempt: what `execute` asks the registry for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use butler_base::paths::leads_to;
use butler_base::process::Environment;
use butler_protocol::backend::DriftComparison;
use butler_protocol::spec::GitCredentials;
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

use super::secrets::{SecretError, Secrets};
use crate::config::{EnvironmentValue, LayerEntry, SecretSource};
use crate::data::DataDirectory;
use crate::layers::LayerSource;
use crate::model::{Action, Cause, Run, StateVersion, Strategy};
use crate::store::AttemptId;

/// The directory of each run of a layer, which is the same for a plan and its apply. Its name is one that
/// `clean` recognises.
const RUN_DIRECTORY: &str = "butler-runner-run-layer";

/// The paths of a layer cannot be given to its attempts.
#[derive(Debug, thiserror::Error)]
#[error(
    "`isolation` of the layer names `{}`, which is in the data directory, whose files no module can use", path.display()
)]
pub(super) struct IsolationPathError {
    /// The path.
    pub(super) path: PathBuf,
}

/// The variables with the paths that an attempt can use in its isolation: those of `environment`, which
/// all attempts get, and those of the layer.
///
/// # Errors
/// If a path is in the data directory of the server, or contains it. Links are followed.
pub(super) fn isolation_variables(
    entry: &LayerEntry,
    environment: &Environment,
    data: &Path,
) -> Result<Vec<(&'static str, OsString)>, IsolationPathError> {
    let Some(isolation) = &entry.isolation else { return Ok(Vec::new()) };
    let mut variables = Vec::new();
    for (name, paths) in
        [("BUTLER_ISOLATION_READ", &isolation.read), ("BUTLER_ISOLATION_WRITE", &isolation.write)]
    {
        // An empty list would be split into one empty path.
        let inherited = environment.value(name).into_iter().flat_map(std::env::split_paths);
        let mut all: Vec<PathBuf> = inherited.collect();
        for path in paths.iter().map(|path| &path.value) {
            // A module that can write beside the path may have made it a link since the configuration
            // was loaded.
            if leads_to(path, data) {
                return Err(IsolationPathError { path: path.clone() });
            }
            all.push(path.clone());
        }
        // The configuration refuses paths with a separator in them.
        if let (false, Ok(joined)) = (paths.is_empty(), std::env::join_paths(all)) {
            variables.push((name, joined));
        }
    }
    Ok(variables)
}

/// The configuration of an attempt, with its secrets. One that `is_job` has no directory on this machine.
pub(super) fn configuration(
    source: &LayerSource,
    attempt: &AttemptId,
    run: &Run,
    data: &DataDirectory,
    secrets: &Secrets,
    is_job: bool,
) -> Result<Value, SecretError> {
    let entry = &source.entry;
    let name = &attempt.layer;
    let mut variables = Map::new();
    for (variable, value) in &entry.variables {
        variables.insert(variable.clone(), json!({"value": value}));
    }
    for (variable, from) in &entry.secrets {
        let used_by = format!("the variable `{variable}` of the layer `{name}`");
        let value = secrets.read(&from.value, &used_by)?;
        let value = json!({"value": value.expose_secret(), "sensitive": true});
        variables.insert(variable.clone(), value);
    }
    let mut environment = Map::new();
    for variable in entry.pass_env.iter().map(|name| &name.value) {
        // The runner masks it if its name is that of a secret.
        if let Some(value) = secrets.variable(variable) {
            environment.insert(variable.clone(), json!({"value": value.expose_secret()}));
        }
    }
    for (variable, value) in &entry.env {
        let value = match value {
            EnvironmentValue::Text(text) => json!({"value": text}),
            EnvironmentValue::Secret(from) => {
                let used_by = format!("`env` of the layer `{name}`");
                let value = secrets.read(from, &used_by)?;
                json!({"value": value.expose_secret(), "sensitive": true})
            }
        };
        environment.insert(variable.clone(), value);
    }
    if let Some(workspace) = &entry.workspace {
        environment.insert("TF_WORKSPACE".to_owned(), json!({"value": workspace}));
    }
    let id = attempt.to_string();
    let callback = |endpoint: &str| format!("/v1/ci/module-runs/{id}/{endpoint}");
    let mut configuration = json!({
        "runId": id,
        "operation": operation(run.action),
        "source": {
            "type": "archive",
            "url": callback("source"),
            "gitRef": source.reference,
            "commit": run.commit().as_str(),
            "workingDirectory": source.path,
        },
        "variables": variables,
        "envVars": environment,
        "sensitiveValues": "literal",
        "finalStatuses": ["succeeded", "planned", "failed", "cancelled"],
        "workDirectory": if is_job { RUN_DIRECTORY.into() } else { data.work(name).join(RUN_DIRECTORY) },
        "callbacks": {
            "statusUrl": callback("status"),
            "logsUrl": callback("logs"),
            "planUrl": callback("plan"),
            "outputsUrl": callback("outputs"),
        },
    });
    match &run.cause {
        // Without changes in between, the apply finds all files where the plan had them.
        Cause::Plan { plan } => {
            configuration["planFile"] = json!({"url": callback("plan-file"), "sha256": plan});
        }
        _ if is_saved(source, run) => {
            configuration["callbacks"]["planFileUrl"] = callback("plan-file").into();
            let purpose = match run.cause {
                _ if run.destroys => "destroy",
                Cause::Accept { .. } => "accept",
                _ => "apply",
            };
            configuration["planPurpose"] = purpose.into();
        }
        _ => {}
    }
    if is_job {
        // A process leaves it in its directory.
        configuration["callbacks"]["resultUrl"] = callback("result").into();
    }
    if let Cause::Unlock { lock, .. } = &run.cause {
        configuration["forceUnlock"] = lock.as_str().into();
    }
    if let Some(given) = &entry.module_credentials {
        let used_by = format!("`module-credentials` of the layer `{name}`");
        configuration["source"]["gitRepo"] = json!(given.value.url());
        let credentials = secrets.credentials(&given.value.credentials(), &used_by)?;
        configuration["source"]["credentials"] = login(&credentials);
    }
    if let Some(tool) = &entry.tool {
        configuration["terraformVersion"] = json!(tool.value);
    }
    if let Some(backend) = backend(source, attempt, &data.states(), secrets)? {
        configuration["stateBackend"] = backend;
    }
    Ok(configuration)
}

/// Adds the request to report the version of the state. `known` is the version that the last run has left.
pub(super) fn with_state_report(
    mut configuration: Value,
    known: Option<&StateVersion>,
    compare: DriftComparison,
) -> Value {
    configuration["stateReport"] = json!({"known": known, "compare": compare});
    configuration
}

/// Whether the plan that `run` makes is saved: it may be applied later.
pub(super) fn is_saved(source: &LayerSource, run: &Run) -> bool {
    let is_applied = source.configured.layer.strategy != Strategy::PlanOnly || run.destroys;
    run.action == Action::Plan && is_applied
}

/// The login of `source`, which the runner gives to the git of Terraform for the host of `gitRepo` only.
fn login(credentials: &GitCredentials) -> Value {
    match credentials {
        GitCredentials::Token { token, .. } => {
            json!({"type": "token", "token": token.expose_secret()})
        }
        GitCredentials::Password { username, password } => {
            json!({"type": "password", "username": username, "password": password.expose_secret()})
        }
        GitCredentials::SshKey { private_key, known_hosts, .. } => {
            // Without a line, git would use the `known_hosts` files of the user.
            let known_hosts = known_hosts.as_ref().map(|lines| format!("# host keys\n{lines}"));
            json!({"type": "ssh-key", "privateKey": private_key.expose_secret(), "knownHosts": known_hosts})
        }
        GitCredentials::None | GitCredentials::GithubApp => Value::Null,
    }
}

fn backend(
    source: &LayerSource,
    attempt: &AttemptId,
    states: &Path,
    secrets: &Secrets,
) -> Result<Option<Value>, SecretError> {
    let Some(backend) = &source.entry.backend else { return Ok(None) };
    let mut settings = Map::new();
    for (name, value) in &backend.config {
        // `{file: …}`, `{env: …}` and `{secret: …}` are secrets.
        let value = match SecretSource::in_backend(value) {
            Some(from) => {
                let used_by = format!("`{name}` in the backend of the layer `{}`", attempt.layer);
                json!(secrets.read(&from, &used_by)?.expose_secret())
            }
            None => value.clone(),
        };
        settings.insert(name.clone(), value);
    }
    if backend.kind.value == "local" && !settings.contains_key("path") {
        let state = states.join(attempt.layer.as_str()).join("terraform.tfstate");
        settings.insert("path".to_owned(), json!(state));
    }
    Ok(Some(json!({"type": backend.kind.value, "config": settings})))
}

const fn operation(action: Action) -> &'static str {
    match action {
        Action::Plan => "plan",
        Action::Apply => "apply",
        Action::Destroy => "destroy",
        Action::Drift => "drift-check",
        // A trigger starts something elsewhere, and has no process here.
        Action::Trigger => "trigger",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[test]
    fn paths_of_a_layer_are_added_to_those_of_the_server_unless_they_lead_to_its_data() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("data")).unwrap();
        std::os::unix::fs::symlink(base.join("data"), base.join("link")).unwrap();
        let mut environment = Environment::default();
        environment.set("BUTLER_ISOLATION_READ", "/given");
        let variables = |isolation: &str| {
            let text = format!(
                "repositories: {{r: {{url: 'https://example.com/a'}}}}\nlayers: {{l: {{repository: r, path: a, \
                 {isolation}}}}}"
            );
            let config = parse(&[("a.yaml".into(), text)]).unwrap();
            isolation_variables(&config.layers["l"].entry, &environment, &base.join("data"))
        };
        let given = variables("isolation: {read: [/a, /b], write: [/c]}").unwrap();
        let expected =
            [("BUTLER_ISOLATION_READ", "/given:/a:/b"), ("BUTLER_ISOLATION_WRITE", "/c")];
        assert_eq!(given, expected.map(|(name, value)| (name, value.into())));
        assert_eq!(variables("isolation: {}").unwrap(), []);
        assert_eq!(variables("env: {A: b}").unwrap(), []);
        let shown = base.display().to_string();
        for path in [
            "/".to_owned(),
            shown.clone(),
            format!("{shown}/data"),
            format!("{shown}/data/x"),
            format!("{shown}/link"),
        ] {
            for key in ["read", "write"] {
                assert!(variables(&format!("isolation: {{{key}: ['{path}']}}")).is_err(), "{path}");
            }
        }
    }
}
