//! The output of a bundle: a directory has one writer at a time; a tar is built in a directory of
//! its own next to it. The next process removes what killed processes left of either.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::{BundleError, cannot_write};
use butler_base::pace::jittered;
use butler_base::platform::fs::{is_at, open_directory, try_lock};

/// The prefix of directories in which a tar is built.
const STAGING_PREFIX: &str = ".butler-bundle-";

/// The prefix of files that are being written.
pub(super) const UNFINISHED: &str = ".butler-unfinished-";

/// The time between two attempts to get the lock.
const INTERVAL: Duration = Duration::from_millis(100);

/// The right to write to a directory; it ends when this is dropped, or with the process.
pub(super) struct Lock(#[expect(dead_code, reason = "it is there to be dropped")] File);

/// Locks `root`, which is created if it is missing, and waits while another process has the lock.
pub(super) async fn lock_directory(
    root: &Path,
    longest: Duration,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Lock, BundleError> {
    std::fs::create_dir_all(root).map_err(cannot_write(root))?;
    let directory = open_directory(root).map_err(cannot_write(root))?;
    let deadline = Instant::now() + longest;
    let mut is_reported = false;
    loop {
        match try_lock(&directory) {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => {
                tracing::warn!(path = %root.display(), %error, "cannot lock the file; continuing without a lock");
                break;
            }
            Err(TryLockError::WouldBlock) => {}
        }
        if Instant::now() >= deadline {
            return Err(BundleError::Busy { path: root.to_owned() });
        }
        if !is_reported {
            is_reported = true;
            progress(&format!("waiting for another process that writes to {}", root.display()));
        }
        tokio::time::sleep(jittered(INTERVAL)).await;
    }
    Ok(Lock(directory))
}

/// A directory that is deleted when this is dropped. While its lock is held, other processes do not
/// treat it as left over.
pub(super) struct StagingDirectory {
    directory: TempDir,
    _lock: File,
}

impl StagingDirectory {
    /// Creates one in `parent`, on the file system of the output, and removes those of killed processes.
    pub(super) fn beside(parent: &Path) -> io::Result<Self> {
        remove_leftovers(parent);
        loop {
            let directory = tempfile::Builder::new().prefix(STAGING_PREFIX).tempdir_in(parent)?;
            let lock = open_directory(directory.path())?;
            // On a file system without locks, `remove_leftovers` does not get one either.
            let _ = lock.lock();
            if is_at(&lock, directory.path()) {
                return Ok(Self { directory, _lock: lock });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Deletes what killed processes left in `parent`.
fn remove_leftovers(parent: &Path) {
    for path in entries_with_prefix(parent, STAGING_PREFIX) {
        let Ok(lock) = open_directory(&path) else { continue };
        if path.is_dir() && try_lock(&lock).is_ok() {
            // A leftover only takes space.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// The entries of `directory` with this prefix, except links.
fn entries_with_prefix(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix))
            && entry.file_type().is_ok_and(|kind| !kind.is_symlink())
    });
    entries.map(|entry| entry.path()).collect()
}

/// Writes a file that all users may read: to a temporary file that is synced and renamed. Needs the
/// lock of the directory that the bundle is in.
pub(super) fn write(
    path: &Path,
    content: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    use butler_base::platform::fs::PermissionsExt;
    let directory = path.parent().unwrap_or(path);
    for left in entries_with_prefix(directory, UNFINISHED) {
        let _ = std::fs::remove_file(left);
    }
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(directory)?;
    content(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Writes everything below `root` to a tar. The same files make the same tar: it has no user names
/// and no times, and its entries are sorted.
pub(super) fn write_tar(
    root: &Path,
    file: &mut File,
    abandoned: &CancellationToken,
) -> io::Result<()> {
    let mut tar = tar::Builder::new(file);
    tar.mode(tar::HeaderMode::Deterministic);
    append(&mut tar, root, Path::new(""), abandoned)?;
    tar.finish()
}

fn append(
    tar: &mut tar::Builder<impl Write>,
    root: &Path,
    directory: &Path,
    abandoned: &CancellationToken,
) -> io::Result<()> {
    let entries = std::fs::read_dir(root.join(directory))?;
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if abandoned.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let name = directory.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            tar.append_dir(&name, entry.path())?;
            append(tar, root, &name, abandoned)?;
        } else {
            tar.append_path_with_name(entry.path(), &name)?;
        }
    }
    Ok(())
}
