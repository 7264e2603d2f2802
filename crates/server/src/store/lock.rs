//! The lock that keeps a second server away from a store.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use butler_base::platform::fs::{self as platform, OpenOptionsExt};

use crate::store::{StoreError, StoreResult};

/// How long a server waits for the lock. A child that a killed server was about to start has inherited the lock
/// until it executes its program, so a server that is started at once would find it taken.
const PATIENCE: Duration = Duration::from_secs(3);

/// The time between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(20);

/// A lock on the file beside the store. The operating system frees it when the process ends.
#[derive(Debug)]
pub(super) struct StoreLock(#[expect(dead_code, reason = "held until it is dropped")] File);

impl StoreLock {
    /// Takes the lock, and writes into its file who holds it.
    ///
    /// # Errors
    /// If another process has the lock for three seconds, or the file cannot be written.
    pub(super) fn take(store: &Path) -> StoreResult<Self> {
        let begun = Instant::now();
        Self::take_after(store, || {
            std::thread::sleep(PAUSE);
            begun.elapsed() < PATIENCE
        })
    }

    /// Takes the lock. While another process has it, tries again as long as `wait` returns true.
    fn take_after(store: &Path, mut wait: impl FnMut() -> bool) -> StoreResult<Self> {
        let path = path(store);
        let failed =
            |error: std::io::Error| StoreError::Open { path: path.clone(), why: error.to_string() };
        let mut file = open_private(&path).map_err(failed)?;
        let taken = loop {
            match platform::try_lock(&file) {
                Err(TryLockError::WouldBlock) if wait() => {}
                taken => break taken,
            }
        };
        match taken {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Without a text, the error does not name the process.
                let _ = file.read_to_string(&mut holder);
                let holder = match holder.trim() {
                    "" => "another process".to_owned(),
                    holder => holder.to_owned(),
                };
                return Err(StoreError::InUse { path: store.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let holder = format!("process {}", std::process::id());
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(holder.as_bytes()))
            .map_err(failed)?;
        Ok(Self(file))
    }
}

/// The file that is locked for a store.
fn path(store: &Path) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// Opens a file for reading and writing. If it is created, only its owner may read it.
pub(super) fn open_private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_of_a_process_that_ends_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store.sqlite");
        let mut first = Some(StoreLock::take(&store).unwrap());
        let mut waits = 0;
        let second = StoreLock::take_after(&store, || {
            waits += 1;
            first = None;
            true
        });
        assert!(second.is_ok() && waits == 1, "{second:?}");
        let third = StoreLock::take_after(&store, || false).unwrap_err().to_string();
        assert!(third.contains("is used by process"), "{third}");
    }
}
