//! The messages between the parent and the fetching child: one JSON document in each direction. The
//! child answers with a `Result`: a [`Fetched`] or a [`super::mirror::MirrorUpdate`], or the error.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::history::MirrorHistory;
use super::login::Login;
use super::submodules::{MirrorSubmodules, Submodules};

/// The task of the child, which it reads from its standard input.
#[derive(Deserialize, Serialize)]
pub(super) struct Task {
    /// How the repository is reached.
    pub(super) access: Access,
    /// What is done with it.
    pub(super) job: Job,
}

/// How a repository is reached.
#[derive(Deserialize, Serialize)]
pub(super) struct Access {
    /// The repository, without credentials.
    pub(super) url: String,
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

/// What is done with a repository.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Job {
    /// One commit of it is checked out.
    Clone(CloneJob),
    /// A mirror of it is updated.
    Mirror(MirrorJob),
}

/// A clone of one commit.
#[derive(Deserialize, Serialize)]
pub(super) struct CloneJob {
    /// A branch, a tag or a commit id.
    pub(super) reference: String,
    /// The module's directory below the root; empty for the root.
    pub(super) working_directory: String,
    /// The directory of the clone, which must not exist yet.
    pub(super) destination: PathBuf,
    /// Which submodules are checked out.
    pub(super) submodules: Submodules,
    /// Texts that the module gets. They can be paths, or secret.
    pub(super) values: Vec<String>,
}

/// An update of a mirror; see [`super::mirror::MirrorRequest`].
#[derive(Deserialize, Serialize)]
pub(super) struct MirrorJob {
    /// Branches, tags or full commit ids.
    pub(super) references: Vec<String>,
    /// Commits that must stay.
    pub(super) keep: Vec<String>,
    /// The bare repository.
    pub(super) directory: PathBuf,
    /// Which submodules are fetched.
    pub(super) submodules: MirrorSubmodules,
    /// The history that the commits get.
    pub(super) history: MirrorHistory,
    /// The most memory of the child for data, in bytes.
    pub(super) memory_limit: u64,
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
