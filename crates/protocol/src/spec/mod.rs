//! What a run is, whoever asked for it: the registry, a file or the command line.
//!
//! A [`RunSpec`] cannot be built wrong: names, versions and kinds are parsed at the border that
//! read them. Every value of a variable, environment variable or backend setting is a secret here,
//! because the configuration as a whole is; [`Variable::sensitive`] only says what may be *named*.

mod cli_files;
mod constraint;
mod local;
mod operation;
mod run_id;
mod sensitive_values;
mod terraform_settings;
mod tool;
mod version_file;
mod wanted;

use std::path::PathBuf;

use secrecy::SecretString;

pub use cli_files::{CLI_CONFIG_VARIABLES, cli_config_files};
pub use constraint::Constraint;
pub use constraint::ConstraintError;
pub use local::{
    Approval, Assignment, ChangesExit, LocalOptions, PlanFile, PlanningOptions, Purpose, Refresh,
};
pub use operation::{Operation, UnknownOperation};
pub use run_id::{InvalidRunId, RunId};
pub use sensitive_values::SensitiveValues;
pub use terraform_settings::{
    AfterPlan, BackendSettings, BackendValue, CliConfig, InstallationMethod, LoggingSettings,
    ProviderSource, RegistryHost, TerraformSettings, TerraformSetup,
};
pub use tool::{ParseRequestError, Product, ToolRequest};
pub use version_file::{VersionFile, VersionFileKind};
pub use wanted::{NEWEST_ALLOWED, OLDEST_ALLOWED, What};
pub use wanted::{Wanted, WantedError};

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

/// A secret by name: a key of a Kubernetes secret, or a secret of the CI system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SecretReference {
    /// The namespace, where one is named.
    pub namespace: Option<String>,
    /// The secret's name.
    pub name: String,
    /// The key in it, where one is named.
    pub key: Option<String>,
}

/// Where the state is kept.
#[derive(Debug)]
pub struct Backend {
    /// Terraform's name of the backend type, an identifier such as `pg` or `s3`.
    pub kind: String,
    /// Its settings: name and JSON text, in the order in which they were given.
    pub config: Vec<(String, SecretString)>,
}
