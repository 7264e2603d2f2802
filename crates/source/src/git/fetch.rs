//! The parent's side of a fetch: sends the task, waits, and reads the result.

use std::path::Path;
use std::time::Duration;

use secrecy::ExposeSecret;
use zeroize::Zeroizing;

use super::failure::{FetchError, SourceError};
use super::login::logins;
use super::task::{Answer, Task};
use super::url::RepositoryUrl;
use super::{Checkout, FETCH_COMMAND, GitEnvironment};
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

/// An answer is a few paths, or an error message.
const LONGEST_ANSWER: usize = 1024 * 1024;

/// Fetches `source` into `destination`, which must not exist yet. Progress goes to `sink`.
///
/// # Errors
/// When the repository cannot be fetched, the reference does not exist, or the working directory
/// is not inside the clone. A stop ends the fetch within a second. What an unsuccessful fetch
/// leaves in `destination` is for the caller to remove.
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
        .map_err(|source| file("create a directory in", beside, source))?;
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
    let mut input = encode(&task)
        .map_err(|error| file("hand on the path", destination, std::io::Error::other(error)))?;
    let command = Command {
        inner: None,
        program: environment.executable.clone(),
        arguments: vec![FETCH_COMMAND.into()],
        environment: child_environment(environment, scratch.path()),
        directory: None,
        input: Input::Bytes(std::mem::take::<Vec<u8>>(&mut input)),
        output: Output::Memory(LONGEST_ANSWER),
    };
    let shown = RunnerLines(sink);
    shown.say(&format!("Fetching {url} at {}", source.reference));
    let exit = match supervise(&command, &shown, stop, GRACE).await {
        Ok(exit) => exit,
        Err(ProcessError::Stopped(reason)) => return Err(SourceError::Stopped { url, reason }),
        Err(source) => return Err(SourceError::Process { url, source }),
    };
    let Exit { status, stopped, output, .. } = exit;
    match serde_json::from_slice(&output) {
        // A stop that came when the answer was there already is for the next phase to see.
        Ok(Answer::Fetched(fetched)) => Ok(Checkout {
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
        Ok(Answer::Failed(error)) => Err(failed(error)),
        Err(_) => Err(match stopped {
            Some(reason) => SourceError::Stopped { url, reason },
            None => SourceError::Crashed { url, status },
        }),
    }
}

/// Git refuses such names too; an option or a control character must not get any further.
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

/// Only what libgit2 needs: proxies, the agent, and a home directory where it finds the `known_hosts`
/// that the child writes and nothing else. OpenSSL would read all certificates at once, of which most
/// repositories need none: the child names them when it does.
fn child_environment(environment: &GitEnvironment, home: &Path) -> Environment {
    let mut child = environment.variables.clone();
    child.set("HOME", home);
    child.set("SSL_CERT_FILE", NULL_DEVICE);
    if let Some(agent) = &environment.ssh_agent {
        child.set("SSH_AUTH_SOCK", agent);
    }
    child
}

/// `value` as JSON. Room is reserved beforehand: a vector that grows leaves copies of the secrets behind.
pub(super) fn encode(value: &impl serde::Serialize) -> serde_json::Result<Zeroizing<Vec<u8>>> {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut size = Count(0);
    serde_json::to_writer(&mut size, value)?;
    let mut json = Zeroizing::new(Vec::with_capacity(size.0));
    serde_json::to_writer(&mut *json, value)?;
    Ok(json)
}

fn file(act: &'static str, path: &Path, source: std::io::Error) -> SourceError {
    SourceError::File { act, path: path.to_owned(), source }
}

/// The child's lines are what the runner has to say, not a tool's error output.
struct RunnerLines<'sink, S>(&'sink S);

impl<S: Sink> RunnerLines<'_, S> {
    fn say(&self, text: &str) {
        self.0.line(Stream::Stdout, text.as_bytes());
    }
}

impl<S: Sink> Sink for RunnerLines<'_, S> {
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
    fn references_that_no_branch_can_have_are_refused() {
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
