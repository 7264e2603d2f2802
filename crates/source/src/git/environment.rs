//! The inputs and the result of a fetch.

use std::ffi::OsString;
use std::path::PathBuf;

use secrecy::SecretString;

use super::submodules::Submodules;
use butler_base::process::Environment;

/// The first argument that makes this executable the child that fetches.
pub const FETCH_COMMAND: &str = "internal-fetch";

/// The first argument that makes this executable a credential helper for git.
pub const CREDENTIAL_COMMAND: &str = "internal-git-credential";

/// The settings and credentials for git from the runner's environment.
#[derive(Debug, Default)]
pub struct GitEnvironment {
    /// The tokens that are set. The first one that may be sent to a server is used.
    pub tokens: Vec<EnvironmentToken>,
    /// `SSH_AUTH_SOCK`.
    pub ssh_agent: Option<OsString>,
    /// The user's home directory, for `~/.ssh`.
    pub home: Option<PathBuf>,
    /// Additional certificates (`--ca-bundle`).
    pub ca_bundle: Option<PathBuf>,
    /// The variables that libgit2 reads, if they are set: `HTTPS_PROXY` and `NO_PROXY` in upper and lower
    /// case, `SSL_CERT_FILE`, `SSL_CERT_DIR`. libgit2 does not use a proxy for plain HTTP.
    pub variables: Environment,
    /// Which submodules a clone has.
    pub submodules: Submodules,
    /// This executable, which serves as the child.
    pub executable: PathBuf,
}

/// A token from the environment, and the only host that it may be sent to.
#[derive(Clone, Debug)]
pub struct EnvironmentToken {
    /// The variable.
    pub variable: &'static str,
    /// Its value.
    pub token: SecretString,
    /// A host with or without a port, or a URL; `None` for the host of the repository.
    pub host: Option<String>,
}

impl GitEnvironment {
    /// The same without tokens, the SSH agent and the user's keys: for repositories whose address others
    /// than the administrator have written.
    #[must_use]
    pub fn without_credentials(&self) -> Self {
        Self {
            tokens: Vec::new(),
            ssh_agent: None,
            home: None,
            ca_bundle: self.ca_bundle.clone(),
            variables: self.variables.clone(),
            submodules: self.submodules,
            executable: self.executable.clone(),
        }
    }

    /// The file of `SSL_CERT_FILE`, otherwise the system's certificates.
    pub(super) fn certificates(&self) -> Option<PathBuf> {
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
    /// The names of the environment tokens that were used. Terraform must not inherit them.
    pub used_tokens: Vec<&'static str>,
}
