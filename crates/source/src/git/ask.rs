//! Asks a git host over HTTP for details that libgit2 does not report: the target of a redirect, the message of a
//! refusal, and the time to wait before the next request.

use std::time::Duration;

use butler_base::cancel::Stop;
use butler_base::http::{Redirects, client, retry_after};
use butler_base::secret::Redactor;
use butler_protocol::spec::GitCredentials;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, LOCATION};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use super::environment::GitEnvironment;
use super::failure::FetchError;
use super::login::{Login, LoginSecret, login_for, logins};
use super::task::Access;
use super::url::RepositoryUrl;

/// The suffix of a repository's address for the list of its references.
const REFERENCES: &str = "/info/refs?service=git-upload-pack";

/// The time limit of a request, with the body of its answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// The most bytes of an answer that are read.
const MOST_READ: usize = 16 * 1024;

/// The most characters of a host's message that are shown.
const MOST_SHOWN: usize = 300;

/// The JSON pointers to the message in the answers of git hosts, in order of precedence.
const MESSAGES: [&str; 9] = [
    "/message",
    "/error_description",
    "/error/message",
    "/error",
    "/errors/0/message",
    "/errors/0/detail",
    "/errors/0",
    "/detail",
    "/title",
];

/// The answer of a host about a repository.
#[derive(Debug, Default)]
struct HostAnswer {
    status: u16,
    /// The address that it redirects to, without credentials.
    redirects_to: Option<Url>,
    /// The time to wait before the next request.
    retry_after: Option<Duration>,
    /// A sentence with its message, if it refuses.
    said: Option<String>,
}

/// The address that the host of a repository permanently redirects to, if that is another repository: this one was
/// renamed, and a new repository can get its name. Sends one request. `None` also if the host does not answer, or the
/// repository is not reached over HTTP.
pub async fn moved_to(
    repository: &SecretString,
    credentials: &GitCredentials,
    environment: &GitEnvironment,
) -> Option<String> {
    let (repository, userinfo) = RepositoryUrl::parse(repository.expose_secret()).ok()?;
    let logins = logins(credentials, environment, &repository, userinfo).ok()?;
    let answer = ask(&repository, &logins, environment).await?;
    let target = answer.redirects_to.filter(|_| matches!(answer.status, 301 | 308))?;
    let source = Url::parse(repository.as_str()).ok()?;
    (identity(&source) != identity(&target)).then(|| target.to_string())
}

/// The error with the host's own message about it.
pub(super) async fn with_answer(
    error: FetchError,
    access: &Access,
    environment: &GitEnvironment,
    stop: &Stop,
) -> FetchError {
    if !is_of_the_host(&error) {
        return error;
    }
    let Ok((repository, _)) = RepositoryUrl::parse(&access.url) else { return error };
    let answer = tokio::select! {
        answer = ask(&repository, &access.logins, environment) => answer,
        _ = stop.requested() => None,
    };
    match answer {
        Some(answer) => answer.explain(error),
        None => error,
    }
}

/// Whether the host has answered with an error of its own.
const fn is_of_the_host(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::ServerFailed { .. }
            | FetchError::Refused { .. }
            | FetchError::CredentialsMissing { .. }
            | FetchError::CredentialsRefused { .. }
            | FetchError::Redirected { .. }
    )
}

/// Requests the references of a repository without following redirects.
async fn ask(
    repository: &RepositoryUrl,
    logins: &[Login],
    environment: &GitEnvironment,
) -> Option<HostAnswer> {
    if !repository.scheme.is_http() {
        return None;
    }
    let client = client(environment.ca_bundle.as_deref(), Redirects::Refuse).ok()?;
    let address = format!("{}{REFERENCES}", repository.as_str().trim_end_matches('/'));
    // With this version, the answer has no references, which can be many.
    let request = client.get(&address).timeout(DEADLINE).header("Git-Protocol", "version=2");
    let login = login_for(logins, repository).and_then(Login::basic);
    let request = match login {
        Some((username, password)) => request.basic_auth(username, Some(password)),
        None => request,
    };
    let response = request.send().await.ok()?;
    let status = response.status();
    let headers = response.headers();
    let mut answer = HostAnswer {
        status: status.as_u16(),
        redirects_to: text(headers, &LOCATION)
            .filter(|_| status.is_redirection())
            .and_then(|location| target(&address, location)),
        retry_after: retry_after(headers),
        said: None,
    };
    if status.is_client_error() || status.is_server_error() {
        let kind = text(headers, &CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        let body = beginning(response).await;
        answer.said = sentence(&kind, &redactor(logins).redact(&body));
    }
    Some(answer)
}

fn text<'headers>(headers: &'headers HeaderMap, name: &HeaderName) -> Option<&'headers str> {
    headers.get(name)?.to_str().ok()
}

/// The address of the repository that `location` is about.
fn target(address: &str, location: &str) -> Option<Url> {
    let mut target = Url::parse(address).ok()?.join(location).ok()?;
    target.set_query(None);
    target.set_fragment(None);
    target.set_username("").and_then(|()| target.set_password(None)).ok()?;
    let path = target.path().trim_end_matches('/');
    let path = path.strip_suffix("/info/refs").unwrap_or(path).to_owned();
    target.set_path(&path);
    Some(target)
}

/// The host and the path, which are the same for all addresses of one repository. Other parts can differ: the scheme,
/// the port, `.git`, and capital letters.
fn identity(url: &Url) -> (String, String) {
    let path = url.path().trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let lower = |text: &str| text.to_ascii_lowercase();
    (lower(url.host_str().unwrap_or_default()), lower(path))
}

/// The beginning of the body.
async fn beginning(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < MOST_READ
        && let Ok(Some(part)) = response.chunk().await
    {
        body.extend_from_slice(&part);
    }
    body.truncate(MOST_READ);
    body
}

/// A redactor of the logins, because a host can repeat the login of a request.
fn redactor(logins: &[Login]) -> Redactor {
    let redactor = Redactor::new();
    redactor.register(logins.iter().filter_map(|login| match &login.secret {
        LoginSecret::Token { token, .. } => Some(token),
        LoginSecret::Password { password, .. } => Some(password),
        LoginSecret::Key { .. } => None,
    }));
    redactor
}

/// A sentence, in one line, with the message in a body. `None` if it has none.
fn sentence(kind: &str, body: &str) -> Option<String> {
    let body = body.trim_start_matches('\u{feff}').trim();
    if kind.contains("html") || body.starts_with('<') {
        return Some("it answers with a web page".to_owned());
    }
    let said = if body.starts_with('{') {
        let json: Value = serde_json::from_str(body).ok()?;
        let message = MESSAGES.iter().find_map(|at| json.pointer(at)?.as_str().map(str::to_owned));
        message?
    } else {
        body.lines().next().unwrap_or_default().to_owned()
    };
    let said: String = said.replace(char::is_control, " ");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = said.chars().take(MOST_SHOWN).collect();
    let end = if shown.len() < said.len() { "…" } else { "" };
    (!shown.is_empty()).then(|| format!("it says: {shown}{end}"))
}

impl HostAnswer {
    /// The error with the answer in it.
    fn explain(self, error: FetchError) -> FetchError {
        let with = |reason: String| match &self.said {
            Some(said) => format!("{reason}; {said}"),
            None => reason,
        };
        let retry_after = self.retry_after.map(|wait| wait.as_secs());
        let is_forbidden = self.status == 403;
        match error {
            FetchError::ServerFailed { server, reason, .. } => {
                FetchError::ServerFailed { server, reason: with(reason), retry_after }
            }
            // Some hosts limit requests with this status.
            FetchError::Refused { server, reason } if retry_after.is_some() => {
                FetchError::ServerFailed { server, reason: with(reason), retry_after }
            }
            FetchError::Refused { server, reason } => {
                FetchError::Refused { server, reason: with(reason) }
            }
            FetchError::CredentialsMissing { server, .. }
            | FetchError::CredentialsRefused { server, .. }
                if is_forbidden && (self.said.is_some() || retry_after.is_some()) =>
            {
                let reason = with("status 403".to_owned());
                match retry_after {
                    Some(_) => FetchError::ServerFailed { server, reason, retry_after },
                    None => FetchError::Refused { server, reason },
                }
            }
            FetchError::CredentialsRefused { server, offered } if self.status == 401 => {
                FetchError::CredentialsRefused { server, offered: with(offered) }
            }
            FetchError::Redirected { server, reason } => match &self.redirects_to {
                Some(target) => FetchError::Redirected {
                    server,
                    reason: format!("{reason}; it leads to {target}"),
                },
                None => FetchError::Redirected { server, reason },
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_a_host_is_found_in_text_and_json_and_not_in_a_web_page() {
        for (kind, body, expected) in [
            (
                "text/plain; charset=utf-8",
                "\n  Rate limit exceeded \r\nsee x",
                "it says: Rate limit exceeded",
            ),
            ("", "Maintenance\u{1b}[2J until 5", "it says: Maintenance [2J until 5"),
            (
                "application/json",
                r#"{"message": "SSO is required", "status": "403"}"#,
                "it says: SSO is required",
            ),
            ("text/plain", r#"{"error": {"code": 1, "message": "no"}}"#, "it says: no"),
            (
                "application/json",
                r#"{"error": "insufficient_scope", "error_description": "more"}"#,
                "it says: more",
            ),
            (
                "application/json",
                r#"{"errors": [{"message": "IP is not allowed"}]}"#,
                "it says: IP is not allowed",
            ),
            ("application/json", r#"{"errors": ["a", "b"]}"#, "it says: a"),
            ("text/html", "Sign in", "it answers with a web page"),
            ("text/plain", " <!DOCTYPE html><html>", "it answers with a web page"),
            ("application/json", r#"{"code": 7}"#, ""),
            ("application/json", r#"{"mess"#, ""),
            ("text/plain", " \r\n", ""),
        ] {
            assert_eq!(sentence(kind, body).unwrap_or_default(), expected, "{body}");
        }
        let long = sentence("", &"ä".repeat(1_000)).unwrap();
        assert_eq!(long.chars().count(), "it says: ".len() + MOST_SHOWN + 1);
    }

    #[test]
    fn login_that_a_host_repeats_is_redacted() {
        let login = |secret| Login {
            audience: super::super::login::Audience::of(
                &RepositoryUrl::parse("https://h/a").unwrap().0,
            ),
            secret,
            variable: None,
        };
        let logins = [
            login(LoginSecret::Token { username: None, token: "secret-token-1".into() }),
            login(LoginSecret::Password { username: "a".into(), password: "secret-word-2".into() }),
        ];
        let said = redactor(&logins).redact(b"no secret-token-1, no secret-word-2").into_owned();
        assert!(!said.contains("secret"), "{said}");
    }

    #[test]
    fn other_spelling_of_an_address_is_the_same_repository() {
        let identity = |text: &str| identity(&Url::parse(text).unwrap());
        let own = identity("http://git.example.com/Team/repo");
        for same in [
            "https://git.example.com/team/repo.git",
            "https://GIT.example.com:8443/team/repo/",
            "http://git.example.com/team/repo",
        ] {
            assert_eq!(identity(same), own, "{same}");
        }
        for other in [
            "http://git.example.com/team/other",
            "http://git.example.com/other/repo.git",
            "http://example.com/team/repo",
            "http://git.example.com/team/repo/more",
        ] {
            assert_ne!(identity(other), own, "{other}");
        }
    }

    #[test]
    fn target_of_a_redirect_is_the_address_of_a_repository() {
        let address = format!("https://git.example.com/a/b.git{REFERENCES}");
        for (location, expected) in [
            ("/a/c.git/info/refs?service=git-upload-pack", "https://git.example.com/a/c.git"),
            ("https://me:word@other.example.com/c/info/refs", "https://other.example.com/c"),
            ("//other.example.com:1/c/info/refs#x", "https://other.example.com:1/c"),
            ("https://git.example.com/login", "https://git.example.com/login"),
        ] {
            assert_eq!(target(&address, location).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn error_has_the_message_of_the_host() {
        let server = || "h".to_owned();
        let refused =
            || FetchError::CredentialsRefused { server: server(), offered: "t".to_owned() };
        let answer = |status, said: Option<&str>, seconds: Option<u64>| HostAnswer {
            status,
            redirects_to: None,
            retry_after: seconds.map(Duration::from_secs),
            said: said.map(str::to_owned),
        };
        let explained = answer(403, Some("it says: SSO"), None).explain(refused());
        let expected =
            FetchError::Refused { server: server(), reason: "status 403; it says: SSO".into() };
        assert_eq!(explained, expected);
        let explained = answer(403, None, Some(60)).explain(refused());
        assert!(matches!(explained, FetchError::ServerFailed { retry_after: Some(60), .. }));
        assert_eq!(answer(403, None, None).explain(refused()), refused());
        let explained = answer(401, Some("it says: expired"), None).explain(refused());
        assert_eq!(explained.to_string(), "`h` refused the login with t; it says: expired");
    }
}
