//! The directory of one run: the clone beside everything private, both gone at the end.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::recovery::{ERRORED_STATE, keep_state};
use crate::secret::{PrivateDirectory, WipeError, wipe_file};

/// How directories of runs are called in the work directory.
const PREFIX: &str = "butler-runner-";

/// Directories that hold no secret and may be huge: the clone, and what `init` downloads.
const PUBLIC: [&str; 3] = ["source", "providers", "modules"];

/// One run's directory; it is wiped when it is dropped.
#[derive(Debug)]
pub(super) struct RunDirectory {
    private: PrivateDirectory,
    module: Mutex<Option<PathBuf>>,
}

impl RunDirectory {
    /// Creates it in `work_dir`.
    pub(super) fn create(work_dir: &Path) -> Result<Self, WipeError> {
        let private = PrivateDirectory::create(work_dir, PREFIX)?.without_secrets_in(&PUBLIC);
        Ok(Self { private, module: Mutex::default() })
    }

    /// The directory for secrets and plans.
    pub(super) const fn private(&self) -> &PrivateDirectory {
        &self.private
    }

    /// Where the clone goes; it does not exist yet.
    pub(super) fn source(&self) -> PathBuf {
        self.private.path().join(PUBLIC[0])
    }

    /// Takes over `module`, a directory in the clone: its `.terraform` becomes a link to a private
    /// directory, because the backend's settings are stored there in clear text. The name stays
    /// relative, so that `path.module` does. State that Terraform leaves beside it is wiped.
    pub(super) fn adopt(&self, module: &Path) -> Result<(), WipeError> {
        let data = self.private.subdirectory("data")?;
        let link = module.join(".terraform");
        let failed = |act| {
            let path = link.clone();
            move |source| WipeError { act, path, source }
        };
        // A repository that brings its own would decide where secrets are written.
        match std::fs::symlink_metadata(&link) {
            Ok(metadata) if metadata.is_dir() => {
                std::fs::remove_dir_all(&link).map_err(failed("remove"))?;
            }
            Ok(_) => std::fs::remove_file(&link).map_err(failed("remove"))?,
            Err(_) => {}
        }
        symlink(&data, &link).map_err(failed("create"))?;
        // Nor is a state that came with the clone one that this run could not store; and a link of
        // that name would have Terraform write its state wherever the link leads.
        let brought = module.join(ERRORED_STATE);
        match std::fs::remove_file(&brought) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(WipeError { act: "remove", path: brought, source });
            }
            _ => {}
        }
        *self.module.lock().unwrap_or_else(PoisonError::into_inner) = Some(module.to_owned());
        Ok(())
    }

    /// Takes a state that Terraform could not store out of the clone: into `recovery`, or, where
    /// that is not possible, beside the run's directory, which needs no room on the disk.
    /// Returns where it is, if there was one.
    pub(super) fn rescue_state(&self, recovery: &Path) -> std::io::Result<Option<PathBuf>> {
        let module = self.module.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match module {
            Some(module) => keep_state(&module, recovery, self.private.path()),
            None => Ok(None),
        }
    }

    /// Wipes everything. What cannot be wiped is an error; the rest is wiped all the same.
    pub(super) fn wipe(self) -> Result<(), WipeError> {
        let states = self.overwrite_states();
        let Self { private, .. } = self;
        let wiped = private.wipe();
        states.and(wiped)
    }

    fn overwrite_states(&self) -> Result<(), WipeError> {
        let module = self.module.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut result = Ok(());
        for entry in
            module.iter().filter_map(|module| std::fs::read_dir(module).ok()).flatten().flatten()
        {
            let is_state = entry.file_name().to_string_lossy().contains(".tfstate");
            if is_state && entry.file_type().is_ok_and(|kind| kind.is_file()) {
                result = result.and(wipe_file(&entry.path()));
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_the_wipe_where_the_cache_cannot_take_it() {
        let base = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(base.path()).unwrap();
        std::fs::create_dir(run.source()).unwrap();
        run.adopt(&run.source()).unwrap();
        std::fs::write(run.source().join("errored.tfstate"), "precious").unwrap();
        let cache = base.path().join("cache");
        std::fs::write(&cache, "a file where a directory should be").unwrap();
        let kept = run.rescue_state(&cache).unwrap().unwrap();
        run.wipe().unwrap();
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "precious");
    }

    #[test]
    fn a_state_that_was_not_stored_survives_the_wipe() {
        let base = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(base.path()).unwrap();
        let module = run.source();
        std::fs::create_dir(&module).unwrap();
        run.adopt(&module).unwrap();
        let cache = base.path().join("cache");
        assert_eq!(run.rescue_state(&cache).unwrap(), None);
        std::fs::write(module.join("errored.tfstate"), "precious").unwrap();
        let kept = run.rescue_state(&cache).unwrap().unwrap();
        run.wipe().unwrap();
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "precious");
        assert_eq!(
            std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(kept).unwrap()) & 0o777,
            0o600
        );
    }

    #[test]
    fn a_state_that_came_with_the_clone_is_not_taken_for_this_runs() {
        let base = tempfile::tempdir().unwrap();
        let secret = base.path().join("secret");
        std::fs::write(&secret, "of another").unwrap();
        for linked in [false, true] {
            let run = RunDirectory::create(base.path()).unwrap();
            let module = run.source();
            std::fs::create_dir(&module).unwrap();
            let brought = module.join("errored.tfstate");
            if linked {
                symlink(&secret, &brought).unwrap();
            } else {
                std::fs::write(&brought, "old").unwrap();
            }
            run.adopt(&module).unwrap();
            assert_eq!(run.rescue_state(&base.path().join("recovery")).unwrap(), None);
            run.wipe().unwrap();
        }
        assert_eq!(std::fs::read_to_string(secret).unwrap(), "of another");
    }

    #[test]
    fn state_in_the_clone_is_overwritten_and_the_data_directory_is_private() {
        let base = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(base.path()).unwrap();
        let module = run.source().join("module");
        std::fs::create_dir_all(module.join(".terraform")).unwrap();
        run.adopt(&module).unwrap();
        std::fs::write(module.join(".terraform/terraform.tfstate"), "hunter22").unwrap();
        assert!(run.private().path().join("data/terraform.tfstate").exists());
        let state = module.join("terraform.tfstate.backup");
        std::fs::write(&state, "hunter22").unwrap();
        let open = std::fs::File::open(&state).unwrap();
        run.wipe().unwrap();
        assert_eq!(std::io::read_to_string(open).unwrap(), "\0".repeat(8));
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }
}
