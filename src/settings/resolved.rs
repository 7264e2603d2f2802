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
    AfterPlan, LocalOptions, Operation, RequestedVersion, RunId, SensitiveValues, ToolRequest,
};
use butler_source::git::GitEnvironment;

/// Everything that is known before the run starts.
#[expect(clippy::struct_excessive_bools, reason = "independent settings")]
pub struct Settings {
    /// The origin of the run.
    pub source: RunSource,
    /// An existing directory, in which the run creates its own directory.
    pub work_dir: PathBuf,
    /// The directory for temporary files, for TMPDIR of an isolated run with a long `work_dir`; may not exist.
    pub temporary: PathBuf,
    /// The settings for tools.
    pub tool: ToolSettings,
    /// The settings file for Terraform (`--settings`), not read yet.
    pub settings_file: Option<PathBuf>,
    /// An existing directory in memory for secret files; `None` to search for one.
    pub tmpfs_dir: Option<PathBuf>,
    /// The directory for states and reports that could not be delivered; may not exist yet.
    pub recovery_dir: PathBuf,
    /// The directory with mounted secrets.
    pub secrets_dir: Option<PathBuf>,
    /// The directory for copies of logs, plan, outputs and status; may not exist yet.
    pub report_dir: Option<PathBuf>,
    /// Whether this directory contains the outputs, in clear text.
    pub keeps_outputs: bool,
    /// The interval at which log lines are sent.
    pub log_interval: Duration,
    /// The interval at which the runner checks for a cancellation.
    pub cancel_interval: Duration,
    /// The timeout for one attempt of a request.
    pub request_timeout: Duration,
    /// How long requests for the configuration and the final status are retried.
    pub registry_timeout: Duration,
    /// The largest request body that the registry accepts, in bytes.
    pub body_limit: usize,
    /// The time between SIGTERM and SIGKILL for the tool.
    pub grace_period: Duration,
    /// The time between the end of the grace period and the end of the process, after a signal.
    pub report_period: Duration,
    /// How long the tool waits for a state lock.
    pub lock_timeout: Duration,
    /// Whether a lock that the run's own tool left behind is removed.
    pub force_unlock_own: bool,
    /// Whether apply and destroy may store their state in the clone.
    pub allow_ephemeral_state: bool,
    /// Whether the registry gets the outputs after a destroy.
    pub report_outputs_after_destroy: bool,
    /// The status of a plan with changes.
    pub plan_status: PlanStatus,
    /// The form in which a plan's JSON is reported.
    pub plan_json: PlanJson,
    /// The program that judges each plan, by its absolute path; `None` to use the one in the settings file.
    pub after_plan: Option<AfterPlan>,
    /// What the run's tools are kept from.
    pub isolation: Isolation,
    /// Whether sensitive values can be references.
    pub sensitive_values: SensitiveValues,
    /// The CI job, with the paths of its files.
    pub job: Job,
    /// The file for the Markdown summary.
    pub summary: Option<PathBuf>,
    /// The file for the HTML report.
    pub report: Option<PathBuf>,
    /// The OpenTelemetry collector.
    pub collector: Option<Collector>,
    /// How the runner logs.
    pub logging: Logging,
    /// The part of the environment that git uses.
    pub git: GitEnvironment,
    /// The environment of the runner, without any variable that contains the token.
    pub environment: BTreeMap<OsString, OsString>,
    /// Probable mistakes, which are logged when logging has started.
    pub warnings: Vec<String>,
}

/// The origin of a run.
#[derive(Debug)]
pub enum RunSource {
    /// A registry, which receives reports.
    Registry {
        /// An `http` or `https` URL without query, fragment or login. Its path does not end in `/`, unless it is
        /// empty. Callback paths are appended to it, not resolved against it.
        endpoint: Url,
        /// The id of the run.
        run_id: RunId,
        /// The callback token: visible ASCII, never a `breg_` token.
        token: SecretString,
    },
    /// A file with a configuration in the registry's format.
    File {
        /// The file.
        config: PathBuf,
    },
    /// The command line. The module is used in place.
    Local {
        /// The module's directory.
        module_dir: PathBuf,
        /// The operation.
        operation: Operation,
        /// The version to use.
        tool: Option<RequestedVersion>,
        /// Further options.
        options: Box<LocalOptions>,
    },
}

/// The status of a plan with changes (`--plan-status`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PlanStatus {
    /// `succeeded`: frees the registry's queue.
    #[default]
    Succeeded,
    /// `planned`: the run waits until a user confirms or discards it.
    Planned,
}

/// The form in which a plan's JSON is reported (`--plan-json`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PlanJson {
    /// Sensitive values are masked.
    #[default]
    Clean,
    /// As Terraform writes it.
    Raw,
}

/// What the run's tools are kept from (`--isolation`).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Isolation {
    /// The level.
    pub level: IsolationLevel,
    /// The users of isolated runs.
    pub users: UserRange,
    /// The directory of a server whose directories belong to its layers, one for each: they are given to
    /// the user of a run that keeps its state there. Only an attempt has it.
    pub states: Option<PathBuf>,
    /// Additional paths that can be read. They exist.
    pub read: Vec<PathBuf>,
    /// Additional paths that can be written. They exist.
    pub write: Vec<PathBuf>,
}

/// The numbers of the users of isolated runs, and of their groups (`--isolation-users`). None of them is root.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UserRange {
    /// The first one.
    pub first: u32,
    /// The last one, which is not smaller.
    pub last: u32,
}

impl Default for UserRange {
    /// The numbers from which systemd takes the dynamic users of services.
    fn default() -> Self {
        Self { first: 61_184, last: 65_519 }
    }
}

/// The level of isolation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum IsolationLevel {
    /// The tools have the permissions of the runner's user.
    #[default]
    None,
    /// Landlock; a run without it fails.
    Landlock,
    /// A user of its own for each run; a run that cannot have one fails.
    User,
    /// Landlock if the kernel has it, otherwise a user of its own if the runner can change users, otherwise no
    /// isolation.
    Auto,
}

impl IsolationLevel {
    /// The name, as in the setting.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::User => "user",
            Self::Auto => "auto",
        }
    }
}

/// How the runner logs, on standard error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Logging {
    /// The format of a line.
    pub format: LogFormat,
    /// A filter in the syntax of `tracing_subscriber::EnvFilter`.
    pub filter: String,
    /// The CI system that reads the log. Quoted text must not contain its commands.
    pub reader: System,
}

/// The format of a log line (`--log-format`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object in each line.
    Json,
}

/// The settings for tools, with or without a run.
#[derive(Clone, Debug)]
pub struct ToolSettings {
    /// The tool cache; may not exist yet.
    pub cache_dir: PathBuf,
    /// The sites of releases.
    pub sites: Sites,
    /// Additional trusted signing keys.
    pub signing_keys: Vec<PathBuf>,
    /// Additional trusted certificates.
    pub ca_bundle: Option<PathBuf>,
    /// The version that is used if neither the run nor the module requests one.
    pub default_version: Option<ToolRequest>,
    /// The timeout for the installation of one version.
    pub timeout: Duration,
    /// How long the runner waits before it removes a version, for runs that are just starting.
    pub drain_period: Duration,
    /// The provider cache; `None` if it is disabled.
    pub provider_cache: Option<PathBuf>,
    /// Probable mistakes, which are logged when logging has started.
    pub warnings: Vec<String>,
}

/// The settings for wiping leftovers of runs.
#[derive(Clone, Debug)]
pub struct CleanSettings {
    /// An existing directory in which runs create their directories.
    pub work_dir: PathBuf,
    /// The directory for temporary files, in which isolated runs with a long `work_dir` create another one; may not exist.
    pub temporary: PathBuf,
    /// An existing directory in memory for secret files; `None` to search for one.
    pub tmpfs_dir: Option<PathBuf>,
    /// The directory for states that could not be stored; may not exist yet.
    pub recovery_dir: PathBuf,
}

/// A run in a directory, from a command with the name of one of Terraform's commands.
#[derive(Debug)]
pub struct LocalRequest {
    /// The module's directory, absolute.
    pub directory: PathBuf,
    /// The operation.
    pub operation: Operation,
    /// The required version; `None` for the one in flags and variables.
    pub tool: Option<ToolRequest>,
    /// Further options.
    pub options: LocalOptions,
}

impl Settings {
    /// The name of the run for people, such as `run 7`.
    #[must_use]
    pub fn owner(&self) -> String {
        match &self.source {
            RunSource::Registry { run_id, .. } => format!("run {run_id}"),
            RunSource::File { config } => format!("run of {}", config.display()),
            RunSource::Local { module_dir, .. } => format!("run in {}", module_dir.display()),
        }
    }
}

/// Without the environment, which may contain secrets.
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
