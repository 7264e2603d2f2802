//! Fetches a module's source with libgit2, in a supervised child of the same executable.
//!
//! libgit2 blocks in connect and receive, so a clone can only be ended by ending its process. The
//! child gets its task, credentials included, over a pipe: never in argv or in its environment.
//! Credentials go to their own server only, and never into the clone or into a message.
//!
//! [`fetch`] is the parent's side and [`run_child`] the child's; [`share_credentials`] lets the
//! `git` that Terraform starts log in the same way, through [`answer_git`].

mod checked_out;
mod child;
mod credential_helper;
mod failure;
mod fetch;
#[cfg(test)]
mod fuzz_tests;
mod login;
mod share;
mod task;
mod url;

use std::ffi::OsString;
use std::path::PathBuf;

use secrecy::SecretString;

pub use checked_out::checked_out_commit;
pub use child::run_child;
pub use credential_helper::answer_git;
pub use failure::{FetchError, SourceError};
pub use fetch::fetch;
pub use share::share_credentials;

use butler_base::process::Environment;

/// The first argument that makes this executable the child that fetches.
pub const FETCH_COMMAND: &str = "internal-fetch";

/// The first argument that makes this executable a credential helper for git.
pub const CREDENTIAL_COMMAND: &str = "internal-git-credential";

/// A repository's address as it may be shown: without what it logs in with. `None` if it is not an address.
#[must_use]
pub fn shown_repository(address: &str) -> Option<String> {
    let (url, _) = url::RepositoryUrl::parse(address).ok()?;
    Some(url.as_str().to_owned())
}

/// What the runner's environment offers for git.
#[derive(Debug, Default)]
pub struct GitEnvironment {
    /// `BUTLER_GIT_TOKEN`, `GITHUB_TOKEN`, `CI_JOB_TOKEN`: those that are set, in this order, by
    /// name. The first one is used.
    pub tokens: Vec<(&'static str, SecretString)>,
    /// `BUTLER_GIT_HOST`, a host with or without a port: the only one that a token from the
    /// environment may be sent to; by default the host of the repository.
    pub token_host: Option<String>,
    /// `SSH_AUTH_SOCK`.
    pub ssh_agent: Option<OsString>,
    /// The user's home directory, for `~/.ssh`.
    pub home: Option<PathBuf>,
    /// Additional certificates (`--ca-bundle`).
    pub ca_bundle: Option<PathBuf>,
    /// Those variables of the environment that libgit2 minds and that are set: `HTTPS_PROXY` and
    /// `NO_PROXY` in both cases, `SSL_CERT_FILE`, `SSL_CERT_DIR`. It uses no proxy for plain HTTP.
    pub variables: Environment,
    /// This executable, which serves as the child.
    pub executable: PathBuf,
}

impl GitEnvironment {
    /// The system's certificates, or those that take their place.
    fn certificates(&self) -> Option<PathBuf> {
        let given = self.variables.value("SSL_CERT_FILE").map(PathBuf::from);
        given.filter(|file| file.exists()).or_else(|| openssl_probe::probe().cert_file)
    }
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
