//! The CI job that the runner runs in, as found by the settings.

use std::path::PathBuf;

use super::System;

/// A CI job and its paths.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Job {
    /// The CI system.
    pub system: System,
    /// Where a summary of the step is appended.
    pub summary: Option<PathBuf>,
    /// Where outputs of the step are appended.
    pub outputs: Option<PathBuf>,
    /// Where the job has its repository, or works at least.
    pub workspace: Option<PathBuf>,
    /// Which repository that is, as `owner/name`.
    pub repository: Option<String>,
    /// An address on the host of that repository.
    pub address: Option<String>,
    /// Which commit of it the job is for.
    pub commit: Option<String>,
    /// Where files go that the system picks up, when no other directory is named.
    pub reports: Option<PathBuf>,
}
