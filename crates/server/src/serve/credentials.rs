//! The credentials with which the server reads repositories.

use std::path::PathBuf;

use butler_protocol::spec::GitCredentials;
use secrecy::ExposeSecret;

use crate::attempts::{SecretCredentials, SecretError, Secrets};
use crate::config::{CredentialsEntry, SecretSource};

/// The credentials of a repository, which are read for each poll.
pub(super) fn credentials(
    repository: &str,
    entry: Option<&CredentialsEntry>,
    secrets: &Secrets,
) -> Result<GitCredentials, SecretError> {
    let Some(entry) = entry else { return Ok(GitCredentials::None) };
    let used_by = format!("the repository `{repository}`");
    let file = |path: &PathBuf| secrets.read(&SecretSource::File(path.clone()), &used_by);
    if let Some(secret) = &entry.secret {
        return Ok(match secrets.credentials(secret, &used_by)? {
            SecretCredentials::Token(token) => GitCredentials::Token { username: None, token },
            SecretCredentials::Password { username, password } => {
                let username = username.expose_secret().to_owned();
                GitCredentials::Password { username, password }
            }
            SecretCredentials::SshKey { private_key, known_hosts } => GitCredentials::SshKey {
                username: None,
                private_key,
                passphrase: None,
                known_hosts: Some(known_hosts.expose_secret().to_owned()),
            },
        });
    }
    if let Some(path) = &entry.token_file {
        return Ok(GitCredentials::Token { username: None, token: file(path)? });
    }
    if let Some(name) = &entry.token_env {
        let token = secrets.read(&SecretSource::Env(name.clone()), &used_by)?;
        return Ok(GitCredentials::Token { username: None, token });
    }
    if let (Some(username), Some(path)) = (&entry.username, &entry.password_file) {
        return Ok(GitCredentials::Password { username: username.clone(), password: file(path)? });
    }
    if let Some(path) = &entry.ssh_key_file {
        let known_hosts = entry.known_hosts.as_ref().map(file).transpose()?;
        return Ok(GitCredentials::SshKey {
            username: None,
            private_key: file(path)?,
            passphrase: None,
            known_hosts: known_hosts.map(|lines| lines.expose_secret().to_owned()),
        });
    }
    Ok(GitCredentials::None)
}
