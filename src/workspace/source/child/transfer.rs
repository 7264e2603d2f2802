//! Gets one commit from a server into a repository: shallow where that is possible, in full where
//! the server refuses.
//!
//! libgit2 reports neither a reference that does not exist nor, in words that help, who refused
//! what. So the server's references are looked at first, and errors are told apart here.

use git2::{AutotagOption, Direction, FetchOptions, Oid, ProxyOptions, RemoteRedirect, Repository};

use super::super::failure::FetchError;
use super::super::url::{RepositoryUrl, Scheme};
use super::authenticate::Authenticator;
use super::reference::{Meaning, meaning, similar};
use super::{Progress, host_keys};
use crate::workspace::source::task::Task;

/// Where a commit that has no name of its own is kept.
const NAMELESS: &str = "refs/butler/fetched";

/// Everything that a commit can be reachable from.
const EVERYTHING: [&str; 2] = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];

/// What the transfers of one clone have in common.
pub(super) struct Transfer<'task> {
    task: &'task Task,
    progress: &'task Progress,
    pub(super) authenticator: Authenticator<'task>,
}

/// How far a conversation with a server has come.
#[derive(Clone, Copy)]
enum Step {
    Connect,
    Transfer,
}

/// One server as it presented itself.
struct Server<'a> {
    url: &'a RepositoryUrl,
    host_known: bool,
    heads: Vec<(String, Oid)>,
}

impl<'task> Transfer<'task> {
    pub(super) const fn new(task: &'task Task, progress: &'task Progress) -> Self {
        Self { task, progress, authenticator: Authenticator::new(task) }
    }

    /// Brings the commit that `reference` means into `repository` and returns its id.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses, or the commit does not exist.
    pub(super) fn get(
        &self,
        repository: &Repository,
        url: &RepositoryUrl,
        reference: &str,
    ) -> Result<Oid, FetchError> {
        let host_known = url.scheme != Scheme::Ssh || host_keys::prepare(self.task, url)?;
        // Credentials must not follow a redirect to another host; libgit2 asks the configuration
        // whether the first request may.
        let settings = |error| FetchError::git("configure the clone", &error);
        let mut config = repository.config().map_err(settings)?;
        config.set_str("http.followRedirects", "false").map_err(settings)?;
        let mut server = Server { url, host_known, heads: Vec::new() };
        server.heads = self.advertised(repository, &server)?;
        let id = self.get_meaning(repository, &server, reference)?;
        config.remove("http.followRedirects").map_err(settings)?;
        Ok(id)
    }

    fn get_meaning(
        &self,
        repository: &Repository,
        server: &Server<'_>,
        reference: &str,
    ) -> Result<Oid, FetchError> {
        let unknown = |similar| {
            Err(FetchError::ReferenceNotFound { reference: reference.to_owned(), similar })
        };
        match meaning(reference, &server.heads) {
            Meaning::Reference { name, hides } => {
                if let Some(hidden) = hides {
                    self.progress.say(&format!("`{name}` is used; `{hidden}` has the same name"));
                }
                let local = local_name(&name);
                self.shallow_or_full(repository, server, &[&format!("+{name}:{local}")])?;
                let commit = repository
                    .find_reference(&local)
                    .map_err(|_| ())
                    .and_then(|found| found.peel(git2::ObjectType::Any).map_err(|_| ()));
                // A reference that was deleted a moment ago is fetched as nothing at all.
                let Ok(object) = commit else { return unknown(Vec::new()) };
                object.peel_to_commit().map(|commit| commit.id()).map_err(|error| {
                    FetchError::NotACommit {
                        reference: reference.to_owned(),
                        reason: error.message().to_owned(),
                    }
                })
            }
            Meaning::Commit(id) => {
                let spec = format!("+{id}:{NAMELESS}");
                if server.url.scheme == Scheme::File
                    || self.fetch(repository, server, &[&spec], true).is_none_or_refused()?
                {
                    self.progress.say(
                        "The server does not give out single commits: fetching the whole history",
                    );
                    self.everything(repository, server)?;
                }
                match repository.find_commit(id) {
                    Ok(commit) => Ok(commit.id()),
                    Err(_) => unknown(Vec::new()),
                }
            }
            Meaning::Abbreviation(prefix) => {
                self.progress.say("An abbreviated commit id needs the whole history: fetching it");
                self.everything(repository, server)?;
                match repository.find_commit_by_prefix(&prefix) {
                    Ok(commit) => Ok(commit.id()),
                    Err(error) if error.code() == git2::ErrorCode::Ambiguous => {
                        Err(FetchError::AmbiguousCommit { prefix })
                    }
                    Err(_) => unknown(similar(reference, &server.heads)),
                }
            }
            Meaning::Ambiguous => Err(FetchError::AmbiguousCommit { prefix: reference.to_owned() }),
            Meaning::Unknown { similar } => unknown(similar),
        }
    }

    /// The server's references.
    fn advertised(
        &self,
        repository: &Repository,
        server: &Server<'_>,
    ) -> Result<Vec<(String, Oid)>, FetchError> {
        let failed = |error| self.explain(server, Step::Connect, &error);
        let mut remote = repository.remote_anonymous(server.url.as_str()).map_err(failed)?;
        let connection = remote
            .connect_auth(
                Direction::Fetch,
                Some(self.authenticator.callbacks(server.url)),
                Some(proxy()),
            )
            .map_err(failed)?;
        let heads = connection.list().map_err(failed)?;
        Ok(heads.iter().map(|head| (head.name().to_owned(), head.oid())).collect())
    }

    fn everything(&self, repository: &Repository, server: &Server<'_>) -> Result<(), FetchError> {
        self.fetch(repository, server, &EVERYTHING, false)
    }

    fn shallow_or_full(
        &self,
        repository: &Repository,
        server: &Server<'_>,
        specs: &[&str],
    ) -> Result<(), FetchError> {
        // libgit2 has no shallow fetch from a directory.
        if server.url.scheme == Scheme::File {
            return self.fetch(repository, server, specs, false);
        }
        if self.fetch(repository, server, specs, true).is_none_or_refused()? {
            self.progress.say("The server refuses a shallow fetch: fetching the whole history");
            self.fetch(repository, server, specs, false)?;
        }
        Ok(())
    }

    fn fetch(
        &self,
        repository: &Repository,
        server: &Server<'_>,
        specs: &[&str],
        shallow: bool,
    ) -> Result<(), FetchError> {
        let failed = |error| self.explain(server, Step::Transfer, &error);
        let mut remote = repository.remote_anonymous(server.url.as_str()).map_err(failed)?;
        let mut options = FetchOptions::new();
        options
            .remote_callbacks(self.authenticator.callbacks(server.url))
            .proxy_options(proxy())
            .follow_redirects(RemoteRedirect::None)
            .download_tags(AutotagOption::None)
            .update_fetchhead(false);
        if shallow {
            options.depth(1);
        }
        remote.fetch(specs, Some(&mut options), None).map_err(failed)
    }

    /// Says what an error of libgit2's means.
    fn explain(&self, server: &Server<'_>, step: Step, error: &git2::Error) -> FetchError {
        use git2::{ErrorClass, ErrorCode};
        let reason = without_userinfo(error.message());
        let text = reason.to_ascii_lowercase();
        let name = server.url.server();
        let attempts = self.authenticator.attempts();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
        let refused = || match attempts.offered.as_slice() {
            [] => FetchError::CredentialsMissing {
                server: name.clone(),
                scheme: server.url.scheme.name().to_owned(),
            },
            offered => {
                FetchError::CredentialsRefused { server: name.clone(), offered: offered.join(", ") }
            }
        };
        if server.url.scheme == Scheme::Ssh && says(&["hostkey"]) {
            let fingerprint = attempts.fingerprint.clone().unwrap_or_else(|| "none".to_owned());
            return if server.host_known {
                FetchError::HostKeyMismatch { server: name, fingerprint }
            } else {
                FetchError::HostKeyUnknown { server: name, fingerprint }
            };
        }
        if error.code() == ErrorCode::Certificate || says(&["certificate"]) {
            return FetchError::Certificate { server: name, reason };
        }
        if says(&["timed out", "timeout"]) {
            return FetchError::Timeout { server: name, reason };
        }
        if says(&["cannot redirect", "unexpected redirect", "too many redirects"]) {
            return FetchError::Redirected { server: name, reason };
        }
        if says(&[
            "unable to extract public key",
            "unable to parse private key",
            "invalid key",
            "wrong passphrase",
            "callback returned error",
            "unable to initialize private key",
        ]) {
            return FetchError::UnusableKey { reason };
        }
        if error.code() == ErrorCode::Auth || says(&["status code: 401", "status code: 403"]) {
            return refused();
        }
        if error.code() == ErrorCode::NotFound
            || says(&[
                "status code: 404",
                "status code: 410",
                "repository not found",
                "does not appear to be a git repository",
                "could not find repository",
                "failed to resolve path",
                "not found",
            ])
        {
            return FetchError::RepositoryNotFound { url: server.url.to_string(), reason };
        }
        match step {
            // A transfer that breaks off may be the server's way of refusing what was asked for.
            Step::Transfer => {
                FetchError::Git { act: "fetch from the repository".to_owned(), reason }
            }
            Step::Connect
                if matches!(
                    error.class(),
                    ErrorClass::Net | ErrorClass::Os | ErrorClass::Ssh | ErrorClass::Ssl
                ) =>
            {
                FetchError::Connect { server: name, reason }
            }
            Step::Connect => {
                FetchError::Git { act: "read the repository's references".to_owned(), reason }
            }
        }
    }
}

/// Whether a transfer has to be tried in another way.
trait Refusal {
    fn is_none_or_refused(self) -> Result<bool, FetchError>;
}

impl Refusal for Result<(), FetchError> {
    fn is_none_or_refused(self) -> Result<bool, FetchError> {
        match self {
            Ok(()) => Ok(false),
            Err(error) if error.may_be_a_refusal() => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Under which name a reference of the server's is kept: where git keeps it.
fn local_name(name: &str) -> String {
    match name.strip_prefix("refs/heads/") {
        Some(branch) => format!("refs/remotes/origin/{branch}"),
        None if name.starts_with("refs/tags/") => name.to_owned(),
        None => NAMELESS.to_owned(),
    }
}

/// The proxy that the environment or the user's git configuration names.
fn proxy<'proxy>() -> ProxyOptions<'proxy> {
    let mut options = ProxyOptions::new();
    options.auto();
    options
}

/// `message` without the credentials of any URL in it: the user's `insteadOf` may have put some in.
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
    fn credentials_are_cut_out_of_messages() {
        assert_eq!(
            without_userinfo("cannot `https://a:b@host/x` or 'http://c@h': mail me@host"),
            "cannot `https://host/x` or 'http://h': mail me@host"
        );
    }
}
