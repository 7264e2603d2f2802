//! How repositories are read: credentials, the files of a commit that an attempt gets, and where further
//! configuration is.

use std::fmt;
use std::path::PathBuf;

use butler_base::yaml::given;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;
use sha2::{Digest as _, Sha256};
use url::Url;

/// A Secret of the Kubernetes cluster in the namespace of the custom resource that names it.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SecretName {
    /// The name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The namespace, which the server sets.
    #[serde(default)]
    #[schemars(skip)]
    pub namespace: String,
}

/// Credentials of a repository: a token, a user with a password, or an SSH key.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CredentialsEntry {
    /// An absolute path: the file with a token.
    #[serde(default, deserialize_with = "given")]
    pub token_file: Option<PathBuf>,
    /// The variable of the server with a token.
    #[serde(default, deserialize_with = "given")]
    pub token_env: Option<String>,
    /// The user, with `password-file`.
    #[serde(default, deserialize_with = "given")]
    pub username: Option<String>,
    /// An absolute path: the file with the password of `username`.
    #[serde(default, deserialize_with = "given")]
    pub password_file: Option<PathBuf>,
    /// An absolute path: the file with an SSH key, with `known-hosts`.
    #[serde(default, deserialize_with = "given")]
    pub ssh_key_file: Option<PathBuf>,
    /// An absolute path: the file with the host keys, with `ssh-key-file`.
    #[serde(default, deserialize_with = "given")]
    pub known_hosts: Option<PathBuf>,
    /// A Kubernetes Secret with the keys `token`, or `username` and `password`, or `ssh-privatekey` and `known_hosts`;
    /// only in custom resources.
    pub secret: Option<SecretName>,
}

/// Which submodules of a repository the server fetches.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum SubmoduleChoice {
    /// Those that a layer reaches.
    #[default]
    Needed,
    /// All. If one of them cannot be fetched, the repository cannot be read.
    All,
    /// None.
    None,
}

/// Which files of a commit an attempt gets.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checkout {
    /// What the layer depends on.
    #[default]
    Needed,
    /// All files.
    Full,
}

/// Credentials for the private modules that `init` downloads with git, from one host: a token, a user
/// with a password, or an SSH key.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ModuleCredentialsEntry {
    /// The only host that gets them, such as `git.example.com` or `git.example.com:8443`. A token or
    /// password is sent over TLS only.
    pub host: String,
    /// An absolute path: the file with a token.
    #[serde(default, deserialize_with = "given")]
    pub token_file: Option<PathBuf>,
    /// The variable of the server with a token.
    #[serde(default, deserialize_with = "given")]
    pub token_env: Option<String>,
    /// The user, with `password-file`.
    #[serde(default, deserialize_with = "given")]
    pub username: Option<String>,
    /// An absolute path: the file with the password of `username`.
    #[serde(default, deserialize_with = "given")]
    pub password_file: Option<PathBuf>,
    /// An absolute path: the file with an SSH key, with `known-hosts`.
    #[serde(default, deserialize_with = "given")]
    pub ssh_key_file: Option<PathBuf>,
    /// An absolute path: the file with the host keys, with `ssh-key-file`.
    #[serde(default, deserialize_with = "given")]
    pub known_hosts: Option<PathBuf>,
    /// A Kubernetes Secret with the keys `token`, or `username` and `password`, or `ssh-privatekey` and `known_hosts`;
    /// only in custom resources.
    pub secret: Option<SecretName>,
}

impl ModuleCredentialsEntry {
    /// The credentials, without the host.
    #[must_use]
    pub fn credentials(&self) -> CredentialsEntry {
        let Self {
            host: _,
            token_file,
            token_env,
            username,
            password_file,
            ssh_key_file,
            known_hosts,
            secret,
        } = self.clone();
        CredentialsEntry {
            token_file,
            token_env,
            username,
            password_file,
            ssh_key_file,
            known_hosts,
            secret,
        }
    }

    /// The address of the host. Git gets the credentials for addresses that begin with it.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.ssh_key_file.is_some() { "ssh" } else { "https" };
        format!("{scheme}://{}/", self.host)
    }

    /// Whether `host` is a host, and nothing else.
    pub(super) fn has_host(&self) -> bool {
        let is_plain = |one: char| one.is_ascii_alphanumeric() || ".-_:[]".contains(one);
        let parsed = Url::parse(&format!("https://{}/", self.host));
        self.host.chars().all(is_plain) && parsed.is_ok_and(|url| url.has_host())
    }
}

/// The ref of an entry that names none: the default branch.
pub const DEFAULT_REFERENCE: &str = "HEAD";

/// Further configuration, which the server reads from a repository at each poll.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IncludeEntry {
    /// The name of a repository of the server's own configuration.
    #[schemars(with = "String")]
    pub repository: Spanned<String>,
    /// The branch, tag or commit; without it, the default branch.
    #[serde(rename = "ref", default, deserialize_with = "given")]
    pub reference: Option<String>,
    /// The most layers that it may define, with the members of its layer sets; by default 1,000.
    #[serde(rename = "max-layers")]
    pub max_layers: Option<u32>,
    /// A YAML file in the repository, or a directory: all `*.yaml` and `*.yml` files in it, in the order
    /// of their names.
    #[schemars(with = "String")]
    pub path: Spanned<String>,
}

/// Where included configuration is.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct IncludeSource {
    /// The name of the repository.
    pub repository: String,
    /// The branch, tag or commit, or `HEAD` for the default branch.
    pub reference: String,
    /// The file or directory, without `.` and `..`; empty for the root.
    pub path: String,
    /// The address of the repository.
    pub(super) url: String,
}

impl IncludeSource {
    /// The name of a file of the repository in errors.
    #[must_use]
    pub fn file(&self, path: &str) -> PathBuf {
        let path = if path.is_empty() { "." } else { path };
        PathBuf::from(format!("{}@{}:{path}", self.repository, self.reference))
    }

    /// What tells it from others, without a login that the address can contain.
    #[must_use]
    pub fn id(&self) -> String {
        let Self { repository, reference, path, url } = self;
        hex::encode(Sha256::digest(format!("{:?}", (repository, reference, path, url))))
    }
}

impl fmt::Display for IncludeSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file(&self.path).display())
    }
}
