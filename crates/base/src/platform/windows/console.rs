//! The console of this process, and what its outputs are.
#![expect(unsafe_code, reason = "Windows tells what a handle is by C functions only")]

use std::io::IsTerminal;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};

use windows_sys::Win32::Foundation::CompareObjectHandles;
use windows_sys::Win32::Storage::FileSystem::{FILE_TYPE_DISK, FILE_TYPE_PIPE, GetFileType};
use windows_sys::Win32::System::Console::{AllocConsole, GetConsoleCP, GetConsoleWindow};
use windows_sys::Win32::UI::WindowsAndMessaging::{SW_HIDE, ShowWindow};

use crate::platform::Change;

/// Makes sure that there is a console: without one, no child can be asked to end. Who starts this
/// process detached from any gets one that nobody sees.
///
/// # Errors
/// When there can be none.
pub(super) fn ensure_console() -> std::io::Result<()> {
    // SAFETY: these calls take no memory of ours; hiding no window does nothing.
    unsafe {
        if GetConsoleCP() != 0 {
            return Ok(());
        }
        if AllocConsole() == 0 {
            return Err(std::io::Error::last_os_error());
        }
        ShowWindow(GetConsoleWindow(), SW_HIDE);
    }
    Ok(())
}

/// There are no jobs that a shell puts into the background.
#[must_use]
pub fn is_in_foreground() -> bool {
    true
}

fn kind(output: BorrowedHandle<'_>) -> u32 {
    // SAFETY: the handle is open.
    unsafe { GetFileType(output.as_raw_handle()) }
}

/// Whether nobody but this process writes standard output's lines on the console: behind a pipe
/// may be a `tee`, whose lines would stand in the live line.
#[must_use]
pub fn is_apart(stdout: impl AsHandle, stderr: impl AsHandle) -> bool {
    let (stdout, stderr) = (stdout.as_handle(), stderr.as_handle());
    (stdout.is_terminal() && stderr.is_terminal()) || kind(stdout) == FILE_TYPE_DISK
}

/// Whether `stderr` can be what the CI system itself reads: a pipe, and not the one of `stdout`. Both
/// are its own, one each, in a step of a job.
#[must_use]
pub fn is_the_platforms(stdout: impl AsHandle, stderr: impl AsHandle) -> bool {
    let (stdout, stderr) = (stdout.as_handle(), stderr.as_handle());
    // SAFETY: both handles are open.
    let is_shared =
        unsafe { CompareObjectHandles(stdout.as_raw_handle(), stderr.as_raw_handle()) } != 0;
    kind(stderr) == FILE_TYPE_PIPE && !is_shared
}

/// What happens to the console.
#[derive(Debug)]
pub struct Changes(());

impl Changes {
    /// A change of the size is no event: it is seen when the line is drawn the next time.
    #[must_use]
    pub fn watch() -> Option<Self> {
        None
    }

    /// Never.
    pub async fn next(&mut self) -> Option<Change> {
        std::future::pending().await
    }
}

/// Nothing suspends a process here.
pub fn suspend() {}

/// What was typed stays.
pub fn forget_typed() {}

/// One line that is typed at the console; none when its end is typed. A thread waits for it, which
/// ends with the process when nobody waits for the line any more.
///
/// # Errors
/// When it cannot be read.
pub async fn typed_line() -> std::io::Result<Option<String>> {
    let (typed, line) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("answer".to_owned()).spawn(move || {
        let mut text = String::new();
        let read = std::io::stdin().read_line(&mut text);
        let _ = typed.send(read.map(|count| (count > 0).then_some(text)));
    })?;
    line.await.unwrap_or(Ok(None))
}
