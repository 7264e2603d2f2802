//! A run: its operation, tool, source, variables, environment and backend.

use std::path::PathBuf;

use secrecy::SecretString;

use super::operation::Operation;
use super::secret_reference::SecretReference;
use super::sensitive_values::SensitiveValues;
use super::terraform_settings::TerraformSetup;
use super::wanted::Wanted;

/// A run, as the phases need it.
#[derive(Debug)]
pub struct RunSpec {
    /// What to do.
    pub operation: Operation,
    /// The tool and version that the run names, if it names one.
    pub tool: Option<Wanted>,
    /// Where the module is.
    pub source: Source,
    /// Input variables, in the order in which they were given.
    pub variables: Vec<(String, Variable)>,
    /// How the sensitive ones among them are to be taken.
    pub sensitive_values: SensitiveValues,
    /// Outputs of other modules, as JSON text; they win over a variable of the same name.
    pub upstream_outputs: Vec<(String, SecretString)>,
    /// Terraform's additional environment, in the order in which it was given.
    pub environment: Vec<(String, EnvironmentVariable)>,
    /// Where the state is kept, if the run says so; otherwise the module decides.
    pub backend: Option<Backend>,
    /// What else of the settings for Terraform counts.
    pub setup: TerraformSetup,
}

/// Where a module's files come from.
#[derive(Debug)]
pub enum Source {
    /// A git repository.
    Git(GitSource),
    /// A directory of the user's, worked on in place and never deleted.
    Directory(PathBuf),
}

/// A module in a git repository.
#[derive(Debug)]
pub struct GitSource {
    /// `https`, `http`, `ssh` or `file` URL, or the scp-like `user@host:path`. May carry
    /// credentials, so it must not be shown; see [`GitSource::credentials`].
    pub repository: SecretString,
    /// A branch, a tag, or a full or abbreviated commit id; never empty.
    pub reference: String,
    /// The module's directory below the repository's root, as it was given; empty for the root.
    pub working_directory: String,
    /// How to log in.
    pub credentials: GitCredentials,
}

/// The credentials that came with the run.
#[derive(Debug, Default)]
pub enum GitCredentials {
    /// None: use what the environment offers.
    #[default]
    None,
    /// An access token.
    Token {
        /// The user name that goes with it; by default what the host expects.
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
        /// Lines of a `known_hosts` file; without any, the user's own file decides.
        known_hosts: Option<String>,
    },
    /// A GitHub App installation: the CI system has put its token into the environment.
    GithubApp,
}

/// One input variable.
#[derive(Debug)]
pub struct Variable {
    /// The value as JSON text, numbers exactly as they were written; none when only a reference
    /// was given.
    pub value: Option<SecretString>,
    /// Whether the value must not be shown.
    pub sensitive: bool,
    /// Where the value is to be found, when the run gave a reference (ADR-001, `source`, `ref`, `key`).
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

/// Where the state is kept.
#[derive(Debug)]
pub struct Backend {
    /// Terraform's name of the backend type, an identifier such as `pg` or `s3`.
    pub kind: String,
    /// Its settings: name and JSON text, in the order in which they were given.
    pub config: Vec<(String, SecretString)>,
}
