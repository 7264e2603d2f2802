//! The data directory of a server.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use butler_base::platform::fs::{DirBuilderExt, OpenOptionsExt};

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
        Ok(data)
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
        self.root.join("states")
    }

    /// The tools of attempts, unless `--cache-dir` names another directory.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.root.join("cache")
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

/// Writes a new file with mode 0600.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(content)
}
