//! Brings back what a plan created: into the module's directory, and nowhere else.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::digesting::copy;
use super::error::ArtifactError;
use super::read::{Artifact, Placed};
use butler_base::platform::fs::{OpenOptionsExt, PermissionsExt, sync_directory};

impl Artifact {
    /// Writes Terraform's own plan to the new file `plan` (mode 0600), and what the plan created into
    /// the directory that it was made in. A file that is there already must be the same. Nothing is
    /// written where one is not.
    ///
    /// # Errors
    /// When a file has changed, the way to it leads through a link, or one cannot be written.
    pub fn restore(&self, plan: &Path) -> Result<(), ArtifactError> {
        let mut missing = Vec::new();
        for placed in self.entries() {
            if let Some(place) = placed.entry.place()
                && !self.is_there(placed, &place)?
            {
                missing.push((placed, place));
            }
        }
        let content = self.plan().ok_or_else(|| ArtifactError::damaged(&self.path, "no plan"))?;
        let options = &mut File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(plan);
        file.and_then(|mut file| self.copy(content, &mut file))
            .map_err(ArtifactError::restore(plan))?;
        for (placed, place) in missing {
            let path = self.head().directory.join(place);
            self.bring_back(placed, &path).map_err(ArtifactError::restore(&path))?;
        }
        Ok(())
    }

    /// Whether the file is there, as the plan has created it, and on a way without links.
    fn is_there(&self, placed: &Placed, place: &Path) -> Result<bool, ArtifactError> {
        let file = self.head().directory.join(place);
        let mut way = self.head().directory.clone();
        for component in place.parent().into_iter().flat_map(Path::components) {
            way.push(component);
            match found(&way)? {
                None => return Ok(false),
                Some(found) if found.is_dir() => {}
                Some(_) => return Err(ArtifactError::Way { file, path: way }),
            }
        }
        let Some(found) = found(&file)? else { return Ok(false) };
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

    /// Writes a file beside its place and puts it there, if there is still none.
    fn bring_back(&self, placed: &Placed, path: &Path) -> io::Result<()> {
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

/// What is at `path` itself, links not followed.
fn found(path: &Path) -> Result<Option<Metadata>, ArtifactError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ArtifactError::read(path)(error)),
    }
}
