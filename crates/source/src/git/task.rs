//! The messages between the parent and the fetching child: one JSON document in each direction.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::failure::FetchError;
use super::login::Login;

/// The task of the child, which it reads from its standard input.
#[derive(Deserialize, Serialize)]
pub(super) struct Task {
    /// The repository, without credentials.
    pub(super) url: String,
    /// A branch, a tag or a commit id.
    pub(super) reference: String,
    /// The module's directory below the root; empty for the root.
    pub(super) working_directory: String,
    /// The directory of the clone, which must not exist yet.
    pub(super) destination: PathBuf,
    /// All credentials, in order of preference.
    pub(super) logins: Vec<Login>,
    /// The user name for ssh if the URL does not contain one.
    pub(super) ssh_user: String,
    /// Lines of a `known_hosts` file that came with the run.
    pub(super) known_hosts: Option<String>,
    /// A private directory of the child, the home directory for libgit2.
    pub(super) scratch_home: PathBuf,
    /// The user's home directory.
    pub(super) home: Option<PathBuf>,
    /// Whether an ssh agent is available.
    pub(super) has_agent: bool,
    /// The file of `SSL_CERT_FILE`, otherwise the system's certificates.
    pub(super) certificates: Option<PathBuf>,
    /// Additional certificates.
    pub(super) ca_bundle: Option<PathBuf>,
    /// The process id of the parent. The child ends with it.
    pub(super) parent: u32,
}

/// The result of the child, which it writes to its standard output.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FetchResult {
    /// The clone is complete.
    Fetched(Fetched),
    /// The fetch failed.
    Failed(FetchError),
}

/// A complete clone.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Fetched {
    /// The clone's root, without symbolic links.
    pub(super) root: PathBuf,
    /// The module's directory in it, without symbolic links.
    pub(super) directory: PathBuf,
    /// The commit.
    pub(super) commit: String,
    /// The environment's tokens that were sent.
    pub(super) used_tokens: Vec<String>,
}
