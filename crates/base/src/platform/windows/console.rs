//! The console of this process, and the kind of its outputs.
#![expect(unsafe_code, reason = "Windows tells what a handle is by C functions only")]

use std::io::IsTerminal;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};

use windows_sys::Win32::Foundation::CompareObjectHandles;
use windows_sys::Win32::Storage::FileSystem::{FILE_TYPE_DISK, FILE_TYPE_PIPE, GetFileType};
use windows_sys::Win32::System::Console::{AllocConsole, GetConsoleCP, GetConsoleWindow};
use windows_sys::Win32::UI::WindowsAndMessaging::{SW_HIDE, ShowWindow};

use crate::platform::Change;

/// Ensures that this process has a console: without one, it cannot ask a child to end. A process
/// without a console gets a hidden one.
///
/// # Errors
/// If a console cannot be created.
pub(super) fn ensure_console() -> std::io::Result<()> {
    // SAFETY: these calls do not take memory of the caller; hiding a missing window has no effect.
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

/// Always true: shells do not have background jobs.
#[must_use]
pub fn is_in_foreground() -> bool {
    true
}

fn kind(output: BorrowedHandle<'_>) -> u32 {
    // SAFETY: the handle is open.
    unsafe { GetFileType(output.as_raw_handle()) }
}

/// Whether only this process writes the lines of standard output to the console: a pipe may lead to
/// `tee`, whose lines would break the live line.
#[must_use]
pub fn is_apart(stdout: impl AsHandle, stderr: impl AsHandle) -> bool {
    let (stdout, stderr) = (stdout.as_handle(), stderr.as_handle());
    (stdout.is_terminal() && stderr.is_terminal()) || kind(stdout) == FILE_TYPE_DISK
}

/// Whether the CI system itself reads `stderr`: a pipe, and a different one than `stdout`, as in a
/// step of a job.
#[must_use]
pub fn is_the_platforms(stdout: impl AsHandle, stderr: impl AsHandle) -> bool {
    let (stdout, stderr) = (stdout.as_handle(), stderr.as_handle());
    // SAFETY: both handles are open.
    let is_shared =
        unsafe { CompareObjectHandles(stdout.as_raw_handle(), stderr.as_raw_handle()) } != 0;
    kind(stderr) == FILE_TYPE_PIPE && !is_shared
}

/// The events of the console.
#[derive(Debug)]
pub struct Changes(());

impl Changes {
    /// Always `None`: Windows does not report a change of size; the next drawing reads it.
    #[must_use]
    pub fn watch() -> Option<Self> {
        None
    }

    /// Never completes.
    pub async fn next(&mut self) -> Option<Change> {
        std::future::pending().await
    }
}

/// No effect: processes are not suspended.
pub fn suspend() {}

/// No effect: unread input remains.
pub fn forget_typed() {}

/// Reads one line from the console; none at the end of the input. A thread waits for it, and
/// continues to wait if the caller does not.
///
/// # Errors
/// If it cannot be read.
pub async fn typed_line() -> std::io::Result<Option<String>> {
    let (typed, line) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("answer".to_owned()).spawn(move || {
        let mut text = String::new();
        let read = std::io::stdin().read_line(&mut text);
        let _ = typed.send(read.map(|count| (count > 0).then_some(text)));
    })?;
    line.await.unwrap_or(Ok(None))
}
