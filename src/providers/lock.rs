//! Locks that other processes with the same cache wait for. A lock ends when it is dropped or when
//! the process ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use butler_base::platform::fs::{OFlag, OpenOptionsExt, try_lock};

use butler_base::pace::jittered;

/// The time between two attempts, short compared with a download.
const INTERVAL: Duration = Duration::from_millis(100);

/// Locks the file at `path`, which is created if it is missing; calls `waits` once if another process
/// has the lock. It has no timeout: the caller must set one.
///
/// # Errors
/// When there can be no such file, or no lock on it.
pub(super) async fn acquire(path: &Path, waits: impl FnOnce()) -> io::Result<File> {
    let file = open(path)?;
    let mut waits = Some(waits);
    loop {
        match try_lock(&file) {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                if let Some(waits) = waits.take() {
                    waits();
                }
                tokio::time::sleep(jittered(INTERVAL)).await;
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Locks the file at `path`, unless another process has the lock.
pub(super) fn try_acquire(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    try_lock(&file)?;
    Ok(file)
}

/// Opens a lock file, which others may share: to lock it, reading is enough. A pipe is refused
/// without waiting for its other end.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags);
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            options.write(true).create(true).mode(0o644).open(path)?
        }
        opened => opened?,
    };
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "the lock file is not a regular file"))
    }
}
