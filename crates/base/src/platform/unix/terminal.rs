//! The terminal of this process, and the kind of its outputs.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use nix::sys::signal::Signal;
use nix::sys::termios::FlushArg;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::signals::{act_by_default, is_ignored};
use crate::platform::Change;

/// The longest line of a terminal, in bytes.
const LONGEST_LINE: usize = 4096;

/// Whether this process is in the foreground of the terminal: after `bg` the shell is. True if that
/// is unknown.
#[must_use]
pub fn is_in_foreground() -> bool {
    let foreground = nix::unistd::tcgetpgrp(std::io::stderr().as_fd());
    foreground.map_or(true, |group| group.as_raw() <= 0 || group == nix::unistd::getpgrp())
}

/// Whether only this process writes the lines of standard output to the terminal: a pipe may lead
/// to `tee`, whose lines would break the live line.
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

/// Whether the CI system itself reads `stderr`: a pipe or a socket, and a different one than
/// `stdout`, as in a step of a job. With `| tee`, `$(...)` and `2>&1` it is not, and in a file or
/// on a screen, workflow commands would show the secrets that they are to hide.
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

/// The events of the terminal.
#[derive(Debug)]
pub struct Changes {
    size: Stream,
    suspension: Option<Stream>,
}

impl Changes {
    /// Watches them. None if that is not possible.
    #[must_use]
    pub fn watch() -> Option<Self> {
        // A watched signal is not ignored any more.
        let suspension = if is_ignored(Signal::SIGTSTP) {
            None
        } else {
            Some(signal(SignalKind::from_raw(Signal::SIGTSTP as i32)).ok()?)
        };
        Some(Self { size: signal(SignalKind::window_change()).ok()?, suspension })
    }

    /// The next event; none if none can arrive any more.
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

/// Discards unread input of the terminal: it cannot be the answer to a question that was not asked
/// yet.
pub fn forget_typed() {
    // Fails if standard input is not a terminal, which does not have such input.
    let _ = nix::sys::termios::tcflush(std::io::stdin().as_fd(), FlushArg::TCIFLUSH);
}

/// Reads one line from the terminal on standard input; none at the end of the input. Can be
/// cancelled by dropping it.
///
/// # Errors
/// If it cannot be read.
#[expect(unsafe_code, reason = "tokio cannot know that a descriptor stays open")]
pub async fn typed_line() -> std::io::Result<Option<String>> {
    let stdin = std::io::stdin();
    // SAFETY: no code in this process closes its standard input.
    let ready = unsafe { AsyncFd::register_with_interest(stdin.as_fd(), Interest::READABLE) }?;
    let mut line = vec![0; LONGEST_LINE];
    loop {
        let _ready = ready.readable().await?;
        // A terminal returns whole lines, so that this does not block.
        match nix::unistd::read(stdin.as_fd(), &mut line) {
            Ok(0) => return Ok(None),
            Ok(count) => return Ok(Some(String::from_utf8_lossy(&line[..count]).into_owned())),
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Suspends this process with the signal's default action: the kernel knows whether a shell will
/// continue it, and does not suspend it without one.
pub fn suspend() {
    act_by_default(Signal::SIGTSTP);
}
