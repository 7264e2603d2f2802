//! Checks whether only this user and root can have created a file or directory.
//!
//! Groups may have write access: a volume of a Kubernetes pod belongs to the pod's group, and
//! becomes writable for it whenever it is mounted.
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

use crate::platform::fs::{DirBuilderExt, MetadataExt, OFlag, OpenOptionsExt, user};

/// The reason for rejecting a file of another user.
pub const OTHER_OWNER: &str = "it belongs to another user";

/// Why a file or directory is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// It cannot be inspected.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// Another user could have created it.
    #[error("{0}")]
    Unsafe(&'static str),
}

/// Rejects a directory of another user, who could replace its content at any time. It may be
/// missing, and it may be a link of the user's own or of root's, because the user named it. If it
/// is world-writable, as an `emptyDir` of Kubernetes is, there is a warning: other users can then
/// remove entries, but [`inspect`] rejects files that they create.
///
/// # Errors
/// If the directory belongs to another user or cannot be inspected.
pub fn inspect_root(root: &Path) -> Result<(), Distrust> {
    if std::fs::symlink_metadata(root)
        .is_ok_and(|found| found.is_symlink() && belongs_to_another_user(&found))
    {
        return Err(Distrust::Unsafe("it is a symbolic link of another user"));
    }
    let metadata = match std::fs::metadata(root) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Distrust::Read(source)),
    };
    if belongs_to_another_user(&metadata) {
        return Err(Distrust::Unsafe(OTHER_OWNER));
    }
    // With the sticky bit, others can add entries to a directory but cannot replace the runner's.
    if metadata.mode() & 0o1002 == 0o002 {
        tracing::warn!(path = %root.display(), "every user may write to the cache's directory");
    }
    Ok(())
}

/// The metadata of `path`, without following links; an error if another user could have created it.
///
/// # Errors
/// If another user could have created or changed it, or if it cannot be inspected.
pub fn inspect(path: &Path) -> Result<Option<Metadata>, Distrust> {
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Distrust::Read(source)),
    };
    if belongs_to_another_user(&metadata) {
        return Err(Distrust::Unsafe(OTHER_OWNER));
    }
    if metadata.is_symlink() {
        return Err(Distrust::Unsafe("it is a symbolic link"));
    }
    if metadata.mode() & 0o002 != 0 {
        return Err(Distrust::Unsafe("every user may write to it"));
    }
    Ok(Some(metadata))
}

/// Creates a directory and its missing parents with mode 0700.
///
/// # Errors
/// If a directory cannot be created.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn belongs_to_another_user(metadata: &Metadata) -> bool {
    metadata.uid() != 0 && metadata.uid() != user()
}

/// Opens a file that a module could have replaced, to read it: only a regular file, never what a link
/// leads to, and without waiting for the writer of a pipe.
///
/// # Errors
/// If it cannot be opened, or is something else.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(io::read_to_string(open_regular(&path("file")).unwrap()).unwrap(), "text");
        for name in ["link", "pipe", "", "missing"] {
            assert!(open_regular(&path(name)).is_err(), "{name}");
        }
    }
}
