//! Restores the files that a plan created, only in the module's directory.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::digest::copy;
use super::error::ArtifactError;
use super::read::{Artifact, LocatedEntry};
use butler_base::platform::fs::{OpenOptionsExt, PermissionsExt, sync_directory};

impl Artifact {
    /// Writes Terraform's own plan to the new file `plan` (mode 0600), and the files that the plan created
    /// to the directory in which it was made. An existing file must be identical, otherwise no file is
    /// written.
    ///
    /// # Errors
    /// When a file has changed, its path contains a link, or a file cannot be written.
    pub fn restore(&self, plan: &Path) -> Result<(), ArtifactError> {
        let mut missing = Vec::new();
        for placed in self.entries() {
            if let Some(path_in_module) = placed.entry.module_path()
                && !self.exists_unchanged(placed, &path_in_module)?
            {
                missing.push((placed, path_in_module));
            }
        }
        let content = self.plan().ok_or_else(|| ArtifactError::damaged(&self.path, "no plan"))?;
        let options = &mut File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(plan);
        file.and_then(|mut file| self.copy(content, &mut file))
            .map_err(ArtifactError::restore(plan))?;
        for (placed, path_in_module) in missing {
            let path = self.head().directory.join(path_in_module);
            self.restore_file(placed, &path).map_err(ArtifactError::restore(&path))?;
        }
        Ok(())
    }

    /// Whether the file exists unchanged, at a path without links.
    fn exists_unchanged(
        &self,
        placed: &LocatedEntry,
        path_in_module: &Path,
    ) -> Result<bool, ArtifactError> {
        let file = self.head().directory.join(path_in_module);
        let mut walked = self.head().directory.clone();
        for component in path_in_module.parent().into_iter().flat_map(Path::components) {
            walked.push(component);
            match metadata_of(&walked)? {
                None => return Ok(false),
                Some(found) if found.is_dir() => {}
                Some(_) => return Err(ArtifactError::NotADirectory { file, path: walked }),
            }
        }
        let Some(found) = metadata_of(&file)? else { return Ok(false) };
        let same = || -> io::Result<bool> {
            let copied = copy(&mut File::open(&file)?, &mut io::sink())?;
            Ok(copied.sha256 == placed.entry.sha256)
        };
        let is_candidate = found.is_file() && found.len() == placed.entry.size;
        if is_candidate && same().map_err(ArtifactError::read(&file))? {
            return Ok(true);
        }
        Err(ArtifactError::Changed { path: file })
    }

    /// Writes a temporary file and renames it, unless the file exists by then.
    fn restore_file(&self, placed: &LocatedEntry, path: &Path) -> io::Result<()> {
        let parent = path.parent().map(PathBuf::from).unwrap_or_default();
        std::fs::create_dir_all(&parent)?;
        let mode = if placed.entry.executable { 0o755 } else { 0o644 };
        let mut file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(&parent)?;
        self.copy(placed, &mut file)?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path).map_err(|error| error.error)?;
        sync_directory(&parent)
    }
}

/// The metadata of `path`, without following links; `None` if it does not exist.
fn metadata_of(path: &Path) -> Result<Option<Metadata>, ArtifactError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ArtifactError::read(path)(error)),
    }
}
