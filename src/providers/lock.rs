//! Locks that others of the same cache wait for; they end when they are dropped, or with the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// How often it is tried again: soon enough not to be felt beside a download.
const INTERVAL: Duration = Duration::from_millis(100);

/// Locks the file at `path`, which is made where it is missing; calls `waits` once if somebody else
/// has it. Waits for ever: bound it.
///
/// # Errors
/// When there can be no such file, or no lock on it.
pub(super) async fn acquire(path: &Path, waits: impl FnOnce()) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
        .open(path)?;
    let mut waits = Some(waits);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                if let Some(waits) = waits.take() {
                    waits();
                }
                tokio::time::sleep(INTERVAL).await;
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
