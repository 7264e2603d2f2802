//! The messages between the parent and the fetching child: one JSON document in each direction.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::failure::FetchError;
use super::login::Login;

/// What the child is to do; it reads this from its standard input.
#[derive(Deserialize, Serialize)]
pub(super) struct Task {
    /// The repository, without credentials.
    pub(super) url: String,
    /// A branch, a tag or a commit id.
    pub(super) reference: String,
    /// The module's directory below the root; empty for the root.
    pub(super) working_directory: String,
    /// Where the clone goes; does not exist yet.
    pub(super) destination: PathBuf,
    /// All credentials, in order of preference.
    pub(super) logins: Vec<Login>,
    /// The user name for ssh if the URL does not contain one.
    pub(super) ssh_user: String,
    /// Lines of a `known_hosts` file that came with the run.
    pub(super) known_hosts: Option<String>,
    /// A directory of the child's own, the home directory that libgit2 sees.
    pub(super) scratch_home: PathBuf,
    /// The user's home directory.
    pub(super) home: Option<PathBuf>,
    /// Whether an ssh agent can be asked.
    pub(super) has_agent: bool,
    /// The system's certificates, or those that the environment names in their place.
    pub(super) certificates: Option<PathBuf>,
    /// Additional certificates.
    pub(super) ca_bundle: Option<PathBuf>,
    /// The parent, without which the child has nothing to do.
    pub(super) parent: u32,
}

/// What the child found, on its standard output.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The clone is complete.
    Fetched(Fetched),
    /// It cannot be had.
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
