//! Reads the secrets that a configuration names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use butler_cluster::SecretUnread;
use butler_protocol::spec::GitCredentials;
use fs_err as fs;
use secrecy::{ExposeSecret, SecretString};

use crate::config::{CredentialsEntry, SecretName, SecretReference, SecretSource};

/// The largest file with a secret, in bytes.
const MOST: u64 = 1024 * 1024;

/// Reads a variable of the server.
pub type ReadVariable = Arc<dyn Fn(&str) -> Option<SecretString> + Send + Sync>;

/// Reads the values of a Secret, by namespace and name. It blocks.
pub type ReadSecret =
    Arc<dyn Fn(&str, &str) -> Result<BTreeMap<String, SecretString>, SecretUnread> + Send + Sync>;

/// Reads secrets at the moment in which they are needed, so that one that was rotated needs no
/// restart.
#[derive(Clone)]
pub struct Secrets {
    variable: ReadVariable,
    cluster: Option<ReadSecret>,
}

/// A secret cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Its file.
    #[error("cannot read the secret in the file `{}` that {used_by} needs", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What needs it.
        used_by: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Its variable.
    #[error("the variable `{name}` of the server is not set, and {used_by} needs it")]
    Variable {
        /// The variable.
        name: String,
        /// What needs it.
        used_by: String,
    },
    /// Its Secret.
    #[error("cannot use {}the Secret `{secret}` that {used_by} needs: {}", of_key(key.as_deref()), problem.why)]
    Secret {
        /// The namespace and the name of the Secret, with a slash between them.
        secret: String,
        /// The key that is needed, if it is a single one.
        key: Option<String>,
        /// What needs it.
        used_by: String,
        /// Why.
        problem: SecretUnread,
    },
}

fn of_key(key: Option<&str>) -> String {
    key.map(|key| format!("the key `{key}` of ")).unwrap_or_default()
}

impl SecretError {
    /// Whether it may be readable later without a change.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::Secret { problem: SecretUnread { is_temporary: true, .. }, .. })
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secrets")
    }
}

impl Secrets {
    /// Secrets in files, and in variables that `variable` reads.
    #[must_use]
    pub const fn new(variable: ReadVariable) -> Self {
        Self { variable, cluster: None }
    }

    /// Reads Secrets of a cluster too. From then on, secrets must be read on threads that may block.
    pub fn read_cluster(&mut self, read: ReadSecret) {
        self.cluster = Some(read);
    }

    /// A variable of the server.
    pub(super) fn variable(&self, name: &str) -> Option<SecretString> {
        (self.variable)(name)
    }

    /// A secret, without the line end that editors add. `used_by` is for the error. It blocks until a cluster has
    /// answered.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self, source: &SecretSource, used_by: &str) -> Result<SecretString, SecretError> {
        match source {
            SecretSource::File(path) => Self::file(path).map_err(|source| SecretError::File {
                path: path.clone(),
                used_by: used_by.to_owned(),
                source,
            }),
            SecretSource::Env(name) => (self.variable)(name).ok_or_else(|| SecretError::Variable {
                name: name.clone(),
                used_by: used_by.to_owned(),
            }),
            SecretSource::Secret(SecretReference { name, key, namespace }) => {
                let of = SecretName { name: name.clone(), namespace: namespace.clone() };
                let key = Some(key.as_str());
                let mut values = self.values(&of, key, used_by)?;
                let found = key.and_then(|key| values.remove(key));
                let found = found.map(|value| without_line_end(value.expose_secret()));
                found.ok_or_else(|| problem(&of, key, used_by, missing("it has no such key")))
            }
        }
    }

    /// The credentials of `entry`. It blocks until a cluster has answered.
    ///
    /// # Errors
    /// If they cannot be read, or their Secret has none.
    pub fn credentials(
        &self,
        entry: &CredentialsEntry,
        used_by: &str,
    ) -> Result<GitCredentials, SecretError> {
        if let Some(secret) = &entry.secret {
            return self.credentials_in(secret, used_by);
        }
        let read = |source: SecretSource| self.read(&source, used_by);
        let file = |path: &PathBuf| read(SecretSource::File(path.clone()));
        if let Some(path) = &entry.token_file {
            return Ok(GitCredentials::Token { username: None, token: file(path)? });
        }
        if let Some(name) = &entry.token_env {
            let token = read(SecretSource::Env(name.clone()))?;
            return Ok(GitCredentials::Token { username: None, token });
        }
        if let (Some(username), Some(path)) = (&entry.username, &entry.password_file) {
            let username = username.clone();
            return Ok(GitCredentials::Password { username, password: file(path)? });
        }
        if let (Some(key), Some(hosts)) = (&entry.ssh_key_file, &entry.known_hosts) {
            return Ok(ssh_key(file(key)?, &file(hosts)?));
        }
        // The configuration requires one kind.
        Ok(GitCredentials::None)
    }

    fn credentials_in(
        &self,
        of: &SecretName,
        used_by: &str,
    ) -> Result<GitCredentials, SecretError> {
        let mut values = self.values(of, None, used_by)?;
        let mut take = |key: &str| {
            let value = values.remove(key)?;
            Some(without_line_end(value.expose_secret()))
        };
        if let Some(token) = take("token") {
            return Ok(GitCredentials::Token { username: None, token });
        }
        if let (Some(username), Some(password)) = (take("username"), take("password")) {
            let username = username.expose_secret().to_owned();
            return Ok(GitCredentials::Password { username, password });
        }
        // The line end belongs to these.
        if let (Some(key), Some(hosts)) =
            (values.remove("ssh-privatekey"), values.remove("known_hosts"))
        {
            return Ok(ssh_key(key, &hosts));
        }
        let why = "it must have the key `token`, or `username` and `password`, or `ssh-privatekey` and `known_hosts`";
        Err(problem(of, None, used_by, missing(why)))
    }

    fn values(
        &self,
        of: &SecretName,
        key: Option<&str>,
        used_by: &str,
    ) -> Result<BTreeMap<String, SecretString>, SecretError> {
        let read = self.cluster.as_ref().map(|read| read(&of.namespace, &of.name));
        let read = read.unwrap_or_else(|| Err(missing("the server uses no cluster")));
        read.map_err(|unread| problem(of, key, used_by, unread))
    }

    fn file(path: &Path) -> std::io::Result<SecretString> {
        let size = fs::metadata(path)?.len();
        if size > MOST {
            return Err(std::io::Error::other(format!(
                "it has {size} bytes; a secret has at most {MOST}"
            )));
        }
        let text = fs::read_to_string(path)?;
        Ok(without_line_end(&text))
    }
}

fn ssh_key(private_key: SecretString, known_hosts: &SecretString) -> GitCredentials {
    let known_hosts = Some(known_hosts.expose_secret().to_owned());
    GitCredentials::SshKey { username: None, private_key, passphrase: None, known_hosts }
}

fn without_line_end(text: &str) -> SecretString {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text).into()
}

fn problem(
    of: &SecretName,
    key: Option<&str>,
    used_by: &str,
    problem: SecretUnread,
) -> SecretError {
    let secret = format!("{}/{}", of.namespace, of.name);
    let (key, used_by) = (key.map(str::to_owned), used_by.to_owned());
    SecretError::Secret { secret, key, used_by, problem }
}

/// Only a change can help.
fn missing(why: &str) -> SecretUnread {
    SecretUnread { why: why.to_owned(), is_temporary: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[(&str, &str)]) -> Secrets {
        let values: BTreeMap<String, String> =
            values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut secrets = Secrets::new(Arc::new(|_: &str| None));
        secrets.read_cluster(Arc::new(move |namespace: &str, name: &str| {
            if (namespace, name) != ("team-a", "git") {
                return Err(missing("it does not exist"));
            }
            let one = |(key, value): (&String, &String)| (key.clone(), value.as_str().into());
            Ok(values.iter().map(one).collect())
        }));
        secrets
    }

    fn name(name: &str) -> SecretName {
        SecretName { name: name.to_owned(), namespace: "team-a".to_owned() }
    }

    #[test]
    fn credentials_are_what_the_keys_of_a_secret_say() {
        let entry = CredentialsEntry { secret: Some(name("git")), ..CredentialsEntry::default() };
        let shown = |values: &[(&str, &str)]| match secrets(values).credentials(&entry, "a") {
            Ok(GitCredentials::Token { token, .. }) => token.expose_secret().to_owned(),
            Ok(GitCredentials::Password { username, password }) => {
                format!("{username} {}", password.expose_secret())
            }
            Ok(GitCredentials::SshKey { private_key, known_hosts, .. }) => {
                format!("{:?} {:?}", private_key.expose_secret(), known_hosts.unwrap())
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown(&[("token", "t0ken\n")]), "t0ken");
        assert_eq!(shown(&[("username", "ana"), ("password", "s3cret\r\n")]), "ana s3cret");
        assert_eq!(
            shown(&[("ssh-privatekey", "key\n"), ("known_hosts", "h\n")]),
            r#""key\n" "h\n""#
        );
        for values in [&[("username", "ana")][..], &[("ssh-privatekey", "key")], &[]] {
            assert!(
                shown(values).contains("it must have the key `token`, or"),
                "{}",
                shown(values)
            );
        }
    }

    #[test]
    fn secret_of_the_cluster_is_a_key_and_errors_name_it_without_values() {
        let secrets = secrets(&[("db", "hunter22\n")]);
        let key = |secret: &str, key: &str| {
            let SecretName { name, namespace } = name(secret);
            SecretSource::Secret(SecretReference { name, key: key.to_owned(), namespace })
        };
        assert_eq!(secrets.read(&key("git", "db"), "a").unwrap().expose_secret(), "hunter22");
        for (source, expected) in [
            (
                key("git", "other"),
                "cannot use the key `other` of the Secret `team-a/git` that a needs: it has no such key",
            ),
            (
                key("none", "db"),
                "cannot use the key `db` of the Secret `team-a/none` that a needs: it does not exist",
            ),
        ] {
            assert_eq!(secrets.read(&source, "a").unwrap_err().to_string(), expected);
        }
        let without = Secrets::new(Arc::new(|_: &str| None)).read(&key("git", "db"), "a");
        assert!(without.unwrap_err().to_string().contains("the server uses no cluster"));
    }
}
