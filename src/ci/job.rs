//! The CI job that the runner runs in, as found by the settings.

use std::path::PathBuf;

use super::System;

/// A CI job and its paths.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Job {
    /// The CI system.
    pub system: System,
    /// The file to which a summary of the step is appended.
    pub summary: Option<PathBuf>,
    /// The file to which outputs of the step are appended.
    pub outputs: Option<PathBuf>,
    /// The directory of the job's repository, or its working directory.
    pub workspace: Option<PathBuf>,
    /// The repository, as `owner/name`.
    pub repository: Option<String>,
    /// An address on the host of the repository.
    pub address: Option<String>,
    /// The commit of the repository.
    pub commit: Option<String>,
    /// The directory for reports that the system collects, if the user has not set another one.
    pub reports: Option<PathBuf>,
}
