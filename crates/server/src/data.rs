//! The data directory of a server.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use butler_base::platform::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};

use crate::config::STATES;
use crate::model::LayerName;

/// The data directory, mode 0700: the store, mirrors, attempts, states and caches.
#[derive(Clone, Debug)]
pub struct DataDirectory {
    root: PathBuf,
}

impl DataDirectory {
    /// The directory at `root`, which is created with everything in it that is missing.
    ///
    /// # Errors
    /// If a directory cannot be created.
    pub fn create(root: &Path) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        let data = Self { root };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        for directory in [data.root.clone(), data.mirrors(), data.attempts(), data.states()] {
            builder.create(directory)?;
        }
        data.close_to_others()?;
        Ok(data)
    }

    /// Sets mode 0700, in case the directory existed: what is in it can have other modes.
    fn close_to_others(&self) -> io::Result<()> {
        let mode = std::fs::metadata(&self.root)?.mode();
        if mode & 0o777 == 0o700 {
            return Ok(());
        }
        let closed = std::fs::set_permissions(&self.root, PermissionsExt::from_mode(0o700));
        match closed {
            // It belongs to another user, as a volume of a container can.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let path = self.root.display();
                tracing::warn!(%path, "other users can open the data directory: set its mode to 0700");
                Ok(())
            }
            closed => closed,
        }
    }

    /// The directory at `root`, as it is.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file of the store.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.root.join("store.sqlite")
    }

    /// The mirrors of all repositories.
    #[must_use]
    pub fn mirrors(&self) -> PathBuf {
        self.root.join("mirrors")
    }

    /// The mirror of a repository.
    #[must_use]
    pub fn mirror(&self, repository: &str) -> PathBuf {
        self.mirrors().join(repository)
    }

    /// The directories of all attempts.
    #[must_use]
    pub fn attempts(&self) -> PathBuf {
        self.root.join("attempts")
    }

    /// The states of layers whose local backend names no file.
    #[must_use]
    pub fn states(&self) -> PathBuf {
        self.root.join(STATES)
    }

    /// The tools of attempts, unless `--cache-dir` names another directory.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// The directory in which the runs of a layer have theirs, one after the other. It stays the same: saved
    /// plans contain absolute paths.
    #[must_use]
    pub fn work(&self, layer: &LayerName) -> PathBuf {
        self.root.join("work").join(layer.as_str())
    }

    /// The keys that encrypt saved plans, unless `--key-file` names another file.
    #[must_use]
    pub fn plan_key(&self) -> PathBuf {
        self.root.join("plan.key")
    }

    /// The token of the administrator.
    #[must_use]
    pub fn administrator_token(&self) -> PathBuf {
        self.root.join("admin.token")
    }

    /// The port that the listener with this name used last.
    #[must_use]
    pub fn port(&self, listener: &str) -> PathBuf {
        self.root.join(format!("{listener}.port"))
    }
}

/// Writes a file with mode 0600.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    create_private(path)?.write_all(content)
}

/// Creates or empties a file with mode 0600.
pub(crate) fn create_private(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_data_directory_is_closed_to_other_users() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("data");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("file"), "").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        for (path, mode) in [(&path, 0o755), (&path.join("file"), 0o644)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        DataDirectory::create(&path).unwrap();
        // Only the directory itself.
        assert_eq!((mode(&path), mode(&path.join("file"))), (0o700, 0o644));
    }
}
