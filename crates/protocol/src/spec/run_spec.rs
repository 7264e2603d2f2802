//! A run: its operation, tool, source, variables, environment and backend.

use std::path::PathBuf;

use secrecy::SecretString;

use super::local::{PlanFile, PlanPurpose};
use super::operation::Operation;
use super::requested_version::RequestedVersion;
use super::secret_reference::SecretReference;
use super::sensitive_values::SensitiveValues;
use super::terraform_settings::TerraformSetup;
use crate::backend::{LockId, StateReport};

/// A run in the form that the phases need.
#[derive(Debug)]
pub struct RunSpec {
    /// The operation.
    pub operation: Operation,
    /// The tool and version that the run names, if it names one.
    pub tool: Option<RequestedVersion>,
    /// The source of the module.
    pub source: Source,
    /// Input variables, in the order in which they were given.
    pub variables: Vec<(String, Variable)>,
    /// Whether sensitive variables can be references.
    pub sensitive_values: SensitiveValues,
    /// Outputs of other modules, as JSON text; they win over a variable of the same name.
    pub upstream_outputs: Vec<(String, SecretString)>,
    /// Terraform's additional environment, in the order in which it was given.
    pub environment: Vec<(String, EnvironmentVariable)>,
    /// The state backend of the run; `None` to use the module's.
    pub backend: Option<Backend>,
    /// Further settings for Terraform.
    pub setup: TerraformSetup,
    /// The path of the run's private directory, absolute or relative to `--work-dir`, which must not exist. Saved
    /// plans contain absolute paths, so a plan and its apply need the same one. `None`: the runner chooses a path.
    pub work_directory: Option<PathBuf>,
    /// The saved plan that the run makes or applies.
    pub plan_file: PlanFile,
    /// The purpose of a plan that is not applied at once.
    pub plan_purpose: PlanPurpose,
    /// The state lock that is removed before the plan, if it is still held.
    pub force_unlock: Option<LockId>,
    /// Whether the run reports the version of its state.
    pub state_report: StateReport,
}

/// The source of a module's files.
#[derive(Debug)]
pub enum Source {
    /// A git repository.
    Git(GitSource),
    /// An archive of the module's files, which the registry serves.
    Archive(ArchiveSource),
    /// A directory of the user, which is used in place and never deleted.
    Directory(PathBuf),
}

impl Source {
    /// Whether the files are the user's own, so that the runner neither changes nor removes them.
    #[must_use]
    pub const fn is_in_place(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// The module's directory below the root of its files, as it was given. `None` for a directory of the
    /// user.
    #[must_use]
    pub const fn working_directory(&self) -> Option<&str> {
        match self {
            Self::Git(git) => Some(git.working_directory.as_str()),
            Self::Archive(archive) => Some(archive.working_directory.as_str()),
            Self::Directory(_) => None,
        }
    }

    /// The repository that the files are from, if one is known.
    #[must_use]
    pub const fn repository(&self) -> Option<&GitSource> {
        match self {
            Self::Git(git) => Some(git),
            Self::Archive(archive) => archive.origin.as_ref(),
            Self::Directory(_) => None,
        }
    }
}

/// The files of one commit, as a tar archive.
#[derive(Debug)]
pub struct ArchiveSource {
    /// The archive's path below the registry's endpoint, or a URL on its origin, like a callback.
    pub url: String,
    /// The commit id; never empty.
    pub commit: String,
    /// The module's directory below the archive's root, as it was given; empty for the root.
    pub working_directory: String,
    /// The repository of the commit. The runner does not fetch it: it is shown, and its login is for the
    /// modules that Terraform fetches.
    pub origin: Option<GitSource>,
}

/// A module in a git repository.
#[derive(Debug)]
pub struct GitSource {
    /// `https`, `http`, `ssh` or `file` URL, or the scp-like `user@host:path`. May contain
    /// credentials, so it must not be shown; see [`GitSource::credentials`].
    pub repository: SecretString,
    /// A branch, a tag, or a full or abbreviated commit id; never empty.
    pub reference: String,
    /// The module's directory below the repository's root, as it was given; empty for the root.
    pub working_directory: String,
    /// The login.
    pub credentials: GitCredentials,
}

/// The credentials in the configuration of a run.
#[derive(Debug, Default)]
pub enum GitCredentials {
    /// No credentials: those in the environment are used.
    #[default]
    None,
    /// An access token.
    Token {
        /// The user name; by default the one that the host expects.
        username: Option<String>,
        /// The token.
        token: SecretString,
    },
    /// User name and password.
    Password {
        /// The user name.
        username: String,
        /// The password.
        password: SecretString,
    },
    /// An SSH key.
    SshKey {
        /// The user name, `git` by default.
        username: Option<String>,
        /// The private key, PEM or OpenSSH format.
        private_key: SecretString,
        /// Its passphrase.
        passphrase: Option<SecretString>,
        /// Lines of a `known_hosts` file, which are the only ones that are trusted. `None` for the files of the user
        /// and the system.
        known_hosts: Option<String>,
    },
    /// A GitHub App installation. The CI system sets its token in the environment.
    GithubApp,
}

/// One input variable.
#[derive(Debug)]
pub struct Variable {
    /// The value as JSON text, numbers exactly as they were written; `None` if only a reference
    /// is given.
    pub value: Option<SecretString>,
    /// Whether the value must not be shown.
    pub sensitive: bool,
    /// The reference to the value, if the run contains one (ADR-001, `source`, `ref`, `key`).
    pub reference: Option<SecretReference>,
}

/// One environment variable for Terraform.
#[derive(Debug)]
pub struct EnvironmentVariable {
    /// The value.
    pub value: SecretString,
    /// Whether the value must not be shown.
    pub sensitive: bool,
}

/// A state backend and its settings.
#[derive(Debug)]
pub struct Backend {
    /// Terraform's name of the backend type, an identifier such as `pg` or `s3`.
    pub kind: String,
    /// Its settings: name and JSON text, in the order in which they were given.
    pub config: Vec<(String, SecretString)>,
}
