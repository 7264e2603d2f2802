//! Gives the run's git credentials to the `git` that Terraform starts for private modules.
//!
//! The user's git configuration is not changed: settings are passed in environment variables, secrets in
//! files of the run's private directory that the variables name. A token goes through a credential
//! helper, this executable again, which prints it only for the servers of the token. An ssh key goes
//! through an ssh configuration that names it only for its own host.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::environment::{CREDENTIAL_COMMAND, GitEnvironment};
use super::failure::SourceError;
use super::known_hosts::{read_all, revocations};
use super::login::{AudiencePort, Login, LoginSecret, logins};
use super::url::{RepositoryUrl, Scheme};
use butler_base::platform::{NULL_DEVICE, os_string};
use butler_base::process::Environment;
use butler_base::secret::PrivateDirectory;
use butler_protocol::spec::{GitCredentials, GitSource};

/// The file with the logins, for the credential helper.
const LOGINS_FILE: &str = "git-logins";

/// Passes the credentials to the `git` that Terraform starts for private modules: files in `private`,
/// variables in `child`. The user's git configuration is not changed.
///
/// # Errors
/// When a file cannot be written, or the repository's address cannot be used.
pub fn share_credentials(
    source: &GitSource,
    environment: &GitEnvironment,
    private: &PrivateDirectory,
    child: &mut Environment,
) -> Result<(), SourceError> {
    let (repository, userinfo) =
        RepositoryUrl::parse(source.repository.expose_secret()).map_err(SourceError::Unusable)?;
    let logins = logins(&source.credentials, environment, &repository, userinfo)
        .map_err(|error| SourceError::Fetch { url: repository.to_string(), source: error })?;
    let mut settings = Vec::new();
    let (web, keys): (Vec<Login>, Vec<Login>) =
        logins.into_iter().partition(|login| login.fits(Scheme::Https));
    if !web.is_empty() {
        let file = write_logins(&web, private)?;
        let helper = helper_command(&environment.executable, &file);
        for server in web.iter().flat_map(|login| servers(login, &repository)) {
            // The empty value removes the helpers of earlier settings.
            let name = format!("credential.{server}.helper");
            settings.push((name.clone(), Vec::new()));
            settings.push((name, helper.clone()));
        }
        child.set("GIT_TERMINAL_PROMPT", "0");
    }
    add_settings(settings, child);
    if let Some(Login { secret: LoginSecret::Key { private_key, passphrase }, .. }) = keys.first() {
        let key = SshKey {
            host: &repository.host,
            private_key,
            passphrase: passphrase.as_ref(),
            source,
            home: environment.home.as_deref(),
        };
        key.share(private, child)?;
    }
    Ok(())
}

pub(super) fn write(
    private: &PrivateDirectory,
    name: &str,
    content: &[u8],
) -> Result<PathBuf, SourceError> {
    private.write(name, content).map_err(SourceError::Share)
}

fn write_logins(logins: &[Login], private: &PrivateDirectory) -> Result<PathBuf, SourceError> {
    let json = serde_json::to_vec(&logins).map_err(|error| {
        file_error("write", Path::new(LOGINS_FILE), std::io::Error::other(error))
    })?;
    write(private, LOGINS_FILE, &json)
}

/// The command that git runs in a shell, with `get`, `store` or `erase` appended.
fn helper_command(executable: &Path, file: &Path) -> Vec<u8> {
    [
        b"!",
        shell_word(executable.as_os_str().as_encoded_bytes()).as_slice(),
        format!(" {CREDENTIAL_COMMAND} ").as_bytes(),
        &shell_word(file.as_os_str().as_encoded_bytes()),
    ]
    .concat()
}

/// `text` as one word of a shell.
fn shell_word(text: &[u8]) -> Vec<u8> {
    let mut word = vec![b'\''];
    for byte in text {
        match byte {
            b'\'' => word.extend_from_slice(b"'\\''"),
            byte => word.push(*byte),
        }
    }
    word.push(b'\'');
    word
}

/// The servers of a login, as keys of git's configuration.
fn servers(login: &Login, repository: &RepositoryUrl) -> Vec<String> {
    let audience = &login.audience;
    let mut ports = match audience.port {
        AudiencePort::Only(port) => vec![(Scheme::Https, port), (Scheme::Http, port)],
        AudiencePort::Any => vec![(Scheme::Https, 443), (Scheme::Http, 80)],
        AudiencePort::OfScheme(Scheme::Https, port) => vec![(Scheme::Https, port)],
        AudiencePort::OfScheme(Scheme::Http, port) => {
            vec![(Scheme::Https, 443), (Scheme::Http, port)]
        }
        AudiencePort::OfScheme(..) => vec![(Scheme::Https, 443)],
    };
    if audience.port == AudiencePort::Any && repository.host == audience.host {
        ports.push((repository.scheme, repository.port));
    }
    ports.sort_by_key(|(scheme, port)| (scheme.name(), *port));
    ports.dedup();
    ports
        .into_iter()
        .filter(|(scheme, _)| scheme.is_http() && (*scheme == Scheme::Https || audience.in_clear))
        .filter(|_| !audience.host.is_empty())
        .map(|(scheme, port)| RepositoryUrl::server_url(scheme, &audience.host, port))
        .collect()
}

/// Adds settings for git to those that the environment contains.
pub(super) fn add_settings(settings: Vec<(String, Vec<u8>)>, child: &mut Environment) {
    if settings.is_empty() {
        return;
    }
    let mut count = child
        .value("GIT_CONFIG_COUNT")
        .and_then(|count| count.to_str()?.parse::<usize>().ok())
        .unwrap_or(0);
    for (name, value) in settings {
        child.set(format!("GIT_CONFIG_KEY_{count}"), name);
        child.set(format!("GIT_CONFIG_VALUE_{count}"), os_string(value));
        count += 1;
    }
    child.set("GIT_CONFIG_COUNT", count.to_string());
}

pub(super) fn file_error(act: &'static str, path: &Path, source: std::io::Error) -> SourceError {
    SourceError::File { act, path: path.to_owned(), source }
}

/// An ssh key and the host that it is for.
struct SshKey<'a> {
    host: &'a str,
    private_key: &'a SecretString,
    passphrase: Option<&'a SecretString>,
    source: &'a GitSource,
    home: Option<&'a Path>,
}

impl SshKey<'_> {
    fn share(
        &self,
        private: &PrivateDirectory,
        child: &mut Environment,
    ) -> Result<(), SourceError> {
        // OpenSSH does not read a key without a newline at its end.
        let pem = format!("{}\n", self.private_key.expose_secret().trim_end());
        let key = write(private, "git-ssh-key", pem.as_bytes())?;
        let config = write(private, "git-ssh-config", &self.configuration(&key, private)?)?;
        let command =
            [b"ssh -F ".as_slice(), &shell_word(config.as_os_str().as_encoded_bytes())].concat();
        child.set("GIT_SSH_COMMAND", os_string(command));
        if let Some(passphrase) = self.passphrase {
            let script = write_askpass_script(&key, passphrase, private)?;
            child.set("SSH_ASKPASS", script);
            child.set("SSH_ASKPASS_REQUIRE", "force");
        }
        Ok(())
    }

    /// The first value of a setting applies, so the settings of this host come before the user's.
    fn configuration(
        &self,
        key: &Path,
        private: &PrivateDirectory,
    ) -> Result<Vec<u8>, SourceError> {
        let mut config = Vec::new();
        let mut line = |parts: [&[u8]; 3]| {
            config.extend_from_slice(&parts.concat());
            config.push(b'\n');
        };
        line([b"Host ", self.host.as_bytes(), b""]);
        line([b"IdentityFile ", &ssh_word(key), b""]);
        line([b"IdentitiesOnly yes", b"", b""]);
        line([b"StrictHostKeyChecking yes", b"", b""]);
        if let GitCredentials::SshKey { username, known_hosts, .. } = &self.source.credentials {
            if let Some(user) =
                username.as_ref().filter(|user| user.chars().all(char::is_alphanumeric))
            {
                line([b"User ", user.as_bytes(), b""]);
            }
            if let Some(lines) = known_hosts {
                // Only these are trusted, and no key that any file revokes.
                let of_files = read_all(self.home);
                let lines: Vec<&str> =
                    std::iter::once(lines.as_str()).chain(revocations(&of_files)).collect();
                let text = format!("{}\n", lines.join("\n"));
                let file = write(private, "git-known-hosts", text.as_bytes())?;
                line([b"UserKnownHostsFile ", &ssh_word(&file), b""]);
                line([b"GlobalKnownHostsFile ", NULL_DEVICE.as_bytes(), b""]);
            }
        }
        // With `-F`, ssh reads neither of these by itself.
        line([b"Host *", b"", b""]);
        let user = self.home.map(|home| home.join(".ssh/config"));
        for file in user.iter().map(PathBuf::as_path).chain([Path::new("/etc/ssh/ssh_config")]) {
            if file.is_file() {
                line([b"Include \"", file.as_os_str().as_encoded_bytes(), b"\""]);
            }
        }
        Ok(config)
    }
}

/// A path as one word of an ssh configuration, where `%` begins a token.
fn ssh_word(path: &Path) -> Vec<u8> {
    let mut word = vec![b'"'];
    for byte in path.as_os_str().as_encoded_bytes() {
        if *byte == b'%' {
            word.push(b'%');
        }
        word.push(*byte);
    }
    word.push(b'"');
    word
}

/// Writes a script that prints the passphrase of this key for ssh, and nothing for other prompts: a
/// server may ask for a password.
fn write_askpass_script(
    key: &Path,
    passphrase: &SecretString,
    private: &PrivateDirectory,
) -> Result<PathBuf, SourceError> {
    let file = write(private, "git-ssh-passphrase", passphrase.expose_secret().as_bytes())?;
    let mut script = Vec::new();
    script.extend_from_slice(b"#!/bin/sh\ncase \"$1\" in \"Enter passphrase for key '\"");
    script.extend_from_slice(&shell_word(key.as_os_str().as_encoded_bytes()));
    script.extend_from_slice(b"\"'\"*) ;; *) exit 1 ;; esac\nexec cat ");
    script.extend_from_slice(&shell_word(file.as_os_str().as_encoded_bytes()));
    script.push(b'\n');
    private.write_executable("git-ssh-askpass", &script).map_err(SourceError::Share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_added_to_those_of_the_environment() {
        let mut child = Environment::default();
        child.set("GIT_CONFIG_COUNT", "1");
        child.set("GIT_CONFIG_KEY_0", "user.name");
        add_settings(vec![("a.b".to_owned(), b"c".to_vec())], &mut child);
        assert_eq!(child.value("GIT_CONFIG_COUNT").unwrap(), "2");
        assert_eq!(child.value("GIT_CONFIG_KEY_0").unwrap(), "user.name");
        assert_eq!(child.value("GIT_CONFIG_KEY_1").unwrap(), "a.b");
        assert_eq!(child.value("GIT_CONFIG_VALUE_1").unwrap(), "c");
    }

    #[test]
    fn path_with_quotes_is_one_shell_word() {
        let command = helper_command(Path::new("/opt/it's here/runner"), Path::new("/run/x"));
        let expected = "!'/opt/it'\\''s here/runner' internal-git-credential '/run/x'";
        assert_eq!(String::from_utf8(command).unwrap(), expected);
    }
}
