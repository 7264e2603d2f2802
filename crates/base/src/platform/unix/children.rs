//! Child processes: their process groups, their pipes, and how they are asked to end.

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

/// How soon an orphan notices.
const PARENT_CHECK: Duration = Duration::from_millis(250);

/// Runs `command` in the place of this process.
///
/// # Errors
/// When it cannot be started; otherwise this does not return.
pub fn replace_process(mut command: std::process::Command) -> std::io::Result<u8> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

/// A child with what it starts: its process group, unless something leaves that.
#[derive(Debug)]
pub struct Family(Pid);

impl Family {
    /// Has the child of `builder` begin a family.
    pub fn prepare(builder: &mut Command) {
        builder.process_group(0);
    }

    /// The family of a child that was prepared for it and has not been waited for.
    ///
    /// # Errors
    /// Never, here.
    ///
    /// # Panics
    /// Where the child has been waited for.
    pub fn of(child: &Child) -> std::io::Result<Self> {
        let id = child.id().expect("a child that was not waited for has a pid");
        Ok(Self(Pid::from_raw(i32::try_from(id).expect("a pid fits into pid_t"))))
    }

    /// The child.
    #[must_use]
    pub const fn leader(&self) -> Pid {
        self.0
    }

    /// Kills all of it. The number of an empty group may soon be somebody else's: not once the child
    /// has been waited for and all others are gone.
    pub fn kill(&self) {
        // ESRCH is the good case: nobody is left.
        let _ = killpg(self.0, Signal::SIGKILL);
    }
}

/// Asks a child to end, by SIGTERM.
pub fn ask_to_end(child: Pid) {
    let _ = kill(child, Signal::SIGTERM);
}

/// Kills one child.
///
/// # Errors
/// When it cannot be killed: `NotFound` where it is gone.
pub fn kill_child(child: Pid) -> std::io::Result<()> {
    kill(child, Signal::SIGKILL).map_err(|error| match error {
        Errno::ESRCH => std::io::ErrorKind::NotFound.into(),
        error => error.into(),
    })
}

/// Takes the exit status of a child that has ended; returns whether there is such a child.
#[must_use]
pub fn reap(child: Pid) -> bool {
    waitpid(child, Some(WaitPidFlag::WNOHANG)).is_ok()
}

/// The number of the signal that has ended a process.
#[must_use]
pub fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// The end of a pipe that a child writes to.
pub type Pipe = pipe::Receiver;

/// The pipe of a child's standard output.
///
/// # Errors
/// When the runtime cannot watch it.
pub fn stdout_pipe(stdout: ChildStdout) -> std::io::Result<Pipe> {
    stdout.into_owned_fd().and_then(Pipe::from_owned_fd)
}

/// The pipe of a child's standard error.
///
/// # Errors
/// When the runtime cannot watch it.
pub fn stderr_pipe(stderr: ChildStderr) -> std::io::Result<Pipe> {
    stderr.into_owned_fd().and_then(Pipe::from_owned_fd)
}

/// Leaves a pipe alone for as long as `pause`, or until nobody writes to it any more. It is taken from
/// the runtime meanwhile, which the kernel would wake for all that is written.
///
/// # Errors
/// When the runtime cannot watch it any more.
pub async fn rest(pipe: Pipe, pause: Duration) -> std::io::Result<Pipe> {
    let pipe = pipe.into_nonblocking_fd()?;
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = abandoned(&pipe) => {}
    }
    Pipe::from_owned_fd(pipe)
}

/// Ends this process when its parent is gone: nobody would stop it any more.
///
/// Asking is portable and has no race with a parent that died before. Linux's `PR_SET_PDEATHSIG`
/// fires when the *thread* that started the child ends, which need not be the runner's end, and
/// the pipe of standard input is closed as soon as the task is written.
pub fn end_with(parent: u32) {
    std::thread::spawn(move || {
        while u32::try_from(nix::unistd::getppid().as_raw()).is_ok_and(|pid| pid == parent) {
            std::thread::sleep(PARENT_CHECK);
        }
        // What this process does cannot be asked to stop, and needs no destructor.
        let _ = nix::sys::signal::raise(Signal::SIGKILL);
    });
}

/// Has a write fail that would make a file larger than the job's limit: the signal for it would end
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
    async fn a_rest_ends_with_the_last_who_writes_and_not_with_what_is_written() {
        let (pipe, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"written before").unwrap();
        let pipe = Pipe::from_owned_fd(pipe.into()).unwrap();
        let resting = rest(pipe, Duration::from_hours(1));
        tokio::pin!(resting);
        assert!(futures_util::poll!(&mut resting).is_pending());
        writer.write_all(b", and meanwhile").unwrap();
        // Gives the runtime a turn, in which it hears of everything that it has asked for.
        tokio::task::yield_now().await;
        assert!(futures_util::poll!(&mut resting).is_pending());
        drop(writer);
        let pipe = resting.await.unwrap();
        pipe.readable().await.unwrap();
        let mut read = [0; 64];
        assert_eq!(pipe.try_read(&mut read).unwrap(), 29);
    }
}
