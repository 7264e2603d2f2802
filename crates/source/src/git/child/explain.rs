//! Maps libgit2's errors to causes: it has few error codes and many texts.

use git2::{ErrorClass, ErrorCode};

use super::super::failure::{FetchError, is_out_of_memory, object_format};
use super::super::url::{RepositoryUrl, Scheme};
use super::authenticate::Attempts;

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
const NO_REPOSITORY: [&str; 6] = [
    "status code: 404",
    "status code: 410",
    "not found",
    "does not appear to be a git repository",
    "could not find repository",
    "failed to resolve path",
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
    /// Whether any key of this ssh host is known.
    pub(super) host_known: bool,
    pub(super) attempts: &'a Attempts,
    pub(super) step: FetchStep,
}

/// The cause of `error`.
pub(super) fn explain(context: &ErrorContext<'_>, error: &git2::Error) -> FetchError {
    let ErrorContext { url, host_known, attempts, step } = *context;
    // The text may be from a server, so it is cleaned.
    let reason = without_userinfo(error.message()).replace(char::is_control, " ");
    let text = reason.to_ascii_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    let server = url.server();
    if url.scheme == Scheme::Ssh && has(&["hostkey"]) {
        let fingerprint = attempts.fingerprint.clone().unwrap_or_else(|| "none".to_owned());
        return if host_known {
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
            [] => FetchError::CredentialsMissing { server, scheme: url.scheme.name().to_owned() },
            offered => FetchError::CredentialsRefused { server, offered: offered.join(", ") },
        };
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
        let cause = |message: &str, attempts: &Attempts| {
            let error = git2::Error::new(ErrorCode::GenericError, ErrorClass::Net, message);
            let step = FetchStep::Connect;
            explain(&ErrorContext { url: &url, host_known: true, attempts, step }, &error)
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
}
