//! Errors in settings for Terraform, with the lines of the document.

use std::fmt;
use std::path::PathBuf;

use crate::workspace::variables::Unresolved;
use butler_base::error::{Advice, FailureClass};
use butler_protocol::references::ReferenceError;

/// A problem on a line of the document. It contains no value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub text: String,
}

impl Problem {
    pub(super) fn new(line: usize, text: impl Into<String>) -> Self {
        Self { line, text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.text)
    }
}

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TerraformSettingsError {
    /// The file cannot be read.
    #[error("cannot read the settings file `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file exceeds the size limit.
    #[error("the settings file `{}` is larger than 1 MiB", .0.display())]
    TooLarge(PathBuf),
    /// The file is not UTF-8.
    #[error("the settings file `{}` is not UTF-8", .0.display())]
    Encoding(PathBuf),
    /// The file contains unknown keys or values that are not valid.
    #[error("the settings file `{}` cannot be used: {}", path.display(), lines(problems))]
    File {
        /// The file.
        path: PathBuf,
        /// All problems.
        problems: Vec<Problem>,
    },
    /// The run contains values that are not valid.
    #[error("`terraformSettings` of the run cannot be used: {}", texts(.0))]
    Run(Vec<Problem>),
    /// The settings of the run exceed the size limit.
    #[error("`terraformSettings` of the run is larger than 1 MiB")]
    RunTooLarge,
    /// Secrets that do not exist.
    #[error("cannot resolve {}", crate::workspace::variables::list_unresolved(.0))]
    Unresolved(Vec<Unresolved>),
    /// The secret of a reference is not usable.
    #[error("cannot resolve the secret of `{name}`")]
    Reference {
        /// The setting.
        name: String,
        /// The reason.
        #[source]
        source: ReferenceError,
    },
    /// The path of Terraform's log is relative, but there is no report directory.
    #[error("`logging.path` of the settings file is relative, but no report directory is set")]
    LogPath,
    /// The program that judges plans cannot be started.
    #[error("`afterPlan.command` of the settings file: {0}")]
    AfterPlan(String),
}

impl Advice for TerraformSettingsError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Read { .. } | Self::TooLarge(_) | Self::Encoding(_) => {
                Some("check --settings (BUTLER_SETTINGS)".to_owned())
            }
            Self::File { .. } | Self::Run(_) => {
                Some("`butler-runner schema settings` prints what there is".to_owned())
            }
            Self::LogPath => {
                Some("make it absolute, or give --report-dir (BUTLER_REPORT_DIR)".to_owned())
            }
            Self::AfterPlan(_) => Some("install the program, or give its absolute path".to_owned()),
            Self::RunTooLarge | Self::Unresolved(_) | Self::Reference { .. } => None,
        }
    }

    fn class(&self) -> Option<FailureClass> {
        Some(FailureClass::Configuration)
    }
}

fn lines(problems: &[Problem]) -> String {
    first(problems.iter().map(ToString::to_string)).join("; ")
}

fn texts(problems: &[Problem]) -> String {
    first(problems.iter().map(|problem| problem.text.clone())).join("; ")
}

/// The first of `texts`, and the number of the others.
pub(super) fn first(texts: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    const MOST: usize = 20;
    let more = texts.len().saturating_sub(MOST);
    let mut first: Vec<_> = texts.take(MOST).collect();
    if more > 0 {
        first.push(format!("and {more} more"));
    }
    first
}
