//! The job that the runner is in, as the settings have found it.

use std::path::PathBuf;

use super::System;

/// A job, and where it takes what.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Job {
    /// Whose it is.
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
