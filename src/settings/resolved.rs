//! The settings after they were read and checked.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use crate::ci::{Job, System};
use crate::telemetry::Collector;
use crate::tool::Sites;
use butler_protocol::spec::{
    AfterPlan, LocalOptions, Operation, RunId, SensitiveValues, ToolRequest, Wanted,
};
use butler_source::git::GitEnvironment;

/// Everything that was decided before the run starts.
pub struct Settings {
    /// Where the run comes from.
    pub source: RunSource,
    /// An existing directory; the run makes a directory of its own in it.
    pub work_dir: PathBuf,
    /// Where tools come from and where they are kept.
    pub tool: ToolSettings,
    /// What the user lays down for Terraform (`--settings`), not read yet.
    pub settings_file: Option<PathBuf>,
    /// An existing directory in memory for secret files; none to look for one.
    pub tmpfs_dir: Option<PathBuf>,
    /// Where what could not be handed over is kept; may not exist yet.
    pub recovery_dir: PathBuf,
    /// Mounted secrets.
    pub secrets_dir: Option<PathBuf>,
    /// Where logs, plan, outputs and status are also written; may not exist yet.
    pub report_dir: Option<PathBuf>,
    /// How often log lines are sent.
    pub log_interval: Duration,
    /// How often the registry is asked whether the run still goes on.
    pub cancel_interval: Duration,
    /// How long one attempt of a request may take.
    pub request_timeout: Duration,
    /// How long the configuration and the final status are tried again.
    pub registry_timeout: Duration,
    /// The largest request body that the registry takes, in bytes.
    pub body_limit: usize,
    /// From SIGTERM to SIGKILL for the tool.
    pub grace_period: Duration,
    /// From the end of the grace to the end of the process, once a signal has come.
    pub report_period: Duration,
    /// How long the tool waits for a state lock.
    pub lock_timeout: Duration,
    /// Whether a lock that the run's own tool left is removed.
    pub force_unlock_own: bool,
    /// Whether apply and destroy may keep their state where it is lost at the end.
    pub allow_ephemeral_state: bool,
    /// What a plan that found changes is reported as.
    pub plan_status: PlanStatus,
    /// What of a plan's JSON is reported.
    pub plan_json: PlanJson,
    /// What judges each plan, with the absolute path of its program; none to leave that to the settings
    /// file.
    pub after_plan: Option<AfterPlan>,
    /// How sensitive values that could be references are taken.
    pub sensitive_values: SensitiveValues,
    /// Whose log and files are written, and where that system takes what.
    pub job: Job,
    /// Where a summary is written.
    pub summary: Option<PathBuf>,
    /// Where a page on the run is written.
    pub report: Option<PathBuf>,
    /// Who is told of phases and requests.
    pub collector: Option<Collector>,
    /// How the runner logs.
    pub logging: Logging,
    /// What the environment offers for git.
    pub git: GitEnvironment,
    /// The environment in which the runner was started, without any variable that holds the token.
    pub environment: BTreeMap<OsString, OsString>,
    /// What is possible but looks like a mistake; to be logged once logging works.
    pub warnings: Vec<String>,
}

/// Where a run comes from.
#[derive(Debug)]
pub enum RunSource {
    /// From a registry, which is told how it goes.
    Registry {
        /// An `http` or `https` URL without query, fragment or login. Its path, where it has one,
        /// does not end in `/`; callback paths are appended to it, not resolved against it.
        endpoint: Url,
        /// Which run.
        run_id: RunId,
        /// The callback token: visible ASCII, never a `breg_` token.
        token: SecretString,
    },
    /// From a file with what a registry would send.
    File {
        /// The file.
        config: PathBuf,
    },
    /// From the command line, worked on in place.
    Local {
        /// The module's directory.
        module_dir: PathBuf,
        /// What to do.
        operation: Operation,
        /// The version to use.
        tool: Option<Wanted>,
        /// What else was asked for.
        options: Box<LocalOptions>,
    },
}

/// What a plan that found changes is reported as (`--plan-status`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PlanStatus {
    /// `succeeded`: frees the registry's queue.
    #[default]
    Succeeded,
    /// `planned`: the run waits until a user confirms or discards it.
    Planned,
}

/// What of a plan's JSON is reported (`--plan-json`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PlanJson {
    /// Sensitive values are masked.
    #[default]
    Clean,
    /// It is sent as Terraform writes it.
    Raw,
}

/// How the runner logs, on standard error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Logging {
    /// How a line looks.
    pub format: LogFormat,
    /// Which lines there are: a filter that `tracing_subscriber::EnvFilter` can read.
    pub filter: String,
    /// The CI system that reads it too, and must find no commands in what it quotes.
    pub reader: System,
}

/// How a log line looks (`--log-format`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is needed to make a tool ready, with or without a run.
#[derive(Clone, Debug)]
pub struct ToolSettings {
    /// Where tools are kept; may not exist yet.
    pub cache_dir: PathBuf,
    /// Where releases come from.
    pub sites: Sites,
    /// Additional trusted signing keys.
    pub signing_keys: Vec<PathBuf>,
    /// Additional trusted certificates.
    pub ca_bundle: Option<PathBuf>,
    /// The version to use when nothing else decides.
    pub default_version: Option<ToolRequest>,
    /// How long it may take to make one version ready.
    pub timeout: Duration,
    /// How long the runner waits before it removes a version, for runs that are just starting.
    pub drain_period: Duration,
    /// Where runs keep packages of providers; none where they keep none.
    pub provider_cache: Option<PathBuf>,
    /// What is possible but looks like a mistake; to be logged once logging works.
    pub warnings: Vec<String>,
}

/// What is needed to tidy up after runs.
#[derive(Clone, Debug)]
pub struct CleanSettings {
    /// An existing directory in which runs make theirs.
    pub work_dir: PathBuf,
    /// An existing directory in memory for secret files; none to look for one.
    pub tmpfs_dir: Option<PathBuf>,
    /// Where a state that could not be stored is kept; may not exist yet.
    pub recovery_dir: PathBuf,
}

/// A run in a directory, as the commands that are called as Terraform's ask for it.
#[derive(Debug)]
pub struct LocalRequest {
    /// The module's directory, absolute.
    pub directory: PathBuf,
    /// What to do.
    pub operation: Operation,
    /// The version that it has to be; none for what flags and variables say.
    pub tool: Option<ToolRequest>,
    /// What else was asked for.
    pub options: LocalOptions,
}

impl Settings {
    /// Whose run it is, for people, such as `run 7`.
    #[must_use]
    pub fn owner(&self) -> String {
        match &self.source {
            RunSource::Registry { run_id, .. } => format!("run {run_id}"),
            RunSource::File { config } => format!("run of {}", config.display()),
            RunSource::Local { module_dir, .. } => format!("run in {}", module_dir.display()),
        }
    }
}

/// Without the environment, which may be secret.
impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("source", &self.source)
            .field("work_dir", &self.work_dir)
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}
