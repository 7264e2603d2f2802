//! The run configuration in the registry's format, and its conversion into a [`RunSpec`].
//!
//! Unknown fields are ignored, and a field that is `null` counts as absent, so that runs of newer and
//! older registries can be executed. Values keep their exact text, including numbers.

use std::path::{Component, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::entries::{Entries, JsonText};
use super::shape::problem;
use crate::backend::{DriftComparison, InvalidLockId, LockId, StateReport, StateVersion};
use crate::spec::{
    ArchiveSource, Backend, EnvironmentVariable, GitCredentials, GitSource, Operation, PlanFile,
    PlanPurpose, RequestedVersion, RequestedVersionError, RunSpec, SecretReference,
    SensitiveValues, Source, TerraformSetup, UnknownOperation, Variable,
};

/// An error in a run's configuration. The messages never contain a value of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The configuration is not JSON of the expected structure.
    #[error("the run's configuration cannot be read: line {line}, column {column}: {problem}")]
    Syntax {
        /// The line of the error; the first line is 1.
        line: usize,
        /// The column of the error; the first column is 1.
        column: usize,
        /// The field that is not valid, and what it must be.
        problem: String,
    },
    /// `operation` is not the name of an operation.
    #[error(transparent)]
    Operation(#[from] UnknownOperation),
    /// `terraformVersion` is not a version.
    #[error("`terraformVersion` cannot be used")]
    Version(#[from] RequestedVersionError),
    /// `source` is missing, or its type is neither `git` nor `archive`.
    #[error("the run has no source to fetch (source type `{0}`)")]
    NoSource(String),
    /// The source does not have a repository.
    #[error("the run's source names no repository")]
    NoRepository,
    /// The source does not have a branch, tag or commit.
    #[error("the run's source names no git reference")]
    NoReference,
    /// The archive does not have an address.
    #[error("the run's source names no `url` of its archive")]
    NoArchive,
    /// The archive does not have a commit.
    #[error("the run's source names no `commit` of its archive")]
    NoCommit,
    /// The type of the credentials is unknown, or the credentials are incomplete.
    #[error("the source credentials of type `{kind}` cannot be used: {problem}")]
    Credentials {
        /// The type of the credentials.
        kind: String,
        /// The missing field, or that the type is unknown.
        problem: &'static str,
    },
    /// The value of an environment variable is not text, a number or a boolean.
    #[error(
        "the environment variable `{0}` has a value that is neither text nor a number nor a boolean"
    )]
    EnvironmentValue(String),
    /// `sensitiveValues` is neither `auto` nor `literal`. The runner does not assume one of them,
    /// because it could apply a reference as if it were the secret.
    #[error("`sensitiveValues` of the run is neither `auto` nor `literal`")]
    SensitiveValues,
    /// `planFile` is incomplete, or the run applies nothing.
    #[error("`planFile` of the run cannot be used: {0}")]
    PlanFile(&'static str),
    /// `planPurpose` is neither `apply` nor `destroy` nor `accept`.
    #[error("`planPurpose` of the run is neither `apply` nor `destroy` nor `accept`")]
    PlanPurpose,
    /// `forceUnlock` is not the id of a lock, or the run is not a plan.
    #[error("`forceUnlock` of the run cannot be used: {0}")]
    ForceUnlock(String),
    /// `workDirectory` leads out of its directory.
    #[error("`workDirectory` of the run is not a path without `.` and `..`")]
    WorkDirectory,
    /// The state backend does not have a type.
    #[error("the run's state backend has no type")]
    NoBackendType,
}

impl butler_base::error::Advice for ConfigError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Operation(_) => {
                let names: Vec<_> = Operation::ALL.map(Operation::name).to_vec();
                Some(format!("the operations are {}", names.join(", ")))
            }
            Self::NoReference => Some(
                "give the module a branch, tag or commit; the default branch is never guessed"
                    .to_owned(),
            ),
            Self::NoSource(_) | Self::NoRepository => {
                Some("connect the module to a git repository in the registry".to_owned())
            }
            Self::Credentials { .. } => {
                Some("the types are token, password, ssh-key and github-app".to_owned())
            }
            Self::Version(error) => error.advice(),
            Self::Syntax { .. }
            | Self::NoArchive
            | Self::NoCommit
            | Self::EnvironmentValue(_)
            | Self::SensitiveValues
            | Self::PlanFile(_)
            | Self::PlanPurpose
            | Self::ForceUnlock(_)
            | Self::WorkDirectory
            | Self::NoBackendType => None,
        }
    }

    fn class(&self) -> Option<butler_base::error::FailureClass> {
        Some(butler_base::error::FailureClass::Configuration)
    }
}

/// The final status that a registry takes for a run that a signal has stopped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum StopStatus {
    /// `failed`. A registry may store a status that it does not know and never end the run.
    #[default]
    Failed,
    /// `cancelled`: the registry says in `finalStatuses` that this status ends a run.
    Cancelled,
}

/// A parsed configuration.
#[derive(Debug)]
pub struct Parsed {
    /// The description of the run.
    pub spec: RunSpec,
    /// The settings for Terraform, as JSON text.
    pub terraform_settings: Option<SecretString>,
    /// The id of the run, if the configuration contains one.
    pub run_id: Option<String>,
    /// The callback paths, in this order: status, logs, plan, outputs, result.
    pub callbacks: [Option<String>; 5],
    /// The final status of the run if a signal stops it.
    pub stop_status: StopStatus,
}

/// Parses a configuration.
///
/// # Errors
/// If it is not JSON of the expected structure, or does not describe a run that can be executed.
pub fn parse_config(json: &[u8]) -> Result<Parsed, ConfigError> {
    let wire: WireConfig = serde_json::from_slice(json).map_err(|error| ConfigError::Syntax {
        line: error.line(),
        column: error.column(),
        problem: problem::<WireConfig>(json, &error),
    })?;
    let callbacks = wire.callbacks.unwrap_or_default();
    let operation: Operation = wire.operation.unwrap_or_default().parse()?;
    let plan_file = plan_file(operation, wire.plan_file, callbacks.plan_file)?;
    let tool = match wire.terraform_version.as_deref() {
        None | Some("") => None,
        Some(version) => Some(RequestedVersion::of_argument(version, None)?),
    };
    Ok(Parsed {
        spec: RunSpec {
            operation,
            tool,
            source: source(wire.source)?,
            variables: wire
                .variables
                .present()
                .map(|(name, variable)| (name, variable.into()))
                .collect(),
            sensitive_values: match wire.sensitive_values {
                None => SensitiveValues::default(),
                Some(name) => SensitiveValues::named(&name).ok_or(ConfigError::SensitiveValues)?,
            },
            upstream_outputs: wire
                .upstream_outputs
                .0
                .into_iter()
                .map(|(name, value)| (name, value.0))
                .collect(),
            environment: wire
                .env_vars
                .present()
                .map(|(name, variable)| Ok((name.clone(), variable.into_environment(name)?)))
                .collect::<Result<_, ConfigError>>()?,
            backend: wire.state_backend.map(backend).transpose()?,
            setup: TerraformSetup::default(),
            work_directory: wire.work_directory.map(work_directory).transpose()?,
            plan_file,
            plan_purpose: match wire.plan_purpose.as_deref() {
                None | Some("apply") => PlanPurpose::Apply,
                Some("destroy") => PlanPurpose::Destroy,
                Some("accept") => PlanPurpose::Accept,
                Some(_) => return Err(ConfigError::PlanPurpose),
            },
            force_unlock: wire.force_unlock.map(|id| force_unlock(operation, id)).transpose()?,
            state_report: wire
                .state_report
                .map_or(StateReport::Omit, |WireStateReport { known, compare }| {
                    StateReport::Send { known, compare }
                }),
        },
        terraform_settings: wire.terraform_settings.map(|settings| settings.0),
        run_id: wire.run_id,
        callbacks: [
            callbacks.status,
            callbacks.logs,
            callbacks.plan,
            callbacks.outputs,
            callbacks.result,
        ],
        stop_status: stop_status(&wire.final_statuses.unwrap_or_default()),
    })
}

/// The final status for a stop by a signal, from all final statuses that the registry knows.
fn stop_status(known: &[String]) -> StopStatus {
    let is_known = known.iter().any(|status| status == "cancelled");
    if is_known { StopStatus::Cancelled } else { StopStatus::Failed }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireConfig {
    run_id: Option<String>,
    operation: Option<String>,
    terraform_version: Option<String>,
    source: Option<WireSource>,
    #[serde(default)]
    variables: Entries<Option<WireVariable>>,
    sensitive_values: Option<String>,
    #[serde(default)]
    env_vars: Entries<Option<WireVariable>>,
    #[serde(default)]
    upstream_outputs: Entries<JsonText>,
    state_backend: Option<WireBackend>,
    terraform_settings: Option<JsonText>,
    work_directory: Option<PathBuf>,
    plan_file: Option<WirePlanFile>,
    plan_purpose: Option<String>,
    force_unlock: Option<String>,
    state_report: Option<WireStateReport>,
    callbacks: Option<WireCallbacks>,
    final_statuses: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct WireStateReport {
    known: Option<StateVersion>,
    #[serde(default)]
    compare: DriftComparison,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSource {
    #[serde(rename = "type")]
    kind: Option<String>,
    git_repo: Option<SecretString>,
    git_ref: Option<String>,
    url: Option<String>,
    commit: Option<String>,
    working_directory: Option<String>,
    credentials: Option<WireCredentials>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCredentials {
    #[serde(rename = "type")]
    kind: Option<String>,
    username: Option<String>,
    token: Option<SecretString>,
    password: Option<SecretString>,
    #[serde(alias = "sshPrivateKey")]
    private_key: Option<SecretString>,
    passphrase: Option<SecretString>,
    known_hosts: Option<String>,
}

#[derive(Deserialize)]
struct WireVariable {
    value: Option<JsonText>,
    sensitive: Option<bool>,
    source: Option<String>,
    #[serde(rename = "ref")]
    reference: Option<String>,
    key: Option<String>,
}

#[derive(Deserialize)]
struct WireBackend {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    config: Entries<JsonText>,
}

#[derive(Deserialize)]
struct WirePlanFile {
    url: Option<String>,
    sha256: Option<String>,
}

#[derive(Default, Deserialize)]
struct WireCallbacks {
    #[serde(rename = "statusUrl")]
    status: Option<String>,
    #[serde(rename = "logsUrl")]
    logs: Option<String>,
    #[serde(rename = "planUrl")]
    plan: Option<String>,
    #[serde(rename = "outputsUrl")]
    outputs: Option<String>,
    #[serde(rename = "resultUrl")]
    result: Option<String>,
    #[serde(rename = "planFileUrl")]
    plan_file: Option<String>,
}

impl From<WireVariable> for Variable {
    fn from(wire: WireVariable) -> Self {
        let reference = reference(wire.source.as_deref(), wire.reference.as_deref(), wire.key);
        Self {
            value: wire.value.map(|value| value.0),
            // A reference always refers to a secret, even if `sensitive` is false or missing.
            sensitive: wire.sensitive.unwrap_or(false) || reference.is_some(),
            reference,
        }
    }
}

impl WireVariable {
    fn into_environment(self, name: String) -> Result<EnvironmentVariable, ConfigError> {
        let sensitive = self.sensitive.unwrap_or(false);
        let text = self.value.unwrap_or(JsonText(SecretString::from("\"\""))).0;
        let value = match text.expose_secret().as_bytes().first() {
            Some(b'"') => serde_json::from_str::<SecretString>(text.expose_secret())
                .map_err(|_| ConfigError::EnvironmentValue(name))?,
            Some(b'[' | b'{') => return Err(ConfigError::EnvironmentValue(name)),
            _ => text,
        };
        Ok(EnvironmentVariable { value, sensitive })
    }
}

/// Parses `source: secret, ref: [namespace/]name, key: ...` (ADR-001, config response).
fn reference(
    source: Option<&str>,
    reference: Option<&str>,
    key: Option<String>,
) -> Option<SecretReference> {
    let reference = reference.filter(|text| !text.is_empty());
    if source.is_none() && reference.is_none() {
        return None;
    }
    let (namespace, name) = match reference.and_then(|text| text.split_once('/')) {
        Some((namespace, name)) => (Some(namespace.to_owned()), name.to_owned()),
        None => (None, reference.unwrap_or_default().to_owned()),
    };
    Some(SecretReference { namespace, name, key })
}

fn source(wire: Option<WireSource>) -> Result<Source, ConfigError> {
    let wire = wire.ok_or_else(|| ConfigError::NoSource("none".to_owned()))?;
    match wire.kind.as_deref() {
        None | Some("git") => git_source(wire).map(Source::Git),
        Some("archive") => archive_source(wire).map(Source::Archive),
        Some(kind) => Err(ConfigError::NoSource(kind.to_owned())),
    }
}

fn git_source(wire: WireSource) -> Result<GitSource, ConfigError> {
    Ok(GitSource {
        repository: wire.git_repo.filter(is_given).ok_or(ConfigError::NoRepository)?,
        reference: trimmed(wire.git_ref).ok_or(ConfigError::NoReference)?,
        working_directory: wire.working_directory.unwrap_or_default(),
        credentials: wire.credentials.map_or(Ok(GitCredentials::None), credentials)?,
    })
}

fn archive_source(mut wire: WireSource) -> Result<ArchiveSource, ConfigError> {
    let url = trimmed(wire.url.take()).ok_or(ConfigError::NoArchive)?;
    let commit = trimmed(wire.commit.take()).ok_or(ConfigError::NoCommit)?;
    let working_directory = wire.working_directory.clone().unwrap_or_default();
    wire.git_ref = trimmed(wire.git_ref).or_else(|| Some(commit.clone()));
    let has_origin = wire.git_repo.as_ref().is_some_and(is_given);
    let origin = has_origin.then(|| git_source(wire)).transpose()?;
    Ok(ArchiveSource { url, commit, working_directory, origin })
}

/// The saved plan that is applied, or where the plan is sent. Other operations than `plan` send none.
fn plan_file(
    operation: Operation,
    given: Option<WirePlanFile>,
    callback: Option<String>,
) -> Result<PlanFile, ConfigError> {
    let Some(given) = given else {
        let sent = trimmed(callback).filter(|_| operation == Operation::Plan);
        return Ok(sent.map_or(PlanFile::None, |url| PlanFile::Send { url }));
    };
    if !matches!(operation, Operation::Apply | Operation::Destroy) {
        return Err(ConfigError::PlanFile("only `apply` and `destroy` apply a plan"));
    }
    let is_digest = |text: &String| {
        text.len() == 64 && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    };
    let url = trimmed(given.url).ok_or(ConfigError::PlanFile("it has no `url`"))?;
    let sha256 = given.sha256.filter(is_digest);
    let sha256 =
        sha256.ok_or(ConfigError::PlanFile("`sha256` is not 64 lowercase hexadecimal digits"))?;
    Ok(PlanFile::Fetch { url, sha256 })
}

/// The lock that is removed. Only a plan removes one, because it changes nothing else.
fn force_unlock(operation: Operation, id: String) -> Result<LockId, ConfigError> {
    if operation != Operation::Plan {
        return Err(ConfigError::ForceUnlock("only `plan` removes a lock".to_owned()));
    }
    id.try_into().map_err(|error: InvalidLockId| ConfigError::ForceUnlock(error.to_string()))
}

/// A path without `..`, because the runner creates the directory and removes it after the run.
fn work_directory(path: PathBuf) -> Result<PathBuf, ConfigError> {
    let is_plain =
        path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if is_plain && path.file_name().is_some() { Ok(path) } else { Err(ConfigError::WorkDirectory) }
}

fn is_given(text: &SecretString) -> bool {
    !text.expose_secret().trim().is_empty()
}

/// The text without white space around it, if anything is left.
fn trimmed(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn credentials(wire: WireCredentials) -> Result<GitCredentials, ConfigError> {
    let kind = wire.kind.unwrap_or_default();
    let lacks = |problem| ConfigError::Credentials { kind: kind.clone(), problem };
    match kind.as_str() {
        "" | "none" => Ok(GitCredentials::None),
        "token" => Ok(GitCredentials::Token {
            username: wire.username,
            token: wire.token.or(wire.password).ok_or_else(|| lacks("it has no `token`"))?,
        }),
        "password" | "basic" => Ok(GitCredentials::Password {
            username: wire.username.ok_or_else(|| lacks("it has no `username`"))?,
            password: wire.password.or(wire.token).ok_or_else(|| lacks("it has no `password`"))?,
        }),
        "ssh-key" | "ssh" => Ok(GitCredentials::SshKey {
            username: wire.username,
            private_key: wire.private_key.ok_or_else(|| lacks("it has no `privateKey`"))?,
            passphrase: wire.passphrase,
            known_hosts: wire.known_hosts.filter(|lines| !lines.trim().is_empty()),
        }),
        "github-app" => Ok(GitCredentials::GithubApp),
        _ => Err(lacks("the type is unknown")),
    }
}

fn backend(wire: WireBackend) -> Result<Backend, ConfigError> {
    let kind = wire.kind.filter(|kind| !kind.is_empty()).ok_or(ConfigError::NoBackendType)?;
    Ok(Backend {
        kind,
        config: wire.config.0.into_iter().map(|(name, value)| (name, value.0)).collect(),
    })
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
