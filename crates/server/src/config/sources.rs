//! How repositories are read: credentials, and the files of a commit that an attempt gets.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

/// Credentials of a repository: a token, a user with a password, or an SSH key.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CredentialsEntry {
    /// An absolute path: the file with a token.
    pub token_file: Option<PathBuf>,
    /// The variable of the server with a token.
    pub token_env: Option<String>,
    /// The user, with `password-file`.
    pub username: Option<String>,
    /// An absolute path: the file with the password of `username`.
    pub password_file: Option<PathBuf>,
    /// An absolute path: the file with an SSH key, with `known-hosts`.
    pub ssh_key_file: Option<PathBuf>,
    /// An absolute path: the file with the host keys, with `ssh-key-file`.
    pub known_hosts: Option<PathBuf>,
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
    pub token_file: Option<PathBuf>,
    /// The variable of the server with a token.
    pub token_env: Option<String>,
    /// The user, with `password-file`.
    pub username: Option<String>,
    /// An absolute path: the file with the password of `username`.
    pub password_file: Option<PathBuf>,
    /// An absolute path: the file with an SSH key, with `known-hosts`.
    pub ssh_key_file: Option<PathBuf>,
    /// An absolute path: the file with the host keys, with `ssh-key-file`.
    pub known_hosts: Option<PathBuf>,
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
        } = self.clone();
        CredentialsEntry {
            token_file,
            token_env,
            username,
            password_file,
            ssh_key_file,
            known_hosts,
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
