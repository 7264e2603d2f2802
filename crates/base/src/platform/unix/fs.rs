//! Modes, owners, devices and links of files on Unix.

use std::fs::{File, Metadata, TryLockError};
use std::path::Path;

pub use nix::fcntl::OFlag;
pub use nix::unistd::AccessFlags;
pub use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};

/// Whether a change of a file is always visible in its times: only root can set back the change
/// time.
pub const CHANGES_SHOW: bool = true;

/// Whether this user has `access` to the file at `path`.
///
/// # Errors
/// If it does not exist, or the user does not have access.
pub fn access(path: &Path, wanted: AccessFlags) -> std::io::Result<()> {
    nix::unistd::access(path, wanted).map_err(std::io::Error::from)
}

/// The user of this process, as the owner of files.
#[must_use]
pub fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Whether `path` still refers to `file`, and not through a link.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Whether the file at `path` with the metadata `found` has other hard links.
///
/// # Errors
/// Never on Unix.
pub fn has_other_names(_: &Path, found: &Metadata) -> std::io::Result<bool> {
    Ok(found.nlink() > 1)
}

/// Removes a file, even if it is read-only.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_file(path: &Path) -> std::io::Result<()> {
    std::fs::remove_file(path)
}

/// Opens a directory, to lock or to sync it.
///
/// # Errors
/// If it cannot be opened.
pub fn open_directory(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

/// Takes an exclusive lock on a file, which is held until it is closed.
///
/// # Errors
/// If another process has a lock on it, or the file system does not support locks.
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

/// Takes a shared lock on a file, which is held until it is closed.
///
/// # Errors
/// If another process has an exclusive lock, or the file system does not support locks.
pub fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    file.try_lock_shared()
}

/// Removes the access of other users to a directory of mode 0700: the mode already has.
///
/// # Errors
/// Never on Unix.
pub fn close_to_others(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Makes the private directory `target` available as `name`: a symbolic link.
///
/// # Errors
/// If `name` exists or cannot be created.
pub fn name_directory(target: &Path, name: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, name)
}

/// Creates the symbolic link `link` of a checkout, with the text `target`.
///
/// # Errors
/// If `link` exists or cannot be created.
pub fn check_out_link(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Makes this user the owner of a file that a program of another user has written. A link is not followed.
///
/// # Errors
/// If the owner cannot be changed.
pub fn take_ownership(path: &Path) -> std::io::Result<()> {
    if std::fs::symlink_metadata(path)?.uid() == user() {
        return Ok(());
    }
    std::os::unix::fs::lchown(path, Some(user()), Some(nix::unistd::getegid().as_raw()))
}

/// Writes the names in a directory to the disk.
///
/// # Errors
/// If they cannot be written.
pub fn sync_directory(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}
