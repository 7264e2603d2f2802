//! Parses the address of a repository.
//!
//! A URL may contain credentials. They are removed here, so that the address that the rest of the code
//! shows and writes to disk ([`RepositoryUrl::as_str`]) never contains any.

use percent_encoding::percent_decode_str;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::failure::FetchError;

/// A repository's address without credentials, for messages. `None` if it is not an address.
#[must_use]
pub fn shown_repository(address: &str) -> Option<String> {
    let (url, _) = RepositoryUrl::parse(address).ok()?;
    Some(url.as_str().to_owned())
}

/// Why a repository's address cannot be fetched from, without its credentials; `None` if it can.
#[must_use]
pub fn address_problem(address: &str) -> Option<String> {
    let error = RepositoryUrl::parse(address).err()?;
    Some(butler_base::error::chain(&error))
}

/// The reason to refuse an address that has no known form.
const NEITHER: &str = "it is neither a URL nor of the form user@host:path";

/// The scheme of a repository's address.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scheme {
    Https,
    Http,
    Ssh,
    File,
}

impl Scheme {
    /// The name in a URL.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::File => "file",
        }
    }

    /// The port of a URL without a port; 0 for files.
    pub(super) const fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
            Self::Ssh => 22,
            Self::File => 0,
        }
    }

    /// Whether it is HTTP, with or without TLS.
    pub(super) const fn is_http(self) -> bool {
        matches!(self, Self::Https | Self::Http)
    }
}

/// A repository's address, without credentials.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct RepositoryUrl {
    text: String,
    /// The scheme.
    pub(super) scheme: Scheme,
    /// The host in lower case, without brackets; empty for files.
    pub(super) host: String,
    /// The port, explicit or by default.
    pub(super) port: u16,
    /// The user name for ssh, if the URL has one.
    pub(super) user: Option<String>,
}

/// User name and password of a URL.
pub(super) struct UserInfo {
    pub(super) username: String,
    pub(super) password: Option<SecretString>,
}

impl RepositoryUrl {
    /// Parses `text` into the address and its credentials.
    ///
    /// # Errors
    /// When it is neither a URL of a supported scheme nor `user@host:path`.
    pub(super) fn parse(text: &str) -> Result<(Self, Option<UserInfo>), FetchError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Self::parse_scp_like(text);
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, authority),
        };
        let (path, query) = path.split_at(path.find(['?', '#']).unwrap_or(path.len()));
        let bare = format!("{scheme}://{host}{path}");
        let refuse = |reason: &str| FetchError::unusable_url(&bare, reason);
        let known = match scheme.to_ascii_lowercase().as_str() {
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            "ssh" => Scheme::Ssh,
            "file" => Scheme::File,
            "git" => {
                return Err(refuse(
                    "the protocol `git` is not supported: write https:// or ssh://",
                ));
            }
            "git+ssh" | "ssh+git" => return Err(refuse("write ssh:// at its beginning")),
            "git+https" | "git+http" => return Err(refuse("write https:// at its beginning")),
            scheme if scheme.starts_with("git::") => {
                return Err(refuse("`git::` is for the sources of modules: leave it out"));
            }
            _ => return Err(refuse("only https, http, ssh and file URLs are supported")),
        };
        if !query.is_empty() {
            return Err(refuse(
                "it has a query or a fragment: the branch, tag or directory has a setting of its own",
            ));
        }
        if bare.chars().any(char::is_control) {
            return Err(refuse("it contains a control character"));
        }
        if bare.contains(' ') {
            return Err(refuse("it contains a space: write %20"));
        }
        let parsed = url::Url::parse(&bare).map_err(|error| match error {
            url::ParseError::InvalidPort if known == Scheme::Ssh => refuse(
                "the text after the colon is not a port: write ssh://user@host/path or user@host:path",
            ),
            error => refuse(&error.to_string()),
        })?;
        let written = host.rsplit_once(':').map_or(host, |(name, port)| {
            if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
        });
        let host = parsed.host_str().unwrap_or_default();
        // libgit2 has its own URL parser: both parsers must find the same host.
        if known != Scheme::File && !host.eq_ignore_ascii_case(written) {
            return Err(refuse("its host is not a plain host name or address"));
        }
        let host = host.trim_matches(['[', ']']);
        if known == Scheme::File && !matches!(host, "" | "localhost") {
            return Err(refuse("a file URL cannot name a host"));
        }
        // The host becomes a pattern in the configuration of ssh, where `*` would match all hosts.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
        if known != Scheme::File
            && (host.is_empty() || host.starts_with('-') || !host.chars().all(plain))
        {
            return Err(refuse("it names no host"));
        }
        let userinfo = userinfo
            .map(parse_user_info)
            .transpose()
            .map_err(|()| refuse("its user name or password is not percent-encoded UTF-8"))?;
        let user =
            userinfo.as_ref().filter(|_| known == Scheme::Ssh).map(|user| user.username.clone());
        // libgit2 reads the address with the decoded user name: a `/` in it would end the host.
        if user.as_ref().is_some_and(|user| !is_plain(user)) {
            return Err(refuse("its user name is not plain"));
        }
        let text = match (&user, bare.split_once("://")) {
            (Some(user), Some((scheme, rest))) => format!("{scheme}://{user}@{rest}"),
            _ => bare.clone(),
        };
        let address = Self {
            text,
            scheme: known,
            host: host.to_ascii_lowercase(),
            port: parsed.port().unwrap_or(known.default_port()),
            user,
        };
        Ok((address, userinfo))
    }

    /// `user@host:path`, as git and libgit2 understand it.
    fn parse_scp_like(text: &str) -> Result<(Self, Option<UserInfo>), FetchError> {
        let refuse = |reason: &str| {
            // The part before an `@` could be a password.
            let shown = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
            FetchError::unusable_url(shown, reason)
        };
        if text.starts_with(['/', '.', '~', '\\']) || text.get(1..3) == Some(":\\") {
            return Err(refuse("it is a path: write file:// and the absolute path"));
        }
        let Some((login, path)) = text.split_once(':').filter(|(login, _)| !login.contains('/'))
        else {
            return Err(refuse(match text.split_once('/') {
                Some((login, _)) if login.contains('@') => {
                    "it has no colon after the host: write user@host:path"
                }
                Some((host, _)) if host.contains('.') => {
                    "it has no scheme: write https:// at its beginning"
                }
                _ => NEITHER,
            }));
        };
        if path.is_empty() || path.starts_with('-') {
            return Err(refuse(NEITHER));
        }
        let Some((user, host)) = login.rsplit_once('@') else {
            return Err(refuse(if is_plain(login) && !path.starts_with(':') {
                "it has no user: write user@host:path, for example with the user git"
            } else {
                NEITHER
            }));
        };
        if !is_plain(host) || !is_plain(user) || path.chars().any(char::is_control) {
            return Err(refuse(NEITHER));
        }
        let address = Self {
            text: text.to_owned(),
            scheme: Scheme::Ssh,
            host: host.to_ascii_lowercase(),
            port: Scheme::Ssh.default_port(),
            user: Some(user.to_owned()),
        };
        Ok((address, None))
    }

    /// The address for libgit2 and for messages, without credentials.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// `host`, or `host:port` if the port is not the default of the scheme.
    pub(super) fn authority(&self) -> String {
        authority(self.scheme, &self.host, self.port)
    }

    /// The URL of a server, without a path.
    pub(super) fn server_url(scheme: Scheme, host: &str, port: u16) -> String {
        format!("{}://{}", scheme.name(), authority(scheme, host, port))
    }

    /// The name of the server in messages.
    pub(super) fn server(&self) -> String {
        if self.scheme == Scheme::File { self.text.clone() } else { self.authority() }
    }
}

impl std::fmt::Display for RepositoryUrl {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}

fn authority(scheme: Scheme, host: &str, port: u16) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    if port == scheme.default_port() { host } else { format!("{host}:{port}") }
}

/// Whether a user or host name has no special characters for URLs and arguments.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

fn parse_user_info(text: &str) -> Result<UserInfo, ()> {
    let decode = |part: &str| {
        percent_decode_str(part).decode_utf8().map(std::borrow::Cow::into_owned).map_err(|_| ())
    };
    let (username, password) = match text.split_once(':') {
        Some((username, password)) => (username, Some(SecretString::from(decode(password)?))),
        None => (text, None),
    };
    let username = decode(username)?;
    if username.chars().any(char::is_control) {
        return Err(());
    }
    Ok(UserInfo { username, password })
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn credentials_are_split_off_the_address() {
        let (url, user) =
            RepositoryUrl::parse("https://me:p%40ss@Git.Example.com:8443/team/repo.git").unwrap();
        assert_eq!(url.as_str(), "https://Git.Example.com:8443/team/repo.git");
        assert_eq!((url.host.as_str(), url.port), ("git.example.com", 8443));
        assert_eq!(url.authority(), "git.example.com:8443");
        let user = user.unwrap();
        assert_eq!(user.username, "me");
        assert_eq!(user.password.unwrap().expose_secret(), "p@ss");
        let (url, _) = RepositoryUrl::parse("ssh://deploy:secret@host:2222/repo").unwrap();
        assert_eq!(url.as_str(), "ssh://deploy@host:2222/repo");
    }

    #[test]
    fn ipv6_address_keeps_its_brackets() {
        let (url, _) = RepositoryUrl::parse("https://[::1]:8443/repo").unwrap();
        assert_eq!((url.host.as_str(), url.authority().as_str()), ("::1", "[::1]:8443"));
        assert_eq!(RepositoryUrl::parse("https://[::1]/repo").unwrap().0.port, 443);
    }

    #[test]
    fn scp_like_addresses_are_ssh() {
        let (url, _) = RepositoryUrl::parse("git@github.com:team/repo.git").unwrap();
        assert_eq!((url.scheme, url.host.as_str(), url.port), (Scheme::Ssh, "github.com", 22));
        assert_eq!(url.user.as_deref(), Some("git"));
    }

    #[test]
    fn usual_mistakes_in_an_address_have_sentences_that_say_what_to_write() {
        for (text, expected) in [
            ("/srv/repo", "file://"),
            ("../repo", "file://"),
            ("~/repo", "file://"),
            (r"C:\srv\repo", "file://"),
            ("github.com/team/repo", "write https://"),
            ("github.com:team/repo", "it has no user"),
            ("git@github.com/team/repo", "it has no colon"),
            ("git://github.com/team/repo", "the protocol `git`"),
            ("git+ssh://git@github.com/team/repo", "write ssh://"),
            ("git+https://github.com/team/repo", "write https://"),
            ("git::https://github.com/team/repo", "leave it out"),
            ("ssh://git@github.com:team/repo", "write ssh://user@host/path"),
            ("https://github.com/team/repo?ref=main", "a setting of its own"),
            ("https://github.com/team/repo#main", "a setting of its own"),
            ("https://github.com/team/a repo", "write %20"),
            ("svn://host/repo", "only https, http, ssh and file URLs"),
            ("nonsense", "it is neither a URL nor"),
        ] {
            let error = RepositoryUrl::parse(text).map(|(url, _)| url).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn invalid_address_is_refused_without_showing_a_password() {
        for text in [
            "",
            "/srv/repo",
            "ext::sh -c touch",
            "git://host/repo",
            "ftp://me:hunter22@host/repo",
            "https://me:hunter22@host/repo?token=hunter22",
            "file://elsewhere/repo",
            "me:hunter22@host/repo",
            "-oProxyCommand=x:repo",
            "ssh://-oProxyCommand=x/repo",
            "https:///repo",
            "https://git.example.com\\.evil.org/repo",
            "https://exa%6dple.com/repo",
            "https://127.1/repo",
            "ssh://git@*/repo",
            "ssh://git@a,b/repo",
            "ssh://git@\"host\"/repo",
            "fd::7",
            "file::/srv/repo",
            "EXT://sh -c touch/repo",
            "ssh://evil.org%2F@git.example.com/repo",
            "ssh://evil.org%40x@git.example.com/repo",
            "ssh://-oProxyCommand@git.example.com/repo",
        ] {
            let error = RepositoryUrl::parse(text).map(|(url, _)| url).unwrap_err();
            assert!(matches!(error, FetchError::UnusableUrl { .. }), "{text}");
            assert!(!error.to_string().contains("hunter22"), "{error}");
        }
    }
}
