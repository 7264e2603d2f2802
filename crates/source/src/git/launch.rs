//! Starts the child for one task, waits, and reads its result.

use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::ask::with_answer;
use super::environment::{FETCH_COMMAND, GitEnvironment};
use super::failure::{FetchError, SourceError};
use super::login::Login;
use super::task::{Access, Job, Task};
use super::url::RepositoryUrl;
use butler_base::cancel::Stop;
use butler_base::event::Stream;
use butler_base::platform::NULL_DEVICE;
use butler_base::platform::fs::PermissionsExt;
use butler_base::process::{
    Command, Environment, Exit, Grace, Input, Output, ProcessError, Sink, supervise,
};
use butler_protocol::spec::GitCredentials;

/// The grace period of the child. It is short, because the child has nothing to clean up.
const GRACE: Grace =
    Grace { normal: Duration::from_millis(500), urgent: Duration::from_millis(100) };

/// The largest accepted result, in bytes. It has a few paths or an error message, or a commit id for
/// each reference.
const MAX_RESULT: usize = 1024 * 1024;

/// Creates the home directory of the child next to the directory that it writes.
///
/// # Errors
/// When it cannot be created.
pub(super) fn scratch_home(directory: &Path) -> std::io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(".git-home-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(beside(directory))
}

/// The directory of [`scratch_home`].
pub(super) fn beside(directory: &Path) -> &Path {
    directory.parent().unwrap_or(Path::new("."))
}

/// How the child reaches `repository`.
pub(super) fn access(
    repository: &RepositoryUrl,
    logins: Vec<Login>,
    credentials: &GitCredentials,
    environment: &GitEnvironment,
    scratch: &TempDir,
) -> Access {
    Access {
        url: repository.to_string(),
        logins,
        ssh_user: ssh_user(credentials),
        known_hosts: known_hosts(credentials),
        scratch_home: scratch.path().to_owned(),
        home: environment.home.clone(),
        has_agent: environment.ssh_agent.is_some(),
        certificates: environment.certificates(),
        ca_bundle: environment.ca_bundle.clone(),
        parent: std::process::id(),
    }
}

/// Runs `task` in a child, with the lines of the child on `sink`. Returns the result of the child; an error gets the
/// message of the git host, which is asked for it.
///
/// # Errors
/// When the child cannot be started, is stopped, or ends without a result.
pub(super) async fn execute<T: DeserializeOwned>(
    task: &Task,
    environment: &GitEnvironment,
    sink: &ProgressSink<'_, impl Sink>,
    stop: &Stop,
) -> Result<Result<T, FetchError>, SourceError> {
    let url = task.access.url.clone();
    let (directory, memory_limit) = match &task.job {
        Job::Clone(job) => (&job.destination, None),
        Job::Mirror(job) => (&job.directory, Some(job.memory_limit)),
    };
    // Serialization fails only for a path that is not UTF-8.
    let input = serde_json::to_vec(task).map_err(|error| SourceError::File {
        act: "hand on the path",
        path: directory.clone(),
        source: std::io::Error::other(error),
    })?;
    let command = Command {
        program: environment.executable.clone(),
        arguments: vec![FETCH_COMMAND.into()],
        environment: child_environment(environment, &task.access.scratch_home),
        input: Input::Bytes(input),
        output: Output::Memory(MAX_RESULT),
        ..Command::default()
    };
    let exit = match supervise(&command, sink, stop, GRACE).await {
        Ok(exit) => exit,
        Err(ProcessError::Stopped(reason)) => return Err(SourceError::Stopped { url, reason }),
        Err(source) => return Err(SourceError::Process { url, source }),
    };
    let Exit { status, stopped, output, .. } = exit;
    // If a stop arrives after the result, the next phase handles it.
    let result: Result<T, FetchError> =
        serde_json::from_slice(&output).map_err(|_| match stopped {
            Some(reason) => SourceError::Stopped { url, reason },
            None => SourceError::Crashed { url, status, memory_limit },
        })?;
    match result {
        Ok(result) => Ok(Ok(result)),
        Err(error) => Ok(Err(with_answer(error, &task.access, environment, stop).await)),
    }
}

fn ssh_user(credentials: &GitCredentials) -> String {
    match credentials {
        GitCredentials::SshKey { username: Some(username), .. }
        | GitCredentials::Password { username, .. } => username.clone(),
        _ => "git".to_owned(),
    }
}

fn known_hosts(credentials: &GitCredentials) -> Option<String> {
    match credentials {
        GitCredentials::SshKey { known_hosts, .. } => known_hosts.clone(),
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

/// Forwards the child's lines as standard output, because they are the runner's progress and not errors.
pub(super) struct ProgressSink<'sink, S>(pub(super) &'sink S);

impl<S: Sink> ProgressSink<'_, S> {
    pub(super) fn print(&self, text: &str) {
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

    fn stream_ended(&self, _: Stream) {
        self.0.stream_ended(Stream::Stdout);
    }
}
