//! Git credentials, and the one server that each of them may be sent to.
//!
//! The run's credentials are for the repository's own server; a token from the environment is for
//! `BUTLER_GIT_HOST`, for the host of the CI system that has set it, or for the repository's host.
//! Credentials that may travel over TLS only are not sent in clear to the same host, as a submodule
//! with an `http` URL could ask for.

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use super::environment::{EnvironmentToken, GitEnvironment};
use super::failure::FetchError;
use super::url::{RepositoryUrl, Scheme, UserInfo};
use butler_protocol::spec::GitCredentials;

/// Credentials, and the server that they may be sent to.
#[derive(Deserialize, Serialize)]
pub(super) struct Login {
    /// The only server that they may be sent to.
    pub(super) audience: Audience,
    /// The credentials themselves.
    pub(super) secret: LoginSecret,
    /// The environment variable with the credentials, if they are from one.
    pub(super) variable: Option<String>,
}

/// A server that credentials may be sent to.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Audience {
    /// In lower case, without brackets.
    pub(super) host: String,
    /// The ports.
    pub(super) port: AudiencePort,
    /// Whether they may be sent over HTTP without TLS.
    pub(super) in_clear: bool,
}

/// The ports of a host that credentials may be sent to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AudiencePort {
    /// Every port, because the user named only the host.
    Any,
    /// This port only.
    Only(u16),
    /// This port for the repository's own scheme, the default port for any other.
    OfScheme(Scheme, u16),
}

/// The secret part of a [`Login`].
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LoginSecret {
    /// An access token, for HTTP. Most servers ignore the user name.
    Token {
        username: Option<String>,
        #[serde(serialize_with = "expose")]
        token: SecretString,
    },
    /// User name and password, for HTTP and ssh.
    Password {
        username: String,
        #[serde(serialize_with = "expose")]
        password: SecretString,
    },
    /// An ssh key.
    Key {
        #[serde(serialize_with = "expose")]
        private_key: SecretString,
        #[serde(serialize_with = "expose_optional")]
        passphrase: Option<SecretString>,
    },
}

/// Serializes a secret for the fetching child, over a pipe, or for the credential helper, in a file of
/// the run's private directory.
fn expose<S: Serializer>(secret: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

#[expect(clippy::ref_option, reason = "as serde calls it")]
fn expose_optional<S: Serializer>(
    secret: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(ExposeSecret::expose_secret).serialize(serializer)
}

impl Audience {
    pub(super) fn of(repository: &RepositoryUrl) -> Self {
        Self {
            host: repository.host.clone(),
            port: AudiencePort::OfScheme(repository.scheme, repository.port),
            in_clear: repository.scheme == Scheme::Http,
        }
    }

    /// From the name of a host: `host`, `host:port` or a URL.
    fn named(text: &str, repository: &RepositoryUrl) -> Self {
        let text = text.trim();
        let in_clear = repository.scheme == Scheme::Http && !text.starts_with("https://");
        let text = text.split_once("://").map_or(text, |(_, rest)| rest);
        let text = text.split('/').next().unwrap_or_default();
        let port = text
            .rsplit_once(':')
            .filter(|(host, _)| !host.contains(':') || host.ends_with(']'))
            .and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = match port {
            Some((host, port)) => (host, AudiencePort::Only(port)),
            None => (text, AudiencePort::Any),
        };
        Self { host: host.trim_matches(['[', ']']).to_ascii_lowercase(), port, in_clear }
    }

    /// Whether the credentials may be sent to the server of `url`.
    pub(super) fn includes(&self, url: &RepositoryUrl) -> bool {
        let port = match self.port {
            AudiencePort::Any => true,
            AudiencePort::Only(port) => url.port == port,
            AudiencePort::OfScheme(scheme, port) if scheme == url.scheme => url.port == port,
            AudiencePort::OfScheme(..) => url.port == url.scheme.default_port(),
        };
        !self.host.is_empty()
            && url.host == self.host
            && port
            && (url.scheme != Scheme::Http || self.in_clear)
    }
}

impl Login {
    /// Whether `scheme` supports these credentials.
    pub(super) const fn fits(&self, scheme: Scheme) -> bool {
        match self.secret {
            LoginSecret::Token { .. } => scheme.is_http(),
            LoginSecret::Password { .. } => scheme.is_http() || matches!(scheme, Scheme::Ssh),
            LoginSecret::Key { .. } => matches!(scheme, Scheme::Ssh),
        }
    }

    /// The name of the credentials in messages.
    pub(super) fn name(&self) -> String {
        match (&self.variable, &self.secret) {
            (Some(variable), _) => format!("the token in {variable}"),
            (None, LoginSecret::Token { .. }) => "the given token".to_owned(),
            (None, LoginSecret::Password { username, .. }) => {
                format!("the password of `{}`", username.escape_debug())
            }
            (None, LoginSecret::Key { .. }) => "the given ssh key".to_owned(),
        }
    }

    /// User name and password for HTTP.
    pub(super) fn basic(&self) -> Option<(&str, &str)> {
        match &self.secret {
            LoginSecret::Token { username, token } => {
                let username = username
                    .as_deref()
                    .unwrap_or_else(|| token_user(&self.audience.host, self.variable.as_deref()));
                Some((username, token.expose_secret()))
            }
            LoginSecret::Password { username, password } => {
                Some((username, password.expose_secret()))
            }
            LoginSecret::Key { .. } => None,
        }
    }
}

/// The user name for a token. GitHub, Gitea and Azure accept any; GitLab's job tokens and Bitbucket's
/// access tokens require a special one.
fn token_user(host: &str, variable: Option<&str>) -> &'static str {
    if variable == Some("CI_JOB_TOKEN") {
        "gitlab-ci-token"
    } else if host.contains("gitlab") {
        "oauth2"
    } else if host.contains("bitbucket") {
        "x-token-auth"
    } else {
        "x-access-token"
    }
}

/// The first of `logins` that may be used for `url`.
pub(super) fn login_for<'logins>(
    logins: &'logins [Login],
    url: &RepositoryUrl,
) -> Option<&'logins Login> {
    logins.iter().find(|login| login.fits(url.scheme) && login.audience.includes(url))
}

/// All credentials for a repository: those of the configuration, of the URL, of the environment.
///
/// # Errors
/// When the run uses a GitHub App's token and the environment does not contain one.
pub(super) fn logins(
    credentials: &GitCredentials,
    environment: &GitEnvironment,
    repository: &RepositoryUrl,
    userinfo: Option<UserInfo>,
) -> Result<Vec<Login>, FetchError> {
    let url_user = userinfo.as_ref().map(|user| user.username.clone());
    let for_repository =
        |secret| Login { audience: Audience::of(repository), secret, variable: None };
    let mut logins = Vec::new();
    match credentials {
        GitCredentials::Token { username, token } => {
            logins.push(for_repository(LoginSecret::Token {
                username: username
                    .clone()
                    .or_else(|| url_user.filter(|_| repository.scheme.is_http())),
                token: token.clone(),
            }));
        }
        GitCredentials::Password { username, password } => {
            let (username, password) = (username.clone(), password.clone());
            logins.push(for_repository(LoginSecret::Password { username, password }));
        }
        GitCredentials::SshKey { private_key, passphrase, .. } => {
            logins.push(for_repository(LoginSecret::Key {
                private_key: private_key.clone(),
                passphrase: passphrase.clone(),
            }));
        }
        GitCredentials::GithubApp if environment.tokens.is_empty() => {
            return Err(FetchError::AppTokenMissing);
        }
        GitCredentials::GithubApp | GitCredentials::None => {}
    }
    let mut bare_user = None;
    match userinfo {
        Some(UserInfo { username, password: Some(password) }) => {
            logins.push(for_repository(LoginSecret::Password { username, password }));
        }
        Some(UserInfo { username, password: None }) if repository.scheme.is_http() => {
            bare_user = Some(username);
        }
        _ => {}
    }
    for EnvironmentToken { variable, token, host } in &environment.tokens {
        let audience = match host {
            Some(host) => Audience::named(host, repository),
            None => Audience::of(repository),
        };
        let username =
            matches!(credentials, GitCredentials::GithubApp).then(|| "x-access-token".to_owned());
        logins.push(Login {
            audience,
            secret: LoginSecret::Token { username, token: token.clone() },
            variable: Some((*variable).to_owned()),
        });
    }
    if let Some(username) = bare_user {
        // The user name of a URL without a password may be a token, as GitHub allows.
        logins.push(for_repository(LoginSecret::Password {
            username,
            password: SecretString::default(),
        }));
    }
    Ok(logins)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> RepositoryUrl {
        RepositoryUrl::parse(text).unwrap().0
    }

    fn token(variable: &'static str, token: &str, host: Option<&str>) -> EnvironmentToken {
        EnvironmentToken { variable, token: token.into(), host: host.map(str::to_owned) }
    }

    fn for_run(repository: &str, credentials: &GitCredentials, host: Option<&str>) -> Vec<Login> {
        let environment = GitEnvironment {
            tokens: vec![token("GITHUB_TOKEN", "from-environment", host)],
            ..GitEnvironment::default()
        };
        let (url, userinfo) = RepositoryUrl::parse(repository).unwrap();
        logins(credentials, &environment, &url, userinfo).unwrap()
    }

    #[test]
    fn credentials_are_sent_only_to_their_own_server() {
        let own = Audience::of(&address("https://git.example.com/a"));
        assert!(own.includes(&address("https://GIT.example.com/b")));
        assert!(own.includes(&address("git@git.example.com:b")));
        assert!(!own.includes(&address("https://git.example.com.evil.org/b")));
        assert!(!own.includes(&address("https://example.com/b")));
        assert!(!own.includes(&address("https://git.example.com:8443/b")));
        assert!(!own.includes(&address("http://git.example.com/b")));
        assert!(!own.includes(&address("http://git.example.com:443/b")));
        assert!(Audience::of(&address("ssh://h:2222/a")).includes(&address("https://h/b")));
        assert!(!Audience::of(&address("file:///srv/a")).includes(&address("file:///srv/b")));
    }

    #[test]
    fn environment_token_is_sent_only_to_the_named_host() {
        let repository = address("https://other.example.com/a");
        let named = Audience::named("Git.Example.com", &repository);
        assert!(named.includes(&address("https://git.example.com:8443/b")));
        assert!(!named.includes(&repository));
        let named = Audience::named("https://git.example.com:8443/", &repository);
        assert!(named.includes(&address("https://git.example.com:8443/b")));
        assert!(!named.includes(&address("https://git.example.com/b")));
        let logins =
            for_run("https://other.example.com/a", &GitCredentials::None, Some("git.example.com"));
        assert!(login_for(&logins, &repository).is_none());
    }

    #[test]
    fn token_of_a_ci_system_is_not_sent_to_another_host() {
        let environment = GitEnvironment {
            tokens: vec![
                token("GITHUB_TOKEN", "of-github", Some("https://github.example.com")),
                token("CI_JOB_TOKEN", "of-gitlab", Some("gitlab.example.com")),
            ],
            ..GitEnvironment::default()
        };
        for (repository, expected) in [
            ("https://github.example.com/a", Some("of-github")),
            ("https://gitlab.example.com/a", Some("of-gitlab")),
            ("https://other.example.com/a", None),
            ("http://github.example.com/a", None),
            ("https://github.example.com.evil.org/a", None),
        ] {
            let (url, userinfo) = RepositoryUrl::parse(repository).unwrap();
            let logins = logins(&GitCredentials::None, &environment, &url, userinfo).unwrap();
            let found = login_for(&logins, &url).and_then(|it| Some(it.basic()?.1.to_owned()));
            assert_eq!(found.as_deref(), expected, "{repository}");
        }
    }

    #[test]
    fn configuration_takes_precedence_over_url_and_url_over_environment() {
        let url = "https://me:from-url@git.example.com/a";
        let token = GitCredentials::Token { username: None, token: "from-run".into() };
        for (credentials, expected) in
            [(token, ("me", "from-run")), (GitCredentials::None, ("me", "from-url"))]
        {
            let logins = for_run(url, &credentials, None);
            let login = login_for(&logins, &address("https://git.example.com/a")).unwrap();
            assert_eq!(login.basic(), Some(expected));
        }
        let logins = for_run("https://gitlab.example.com/a", &GitCredentials::None, None);
        assert_eq!(logins[0].basic(), Some(("oauth2", "from-environment")));
        assert_eq!(logins[0].name(), "the token in GITHUB_TOKEN");
    }

    #[test]
    fn github_app_needs_a_token_in_the_environment() {
        let repository = "https://github.com/a/b";
        let (url, userinfo) = RepositoryUrl::parse(repository).unwrap();
        let environment = GitEnvironment::default();
        let error = logins(&GitCredentials::GithubApp, &environment, &url, userinfo).err();
        assert_eq!(error, Some(FetchError::AppTokenMissing));
    }
}
