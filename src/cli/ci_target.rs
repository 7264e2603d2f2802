//! The CI systems that `trigger` and `ci-status` speak to: one subcommand each, with the flags that
//! describe a place in it.
//!
//! To add one: a variant of [`Target`], its flags, and an arm in [`Target::split`].

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

/// A CI system and what is wanted of it.
#[derive(Subcommand)]
pub(super) enum Target<A: Args> {
    /// A workflow of GitHub Actions
    #[command(visible_alias = "github")]
    GithubActions(On<GitHubFlags, A>),
    /// A project of GitLab CI
    #[command(visible_alias = "gitlab")]
    GitlabCi(On<GitLabFlags, A>),
    /// A job of Jenkins
    Jenkins(On<JenkinsFlags, A>),
}

/// The flags of a place, of all places, and of the command.
#[derive(Args)]
pub(super) struct On<P: Args, A: Args> {
    #[command(flatten)]
    place: P,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    act: A,
}

/// What every CI system has.
#[derive(Args)]
#[command(next_help_heading = "CI system")]
pub(super) struct Shared {
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

/// `NAME=VALUE` pairs that the job is told beside the run.
#[derive(Args)]
pub(super) struct Inputs {
    /// An input, variable or parameter for the job, without secrets; can be repeated
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub(super) inputs: Vec<String>,
}

/// A place in a CI system, as it was described.
pub(super) struct Place {
    name: ProviderName,
    flags: CiConfig,
    file: Option<PathBuf>,
    /// How long it may take, where the user says so.
    pub(super) timeout: Option<Duration>,
}

impl<A: Args> Target<A> {
    /// The place, and what is wanted of it.
    ///
    /// # Errors
    /// When a flag has a value that cannot be.
    pub(super) fn split(self) -> Result<(Place, A), TriggerError> {
        let reference = |text: Option<String>| text.as_deref().map(CredentialReference::written);
        let (name, flags, shared, act) = match self {
            Self::GithubActions(On { place, shared, act }) => {
                let flags = CiConfig {
                    repository: place.repository,
                    workflow_file: place.workflow_file,
                    git_ref: place.git_ref,
                    event: place.event,
                    app_id: place.app_id,
                    installation_id: place.installation_id,
                    ..CiConfig::default()
                };
                (ProviderName::GitHub, flags, shared, act)
            }
            Self::GitlabCi(On { place, shared, act }) => {
                let flags = CiConfig {
                    repository: place.repository,
                    git_ref: place.git_ref,
                    api_credentials: reference(place.api_credentials),
                    ..CiConfig::default()
                };
                (ProviderName::GitLab, flags, shared, act)
            }
            Self::Jenkins(On { place, shared, act }) => {
                let flags = CiConfig { job: place.job, user: place.user, ..CiConfig::default() };
                (ProviderName::Jenkins, flags, shared, act)
            }
        };
        let Shared { ci_config: file, url, credentials, timeout } = shared;
        let flags = CiConfig {
            url: url.as_deref().map(parse_url).transpose()?,
            credentials: reference(credentials),
            ..flags
        };
        Ok((Place { name, flags, file, timeout }, act))
    }
}

impl Place {
    /// Everything that was said about it, in the file and in flags.
    ///
    /// # Errors
    /// When the file cannot be read, or says what cannot be.
    pub(super) fn config(&mut self) -> Result<CiConfig, TriggerError> {
        let flags = std::mem::take(&mut self.flags);
        let Some(file) = &self.file else { return Ok(flags) };
        let text = read(file)?;
        let mut warnings = Vec::new();
        let config = CiConfig::parse(&text, &mut warnings)?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        config.is_for(self.name.id())?;
        Ok(config.under(flags))
    }

    /// The provider at this place, with its credentials, which the redactor is told.
    ///
    /// # Errors
    /// When something is missing or cannot be.
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

/// What the user wrote in `--input`.
pub(super) fn inputs(given: &[String]) -> Result<Vec<(String, String)>, TriggerError> {
    given.iter().map(|text| Ok(parse_input(text)?)).collect()
}

fn event(text: &str) -> Result<Event, String> {
    let problem = || "must be `workflow_dispatch` or `repository_dispatch`".to_owned();
    Event::named(text).ok_or_else(problem)
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

/// Prints an answer in one line of JSON. It has words of the server's own, which may have secrets.
pub(super) fn print(answer: &impl Serialize, redactor: &Redactor) -> std::io::Result<()> {
    let text = serde_json::to_string(answer)?;
    writeln!(std::io::stdout(), "{}", redact_json(redactor, &text))
}

/// Says what went wrong, without secrets; returns the exit code for it.
pub(super) fn fail(error: &TriggerError, redactor: &Redactor) -> u8 {
    let message = chain(error);
    let hint = error.advice();
    let shown = redactor.redact(message.as_bytes());
    let hint = hint.as_deref().map(|hint| redactor.redact(hint.as_bytes()));
    complain(&shown, hint.as_deref());
    if error.is_usage() {
        Exit::Usage.code()
    } else if error.may_have_started() {
        Exit::Failed.code()
    } else {
        Exit::Registry.code()
    }
}
