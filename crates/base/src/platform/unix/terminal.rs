//! The terminal of this process, and what its outputs are.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use nix::sys::signal::Signal;
use nix::sys::termios::FlushArg;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::signals::{act_by_default, is_ignored};
use crate::platform::Change;

/// The longest line that a terminal hands over, in bytes.
const LONGEST_LINE: usize = 4096;

/// Whether the terminal is this process's own now: after `bg` it is the shell's. Where nobody knows,
/// it is.
#[must_use]
pub fn is_in_foreground() -> bool {
    let foreground = nix::unistd::tcgetpgrp(std::io::stderr().as_fd());
    foreground.map_or(true, |group| group.as_raw() <= 0 || group == nix::unistd::getpgrp())
}

/// Whether nobody but this process writes standard output's lines on the terminal: behind a pipe
/// may be a `tee`, whose lines would stand in the live line.
#[must_use]
pub fn is_apart(stdout: impl AsFd, stderr: impl AsFd) -> bool {
    let (Some(stdout), Some(stderr)) = (metadata(stdout.as_fd()), metadata(stderr.as_fd())) else {
        return false;
    };
    let kind = stdout.file_type();
    let is_terminal = kind.is_char_device() && stdout.rdev() == stderr.rdev();
    is_terminal || kind.is_file() || (kind.is_char_device() && is_null(&stdout))
}

fn is_null(output: &std::fs::Metadata) -> bool {
    std::fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == output.rdev())
}

/// Whether `stderr` can be what the CI system itself reads: a pipe or a socket, and not the one of
/// `stdout`. Both are its own, one each, in a step of a job; `| tee`, `$(...)` and `2>&1` leave
/// something else, and in a file or on a screen commands would show what they are to hide.
#[must_use]
pub fn is_the_platforms(stdout: impl AsFd, stderr: impl AsFd) -> bool {
    let (stdout, stderr) = (metadata(stdout.as_fd()), metadata(stderr.as_fd()));
    stderr.is_some_and(|stderr| {
        let kind = stderr.file_type();
        let place = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
        let shared = stdout.is_some_and(|stdout| place(&stdout) == place(&stderr));
        (kind.is_fifo() || kind.is_socket()) && !shared
    })
}

fn metadata(output: BorrowedFd<'_>) -> Option<std::fs::Metadata> {
    let file = output.try_clone_to_owned().map(std::fs::File::from);
    file.and_then(|file| file.metadata()).ok()
}

/// What happens to the terminal.
#[derive(Debug)]
pub struct Changes {
    size: Stream,
    suspension: Option<Stream>,
}

impl Changes {
    /// Watches for it. None where that cannot be.
    #[must_use]
    pub fn watch() -> Option<Self> {
        // Watching for it is as good as not ignoring it.
        let suspension = if is_ignored(Signal::SIGTSTP) {
            None
        } else {
            Some(signal(SignalKind::from_raw(Signal::SIGTSTP as i32)).ok()?)
        };
        Some(Self { size: signal(SignalKind::window_change()).ok()?, suspension })
    }

    /// The next change; none where none can come any more.
    pub async fn next(&mut self) -> Option<Change> {
        let suspension = async {
            match &mut self.suspension {
                Some(suspension) => suspension.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(()) = self.size.recv() => Some(Change::Size),
            Some(()) = suspension => Some(Change::Suspension),
            else => None,
        }
    }
}

/// Forgets what was typed at the terminal on standard input and was not read: it is no answer to a
/// question that was not asked yet.
pub fn forget_typed() {
    // What is no terminal has nothing to forget.
    let _ = nix::sys::termios::tcflush(std::io::stdin().as_fd(), FlushArg::TCIFLUSH);
}

/// One line that is typed at the terminal on standard input; none when its end is typed. Can be
/// dropped: nothing waits behind its back.
///
/// # Errors
/// When it cannot be read.
#[expect(unsafe_code, reason = "tokio cannot know that a descriptor stays open")]
pub async fn typed_line() -> std::io::Result<Option<String>> {
    let stdin = std::io::stdin();
    // SAFETY: nothing in this process closes its standard input.
    let ready = unsafe { AsyncFd::register_with_interest(stdin.as_fd(), Interest::READABLE) }?;
    let mut line = vec![0; LONGEST_LINE];
    loop {
        let _ready = ready.readable().await?;
        // A terminal hands over whole lines, so that this does not wait.
        match nix::unistd::read(stdin.as_fd(), &mut line) {
            Ok(0) => return Ok(None),
            Ok(count) => return Ok(Some(String::from_utf8_lossy(&line[..count]).into_owned())),
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Stops this process as if nobody had watched for the signal: the kernel knows whether there is a
/// shell that will continue it, and does not stop it where there is none.
pub fn suspend() {
    act_by_default(Signal::SIGTSTP);
}
