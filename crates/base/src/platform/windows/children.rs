//! Child processes: their jobs, their pipes, and their termination.
//!
//! A child is created suspended, added to a job, and then resumed. So all its descendants are in
//! the job as well, and end when the job is closed, or when this process ends.
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

/// Runs `command` as a child, because a process cannot replace itself on Windows; returns its exit
/// code. Ctrl-C in the console reaches the child directly.
///
/// # Errors
/// If it cannot be started.
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

    /// The number of this process.
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

/// The exit code of a killed process: as a shell reports one that SIGKILL has ended.
const KILLED: u32 = 128 + Signal::SIGKILL as u32;

/// The id of a child.
#[must_use]
pub fn child_pid(child: &std::process::Child) -> Pid {
    Pid(child.id())
}

/// A child and its descendants: a job.
#[derive(Debug)]
pub struct Family {
    leader: Pid,
    job: OwnedHandle,
}

impl Family {
    /// Creates the child of `builder` suspended until [`Family::of`], and without this process's
    /// Ctrl-C. Sets the variable that sockets require.
    #[expect(clippy::disallowed_methods, reason = "the variable is the system's, not a setting")]
    pub fn prepare(builder: &mut Command) {
        if let Some(root) = std::env::var_os("SystemRoot") {
            builder.env("SystemRoot", root);
        }
        builder.creation_flags(CREATE_NEW_PROCESS_GROUP | CREATE_SUSPENDED).kill_on_drop(true);
    }

    /// The same: Windows does not have sessions of processes.
    pub fn prepare_with_session(builder: &mut Command) {
        Self::prepare(builder);
    }

    /// The job of a child that was prepared for it and has not been waited for; resumes the child.
    ///
    /// # Errors
    /// If the job cannot be created or the child cannot be resumed; then the child must be dropped.
    ///
    /// # Panics
    /// If the child has been waited for.
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

    /// Kills the job.
    pub fn kill(&self) {
        // SAFETY: the handle is open. The call fails if the job is empty.
        let _ = unsafe { TerminateJobObject(self.job.as_raw_handle(), KILLED) };
    }
}

fn succeeded(result: i32) -> std::io::Result<()> {
    if result == 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes ownership of a handle that a function has returned, which is null or invalid after an
/// error.
fn owned(handle: HANDLE) -> std::io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: it is open, and only this owner closes it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// A job whose processes end when its only handle is closed.
fn new_job() -> std::io::Result<OwnedHandle> {
    // SAFETY: null means no name and the default security.
    let job = owned(unsafe { CreateJobObjectW(std::ptr::null(), std::ptr::null()) })?;
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    let size = u32::try_from(size_of_val(&limits)).expect("a few hundred bytes");
    // SAFETY: the structure is the one that the class requires, with its size.
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

/// Resumes the only thread of a suspended process.
fn let_go(process: u32) -> std::io::Result<()> {
    // SAFETY: it does not take memory of the caller.
    let threads = owned(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) })?;
    let mut entry = THREADENTRY32 {
        dwSize: u32::try_from(size_of::<THREADENTRY32>()).expect("a few bytes"),
        ..THREADENTRY32::default()
    };
    let mut found = false;
    // SAFETY: the snapshot is open, and the entry contains its size.
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

/// Sends Ctrl-Break to a child that was prepared for it: a process in its own group ignores Ctrl-C.
/// Go programs such as Terraform treat both as an interrupt.
pub fn ask_to_end(child: Pid) {
    // SAFETY: it does not take memory of the caller. It fails without a console or such a group.
    let sent = succeeded(unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, child.0) });
    if let Err(error) = sent {
        tracing::warn!(%error, "cannot send Ctrl-Break; the process is killed after its grace period");
    }
}

/// Not supported: processes are not adopted.
///
/// # Errors
/// Always.
pub fn kill_child(_: Pid) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// No effect: processes do not need to be reaped.
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

/// The read end of a pipe that a child writes to.
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
/// Never on Windows.
pub fn stdout_pipe(stdout: ChildStdout) -> std::io::Result<Pipe> {
    Ok(Pipe::Stdout(stdout))
}

/// The pipe of a child's standard error.
///
/// # Errors
/// Never on Windows.
pub fn stderr_pipe(stderr: ChildStderr) -> std::io::Result<Pipe> {
    Ok(Pipe::Stderr(stderr))
}

/// Does not read a pipe for the duration of `pause`.
///
/// # Errors
/// Never on Windows.
pub async fn rest(pipe: Pipe, pause: Duration) -> std::io::Result<Pipe> {
    tokio::time::sleep(pause).await;
    Ok(pipe)
}

/// No effect: there are no sessions.
///
/// # Errors
/// Never.
pub const fn new_session() -> std::io::Result<()> {
    Ok(())
}

/// No effect: a child ends with its parent, because its job is closed.
pub fn end_with(_: u32) {}

/// No effect: Windows does not limit the size of a file.
pub fn bear_limits() {}
