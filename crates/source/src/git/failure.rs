//! Errors of fetching a module's source, or the mirror of a repository.
//!
//! The child sends a [`FetchError`] to the parent as JSON; the parent returns a [`SourceError`]. Neither
//! ever contains credentials.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use butler_base::cancel::StopReason;
use butler_base::process::ProcessError;

/// Errors of fetching a module's source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The run was stopped while the source was fetched.
    #[error("stopped fetching `{url}` because {reason}")]
    Stopped {
        /// The repository, without credentials.
        url: String,
        /// The reason of the stop.
        reason: StopReason,
    },
    /// The source cannot be fetched.
    #[error("cannot fetch the module from `{url}`")]
    Fetch {
        /// The repository, without credentials.
        url: String,
        /// The cause.
        #[source]
        source: FetchError,
    },
    /// The mirror of a repository cannot be updated.
    #[error("cannot update the mirror of `{url}`")]
    Mirror {
        /// The repository, without credentials.
        url: String,
        /// The most memory of the process, in bytes.
        memory_limit: u64,
        /// The cause.
        #[source]
        source: FetchError,
    },
    /// The repository's address or the reference is unusable.
    #[error(transparent)]
    Unusable(FetchError),
    /// The fetching process cannot be started.
    #[error("cannot run the process that fetches `{url}`")]
    Process {
        /// The repository, without credentials.
        url: String,
        /// The cause.
        #[source]
        source: ProcessError,
    },
    /// The fetching process ended without a result.
    #[error("the process that fetches `{url}` ended without a result ({status})")]
    Crashed {
        /// The repository, without credentials.
        url: String,
        /// Its exit status.
        status: ExitStatus,
        /// The most memory of the process, in bytes, if it has a limit of its own.
        memory_limit: Option<u64>,
    },
    /// A directory or file next to the clone cannot be created or read.
    #[error("cannot {act} `{}`", path.display())]
    File {
        /// The operation.
        act: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// A file for git could not be written.
    #[error("cannot hand the credentials on to git")]
    Share(#[source] butler_base::secret::WipeError),
}

/// The cause of a failed fetch.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FetchError {
    /// The address cannot be used.
    #[error("the repository address `{url}` cannot be used: {reason}")]
    UnusableUrl {
        /// The address, without credentials.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The reference cannot be used.
    #[error("the reference `{reference}` cannot be used: {reason}")]
    UnusableReference {
        /// The reference, escaped.
        reference: String,
        /// The reason.
        reason: String,
    },
    /// The run uses a GitHub App's token, but the environment does not contain one.
    #[error("the run logs in as a GitHub App, but the environment has no token")]
    AppTokenMissing,
    /// No connection.
    #[error("cannot connect to `{server}`: {reason}")]
    Connect {
        /// Host and port.
        server: String,
        /// The error of libgit2.
        reason: String,
    },
    /// The server has failed, or limits requests.
    #[error("`{server}` cannot answer now: {reason}")]
    ServerFailed {
        /// Host and port.
        server: String,
        /// The error of libgit2, with the status, and the host's message.
        reason: String,
        /// The time to wait before the next request, in seconds.
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// The server refuses the repository, not the login.
    #[error("`{server}` refuses access to the repository: {reason}")]
    Refused {
        /// Host and port.
        server: String,
        /// The host's message.
        reason: String,
    },
    /// The server's TLS certificate is not trusted.
    #[error("the certificate of `{server}` is not trusted: {reason}")]
    Certificate {
        /// Host and port.
        server: String,
        /// The error of libgit2.
        reason: String,
    },
    /// The server did not respond in time.
    #[error("`{server}` did not answer in time: {reason}")]
    Timeout {
        /// Host and port.
        server: String,
        /// The error of libgit2.
        reason: String,
    },
    /// The server requires a login, and no credentials match it.
    #[error(
        "`{server}` asks for a login, but no credentials are available for it{}",
        not_used(unused)
    )]
    CredentialsMissing {
        /// Host and port.
        server: String,
        /// `https`, `http` or `ssh`.
        scheme: String,
        /// The names of the settings and files that git would use for a login.
        #[serde(default)]
        unused: Vec<String>,
    },
    /// The server refuses the login.
    #[error("`{server}` refused the login with {offered}")]
    CredentialsRefused {
        /// Host and port.
        server: String,
        /// The names of the offered credentials, without secrets.
        offered: String,
    },
    /// A key file or the given key cannot be used.
    #[error("the ssh key cannot be used: {reason}")]
    UnusableKey {
        /// The error of libgit2.
        reason: String,
    },
    /// The repository does not exist, or the login may not read it.
    #[error("no repository at `{url}`: {reason}")]
    RepositoryNotFound {
        /// The repository, without credentials.
        url: String,
        /// The error of the server.
        reason: String,
    },
    /// The server does not speak the protocol of git at this address.
    #[error("`{server}` has no repository for git's smart HTTP protocol at this address: {reason}")]
    NotSmart {
        /// Host and port.
        server: String,
        /// The kind of its answer.
        reason: String,
    },
    /// The connection ended, or the objects could not be stored, after the server had begun to send them.
    #[error("the repository was not received completely from `{server}`: {reason}")]
    Incomplete {
        /// Host and port.
        server: String,
        /// The error of libgit2.
        reason: String,
    },
    /// The server redirects to another host.
    #[error("`{server}` redirects to another host: {reason}")]
    Redirected {
        /// Host and port.
        server: String,
        /// The error of libgit2.
        reason: String,
    },
    /// The branch, tag or commit does not exist.
    #[error("no branch, tag or commit `{reference}`{}", list(" (similar: ", similar, ")"))]
    ReferenceNotFound {
        /// The requested name.
        reference: String,
        /// Up to five similar references.
        similar: Vec<String>,
    },
    /// An abbreviated commit id matches several commits.
    #[error("the abbreviated commit id `{prefix}` is ambiguous")]
    AmbiguousCommit {
        /// The requested name.
        prefix: String,
    },
    /// The reference resolves to an object that is not a commit.
    #[error("`{reference}` is not a commit: {reason}")]
    NotACommit {
        /// The requested name.
        reference: String,
        /// The error of libgit2.
        reason: String,
    },
    /// The server's host key is not in `known_hosts`.
    #[error("the ssh host key of `{server}` is not known; it presents {fingerprint}")]
    HostKeyUnknown {
        /// Host and port.
        server: String,
        /// Type and SHA-256 fingerprint of the key.
        fingerprint: String,
    },
    /// The server presents another host key than the known one.
    #[error(
        "the ssh host key of `{server}` does not match the known key; it presents {fingerprint}"
    )]
    HostKeyMismatch {
        /// Host and port.
        server: String,
        /// Type and SHA-256 fingerprint of the key.
        fingerprint: String,
    },
    /// The server presents a host key that a `known_hosts` file revokes.
    #[error("the ssh host key of `{server}` is revoked (`@revoked`); it presents {fingerprint}")]
    HostKeyRevoked {
        /// Host and port.
        server: String,
        /// Type and SHA-256 fingerprint of the key.
        fingerprint: String,
    },
    /// A submodule cannot be fetched.
    #[error("cannot fetch the submodule `{path}`")]
    Submodule {
        /// Its path in the repository.
        path: String,
        /// The cause.
        source: Box<FetchError>,
    },
    /// A submodule has a forbidden URL or path.
    #[error("the submodule `{path}` is not allowed: {reason}")]
    ForbiddenSubmodule {
        /// Its path in the repository.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The working directory is not a directory of the clone.
    #[error("the working directory `{directory}` cannot be used: {reason}")]
    WorkingDirectory {
        /// The requested name.
        directory: String,
        /// The reason.
        reason: String,
    },
    /// Files are stored in Git LFS, and the repository contains only their pointers.
    #[error("{count} {} in the module: {}", if *count == 1 { "file is only a Git LFS pointer" } else { "files are only Git LFS pointers" }, list("", files, if *count > files.len() { ", …" } else { "" }))]
    LfsPointers {
        /// Up to three of them.
        files: Vec<String>,
        /// The number of files.
        count: usize,
    },
    /// A file has an encoding that is not known.
    #[error("cannot check out `{path}`: {reason}")]
    Encoding {
        /// The file, escaped.
        path: String,
        /// The reason, with the name of the encoding.
        reason: String,
    },
    /// The repository has object ids of another kind.
    #[error("the repository has {format} object ids, which are not supported")]
    ObjectFormat {
        /// The kind.
        format: String,
    },
    /// The process has no memory left.
    #[error("cannot {act}: out of memory")]
    OutOfMemory {
        /// The operation.
        act: String,
    },
    /// Another error of libgit2 or of the operating system.
    #[error("cannot {act}: {reason}")]
    Git {
        /// The operation.
        act: String,
        /// The error of libgit2.
        reason: String,
    },
}

fn not_used(unused: &[String]) -> String {
    match unused {
        [] => String::new(),
        [one] => format!(" ({one} is not used)"),
        [first @ .., last] => format!(" ({} and {last} are not used)", first.join(", ")),
    }
}

fn list(before: &str, items: &[String], after: &str) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: Vec<String> = items.iter().map(|item| format!("`{item}`")).collect();
    format!("{before}{}{after}", items.join(", "))
}

/// Whether libgit2, or the operating system below it, has no memory left.
pub(super) fn is_out_of_memory(error: &git2::Error) -> bool {
    error.class() == git2::ErrorClass::NoMemory
        || error.message().ends_with("Cannot allocate memory")
}

/// The kind of the object ids that libgit2 does not know.
pub(super) fn object_format(error: &git2::Error) -> Option<String> {
    let (_, rest) = error.message().split_once("object format '")?;
    let name = rest.split('\'').next()?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name.then(|| name.to_ascii_uppercase().replace("SHA", "SHA-"))
}

impl SourceError {
    /// The time to wait before the next request, if the host names one.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Fetch { source, .. } | Self::Mirror { source, .. } => match source {
                FetchError::ServerFailed { retry_after: Some(seconds), .. } => {
                    Some(Duration::from_secs(*seconds))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl FetchError {
    pub(super) fn unusable_url(url: &str, reason: &str) -> Self {
        Self::UnusableUrl { url: url.escape_debug().to_string(), reason: reason.to_owned() }
    }

    pub(super) fn git(act: &str, error: &git2::Error) -> Self {
        let act = act.to_owned();
        if is_out_of_memory(error) {
            return Self::OutOfMemory { act };
        }
        if let Some(format) = object_format(error) {
            return Self::ObjectFormat { format };
        }
        Self::Git { act, reason: error.message().to_owned() }
    }

    /// An error of the operating system.
    pub(super) fn file(act: &str, error: &std::io::Error) -> Self {
        Self::Git { act: act.to_owned(), reason: butler_base::error::chain(error) }
    }

    /// Whether another kind of request to the same server may succeed.
    pub(super) const fn may_be_a_refusal(&self) -> bool {
        matches!(self, Self::Git { .. })
    }
}
