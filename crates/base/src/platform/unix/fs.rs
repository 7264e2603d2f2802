//! Files as Unix has them: modes, owners, devices, links.

use std::fs::{File, Metadata, TryLockError};
use std::path::Path;

pub use nix::fcntl::OFlag;
pub use nix::unistd::AccessFlags;
pub use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};

/// Whether a file that was changed cannot look as it did: only root sets back the time of the last
/// change of its entry.
pub const CHANGES_SHOW: bool = true;

/// Whether this user may do so with the file at `path`.
///
/// # Errors
/// When it is missing, or the user may not.
pub fn access(path: &Path, wanted: AccessFlags) -> std::io::Result<()> {
    nix::unistd::access(path, wanted).map_err(std::io::Error::from)
}

/// The user of this process, as files know their owners.
#[must_use]
pub fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Whether `path` still leads to `file`, itself and not through a link.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Whether the file at `path`, of which `found` is known, has other names.
///
/// # Errors
/// Never, here.
pub fn has_other_names(_: &Path, found: &Metadata) -> std::io::Result<bool> {
    Ok(found.nlink() > 1)
}

/// Removes a file, read-only ones too.
///
/// # Errors
/// When it cannot be removed.
pub fn remove_file(path: &Path) -> std::io::Result<()> {
    std::fs::remove_file(path)
}

/// Opens a directory, to lock or to sync it.
///
/// # Errors
/// When it cannot be opened.
pub fn open_directory(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

/// Locks a file for its holder alone, until it is closed.
///
/// # Errors
/// When somebody else has a lock on it, or there are none.
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

/// Locks a file for all that share it, until it is closed.
///
/// # Errors
/// When somebody has it for himself, or there are no locks.
pub fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    file.try_lock_shared()
}

/// Takes everybody else's access to a directory of mode 0700 away: the mode has done so.
///
/// # Errors
/// Never, here.
pub fn close_to_others(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Has the private directory `target` be known as `name`: a link.
///
/// # Errors
/// When there is something at `name`, or it cannot be made.
pub fn name_directory(target: &Path, name: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, name)
}

/// Has the names in a directory on the disk for good.
///
/// # Errors
/// When they cannot be written.
pub fn sync_directory(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}
