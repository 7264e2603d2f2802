//! Child processes: their jobs, their pipes, and how they are asked to end.
//!
//! A child is started suspended, put into a job, and only then let go: so all that it starts is in the
//! job as well, and ends when the job is closed, by this process or by its death.
#![expect(unsafe_code, reason = "Windows offers jobs and console events as C functions only")]

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::pin::Pin;
use std::process::ExitStatus;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
    SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED, OpenThread, ResumeThread, THREAD_SUSPEND_RESUME,
};

use super::signals::Signal;

/// Runs `command` as a child, because no process can take another's place here; returns its exit
/// code. Ctrl-C in the console reaches the child by itself.
///
/// # Errors
/// When it cannot be started.
pub fn replace_process(mut command: std::process::Command) -> std::io::Result<u8> {
    let code = command.status()?.code();
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// The number of a process.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Pid(u32);

impl Pid {
    /// A number, as Unix has them.
    #[must_use]
    pub const fn from_raw(pid: i32) -> Self {
        Self(pid.cast_unsigned())
    }

    /// The number, as Unix has it.
    #[must_use]
    pub const fn as_raw(self) -> i32 {
        self.0.cast_signed()
    }

    /// That of this process.
    #[must_use]
    pub fn this() -> Self {
        Self(std::process::id())
    }
}

impl std::fmt::Display for Pid {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

/// How a process ends that was killed: as one that SIGKILL has ended does for a shell.
const KILLED: u32 = 128 + Signal::SIGKILL as u32;

/// A child with all that it starts: a job.
#[derive(Debug)]
pub struct Family {
    leader: Pid,
    job: OwnedHandle,
}

impl Family {
    /// Has the child of `builder` wait for [`Family::of`], and not hear of this process's Ctrl-C. It
    /// gets the variable without which it could open no socket.
    #[expect(clippy::disallowed_methods, reason = "the variable is the system's, not a setting")]
    pub fn prepare(builder: &mut Command) {
        if let Some(root) = std::env::var_os("SystemRoot") {
            builder.env("SystemRoot", root);
        }
        builder.creation_flags(CREATE_NEW_PROCESS_GROUP | CREATE_SUSPENDED).kill_on_drop(true);
    }

    /// The family of a child that was prepared for it and has not been waited for; lets it go.
    ///
    /// # Errors
    /// When there can be no job for it, or it cannot be let go; then it is to be dropped.
    ///
    /// # Panics
    /// Where the child has been waited for.
    pub fn of(child: &Child) -> std::io::Result<Self> {
        let leader = Pid(child.id().expect("a child that was not waited for has a pid"));
        let process = child.raw_handle().expect("a child that was not waited for has a handle");
        let job = new_job()?;
        // SAFETY: both handles are open.
        succeeded(unsafe { AssignProcessToJobObject(job.as_raw_handle(), process) })?;
        let_go(leader.0)?;
        Ok(Self { leader, job })
    }

    /// The child.
    #[must_use]
    pub const fn leader(&self) -> Pid {
        self.leader
    }

    /// Kills all of it.
    pub fn kill(&self) {
        // SAFETY: the handle is open. It fails where nobody is left.
        let _ = unsafe { TerminateJobObject(self.job.as_raw_handle(), KILLED) };
    }
}

fn succeeded(result: i32) -> std::io::Result<()> {
    if result == 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes a handle that a function has returned, which is null or invalid where it failed.
fn owned(handle: HANDLE) -> std::io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: it is open, and nobody else closes it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// A job whose processes end when its only handle is closed.
fn new_job() -> std::io::Result<OwnedHandle> {
    // SAFETY: null is no name and the usual security.
    let job = owned(unsafe { CreateJobObjectW(std::ptr::null(), std::ptr::null()) })?;
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    let size = u32::try_from(size_of_val(&limits)).expect("a few hundred bytes");
    // SAFETY: the structure is the one that the class asks for, with its size.
    succeeded(unsafe {
        SetInformationJobObject(
            job.as_raw_handle(),
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            size,
        )
    })?;
    Ok(job)
}

/// Has the threads of a suspended process run: just the one that it was started with.
fn let_go(process: u32) -> std::io::Result<()> {
    // SAFETY: it takes no memory of ours.
    let threads = owned(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) })?;
    let mut entry = THREADENTRY32 {
        dwSize: u32::try_from(size_of::<THREADENTRY32>()).expect("a few bytes"),
        ..THREADENTRY32::default()
    };
    let mut found = false;
    // SAFETY: the snapshot is open, and the entry says how large it is.
    let mut more = unsafe { Thread32First(threads.as_raw_handle(), &raw mut entry) } != 0;
    while more {
        if entry.th32OwnerProcessID == process {
            // SAFETY: a thread of a process that has not run cannot have ended.
            let thread =
                owned(unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID) })?;
            // SAFETY: the handle is open and has the right.
            if unsafe { ResumeThread(thread.as_raw_handle()) } == u32::MAX {
                return Err(std::io::Error::last_os_error());
            }
            found = true;
        }
        // SAFETY: as above.
        more = unsafe { Thread32Next(threads.as_raw_handle(), &raw mut entry) } != 0;
    }
    if found { Ok(()) } else { Err(std::io::Error::other("the new process has no thread")) }
}

/// Asks a child that was prepared for it to end, by Ctrl-Break: a process of its own group is deaf to
/// Ctrl-C. Programs in Go, as Terraform is, take both for an interrupt.
pub fn ask_to_end(child: Pid) {
    // SAFETY: it takes no memory of ours. It fails where there is no console or no such group.
    let sent = succeeded(unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, child.0) });
    if let Err(error) = sent {
        tracing::warn!(%error, "cannot send Ctrl-Break; the process is killed after its grace period");
    }
}

/// Nothing is adopted here, so nobody asks for it.
///
/// # Errors
/// Always.
pub fn kill_child(_: Pid) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Exit statuses need nobody to take them.
#[must_use]
pub fn reap(_: Pid) -> bool {
    false
}

/// The number of the signal that would have ended it on Unix.
#[must_use]
pub fn signal_of(status: ExitStatus) -> Option<i32> {
    let killed = status.code().map(i32::cast_unsigned) == Some(KILLED);
    killed.then_some(Signal::SIGKILL as i32)
}

/// The end of a pipe that a child writes to.
#[derive(Debug)]
pub enum Pipe {
    /// Of its standard output.
    Stdout(ChildStdout),
    /// Of its standard error.
    Stderr(ChildStderr),
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Stdout(pipe) => Pin::new(pipe).poll_read(context, buffer),
            Self::Stderr(pipe) => Pin::new(pipe).poll_read(context, buffer),
        }
    }
}

/// The pipe of a child's standard output.
///
/// # Errors
/// Never, here.
pub fn stdout_pipe(stdout: ChildStdout) -> std::io::Result<Pipe> {
    Ok(Pipe::Stdout(stdout))
}

/// The pipe of a child's standard error.
///
/// # Errors
/// Never, here.
pub fn stderr_pipe(stderr: ChildStderr) -> std::io::Result<Pipe> {
    Ok(Pipe::Stderr(stderr))
}

/// Leaves a pipe alone for as long as `pause`.
///
/// # Errors
/// Never, here.
pub async fn rest(pipe: Pipe, pause: Duration) -> std::io::Result<Pipe> {
    tokio::time::sleep(pause).await;
    Ok(pipe)
}

/// A child ends with its parent in any case: its job is closed then.
pub fn end_with(_: u32) {}

/// Nothing limits how large a file may be.
pub fn bear_limits() {}
