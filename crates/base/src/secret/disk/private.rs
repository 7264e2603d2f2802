//! A directory that other users cannot read, and that is wiped at the end.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::wipe::{Layout, WipeError, wipe_checkout, wipe_directory, wipe_file, wipe_private};
use crate::platform::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, close_to_others};

/// A directory of mode 0700 that is wiped when it is dropped.
#[derive(Debug)]
pub struct PrivateDirectory {
    path: PathBuf,
    layout: Layout,
    /// The directory for files that do not fit into this one.
    spare: Option<PathBuf>,
    wiped: bool,
}

impl PrivateDirectory {
    /// Creates a directory in `parent`, which is created if it does not exist. The name is `prefix`
    /// followed by a random suffix.
    ///
    /// # Errors
    /// If a directory cannot be created.
    pub fn create(parent: &Path, prefix: &str) -> Result<Self, WipeError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(|source| WipeError::new("create", parent, source))?;
        // `tempfile` makes the name unpredictable; this type removes the directory.
        let directory = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .map_err(|source| WipeError::new("create", parent, source))?;
        close_to_others(directory.path())
            .map_err(|source| WipeError::new("close", directory.path(), source))?;
        let path = directory.keep();
        Ok(Self { path, layout: Layout::default(), spare: None, wiped: false })
    }

    /// Creates the directory `path`, which must not exist. Its parent is created if it does not exist.
    ///
    /// # Errors
    /// If it exists, or cannot be created.
    pub fn create_at(path: &Path) -> Result<Self, WipeError> {
        let parent = path.parent().unwrap_or(Path::new("/"));
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700).recursive(true);
        builder.create(parent).map_err(|source| WipeError::new("create", parent, source))?;
        let created = builder.recursive(false).create(path).and_then(|()| close_to_others(path));
        created.map_err(|source| WipeError::new("create", path, source))?;
        Ok(Self { path: path.to_owned(), layout: Layout::default(), spare: None, wiped: false })
    }

    /// Sets the parts that the wipe removes without overwriting them.
    #[must_use]
    pub const fn with_layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets the directory for files that do not fit into this one: another private directory that
    /// does not have files of these names.
    #[must_use]
    pub fn with_spare(mut self, spare: &Path) -> Self {
        self.spare = Some(spare.to_owned());
        self
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a subdirectory of mode 0700.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn subdirectory(&self, name: &str) -> Result<PathBuf, WipeError> {
        let path = self.path.join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|source| WipeError::new("create", &path, source))?;
        Ok(path)
    }

    /// Writes a new file of mode 0600 into the directory.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, WipeError> {
        let path = self.path.join(name);
        match (write_new(&path, content), &self.spare) {
            (Ok(()), _) => Ok(path),
            (Err(full), Some(spare))
                if matches!(full.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
            {
                wipe_file(&path)?;
                let path = spare.join(name);
                tracing::warn!(path = %path.display(), %full, "the memory file system is full; writing a secret file to the work directory");
                write_new(&path, content)
                    .map(|()| path.clone())
                    .map_err(|source| WipeError::new("create", &path, source))
            }
            (Err(source), _) => Err(WipeError::new("create", &path, source)),
        }
    }

    /// Writes an executable file of mode 0700 that does not contain a secret. It is written to the
    /// directory of [`with_spare`](Self::with_spare) if there is one, because memory file systems
    /// are often mounted with `noexec`.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn write_executable(&self, name: &str, content: &[u8]) -> Result<PathBuf, WipeError> {
        let path = self.spare.as_deref().unwrap_or(&self.path).join(name);
        write_new(&path, content)
            .and_then(|()| std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)))
            .map_err(|source| WipeError::new("create", &path, source))?;
        Ok(path)
    }

    /// Overwrites and removes all its content, and the directory itself.
    ///
    /// # Errors
    /// The first file that could not be overwritten or removed; the rest is still wiped.
    pub fn wipe(mut self) -> Result<(), WipeError> {
        self.wiped = true;
        wipe_directory(&self.path, self.layout)
    }

    /// Overwrites the files that the run wrote into the checkout of the layout, and removes the
    /// checkout. The rest of the directory must be wiped separately.
    ///
    /// # Errors
    /// The first file that could not be overwritten or removed; the rest is still wiped.
    pub fn wipe_checkout(&self) -> Result<(), WipeError> {
        wipe_checkout(&self.path, self.layout)
    }

    /// Overwrites and removes the private files; the directory itself, its locks, and the parts
    /// that the layout names remain.
    ///
    /// # Errors
    /// The first file that could not be overwritten or removed; the rest is still wiped.
    pub fn wipe_private(mut self) -> Result<(), WipeError> {
        self.wiped = true;
        wipe_private(&self.path, self.layout)
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        if !self.wiped
            && let Err(error) = wipe_directory(&self.path, self.layout)
        {
            tracing::error!(error = %crate::error::chain(&error), "secrets may remain on the disk");
        }
    }
}

fn write_new(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn wipe_overwrites_files_and_keeps_files_of_other_programs() {
        let base = tempfile::tempdir().unwrap();
        let outside = base.path().join("outside");
        std::fs::write(&outside, "precious").unwrap();
        let private = PrivateDirectory::create(base.path(), "run-").unwrap();
        let secret = private.write("secret", b"hunter22").unwrap();
        assert_eq!(std::fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(private.path()).unwrap().mode() & 0o777, 0o700);
        // A handle that was opened before the wipe reads the overwritten content.
        let open = std::fs::File::open(&secret).unwrap();
        std::os::unix::fs::symlink(&outside, private.path().join("link")).unwrap();
        let path = private.path().to_owned();
        private.wipe().unwrap();
        assert_eq!(std::io::read_to_string(open).unwrap(), "\0".repeat(8));
        assert!(!path.exists());
        assert_eq!(std::fs::read_to_string(outside).unwrap(), "precious");
    }
}
