//! What a file in [`super::systems`] states about its CI system.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use butler_result::{Severity, SourceLocation};

/// A CI system: how the runner recognises it, writes its log, and finds the paths of a job.
#[derive(Debug)]
pub struct CiSystem {
    /// The name on the command line.
    pub(super) id: &'static str,
    /// The display name.
    pub(super) title: &'static str,
    pub(super) recognition: Recognition,
    pub(super) log: LogFormat,
    pub(super) commands: LogCommands,
    /// Writes an annotation as a line of the log; `None` if the system has no annotations.
    pub(super) annotation: Option<fn(&Annotation) -> String>,
    /// The imperative clause that tells a user how to give a secret to a job.
    pub(super) secret_place: Option<&'static str>,
    /// The variables that contain the paths and the repository of a job.
    pub job_variables: JobVariables,
    /// The time that the system gives a job after the first signal; `None` if it gives as much as other platforms.
    pub stop_times: Option<StopTimes>,
    /// Whether a running job can register values that the system masks.
    pub(super) reads_masks: bool,
    /// Whether the system shows the report files of [`super::terraform_report`] and [`super::dotenv`].
    pub(super) reads_report_files: bool,
}

/// How the runner recognises that it is in a job of the system.
#[derive(Clone, Copy, Debug)]
pub(super) enum Recognition {
    /// By a variable that only jobs of the system have.
    Variable(&'static str),
    /// By a path that only exists in jobs of the system.
    Path(&'static str),
    /// By a variable that many CI systems set.
    SharedVariable(&'static str),
    /// If no other system is recognised.
    Fallback,
}

/// The format of the log.
#[derive(Clone, Copy, Debug)]
pub(super) enum LogFormat {
    /// Unchanged lines.
    Unchanged,
    /// The time and the phase before each line.
    Stamped,
    /// Collapsible groups.
    Groups(GroupFormat),
}

/// The commands that the system reads from the log, with the function that disarms them in the output of other
/// programs.
#[derive(Clone, Copy, Debug)]
pub(super) enum LogCommands {
    None,
    /// Commands end with the line.
    InLines(fn(&str) -> Cow<'_, str>),
    /// Commands contain a carriage return, at which other systems end a line.
    AcrossLines(fn(&str) -> Cow<'_, str>),
}

/// The lines before and after a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupFormat {
    pub(super) begin: fn(&GroupHeader) -> String,
    /// `None` if the next group ends it.
    pub(super) end: Option<fn(&GroupHeader) -> String>,
}

/// A group of log lines.
#[derive(Clone, Debug)]
pub(super) struct GroupHeader {
    pub(super) title: String,
    /// A name that no other group of the run has, of letters, digits and `_`.
    pub(super) name: String,
    pub(super) since: SystemTime,
}

/// A diagnostic or a message of the runner that the system shows outside of the log.
pub(super) struct Annotation {
    pub(super) severity: Severity,
    pub(super) title: String,
    pub(super) text: String,
    /// The line in the job's repository.
    pub(super) place: Option<SourceLocation>,
}

impl Annotation {
    pub(super) const fn severity_name(&self) -> &'static str {
        match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// The environment variables of a job, by their content.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobVariables {
    /// The file to which a summary of the step is appended.
    pub summary: Option<&'static str>,
    /// The file to which outputs of the step are appended.
    pub outputs: Option<&'static str>,
    /// The directory of the job's repository.
    pub workspace: Option<&'static str>,
    /// The repository as `owner/name`.
    pub repository: Option<&'static str>,
    /// An address on the host of the repository.
    pub address: Option<&'static str>,
    /// The commit of the repository.
    pub commit: Option<&'static str>,
    /// The directory below which the system collects files. Without `--report-dir`, reports are written there.
    pub collected_directory: Option<&'static str>,
}

/// The time between the first signal and the end of the process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StopTimes {
    /// For the tool: the default of `--grace-period`.
    pub grace: Duration,
    /// For the reports after that.
    pub report: Duration,
}

impl CiSystem {
    /// A system without any feature: the base for the others.
    pub(super) const PLAIN: Self = Self {
        id: "",
        title: "",
        recognition: Recognition::Fallback,
        log: LogFormat::Stamped,
        commands: LogCommands::None,
        annotation: None,
        secret_place: None,
        job_variables: JobVariables {
            summary: None,
            outputs: None,
            workspace: None,
            repository: None,
            address: None,
            commit: None,
            collected_directory: None,
        },
        stop_times: None,
        reads_masks: false,
        reads_report_files: false,
    };
}
