//! Fetches a module's source with libgit2, in a supervised child of the same executable.
//!
//! libgit2 blocks in connect and receive, so a clone can only be ended by ending its process. The
//! child gets its task, credentials included, over a pipe: never in argv or in its environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use crate::cancel::Stop;
use crate::process::{Environment, Sink};
use crate::secret::PrivateDirectory;
use crate::spec::GitSource;

/// What the runner's environment offers for git.
#[derive(Debug, Default)]
pub struct GitEnvironment {
    /// `BUTLER_GIT_TOKEN`, `GITHUB_TOKEN`, `CI_JOB_TOKEN`: those that are set, in this order, by name.
    pub tokens: Vec<(&'static str, SecretString)>,
    /// `BUTLER_GIT_HOST`: the only host that a token from the environment may be sent to; by
    /// default the host of the repository.
    pub token_host: Option<String>,
    /// `SSH_AUTH_SOCK`.
    pub ssh_agent: Option<OsString>,
    /// The user's home directory, for `~/.ssh`.
    pub home: Option<PathBuf>,
    /// Additional certificates (`--ca-bundle`).
    pub ca_bundle: Option<PathBuf>,
    /// This executable, which serves as the child.
    pub executable: PathBuf,
}

/// A module's source on disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Checkout {
    /// The repository's root.
    pub root: PathBuf,
    /// The module's directory, inside the root.
    pub directory: PathBuf,
    /// The full id of the commit that was checked out.
    pub commit: String,
    /// The names of those environment tokens that were used, so that Terraform does not inherit them.
    pub used_tokens: Vec<&'static str>,
}

/// Why a module's source cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {}

impl crate::error::Advice for SourceError {}

/// Fetches `source` into `destination`, which must not exist yet. Progress goes to `sink`.
///
/// # Errors
/// When the repository cannot be fetched, the reference does not exist, or the working directory
/// is not inside the clone. A stop ends the fetch within a second.
pub async fn fetch(
    _source: &GitSource,
    _environment: &GitEnvironment,
    destination: &Path,
    _sink: &impl Sink,
    _stop: &Stop,
) -> Result<Checkout, SourceError> {
    std::future::ready(Ok(Checkout {
        root: destination.to_owned(),
        directory: destination.to_owned(),
        commit: String::new(),
        used_tokens: Vec::new(),
    }))
    .await
}

/// Lets `git`, when Terraform starts it for private modules, use the same credentials, without
/// touching the user's git configuration: files in `private`, variables in `child`.
///
/// # Errors
/// When a file cannot be written.
pub fn share_credentials(
    _source: &GitSource,
    _environment: &GitEnvironment,
    _private: &PrivateDirectory,
    _child: &mut Environment,
) -> Result<(), SourceError> {
    Ok(())
}
