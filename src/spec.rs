//! What a run is, whoever asked for it: the registry, a file or the command line.
//!
//! A [`RunSpec`] cannot be built wrong: names, versions and kinds are parsed at the border that
//! read them. Every value of a variable, environment variable or backend setting is a secret here,
//! because the configuration as a whole is; [`Variable::sensitive`] only says what may be *named*.

use std::path::PathBuf;

use secrecy::SecretString;
use semver::Version;

use crate::tool::Product;

/// What is to be done with the module.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Show what would change.
    Plan,
    /// Plan and apply exactly that plan.
    Apply,
    /// Plan the destruction of everything and apply exactly that plan.
    Destroy,
    /// Bring the state up to date with reality, without changing reality.
    Refresh,
    /// Show what changed in reality, without changing anything.
    DriftCheck,
    /// Check the configuration without touching state.
    Validate,
    /// Run the module's own tests.
    Test,
}

/// The operation that a run asks for is not one that the runner knows.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum UnknownOperation {
    /// No operation at all.
    #[error("the run names no operation")]
    Missing,
    /// A word that is no operation.
    #[error("the run asks for the unknown operation `{0}`")]
    Unknown(String),
}

impl Operation {
    /// All operations, by the names under which the registry knows them.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("plan", Self::Plan),
        ("apply", Self::Apply),
        ("destroy", Self::Destroy),
        ("refresh", Self::Refresh),
        ("drift-check", Self::DriftCheck),
        ("validate", Self::Validate),
        ("test", Self::Test),
    ];

    /// The name under which the registry knows this operation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Destroy => "destroy",
            Self::Refresh => "refresh",
            Self::DriftCheck => "drift-check",
            Self::Validate => "validate",
            Self::Test => "test",
        }
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl std::str::FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name.is_empty() {
            return Err(UnknownOperation::Missing);
        }
        Self::NAMES
            .into_iter()
            .find_map(|(known, operation)| (known == name).then_some(operation))
            .ok_or_else(|| UnknownOperation::Unknown(name.to_owned()))
    }
}

/// A run, as the phases need it.
#[derive(Debug)]
pub struct RunSpec {
    /// What to do.
    pub operation: Operation,
    /// The tool and version that the run names, if it names one.
    pub tool: Option<ToolRequest>,
    /// Where the module is.
    pub source: Source,
    /// Input variables, in the order in which they were given.
    pub variables: Vec<(String, Variable)>,
    /// Outputs of other modules, as JSON text; they win over a variable of the same name.
    pub upstream_outputs: Vec<(String, SecretString)>,
    /// Terraform's additional environment, in the order in which it was given.
    pub environment: Vec<(String, EnvironmentVariable)>,
    /// Where the state is kept, if the run says so; otherwise the module decides.
    pub backend: Option<Backend>,
}

/// An exact version of a product.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ToolRequest {
    /// Terraform or `OpenTofu`.
    pub product: Product,
    /// The exact version.
    pub version: Version,
}

impl std::fmt::Display for ToolRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.product, self.version)
    }
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

/// The name of a run. Its form is the registry's business; in a URL it is one percent-encoded
/// path segment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RunId(String);

/// A name that no run can have.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidRunId {
    /// Nothing at all.
    #[error("the run id is empty")]
    Empty,
    /// `.` and `..` are steps of a path, however they are encoded.
    #[error("`{0}` is no run id")]
    PathStep(String),
    /// Control characters.
    #[error("the run id holds a control character")]
    Control,
}

impl RunId {
    /// The id as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as one segment of a URL's path: everything but unreserved characters (RFC 3986,
    /// 2.3) is percent-encoded.
    #[must_use]
    pub fn path_segment(&self) -> String {
        const RESERVED: percent_encoding::AsciiSet =
            percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
        percent_encoding::utf8_percent_encode(&self.0, &RESERVED).to_string()
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::str::FromStr for RunId {
    type Err = InvalidRunId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Err(InvalidRunId::Empty),
            "." | ".." => Err(InvalidRunId::PathStep(text.to_owned())),
            _ if text.chars().any(char::is_control) => Err(InvalidRunId::Control),
            _ => Ok(Self(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_is_one_segment_of_a_path_whatever_it_holds() {
        let id: RunId = "a/../b?c#d %é".parse().unwrap();
        assert_eq!(id.as_str(), "a/../b?c#d %é");
        assert_eq!(id.path_segment(), "a%2F..%2Fb%3Fc%23d%20%25%C3%A9");
    }

    #[test]
    fn run_id_cannot_be_a_step_of_a_path() {
        for text in ["", ".", "..", "a\nb"] {
            assert!(text.parse::<RunId>().is_err(), "{text:?}");
        }
    }
}
