//! The CI systems of `trigger` and `ci-status`: one subcommand each, with the flags that select a workflow, project
//! or job.
//!
//! To add one: a variant of [`Target`], its flags, and an arm in [`Target::into_parts`].

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use tokio::time::Instant;

use super::output::complain;
use crate::exit::Exit;
use crate::settings::interval;
use butler_base::error::{Advice, chain};
use butler_base::secret::{Redactor, redact_json};
use butler_start::trigger::TriggerSettings;
use butler_start::trigger::{
    CiConfig, ConfigError, CredentialReference, Event, LARGEST_CONFIG, Provider, ProviderName,
    TriggerError, parse_input, parse_url,
};

/// A CI system, with the arguments `A` of the command.
#[derive(Subcommand)]
pub(super) enum Target<A: Args> {
    /// A workflow of GitHub Actions
    #[command(visible_alias = "github")]
    GithubActions(TargetFlags<GitHubFlags, A>),
    /// A project of GitLab CI
    #[command(visible_alias = "gitlab")]
    GitlabCi(TargetFlags<GitLabFlags, A>),
    /// A job of Jenkins
    Jenkins(TargetFlags<JenkinsFlags, A>),
}

/// The flags of one CI system, of all CI systems, and of the command.
#[derive(Args)]
pub(super) struct TargetFlags<P: Args, A: Args> {
    #[command(flatten)]
    own: P,
    #[command(flatten)]
    shared: SharedFlags,
    #[command(flatten)]
    command: A,
}

/// The flags of all CI systems.
#[derive(Args)]
#[command(next_help_heading = "CI system")]
pub(super) struct SharedFlags {
    /// A JSON file with these settings, or `-` for standard input; flags override it
    #[arg(long, value_name = "FILE")]
    ci_config: Option<PathBuf>,
    /// The URL of the CI system
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A reference to the credentials: `NAMESPACE/NAME:KEY` or `NAME:KEY` below --secrets-dir, or the
    /// name of a variable [default: `BUTLER_CI_TOKEN`]
    #[arg(long, value_name = "REFERENCE")]
    credentials: Option<String>,
    /// The timeout of the command [default: 2m; with --wait 24h]
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    timeout: Option<Duration>,
}

#[derive(Args)]
#[command(next_help_heading = "CI system")]
pub(super) struct GitHubFlags {
    /// The repository, OWNER/NAME
    #[arg(long, value_name = "REPOSITORY")]
    repository: Option<String>,
    /// The workflow's file name, for `workflow_dispatch`
    #[arg(long, value_name = "FILE")]
    workflow_file: Option<String>,
    /// The branch or tag [default: the repository's default branch]
    #[arg(long = "ref", value_name = "REF")]
    git_ref: Option<String>,
    /// `workflow_dispatch` or `repository_dispatch` [default: `workflow_dispatch`]
    #[arg(long, value_name = "EVENT", value_parser = event)]
    event: Option<Event>,
    /// The id of the GitHub App, if the credentials are its private key
    #[arg(long, value_name = "ID")]
    app_id: Option<String>,
    /// The installation of the GitHub App [default: the installation that includes the repository]
    #[arg(long, value_name = "ID")]
    installation_id: Option<String>,
}

#[derive(Args)]
#[command(next_help_heading = "CI system")]
pub(super) struct GitLabFlags {
    /// The project, GROUP/NAME or its number
    #[arg(long, value_name = "PROJECT", visible_alias = "project")]
    repository: Option<String>,
    /// The branch or tag [default: the project's default branch]
    #[arg(long = "ref", value_name = "REF")]
    git_ref: Option<String>,
    /// A reference to the access token that can read pipelines [default: `BUTLER_CI_API_TOKEN`]
    #[arg(long, value_name = "REFERENCE")]
    api_credentials: Option<String>,
}

#[derive(Args)]
#[command(next_help_heading = "CI system")]
pub(super) struct JenkinsFlags {
    /// The job including its folders, FOLDER/NAME
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// The owner of the API token
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

/// Additional inputs of the job.
#[derive(Args)]
pub(super) struct Inputs {
    /// An input, variable or parameter for the job, without secrets; can be repeated
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub(super) inputs: Vec<String>,
}

/// The selected CI system, with the settings of its flags and file.
pub(super) struct SelectedTarget {
    name: ProviderName,
    flags: CiConfig,
    file: Option<PathBuf>,
    /// The value of `--timeout`.
    pub(super) timeout: Option<Duration>,
}

impl<A: Args> Target<A> {
    /// The selected CI system, and the arguments of the command.
    ///
    /// # Errors
    /// If the value of `--url` is not valid.
    pub(super) fn into_parts(self) -> Result<(SelectedTarget, A), TriggerError> {
        let reference = |text: Option<String>| text.as_deref().map(CredentialReference::parse);
        let (name, flags, shared, command) = match self {
            Self::GithubActions(TargetFlags { own, shared, command }) => {
                let flags = CiConfig {
                    repository: own.repository,
                    workflow_file: own.workflow_file,
                    git_ref: own.git_ref,
                    event: own.event,
                    app_id: own.app_id,
                    installation_id: own.installation_id,
                    ..CiConfig::default()
                };
                (ProviderName::GitHub, flags, shared, command)
            }
            Self::GitlabCi(TargetFlags { own, shared, command }) => {
                let flags = CiConfig {
                    repository: own.repository,
                    git_ref: own.git_ref,
                    api_credentials: reference(own.api_credentials),
                    ..CiConfig::default()
                };
                (ProviderName::GitLab, flags, shared, command)
            }
            Self::Jenkins(TargetFlags { own, shared, command }) => {
                let flags = CiConfig { job: own.job, user: own.user, ..CiConfig::default() };
                (ProviderName::Jenkins, flags, shared, command)
            }
        };
        let SharedFlags { ci_config: file, url, credentials, timeout } = shared;
        let flags = CiConfig {
            url: url.as_deref().map(parse_url).transpose()?,
            credentials: reference(credentials),
            ..flags
        };
        Ok((SelectedTarget { name, flags, file, timeout }, command))
    }
}

impl SelectedTarget {
    /// The settings of the file, overridden by the flags.
    ///
    /// # Errors
    /// If the file cannot be read, or has a value that is not valid.
    pub(super) fn config(&mut self) -> Result<CiConfig, TriggerError> {
        let flags = std::mem::take(&mut self.flags);
        let Some(file) = &self.file else { return Ok(flags) };
        let text = read(file)?;
        let mut warnings = Vec::new();
        let config = CiConfig::parse(&text, &mut warnings)?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        config.check_provider(self.name.id())?;
        Ok(config.overridden_by(flags))
    }

    /// The provider with its credentials, which are registered with the redactor.
    ///
    /// # Errors
    /// If a setting or the credentials are missing or not valid.
    pub(super) fn provider(
        &self,
        config: &CiConfig,
        settings: &TriggerSettings,
        deadline: Instant,
        redactor: &Arc<Redactor>,
    ) -> Result<Provider, TriggerError> {
        Provider::new(self.name, config, settings, deadline, redactor)
    }
}

/// Parses the values of `--input`.
pub(super) fn parse_inputs(given: &[String]) -> Result<Vec<(String, String)>, TriggerError> {
    given.iter().map(|text| Ok(parse_input(text)?)).collect()
}

fn event(text: &str) -> Result<Event, String> {
    let problem = || "must be `workflow_dispatch` or `repository_dispatch`".to_owned();
    Event::parse(text).ok_or_else(problem)
}

fn read(file: &Path) -> Result<Vec<u8>, TriggerError> {
    let mut text = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(LARGEST_CONFIG).read_to_end(&mut text)
    } else {
        std::fs::File::open(file).and_then(|it| it.take(LARGEST_CONFIG).read_to_end(&mut text))
    };
    let path = file.to_owned();
    read.map_err(|source| ConfigError::Read { path, source })?;
    Ok(text)
}

/// Prints a result as one line of JSON. It contains text of the server, so secrets are redacted.
pub(super) fn print(result: &impl Serialize, redactor: &Redactor) -> std::io::Result<()> {
    let text = serde_json::to_string(result)?;
    writeln!(std::io::stdout(), "{}", redact_json(redactor, &text))
}

/// Prints the error without secrets. Returns the exit code.
pub(super) fn fail(error: &TriggerError, redactor: &Redactor) -> u8 {
    let message = chain(error);
    let hint = error.advice();
    let shown = redactor.redact(message.as_bytes());
    let hint = hint.as_deref().map(|hint| redactor.redact(hint.as_bytes()));
    complain(&shown, hint.as_deref());
    if error.is_usage_error() {
        Exit::Usage.code()
    } else if error.may_have_started() {
        Exit::Failed.code()
    } else {
        Exit::Registry.code()
    }
}
