//! The parent's side of a fetch: sends the task, waits, and reads the result.

use std::path::Path;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::environment::{Checkout, FETCH_COMMAND, GitEnvironment};
use super::failure::{FetchError, SourceError};
use super::login::logins;
use super::task::{FetchResult, Task};
use super::url::RepositoryUrl;
use butler_base::cancel::Stop;
use butler_base::event::Stream;
use butler_base::platform::NULL_DEVICE;
use butler_base::platform::fs::PermissionsExt;
use butler_base::process::{
    Command, Environment, Exit, Grace, Input, Output, ProcessError, Sink, supervise,
};
use butler_protocol::spec::{GitCredentials, GitSource};

/// The grace period of the child. It is short, because the child has nothing to clean up.
const GRACE: Grace =
    Grace { normal: Duration::from_millis(500), urgent: Duration::from_millis(100) };

/// The largest accepted result, in bytes. It has a few paths or an error message.
const MAX_RESULT: usize = 1024 * 1024;

/// Fetches `source` into `destination`, which must not exist yet. Progress goes to `sink`.
///
/// # Errors
/// When the repository cannot be fetched, the reference does not exist, or the working directory
/// is not inside the clone. A stop ends the fetch within a second. The caller must remove the files
/// that a failed fetch leaves in `destination`.
pub async fn fetch(
    source: &GitSource,
    environment: &GitEnvironment,
    destination: &Path,
    sink: &impl Sink,
    stop: &Stop,
) -> Result<Checkout, SourceError> {
    let (repository, userinfo) =
        RepositoryUrl::parse(source.repository.expose_secret()).map_err(SourceError::Unusable)?;
    let url = repository.to_string();
    let failed = |source| SourceError::Fetch { url: url.clone(), source };
    check_reference(&source.reference).map_err(SourceError::Unusable)?;
    let ssh_user = ssh_user(source);
    let logins = logins(source, environment, &repository, userinfo).map_err(failed)?;

    let beside = destination.parent().unwrap_or(Path::new("."));
    let scratch = tempfile::Builder::new()
        .prefix(".git-home-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(beside)
        .map_err(|source| file_error("create a directory in", beside, source))?;
    let task = Task {
        url: url.clone(),
        reference: source.reference.clone(),
        working_directory: source.working_directory.clone(),
        destination: destination.to_owned(),
        logins,
        ssh_user,
        known_hosts: known_hosts(source),
        scratch_home: scratch.path().to_owned(),
        home: environment.home.clone(),
        has_agent: environment.ssh_agent.is_some(),
        certificates: environment.certificates(),
        ca_bundle: environment.ca_bundle.clone(),
        parent: std::process::id(),
    };
    // Serialization fails only for a path that is not UTF-8.
    let input = serde_json::to_vec(&task).map_err(|error| {
        file_error("hand on the path", destination, std::io::Error::other(error))
    })?;
    let command = Command {
        inner: None,
        program: environment.executable.clone(),
        arguments: vec![FETCH_COMMAND.into()],
        environment: child_environment(environment, scratch.path()),
        directory: None,
        input: Input::Bytes(input),
        output: Output::Memory(MAX_RESULT),
    };
    let progress = ProgressSink(sink);
    progress.print(&format!("Fetching {url} at {}", source.reference));
    let exit = match supervise(&command, &progress, stop, GRACE).await {
        Ok(exit) => exit,
        Err(ProcessError::Stopped(reason)) => return Err(SourceError::Stopped { url, reason }),
        Err(source) => return Err(SourceError::Process { url, source }),
    };
    let Exit { status, stopped, output, .. } = exit;
    match serde_json::from_slice(&output) {
        // If a stop arrives after the result, the next phase handles it.
        Ok(FetchResult::Fetched(fetched)) => Ok(Checkout {
            root: fetched.root,
            directory: fetched.directory,
            commit: fetched.commit,
            used_tokens: environment
                .tokens
                .iter()
                .map(|(name, _)| *name)
                .filter(|name| fetched.used_tokens.iter().any(|used| used == name))
                .collect(),
        }),
        Ok(FetchResult::Failed(error)) => Err(failed(error)),
        Err(_) => Err(match stopped {
            Some(reason) => SourceError::Stopped { url, reason },
            None => SourceError::Crashed { url, status },
        }),
    }
}

/// Refuses names that git refuses too, in particular options and control characters.
fn check_reference(reference: &str) -> Result<(), FetchError> {
    let refuse = |reason: &str| {
        Err(FetchError::UnusableReference {
            reference: reference.escape_debug().to_string(),
            reason: reason.to_owned(),
        })
    };
    if reference.trim().is_empty() {
        return refuse("it is empty, and the default branch is never used instead");
    }
    if reference.starts_with('-') {
        return refuse("it begins with `-`");
    }
    if reference.chars().any(|character| character.is_control() || " ~^:?*[\\".contains(character))
        || reference.contains("..")
        || reference.contains("@{")
    {
        return refuse("it contains a character that no branch or tag can have");
    }
    Ok(())
}

fn ssh_user(source: &GitSource) -> String {
    match &source.credentials {
        GitCredentials::SshKey { username: Some(username), .. }
        | GitCredentials::Password { username, .. } => username.clone(),
        _ => "git".to_owned(),
    }
}

fn known_hosts(source: &GitSource) -> Option<String> {
    match &source.credentials {
        GitCredentials::SshKey { known_hosts, .. } => {
            known_hosts.clone().filter(|lines| !lines.trim().is_empty())
        }
        _ => None,
    }
}

/// The environment of libgit2: proxies, the agent, and a home directory with only the `known_hosts` that
/// the child writes. OpenSSL would read all certificates at its start, but most repositories need none:
/// the child sets them later if they are needed.
fn child_environment(environment: &GitEnvironment, home: &Path) -> Environment {
    let mut child = environment.variables.clone();
    child.set("HOME", home);
    child.set("SSL_CERT_FILE", NULL_DEVICE);
    if let Some(agent) = &environment.ssh_agent {
        child.set("SSH_AUTH_SOCK", agent);
    }
    child
}

fn file_error(act: &'static str, path: &Path, source: std::io::Error) -> SourceError {
    SourceError::File { act, path: path.to_owned(), source }
}

/// Forwards the child's lines as standard output, because they are the runner's progress and not errors.
struct ProgressSink<'sink, S>(&'sink S);

impl<S: Sink> ProgressSink<'_, S> {
    fn print(&self, text: &str) {
        self.0.line(Stream::Stdout, text.as_bytes());
    }
}

impl<S: Sink> Sink for ProgressSink<'_, S> {
    fn line(&self, _: Stream, line: &[u8]) {
        self.0.line(Stream::Stdout, line);
    }

    fn partial(&self, _: Stream, pending: &[u8]) -> usize {
        self.0.partial(Stream::Stdout, pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_reference_name_is_refused() {
        for reference in ["", "  ", "-upload-pack=x", "a\nb", "a b", "main~1", "a..b", "x@{1}", "*"]
        {
            assert!(check_reference(reference).is_err(), "{reference:?}");
        }
        for reference in ["main", "v1.2.0", "feature/x-y_z", "refs/pull/7/head", "0a1b2c3", "käse"]
        {
            assert_eq!(check_reference(reference), Ok(()));
        }
    }
}
