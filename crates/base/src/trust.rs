//! Whether only this user and root can have put there what lies at a path.
//!
//! Groups may write: a volume of a Kubernetes pod belongs to the pod's group, and is made writable
//! for it whenever it is mounted.
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::path::Path;

use crate::platform::fs::{DirBuilderExt, MetadataExt, user};

/// What is wrong with something that somebody else owns.
pub const FOREIGN: &str = "it belongs to another user";

/// Why something is not to be used.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// It cannot be looked at.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// Somebody else could have put it there.
    #[error("{0}")]
    Unsafe(&'static str),
}

/// Refuses a directory that belongs to somebody else, who could exchange what is below it at any
/// time. It may be missing, and it may be a link of the user's own or of root's, because the user
/// named it. Every user may be able to write to it, as to an `emptyDir` of Kubernetes, which is warned
/// about: others can then take entries away, but what they put there is refused by [`inspect`].
///
/// # Errors
/// If the directory belongs to another user or cannot be inspected.
pub fn inspect_root(root: &Path) -> Result<(), Distrust> {
    if std::fs::symlink_metadata(root).is_ok_and(|found| found.is_symlink() && is_foreign(&found)) {
        return Err(Distrust::Unsafe("it is a symbolic link of another user"));
    }
    let metadata = match std::fs::metadata(root) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Distrust::Read(source)),
    };
    if is_foreign(&metadata) {
        return Err(Distrust::Unsafe(FOREIGN));
    }
    // With the sticky bit, others can add to a directory but not exchange what is ours.
    if metadata.mode() & 0o1002 == 0o002 {
        tracing::warn!(path = %root.display(), "every user may write to the cache's directory");
    }
    Ok(())
}

/// What is at `path`, links not followed; refused if another user could have put it there.
///
/// # Errors
/// If another user could have created or changed it, or if it cannot be inspected.
pub fn inspect(path: &Path) -> Result<Option<Metadata>, Distrust> {
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Distrust::Read(source)),
    };
    if is_foreign(&metadata) {
        return Err(Distrust::Unsafe(FOREIGN));
    }
    if metadata.is_symlink() {
        return Err(Distrust::Unsafe("it is a symbolic link"));
    }
    if metadata.mode() & 0o002 != 0 {
        return Err(Distrust::Unsafe("every user may write to it"));
    }
    Ok(Some(metadata))
}

/// Makes a directory and those above it, as far as they do not exist, with mode 0700.
///
/// # Errors
/// If a directory cannot be created.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn is_foreign(metadata: &Metadata) -> bool {
    metadata.uid() != 0 && metadata.uid() != user()
}
