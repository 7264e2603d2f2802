//! Supervises one child from its start until its process group is gone.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::descendants::{Group, end_orphans, spawn};
use super::memory::{OomWatch, OutOfMemory};
use super::pump::{PumpTarget, pump};
use super::source::{Followed, OutputSource};
use super::table::running_below;
use super::{Channel, Command, Input, Output, Sink};
use crate::cancel::{Stop, StopReason};
use crate::error::FailureClass;
use crate::event::Stream;
use crate::platform::fs::OpenOptionsExt;
use crate::platform::{OutputFile, Pid, ask_to_end, stderr_pipe, stdout_pipe};

/// How long the pipes may stay open after the group is gone. Only a process that left the group can
/// hold them, and it must not delay the run.
const PIPE_WAIT: Duration = Duration::from_secs(1);

/// How long a child may take to report that it received this process's signal too. GitLab signals
/// all processes of a job, one right after the other, and Terraform reacts within milliseconds:
/// this is enough for a busy machine. A second signal would make Terraform discard its state.
const ALREADY_SIGNALLED: Duration = Duration::from_millis(500);

/// The interval of that check.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The grace period of a child after it was asked to end.
#[derive(Clone, Copy, Debug)]
pub struct Grace {
    /// From SIGTERM to SIGKILL.
    pub normal: Duration,
    /// From a second signal of the user to SIGKILL, if that is sooner.
    pub urgent: Duration,
}

/// How a child ended.
pub struct Exit {
    /// The exit status.
    pub status: ExitStatus,
    /// Why the child was asked to stop, if it was.
    pub stopped: Option<StopReason>,
    /// Whether it had to be killed.
    pub killed: bool,
    /// Whether the OOM killer ended the child or one of its descendants. None if it did not, or if
    /// that is unknown.
    pub out_of_memory: Option<OutOfMemory>,
    /// Its standard output, with [`Output::Memory`].
    pub output: Vec<u8>,
}

/// Without the output, which may be secret.
impl std::fmt::Debug for Exit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Exit")
            .field("status", &self.status)
            .field("stopped", &self.stopped)
            .field("killed", &self.killed)
            .finish_non_exhaustive()
    }
}

/// A failure to run a child.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The run was stopped before the child was started.
    #[error("not started because {0}")]
    Stopped(StopReason),
    /// The operating system could not start it.
    #[error("cannot start `{}`", program.display())]
    Start {
        /// The executable.
        program: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file for its output could not be created.
    #[error("cannot create `{}`", path.display())]
    OutputFile {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// Waiting for it or reading from it failed.
    #[error("cannot wait for `{}`", program.display())]
    Wait {
        /// The executable.
        program: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// It wrote more than the limit of [`Output::Memory`].
    #[error("`{}` wrote more than {limit} bytes", program.display())]
    TooMuchOutput {
        /// The executable.
        program: PathBuf,
        /// The limit, in bytes.
        limit: usize,
    },
}

impl crate::error::Advice for ProcessError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::OutputFile { .. } => {
                Some("check that --work-dir is writable and has room".to_owned())
            }
            _ => None,
        }
    }

    fn class(&self) -> Option<FailureClass> {
        Some(FailureClass::Platform)
    }
}

/// Runs `command` to its end, or to the end of its grace period after `stop` is requested.
///
/// Lines reach `sink` in order while the child runs. When this returns, the child is reaped and its
/// process group is gone, including processes that left the group: see [`super::adopt_orphans`].
///
/// # Errors
/// If the child cannot be started, its output cannot be stored, or the run was stopped before. An
/// exit status other than 0 is not an error: see [`Exit::status`].
///
/// # Panics
/// Never: the pipes exist because the child was started with them.
pub async fn supervise(
    command: &Command,
    sink: &impl Sink,
    stop: &Stop,
    grace: Grace,
) -> Result<Exit, ProcessError> {
    if let Some(reason) = stop.reason() {
        return Err(ProcessError::Stopped(reason));
    }
    let file = output_file(command)?;
    let memory_watch = OomWatch::begin();
    let drain = CancellationToken::new();
    let Started { mut child, group, files } = start(command)?;

    let stdin = child.stdin.take();
    let lost = |source| ProcessError::Wait { program: command.program.clone(), source };
    let has_files = files.is_some();
    let (stdout, stderr) = sources(&mut child, files, &drain).map_err(lost)?;
    let memory = match command.output {
        Output::Memory(limit) => Some(limit),
        _ => None,
    };
    let lines = matches!(command.output, Output::Lines | Output::LinesAndFile(_));
    let target = PumpTarget { sink: lines.then_some(sink), file, memory };
    let pumps = async {
        tokio::join!(
            pump(stdout, Stream::Stdout, target),
            pump(stderr, Stream::Stderr, PumpTarget { sink: Some(sink), file: None, memory: None }),
            feed(stdin, &command.input),
        )
    };
    tokio::pin!(pumps);
    let (ended, pumped) = {
        let ended = wait(command, (&mut child, &group), sink, (stop, grace));
        tokio::pin!(ended);
        // The pumps must run concurrently with the child: a full pipe would block it.
        tokio::select! {
            ended = &mut ended => (ended, None),
            pumped = &mut pumps => (ended.await, Some(pumped)),
        }
    };
    group.finish();
    // Before the wait for the pipes, because the group may hold them.
    end_orphans().await;
    drain.cancel();
    let (status, stopped, killed) = ended.map_err(lost)?;
    let (stdout, stderr) = match pumped {
        Some((stdout, stderr, ())) => (stdout, stderr),
        // What is in the files has an end, and no process can delay it.
        None if has_files => {
            let (stdout, stderr, ()) = pumps.await;
            (stdout, stderr)
        }
        None => {
            if let Ok((stdout, stderr, ())) = tokio::time::timeout(PIPE_WAIT, pumps).await {
                (stdout, stderr)
            } else {
                tracing::warn!(program = %command.program.display(), "a process outside of the group keeps the output open; the runner does not wait for it");
                (Ok(Vec::new()), Ok(Vec::new()))
            }
        }
    };
    stderr.map_err(lost)?;
    let output = stdout.map_err(lost)?;
    if let Some(limit) = memory.filter(|limit| output.len() > *limit) {
        return Err(ProcessError::TooMuchOutput { program: command.program.clone(), limit });
    }
    Ok(Exit { status, stopped, killed, out_of_memory: memory_watch.end(), output })
}

fn output_file(command: &Command) -> Result<Option<tokio::fs::File>, ProcessError> {
    let (Output::File(path) | Output::LinesAndFile(path)) = &command.output else {
        return Ok(None);
    };
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map(|file| Some(tokio::fs::File::from_std(file)))
        .map_err(|source| ProcessError::OutputFile { path: path.clone(), source })
}

/// A child that was started.
struct Started {
    child: Child,
    group: Group,
    /// The files of its standard output and standard error, if they do not go through pipes.
    files: Option<[OutputFile; 2]>,
}

fn start(command: &Command) -> Result<Started, ProcessError> {
    let failed = |source| ProcessError::Start { program: command.program.clone(), source };
    let input = match &command.input {
        // A pipe that is closed immediately replaces /dev/null, which an empty root does not have.
        Input::Nothing | Input::Bytes(_) => Stdio::piped(),
        Input::File(file) => file.try_clone().map_err(failed)?.into(),
    };
    let files = match command.channel {
        Channel::Pipe => None,
        Channel::File => OutputFile::create().zip(OutputFile::create()).map(<[_; 2]>::from),
    };
    let [stdout, stderr] = match &files {
        None => [Stdio::piped(), Stdio::piped()],
        Some([stdout, stderr]) => {
            [stdout.writer().map_err(failed)?.into(), stderr.writer().map_err(failed)?.into()]
        }
    };
    #[expect(clippy::disallowed_methods, reason = "one of four places that start processes")]
    let mut builder = tokio::process::Command::new(&command.program);
    builder
        .args(&command.arguments)
        .env_clear()
        .envs(command.environment.iter())
        .stdin(input)
        .stdout(stdout)
        .stderr(stderr);
    if let Some(directory) = &command.directory {
        builder.current_dir(directory);
    }
    let (child, group) = spawn(&mut builder, command.session).map_err(failed)?;
    Ok(Started { child, group, files })
}

/// The sources of standard output and standard error of a child. Files are read until the end that they have when
/// `drain` is cancelled.
fn sources(
    child: &mut Child,
    files: Option<[OutputFile; 2]>,
    drain: &CancellationToken,
) -> std::io::Result<(OutputSource, OutputSource)> {
    if let Some(files) = files {
        let [stdout, stderr] = Followed::both(files, drain).map(OutputSource::File);
        return Ok((stdout, stderr));
    }
    let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
    let stderr = child.stderr.take().expect("stderr was asked to be a pipe");
    Ok((OutputSource::Pipe(stdout_pipe(stdout)?), OutputSource::Pipe(stderr_pipe(stderr)?)))
}

/// Writes `input` and closes the pipe. A child that does not read it is not an error.
async fn feed(stdin: Option<ChildStdin>, input: &Input) {
    if let (Some(mut stdin), Input::Bytes(input)) = (stdin, input) {
        let _ = stdin.write_all(input).await;
        let _ = stdin.shutdown().await;
    }
}

/// Waits for the child. A stop sends one SIGTERM, and kills the group after the grace period.
async fn wait(
    command: &Command,
    (child, group): (&mut Child, &Group),
    sink: &impl Sink,
    (stop, grace): (&Stop, Grace),
) -> std::io::Result<(ExitStatus, Option<StopReason>, bool)> {
    let reason = tokio::select! {
        status = child.wait() => return Ok((status?, None, false)),
        reason = stop.requested() => reason,
    };
    let pid = group.leader();
    let deadline = Instant::now() + grace.normal;
    // Only signals can have reached the child directly; a cancellation by the registry cannot.
    let is_signal = matches!(reason, StopReason::Signal(_));
    let knows = is_signal
        && {
            let patience = ALREADY_SIGNALLED.min(grace.normal / 4);
            tokio::select! {
                status = child.wait() => return Ok((status?, Some(reason), false)),
                knows = tokio::time::timeout(patience, child_acknowledged_signal(sink)) => knows == Ok(true),
                () = stop.urgent() => sink.acknowledged_stop() == Some(true),
            }
        };
    if knows {
        tracing::info!(pid = pid.as_raw(), %reason, grace = ?grace.normal, "the process received the signal itself; sending no SIGTERM");
    } else {
        tracing::info!(pid = pid.as_raw(), %reason, grace = ?grace.normal, "sending SIGTERM");
        terminate(command, pid);
    }
    let sooner = tokio::select! {
        status = child.wait() => return Ok((status?, Some(reason), false)),
        () = tokio::time::sleep_until(deadline) => deadline,
        () = stop.urgent() => deadline.min(Instant::now() + grace.urgent),
    };
    if sooner > Instant::now() {
        tracing::warn!(pid = pid.as_raw(), grace = ?grace.urgent, "second signal: the grace period is shorter");
        tokio::select! {
            status = child.wait() => return Ok((status?, Some(reason), false)),
            () = tokio::time::sleep_until(sooner) => {}
        }
    }
    tracing::warn!(pid = pid.as_raw(), "the grace period is over: killing the process group");
    group.kill();
    Ok((child.wait().await?, Some(reason), true))
}

/// Waits until the child's lines show that it received a signal; returns immediately if they never
/// do.
async fn child_acknowledged_signal(sink: &impl Sink) -> bool {
    loop {
        match sink.acknowledged_stop() {
            Some(false) => tokio::time::sleep(POLL_INTERVAL).await,
            Some(true) => return true,
            None => return false,
        }
    }
}

/// Sends the one SIGTERM to the child, or to the program that it wraps.
fn terminate(command: &Command, pid: Pid) {
    let inner = command.inner.as_ref().map(|inner| running_below(pid, inner));
    // A wrapper could forward the signal late or twice, or kill a program that needs time.
    for inner in inner.iter().flatten() {
        tracing::debug!(pid = inner.as_raw(), "sending the signal to the inner process");
        ask_to_end(*inner);
    }
    if inner.is_none_or(|inner| inner.is_empty()) {
        // The pid of a child that is not reaped yet cannot belong to another process.
        ask_to_end(pid);
    }
}
