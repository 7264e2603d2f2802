//! Maps libgit2's errors to causes: it has few error codes and many texts.

use git2::{ErrorClass, ErrorCode};

use super::super::failure::{FetchError, is_out_of_memory, object_format};
use super::super::url::{RepositoryUrl, Scheme};
use super::authenticate::Attempts;
use super::host_keys::KnownHost;

/// Messages of libgit2 and libssh2 about an unusable private key.
const KEY_ERRORS: [&str; 6] = [
    "unable to extract public key",
    "unable to parse private key",
    "unable to initialize private key",
    "invalid key",
    "wrong passphrase",
    "callback returned error",
];

/// Messages of servers and libgit2 about a missing repository.
const NO_REPOSITORY: [&str; 9] = [
    "status code: 404",
    "status code: 410",
    "not found",
    "could not be found",
    "cannot find repository",
    "does not exist",
    "does not appear to be a git repository",
    "could not find repository",
    "failed to resolve path",
];

/// The beginnings of messages of libgit2 itself about ssh. All others are what the host has said.
const OWN_SSH_ERRORS: [&str; 11] = [
    "ssh could not",
    "failed to",
    "failed setting",
    "could not initialize",
    "error authenticating",
    "unable to",
    "unsupported cred",
    "invalid ssh",
    "malformed",
    "username does not match",
    "remote host key",
];

/// The step of a fetch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FetchStep {
    /// Connecting, logging in, reading the references.
    Connect,
    /// Fetching objects.
    Transfer,
}

/// The connection in which an error occurred.
pub(super) struct ErrorContext<'a> {
    pub(super) url: &'a RepositoryUrl,
    /// The entries of this ssh host in `known_hosts`.
    pub(super) known: &'a KnownHost,
    pub(super) attempts: &'a Attempts,
    /// Whether there are credentials for the server.
    pub(super) has_login: bool,
    pub(super) step: FetchStep,
}

/// The cause of `error`.
pub(super) fn explain(context: &ErrorContext<'_>, error: &git2::Error) -> FetchError {
    let ErrorContext { url, known, attempts, has_login, step } = *context;
    // The text may be from a server, so it is cleaned.
    let reason = without_userinfo(error.message()).replace(char::is_control, " ");
    let text = reason.to_ascii_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    let server = url.server();
    // The host key was verified and the login accepted: the host's own program has refused.
    if url.scheme == Scheme::Ssh
        && error.class() == ErrorClass::Ssh
        && error.code() != ErrorCode::Auth
        && !attempts.offered.is_empty()
        && !OWN_SSH_ERRORS.iter().any(|begin| text.starts_with(begin))
    {
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        return if has(&NO_REPOSITORY) {
            FetchError::RepositoryNotFound { url: url.to_string(), reason }
        } else {
            FetchError::Refused { server, reason }
        };
    }
    if url.scheme == Scheme::Ssh && has(&["hostkey"]) {
        let fingerprint = attempts.fingerprint.clone().unwrap_or_else(|| "none".to_owned());
        let is_revoked = |revoked: &String| fingerprint.ends_with(&format!(" SHA256:{revoked}"));
        return if known.revoked.iter().any(is_revoked) {
            FetchError::HostKeyRevoked { server, fingerprint }
        } else if known.has_key {
            FetchError::HostKeyMismatch { server, fingerprint }
        } else {
            FetchError::HostKeyUnknown { server, fingerprint }
        };
    }
    if error.code() == ErrorCode::Certificate || has(&["certificate"]) {
        return FetchError::Certificate { server, reason };
    }
    if has(&["timed out", "timeout"]) {
        return FetchError::Timeout { server, reason };
    }
    if has(&["cannot redirect", "unexpected redirect", "too many redirects"]) {
        return FetchError::Redirected { server, reason };
    }
    if has(&KEY_ERRORS) {
        return FetchError::UnusableKey { reason };
    }
    if error.code() == ErrorCode::Auth || has(&["status code: 401", "status code: 403"]) {
        return match attempts.offered.as_slice() {
            // It does not ask for a login.
            [] if has_login => FetchError::Refused { server, reason },
            [] => FetchError::CredentialsMissing {
                server,
                scheme: url.scheme.name().to_owned(),
                unused: Vec::new(),
            },
            offered => FetchError::CredentialsRefused { server, offered: offered.join(", ") },
        };
    }
    if let Some((_, kind)) = text.split_once("invalid content-type: ") {
        let reason = if kind.contains("html") {
            "it answers with a web page".to_owned()
        } else if kind.contains("text/plain") || kind.contains("application/octet-stream") {
            "it only has the files of a repository (git's dumb protocol)".to_owned()
        } else {
            format!("its answer has the type {kind}")
        };
        return FetchError::NotSmart { server, reason };
    }
    if has(&["status code: 429", "status code: 5"]) {
        return FetchError::ServerFailed { server, reason, retry_after: None };
    }
    if is_out_of_memory(error) {
        return FetchError::OutOfMemory { act: "fetch from the repository".to_owned() };
    }
    if let Some(format) = object_format(error) {
        return FetchError::ObjectFormat { format };
    }
    if step == FetchStep::Transfer {
        // Some servers refuse a request by closing the connection.
        return FetchError::Git { act: "fetch from the repository".to_owned(), reason };
    }
    if error.code() == ErrorCode::NotFound || has(&NO_REPOSITORY) {
        return FetchError::RepositoryNotFound { url: url.to_string(), reason };
    }
    match error.class() {
        ErrorClass::Net | ErrorClass::Os | ErrorClass::Ssh | ErrorClass::Ssl => {
            FetchError::Connect { server, reason }
        }
        _ => FetchError::Git { act: "read the repository's references".to_owned(), reason },
    }
}

/// `message` without the credentials of URLs, which the user's `insteadOf` may contain.
fn without_userinfo(message: &str) -> String {
    let mut clean = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        clean.push_str(before);
        let end = after
            .find(|character: char| character == '/' || character.is_whitespace())
            .unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(at) => &after[at + 1..],
            None => after,
        };
    }
    clean + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_removed_from_messages() {
        assert_eq!(
            without_userinfo("cannot `https://a:b@host/x` or 'http://c@h': mail me@host"),
            "cannot `https://host/x` or 'http://h': mail me@host"
        );
    }

    #[test]
    fn timeout_refused_login_and_failed_connection_are_distinct_errors() {
        let (url, _) = RepositoryUrl::parse("https://git.example.com/a").unwrap();
        let cause_with = |has_login, message: &str, attempts: &Attempts| {
            let error = git2::Error::new(ErrorCode::GenericError, ErrorClass::Net, message);
            let step = FetchStep::Connect;
            explain(
                &ErrorContext {
                    url: &url,
                    known: &KnownHost::default(),
                    attempts,
                    has_login,
                    step,
                },
                &error,
            )
        };
        let cause = |message: &str, attempts: &Attempts| {
            cause_with(!attempts.offered.is_empty(), message, attempts)
        };
        let nothing = Attempts::default();
        let token = Attempts { offered: vec!["the given token".to_owned()], ..Attempts::default() };
        assert!(matches!(
            cause("could not read from socket: timed out", &nothing),
            FetchError::Timeout { .. }
        ));
        let forbidden = "unexpected http status code: 403";
        assert!(matches!(cause(forbidden, &nothing), FetchError::CredentialsMissing { .. }));
        assert!(matches!(cause(forbidden, &token), FetchError::CredentialsRefused { .. }));
        // The server did not ask for the login.
        assert!(matches!(cause_with(true, forbidden, &nothing), FetchError::Refused { .. }));
        for status in ["429", "500", "503"] {
            let failed = cause(&format!("unexpected http status code: {status}"), &token);
            assert!(matches!(failed, FetchError::ServerFailed { .. }), "{failed}");
        }
        let format = "unknown remote object format 'sha256'";
        assert_eq!(
            cause(format, &nothing).to_string(),
            "the repository has SHA-256 object ids, which are not supported"
        );
        assert!(matches!(
            cause("failed to resolve address for git.example.com", &nothing),
            FetchError::Connect { .. }
        ));
    }

    #[test]
    fn sentence_of_an_ssh_host_is_not_a_failed_connection() {
        let (url, _) = RepositoryUrl::parse("ssh://git@git.example.com/a").unwrap();
        let cause = |message: &str| {
            let attempts =
                Attempts { offered: vec!["the given ssh key".to_owned()], ..Attempts::default() };
            let error = git2::Error::new(ErrorCode::Eof, ErrorClass::Ssh, message);
            let (attempts, step) = (&attempts, FetchStep::Connect);
            let known = &KnownHost::default();
            let context = ErrorContext { url: &url, known, attempts, has_login: true, step };
            explain(&context, &error)
        };
        for said in [
            "error: Public (Deploy) Key: 1:d is not authorized to read o/x.",
            "ERROR: Your account is suspended. Please check your email.",
            "repository access denied. deployment key is not associated with the requested repository.",
            "Permission denied\nYou do not have permission to access this repository",
            "FATAL: R any x u DENIED by fallthru",
            "ERROR: the certificate of your key has timed out",
            "The organization has enabled SAML SSO. Your invalid key must be authorized.",
        ] {
            let told = cause(said);
            assert!(matches!(told, FetchError::Refused { .. }), "{told}");
            assert!(told.to_string().contains(&said.replace('\n', " ")), "{told}");
        }
        for said in [
            "ERROR: Repository not found.",
            "error: Cannot find repository: o/x",
            "ERROR: The project you were looking for could not be found or you don't have permission to view it.",
            "remote: TF401019: The Git repository with name or identifier x does not exist",
        ] {
            let told = cause(said);
            assert!(matches!(told, FetchError::RepositoryNotFound { .. }), "{told}");
        }
        for said in [
            "SSH could not read data: Error waiting on socket",
            "failed to start SSH session: Unable to exchange keys",
        ] {
            let told = cause(said);
            assert!(matches!(told, FetchError::Connect { .. }), "{told}");
        }
    }
}
