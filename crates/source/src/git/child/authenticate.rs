//! Handles libgit2's callbacks for credentials and host keys.
//!
//! libgit2 requests credentials again after every refusal, without a limit, so each credential is tried once. The
//! attempts are recorded, because libgit2's own error does not contain them.

use std::cell::RefCell;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use git2::{CertificateCheckStatus, Cred, CredentialType, RemoteCallbacks};
use secrecy::ExposeSecret;

use super::super::login::{Login, LoginSecret, login_for};
use super::super::task::Access;
use super::super::url::{RepositoryUrl, Scheme};

/// Private keys that are tried, the strongest first: servers hang up after a few refusals.
const KEY_FILES: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];

/// The login attempts of a connection, for error messages.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// The names of the credentials that were offered.
    pub(super) offered: Vec<String>,
    /// The fingerprint of the server's host key.
    pub(super) fingerprint: Option<String>,
    /// The environment's tokens that were sent to any server.
    pub(super) used_tokens: Vec<String>,
}

/// Provides the credentials for all connections of one fetch.
pub(super) struct Authenticator<'task> {
    access: &'task Access,
    attempts: RefCell<Attempts>,
}

impl<'task> Authenticator<'task> {
    pub(super) const fn new(access: &'task Access) -> Self {
        Self {
            access,
            attempts: RefCell::new(Attempts {
                offered: Vec::new(),
                fingerprint: None,
                used_tokens: Vec::new(),
            }),
        }
    }

    /// Clears the attempts of the previous server.
    pub(super) fn clear_attempts(&self) {
        let mut attempts = self.attempts.borrow_mut();
        attempts.offered.clear();
        attempts.fingerprint = None;
    }

    /// The attempts of the last server.
    pub(super) fn attempts(&self) -> std::cell::Ref<'_, Attempts> {
        self.attempts.borrow()
    }

    /// Callbacks for one connection to `url`.
    pub(super) fn callbacks<'call>(
        &'call self,
        url: &'call RepositoryUrl,
    ) -> RemoteCallbacks<'call> {
        let mut ssh_logins = match url.scheme {
            Scheme::Ssh => self.ssh_logins(url),
            _ => Vec::new(),
        };
        ssh_logins.reverse();
        let mut http_offered = false;
        let mut callbacks = RemoteCallbacks::new();
        callbacks.credentials(move |server, user, allowed| {
            if allowed == CredentialType::USERNAME {
                return Cred::username(&self.ssh_user(url));
            }
            if url.scheme == Scheme::Ssh {
                let user = user.map_or_else(|| self.ssh_user(url), str::to_owned);
                while let Some(login) = ssh_logins.pop() {
                    if allowed.intersects(login.kind()) {
                        self.attempts.borrow_mut().offered.push(login.name());
                        return login.credentials(&user);
                    }
                }
                return Err(refusal());
            }
            if http_offered {
                return Err(refusal());
            }
            http_offered = true;
            self.http_credentials(server)
        });
        callbacks.certificate_check(|certificate, _| {
            if let Some(key) = certificate.as_hostkey() {
                let kind = key.hostkey_type().map_or("unknown", |kind| kind.short_name());
                let fingerprint = key.hash_sha256().map_or_else(
                    || "no fingerprint".to_owned(),
                    |hash| format!("{kind} SHA256:{}", STANDARD_NO_PAD.encode(hash)),
                );
                self.attempts.borrow_mut().fingerprint = Some(fingerprint);
            }
            // libgit2 itself checks the certificate store, or `known_hosts` in HOME.
            Ok(CertificateCheckStatus::CertificatePassthrough)
        });
        callbacks
    }

    /// `server` is the URL of the connection after redirects.
    fn http_credentials(&self, server: &str) -> Result<Cred, git2::Error> {
        let login = RepositoryUrl::parse(server)
            .ok()
            .and_then(|(url, _)| login_for(&self.access.logins, &url))
            .and_then(|login| Some((login, login.basic()?)));
        let Some((login, (username, password))) = login else { return Err(refusal()) };
        let mut attempts = self.attempts.borrow_mut();
        attempts.offered.push(login.name());
        if let Some(variable) = &login.variable
            && !attempts.used_tokens.contains(variable)
        {
            attempts.used_tokens.push(variable.clone());
        }
        Cred::userpass_plaintext(username, password)
    }

    fn ssh_user(&self, url: &RepositoryUrl) -> String {
        url.user.clone().unwrap_or_else(|| self.access.ssh_user.clone())
    }

    /// The ways to log in over ssh, in order. If the run has a login for this server, only that.
    fn ssh_logins(&self, url: &RepositoryUrl) -> Vec<SshLogin<'task>> {
        if let Some(login) = login_for(&self.access.logins, url) {
            return vec![SshLogin::Login(login)];
        }
        let agent = self.access.has_agent.then_some(SshLogin::Agent);
        let directory = self.access.home.as_ref().map(|home| home.join(".ssh"));
        let files = KEY_FILES.iter().filter_map(|name| Some(directory.as_ref()?.join(name)));
        agent.into_iter().chain(files.filter(|file| file.is_file()).map(SshLogin::File)).collect()
    }
}

/// One way to log in over ssh.
enum SshLogin<'task> {
    Login(&'task Login),
    Agent,
    File(PathBuf),
}

impl SshLogin<'_> {
    fn kind(&self) -> CredentialType {
        match self {
            Self::Login(Login { secret: LoginSecret::Key { .. }, .. }) => {
                CredentialType::SSH_MEMORY
            }
            Self::Login(_) => CredentialType::USER_PASS_PLAINTEXT,
            Self::Agent | Self::File(_) => CredentialType::SSH_KEY,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Login(login) => login.name(),
            Self::Agent => "the ssh agent's keys".to_owned(),
            Self::File(file) => format!("`{}`", file.display()),
        }
    }

    fn credentials(&self, user: &str) -> Result<Cred, git2::Error> {
        match self {
            Self::Login(Login { secret: LoginSecret::Key { private_key, passphrase }, .. }) => {
                let passphrase = passphrase.as_ref().map(ExposeSecret::expose_secret);
                Cred::ssh_key_from_memory(user, None, private_key.expose_secret(), passphrase)
            }
            Self::Login(login) => match login.basic() {
                Some((_, password)) => Cred::userpass_plaintext(user, password),
                None => Err(refusal()),
            },
            Self::Agent => Cred::ssh_key_from_agent(user),
            Self::File(file) => Cred::ssh_key(user, None, file, None),
        }
    }
}

fn refusal() -> git2::Error {
    git2::Error::new(
        git2::ErrorCode::Auth,
        git2::ErrorClass::Callback,
        "all credentials were rejected",
    )
}
