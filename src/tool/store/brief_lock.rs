//! Locks for small files of the cache that are held only while the file is rewritten.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::tool::store::error::CacheError;
use butler_base::platform::fs::{OFlag, OpenOptionsExt, is_at, try_lock};

/// How often the lock is tried. A writer holds it for a few milliseconds, and a stopped process must
/// not block others.
const ATTEMPTS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(5);

/// Locks the file at `path` until the returned file is dropped, and creates it if it is missing.
/// Blocks for a few seconds at most.
pub(in crate::tool) fn lock_briefly(path: &Path) -> Result<File, CacheError> {
    for _ in 0..ATTEMPTS {
        let file = open_lock_file(path)
            .map_err(|source| CacheError::Write { path: path.to_owned(), source })?;
        match try_lock(&file) {
            // A writer may have replaced the file after it was opened: only a lock on the file that
            // is at `path` counts.
            Ok(()) if is_at(&file, path) => return Ok(file),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            // On a file system without locks, the last of several concurrent writers wins.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
    Err(CacheError::Held { path: path.to_owned(), waited: PAUSE * ATTEMPTS })
}

/// Opens a lock file that only this user can lock, and creates it if it is missing.
pub(in crate::tool) fn open_lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)
}
