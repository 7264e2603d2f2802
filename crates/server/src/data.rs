//! The data directory of a server.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use butler_base::platform::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};

use crate::config::STATES;
use crate::model::LayerName;

/// Who can enter the data directory, and the directories of attempts. Only their owner can list them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DataAccess {
    /// The user of the server.
    #[default]
    Server,
    /// All users, because each attempt has a user of its own. What is secret has a mode of its own.
    AttemptUsers,
}

impl DataAccess {
    /// The mode of a directory on the way to the files of an attempt.
    #[must_use]
    pub const fn mode(self) -> u32 {
        match self {
            Self::Server => 0o700,
            Self::AttemptUsers => 0o711,
        }
    }
}

/// The data directory: the store, mirrors, attempts, states and caches.
#[derive(Clone, Debug)]
pub struct DataDirectory {
    root: PathBuf,
    access: DataAccess,
}

impl DataDirectory {
    /// The directory at `root`, which is created with everything in it that is missing, with mode 0700.
    ///
    /// # Errors
    /// If a directory cannot be created.
    pub fn create(root: &Path) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        let data = Self::at(&root);
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        for directory in [data.root.clone(), data.mirrors(), data.attempts(), data.states()] {
            builder.create(directory)?;
        }
        Ok(data)
    }

    /// Lets only these users enter the directory. Call it when no other server can use it.
    ///
    /// # Errors
    /// If a mode cannot be set.
    pub fn with_access(self, access: DataAccess) -> io::Result<Self> {
        if access == DataAccess::AttemptUsers {
            set_mode(&self.mirrors(), 0o700)?;
            for directory in [self.attempts(), self.states()] {
                set_mode(&directory, access.mode())?;
            }
        }
        // Also if the directory existed: what is in it can have other modes.
        match set_mode(&self.root, access.mode()) {
            // It belongs to another user, as a volume of a container can.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let path = self.root.display();
                tracing::warn!(%path, "other users can open the data directory: set its mode to 0700");
            }
            closed => closed?,
        }
        Ok(Self { access, ..self })
    }

    /// The directory at `root`, as it is.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), access: DataAccess::default() }
    }

    /// Who can enter it.
    #[must_use]
    pub const fn access(&self) -> DataAccess {
        self.access
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The name of the server that uses this directory, among those that share a store: the name of its machine, and
    /// a random part that stays the same.
    ///
    /// # Errors
    /// If it is not known, and cannot be recorded.
    pub fn server_name(&self) -> io::Result<String> {
        let path = self.root.join("server.name");
        match std::fs::read_to_string(&path) {
            Ok(name) if !name.trim().is_empty() => return Ok(name.trim().to_owned()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let host = butler_base::platform::host_name().unwrap_or_else(|| "server".to_owned());
        let name = format!("{host}-{}", hex::encode(random));
        write_private(&path, name.as_bytes())?;
        Ok(name)
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

/// Sets the mode of a directory. The umask can have changed it at creation.
pub(crate) fn set_mode(directory: &Path, mode: u32) -> io::Result<()> {
    if std::fs::metadata(directory)?.mode() & 0o777 == mode {
        return Ok(());
    }
    std::fs::set_permissions(directory, PermissionsExt::from_mode(mode))
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

/// The names of what is in a directory, without those that are not UTF-8.
pub(crate) fn names(directory: &Path) -> io::Result<Vec<String>> {
    let names =
        std::fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
    Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
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
        let data = DataDirectory::create(&path).unwrap().with_access(DataAccess::Server).unwrap();
        // Only the directory itself.
        assert_eq!((mode(&path), mode(&path.join("file"))), (0o700, 0o644));

        std::fs::set_permissions(data.mirrors(), PermissionsExt::from_mode(0o755)).unwrap();
        let data = data.with_access(DataAccess::AttemptUsers).unwrap();
        let modes = [&path, &data.attempts(), &data.states(), &data.mirrors()].map(|it| mode(it));
        assert_eq!(modes, [0o711, 0o711, 0o711, 0o700]);
        data.with_access(DataAccess::Server).unwrap();
        assert_eq!(mode(&path), 0o700);
    }
}
