//! Restores the files that a plan created, only in the module's directory.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::digest::file_digest;
use super::error::ArtifactError;
use super::read::{Artifact, LocatedEntry};
use butler_base::platform::fs::{OpenOptionsExt, PermissionsExt, sync_directory};

/// The state of the path of a saved file, before it is restored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Present {
    Missing,
    /// The file as it was before `init` and the plan.
    AsBefore,
    AsSaved,
}

impl Artifact {
    /// Writes Terraform's own plan to the new file `plan` (mode 0600), and the files that the plan created
    /// or changed to the directory in which it was made. Returns the paths of these in the module. An existing file must be
    /// as it was before the plan, which is replaced, or after it; otherwise no file is written.
    ///
    /// # Errors
    /// When a file has changed, its path contains a link, or a file cannot be written.
    pub fn restore(&self, plan: &Path) -> Result<Vec<PathBuf>, ArtifactError> {
        let mut written = Vec::new();
        for placed in self.entries() {
            if let Some(path_in_module) = placed.entry.module_path() {
                let replaces = match self.present(placed, &path_in_module)? {
                    Present::AsSaved => continue,
                    Present::AsBefore => true,
                    Present::Missing => false,
                };
                written.push((placed, path_in_module, replaces));
            }
        }
        let content = self.plan().ok_or_else(|| ArtifactError::damaged(&self.path, "no plan"))?;
        let options = &mut File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(plan);
        file.and_then(|mut file| self.copy(content, &mut file))
            .map_err(ArtifactError::restore(plan))?;
        let mut restored = Vec::new();
        for (placed, path_in_module, replaces) in written {
            let path = self.head().directory.join(&path_in_module);
            self.restore_file(placed, &path, replaces).map_err(ArtifactError::restore(&path))?;
            restored.push(path_in_module);
        }
        Ok(restored)
    }

    /// Finds the state of a file's path, which must be without links.
    fn present(
        &self,
        placed: &LocatedEntry,
        path_in_module: &Path,
    ) -> Result<Present, ArtifactError> {
        let file = self.head().directory.join(path_in_module);
        let mut walked = self.head().directory.clone();
        for component in path_in_module.parent().into_iter().flat_map(Path::components) {
            walked.push(component);
            match metadata_of(&walked)? {
                None => return Ok(Present::Missing),
                Some(found) if found.is_dir() => {}
                Some(_) => return Err(ArtifactError::NotADirectory { file, path: walked }),
            }
        }
        let Some(found) = metadata_of(&file)? else { return Ok(Present::Missing) };
        if found.is_file() {
            let sha256 = file_digest(&file).map_err(ArtifactError::read(&file))?;
            if sha256 == placed.entry.sha256 {
                return Ok(Present::AsSaved);
            }
            if Some(sha256) == placed.entry.sha256_before {
                return Ok(Present::AsBefore);
            }
        }
        Err(ArtifactError::Changed { path: file })
    }

    /// Writes a temporary file and renames it. A file that exists by then is replaced if `replaces`,
    /// and is an error otherwise.
    fn restore_file(&self, placed: &LocatedEntry, path: &Path, replaces: bool) -> io::Result<()> {
        let parent = path.parent().map(PathBuf::from).unwrap_or_default();
        std::fs::create_dir_all(&parent)?;
        let mode = if placed.entry.executable { 0o755 } else { 0o644 };
        let mut file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(&parent)?;
        self.copy(placed, &mut file)?;
        file.as_file().sync_all()?;
        if replaces { file.persist(path) } else { file.persist_noclobber(path) }
            .map_err(|error| error.error)?;
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
