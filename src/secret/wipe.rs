//! Directories that nobody else can read and whose files are overwritten before they are removed.

use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file or directory could not be made or wiped.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} `{}`", path.display())]
pub struct WipeError {
    /// What was tried: `create`, `overwrite` or `remove`.
    pub act: &'static str,
    /// On which path.
    pub path: PathBuf,
    /// What the operating system said.
    #[source]
    pub source: std::io::Error,
}

impl WipeError {
    fn new(act: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self { act, path: path.to_owned(), source }
    }
}

/// A directory of mode 0700 that is wiped when it is dropped.
#[derive(Debug)]
pub struct PrivateDirectory {
    path: PathBuf,
    /// Names of directories that hold no secret and only get removed, such as provider binaries.
    public: Vec<&'static str>,
    wiped: bool,
}

impl PrivateDirectory {
    /// Creates the directory `prefix` + a random ending in `parent`, which is created if needed.
    ///
    /// # Errors
    /// When a directory cannot be created.
    pub fn create(parent: &Path, prefix: &str) -> Result<Self, WipeError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(|source| WipeError::new("create", parent, source))?;
        // `tempfile` makes the name unpredictable; removing is ours.
        let directory = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .map_err(|source| WipeError::new("create", parent, source))?;
        Ok(Self { path: directory.keep(), public: Vec::new(), wiped: false })
    }

    /// Marks directories of these names as free of secrets: removed, but not overwritten.
    #[must_use]
    pub fn without_secrets_in(mut self, names: &[&'static str]) -> Self {
        self.public.extend_from_slice(names);
        self
    }

    /// Where the directory is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a directory of mode 0700 in it.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn subdirectory(&self, name: &str) -> Result<PathBuf, WipeError> {
        let path = self.path.join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|source| WipeError::new("create", &path, source))?;
        Ok(path)
    }

    /// Writes a new file of mode 0600 in it.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, WipeError> {
        let path = self.path.join(name);
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(content))
            .map_err(|source| WipeError::new("create", &path, source))?;
        Ok(path)
    }

    /// Overwrites and removes everything in it, and the directory itself.
    ///
    /// # Errors
    /// The first thing that could not be overwritten or removed; the rest is wiped all the same.
    pub fn wipe(mut self) -> Result<(), WipeError> {
        self.wiped = true;
        wipe_tree(&self.path, &self.public)
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        if !self.wiped
            && let Err(error) = wipe_tree(&self.path, &self.public)
        {
            tracing::error!(error = %crate::error::chain(&error), "secrets may be left on the disk");
        }
    }
}

/// Overwrites and removes a file; one that is gone already is no error.
///
/// # Errors
/// When it cannot be overwritten (it is removed all the same) or removed.
pub(crate) fn wipe_file(path: &Path) -> Result<(), WipeError> {
    let missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let overwritten = match overwrite_file(path) {
        Err(error) if !missing(&error) => Err(WipeError::new("overwrite", path, error)),
        _ => Ok(()),
    };
    let removed = match std::fs::remove_file(path) {
        Err(error) if !missing(&error) => Err(WipeError::new("remove", path, error)),
        _ => Ok(()),
    };
    overwritten.and(removed)
}

fn wipe_tree(root: &Path, public: &[&'static str]) -> Result<(), WipeError> {
    open_directories(root);
    let overwritten = overwrite_tree(root, public);
    let removed = match std::fs::remove_dir_all(root) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(WipeError::new("remove", root, error))
        }
        _ => Ok(()),
    };
    overwritten.and(removed)
}

/// Gives the owner all rights on `root` and the directories below it: what a module made read-only
/// could neither be overwritten nor removed. Where that fails, the wipe itself says so.
fn open_directories(root: &Path) {
    allow_owner(root, 0o700);
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_directories(&entry.path());
        }
    }
}

/// Adds `rights` to those of a file or directory, which is no symbolic link.
fn allow_owner(path: &Path, rights: u32) {
    if let Ok(metadata) = std::fs::symlink_metadata(path)
        && !metadata.is_symlink()
        && metadata.mode() & rights != rights
    {
        let mode = PermissionsExt::from_mode(metadata.mode() & 0o7777 | rights);
        let _ = std::fs::set_permissions(path, mode);
    }
}

/// Overwrites every regular file below `root`; follows no symbolic link and leaves files alone
/// that have another name elsewhere, because their content is not ours.
fn overwrite_tree(root: &Path, public: &[&'static str]) -> Result<(), WipeError> {
    let entries = match std::fs::read_dir(root) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|source| WipeError::new("overwrite", root, source))?,
    };
    let mut result = Ok(());
    for entry in entries {
        let wiped =
            entry.map_err(|source| WipeError::new("overwrite", root, source)).and_then(|entry| {
                let path = entry.path();
                let kind = entry
                    .file_type()
                    .map_err(|source| WipeError::new("overwrite", &path, source))?;
                if kind.is_dir() && !public.iter().any(|name| entry.file_name() == *name) {
                    overwrite_tree(&path, public)
                } else if kind.is_file() {
                    overwrite_file(&path)
                        .map_err(|source| WipeError::new("overwrite", &path, source))
                } else {
                    Ok(())
                }
            });
        result = result.and(wiped);
    }
    result
}

/// Overwrites one file with zeros and syncs it; the caller removes it.
///
/// # Errors
/// When the file cannot be opened, written or synced.
fn overwrite_file(path: &Path) -> std::io::Result<()> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let metadata = std::fs::symlink_metadata(path)?;
    if metadata.nlink() > 1 || metadata.len() == 0 {
        return Ok(());
    }
    allow_owner(path, 0o200);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
        .open(path)?;
    file.seek(SeekFrom::Start(0))?;
    let mut left = metadata.len();
    while left > 0 {
        let size = left.min(ZEROS.len() as u64);
        file.write_all(&ZEROS[..usize::try_from(size).expect("at most 64 KiB")])?;
        left -= size;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wipe_overwrites_files_and_spares_what_is_not_its_own() {
        let base = tempfile::tempdir().unwrap();
        let outside = base.path().join("outside");
        std::fs::write(&outside, "precious").unwrap();
        let private = PrivateDirectory::create(base.path(), "run-").unwrap();
        let secret = private.write("secret", b"hunter22").unwrap();
        assert_eq!(std::fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(private.path()).unwrap().mode() & 0o777, 0o700);
        // A handle that was open before shows what is left of the content.
        let open = std::fs::File::open(&secret).unwrap();
        std::os::unix::fs::symlink(&outside, private.path().join("link")).unwrap();
        let path = private.path().to_owned();
        private.wipe().unwrap();
        assert_eq!(std::io::read_to_string(open).unwrap(), "\0".repeat(8));
        assert!(!path.exists());
        assert_eq!(std::fs::read_to_string(outside).unwrap(), "precious");
    }
}
