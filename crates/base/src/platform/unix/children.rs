//! Child processes: their process groups, their pipes, and their termination.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use crate::platform::abandoned;

/// How often a process checks whether its parent still exists.
const PARENT_CHECK: Duration = Duration::from_millis(250);

/// Replaces this process by `command`.
///
/// # Errors
/// If it cannot be started; otherwise this does not return.
pub fn replace_process(mut command: std::process::Command) -> std::io::Result<u8> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

/// A child and its descendants: its process group, except for processes that leave it.
#[derive(Debug)]
pub struct Family(Pid);

impl Family {
    /// Makes the child of `builder` the leader of a group.
    pub fn prepare(builder: &mut Command) {
        builder.process_group(0);
    }

    /// Makes the child of `builder` the leader of a group and of a session.
    #[expect(unsafe_code, reason = "a session can only begin between fork and exec")]
    pub fn prepare_with_session(builder: &mut Command) {
        let begin = || nix::unistd::setsid().map(drop).map_err(std::io::Error::from);
        // SAFETY: setsid(2) may be called there, and neither it nor its error allocates memory.
        unsafe { builder.pre_exec(begin) };
    }

    /// The group of a child that was prepared for it and has not been waited for.
    ///
    /// # Errors
    /// Never on Unix.
    ///
    /// # Panics
    /// If the child has been waited for.
    pub fn of(child: &Child) -> std::io::Result<Self> {
        let id = child.id().expect("a child that was not waited for has a pid");
        Ok(Self(Pid::from_raw(i32::try_from(id).expect("a pid fits into pid_t"))))
    }

    /// The child.
    #[must_use]
    pub const fn leader(&self) -> Pid {
        self.0
    }

    /// Kills the group. Must not be called after the child was reaped and the group is empty: its
    /// id can then belong to another group.
    pub fn kill(&self) {
        // ESRCH is the expected error: the group is empty.
        let _ = killpg(self.0, Signal::SIGKILL);
    }
}

/// The id of a child.
///
/// # Panics
/// Never: each pid fits into `pid_t`.
#[must_use]
pub fn child_pid(child: &std::process::Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a pid fits into pid_t"))
}

/// Sends SIGTERM to a child.
pub fn ask_to_end(child: Pid) {
    let _ = kill(child, Signal::SIGTERM);
}

/// Kills one child.
///
/// # Errors
/// If it cannot be killed: `NotFound` if it does not exist.
pub fn kill_child(child: Pid) -> std::io::Result<()> {
    kill(child, Signal::SIGKILL).map_err(|error| match error {
        Errno::ESRCH => std::io::ErrorKind::NotFound.into(),
        error => error.into(),
    })
}

/// Reaps a child that has ended; returns whether there was one.
#[must_use]
pub fn reap(child: Pid) -> bool {
    waitpid(child, Some(WaitPidFlag::WNOHANG)).is_ok()
}

/// The number of the signal that has ended a process.
#[must_use]
pub fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// The read end of a pipe that a child writes to.
pub type Pipe = pipe::Receiver;

/// The pipe of a child's standard output.
///
/// # Errors
/// If it cannot be registered with the runtime.
pub fn stdout_pipe(stdout: ChildStdout) -> std::io::Result<Pipe> {
    stdout.into_owned_fd().and_then(Pipe::from_owned_fd)
}

/// The pipe of a child's standard error.
///
/// # Errors
/// If it cannot be registered with the runtime.
pub fn stderr_pipe(stderr: ChildStderr) -> std::io::Result<Pipe> {
    stderr.into_owned_fd().and_then(Pipe::from_owned_fd)
}

/// Does not read a pipe for the duration of `pause`, or until it has no writers left. It is
/// deregistered from the runtime meanwhile, so that writes do not wake it.
///
/// # Errors
/// If it cannot be registered with the runtime again.
pub async fn rest(pipe: Pipe, pause: Duration) -> std::io::Result<Pipe> {
    let pipe = pipe.into_nonblocking_fd()?;
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = abandoned(&pipe) => {}
    }
    Pipe::from_owned_fd(pipe)
}

/// Gives this process a session of its own, so that it has no terminal and gets none of its signals.
///
/// # Errors
/// If it leads a process group already.
pub fn new_session() -> std::io::Result<()> {
    nix::unistd::setsid()?;
    Ok(())
}

/// Ends this process when its parent is gone, because no other process would stop it.
///
/// Polling is portable and has no race with a parent that died before. Linux's `PR_SET_PDEATHSIG`
/// fires when the *thread* that started the child ends, which may be long before the runner's end,
/// and the pipe of standard input is closed as soon as the task is written.
pub fn end_with(parent: u32) {
    std::thread::spawn(move || {
        while u32::try_from(nix::unistd::getppid().as_raw()).is_ok_and(|pid| pid == parent) {
            std::thread::sleep(PARENT_CHECK);
        }
        // The work of this process cannot be interrupted, and does not need a destructor.
        let _ = nix::sys::signal::raise(Signal::SIGKILL);
    });
}

/// Ignores SIGXFSZ, so that a write beyond the job's limit for files fails: the signal would end
/// this process without a reason.
#[expect(unsafe_code, reason = "signal dispositions can be changed in no other way")]
pub fn bear_limits() {
    use nix::sys::signal::{SigHandler, signal};

    // SAFETY: ignoring a signal installs no handler that could be called.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn pause_ends_with_the_last_writer_and_not_with_a_write() {
        let (pipe, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"written before").unwrap();
        let pipe = Pipe::from_owned_fd(pipe.into()).unwrap();
        let resting = rest(pipe, Duration::from_hours(1));
        tokio::pin!(resting);
        assert!(futures_util::poll!(&mut resting).is_pending());
        writer.write_all(b", and meanwhile").unwrap();
        // Yields to the runtime, so that it processes its events.
        tokio::task::yield_now().await;
        assert!(futures_util::poll!(&mut resting).is_pending());
        drop(writer);
        let pipe = resting.await.unwrap();
        pipe.readable().await.unwrap();
        let mut read = [0; 64];
        assert_eq!(pipe.try_read(&mut read).unwrap(), 29);
    }
}
