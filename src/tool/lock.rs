//! One lock a version, so that runs that want the same one download it once.
//!
//! The lock spares work, it does not guard correctness: an installation is put in place by one
//! rename. So a file system that knows no locks costs a warning and perhaps a second download.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// How often it is tried again: soon enough not to be felt beside a download.
const INTERVAL: Duration = Duration::from_millis(100);

/// How long another run may hold the lock: longer than it may take for one archive.
const LONGEST: Duration = Duration::from_mins(30);

/// The right to install one version; it ends when this is dropped, or with the process.
#[derive(Debug)]
pub(super) struct VersionLock {
    /// None where the file system knows no locks.
    _file: Option<File>,
}

/// Takes the lock whose file is `path`; calls `waits` once if somebody else has it.
/// Fails with [`io::ErrorKind::TimedOut`] when that takes too long.
pub(super) async fn acquire(path: &Path, waits: impl FnOnce()) -> io::Result<VersionLock> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
        .open(path)?;
    let mut waits = Some(waits);
    let polling = async {
        loop {
            match file.try_lock() {
                Ok(()) => return true,
                Err(TryLockError::WouldBlock) => {
                    if let Some(waits) = waits.take() {
                        waits();
                    }
                    tokio::time::sleep(INTERVAL).await;
                }
                Err(TryLockError::Error(error)) => {
                    tracing::warn!(path = %path.display(), %error, "cannot lock; going on without");
                    return false;
                }
            }
        }
    };
    match tokio::time::timeout(LONGEST, polling).await {
        Ok(locked) => Ok(VersionLock { _file: locked.then_some(file) }),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn second_one_waits_for_the_first_and_says_so_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = Cell::new(Some(acquire(&path, || panic!("nobody has it")).await.unwrap()));
        let said = Cell::new(0);
        let second = acquire(&path, || {
            said.set(said.get() + 1);
            drop(first.take());
        });
        second.await.unwrap();
        assert_eq!(said.get(), 1);
    }
}
