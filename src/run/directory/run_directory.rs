//! The directory of one run: the clone beside everything private, and secrets in memory where there
//! is some. All of it is gone at the end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::descriptors::Reserve;
use super::memory;
use super::ownership::OwnedDirectory;
use super::recovery::{ERRORED_STATE, keep_state};
use crate::providers::VIEW;
use crate::settings::Settings;
use butler_base::platform::fs::name_directory;
use butler_base::platform::os_string;
use butler_base::process::Input;
use butler_base::secret::{Layout, PrivateDirectory, WipeError, wipe_file};

/// The clone.
const SOURCE: &str = "source";

/// A link to the module in the clone; it is made when the clone is complete.
const MODULE: &str = "module";

/// Where Terragrunt keeps its copies of modules, in which Terraform runs then.
pub(in crate::run) const DOWNLOADS: &str = "terragrunt";

/// What of a run's directory is no secret and may be huge: what `init` downloads, and the clone
/// but for what the run itself writes into it.
pub(in crate::run) const LAYOUT: Layout =
    Layout { public: &[SOURCE, "providers", VIEW, "modules"], changed: Some((SOURCE, MODULE)) };

/// One run's directory; it is wiped when it is dropped.
#[derive(Debug)]
pub(in crate::run) struct RunDirectory {
    /// In memory, and wiped first; none where there is no memory for it.
    secrets: Option<OwnedDirectory>,
    private: OwnedDirectory,
    tool_input: Arc<File>,
    module: Mutex<Option<PathBuf>>,
}

/// Where a run's directories are made, and for whom.
#[derive(Debug)]
pub(in crate::run) struct Place<'run> {
    pub(in crate::run) work_dir: &'run Path,
    pub(in crate::run) tmpfs_dir: Option<&'run Path>,
    /// Who it is, for people, such as `run 7`.
    pub(in crate::run) owner: String,
}

impl<'run> From<&'run Settings> for Place<'run> {
    fn from(settings: &'run Settings) -> Self {
        let Settings { work_dir, tmpfs_dir, .. } = settings;
        Self { work_dir, tmpfs_dir: tmpfs_dir.as_deref(), owner: settings.owner() }
    }
}

impl RunDirectory {
    /// Creates it, and a directory for secrets in memory. Where that fails, the descriptors of
    /// `reserve` are used to wipe what was made.
    pub(in crate::run) fn create(
        place: &Place<'_>,
        reserve: &mut Option<Reserve>,
    ) -> Result<Self, WipeError> {
        let private = OwnedDirectory::create(place.work_dir, &place.owner, LAYOUT)?;
        match Self::complete(place, &private) {
            Ok((tool_input, secrets)) => {
                Ok(Self { secrets, private, tool_input, module: Mutex::default() })
            }
            Err(error) => {
                drop(reserve.take());
                Err(error)
            }
        }
    }

    fn complete(
        place: &Place<'_>,
        private: &OwnedDirectory,
    ) -> Result<(Arc<File>, Option<OwnedDirectory>), WipeError> {
        let tool_input = private.tool_input()?;
        let secrets = memory::secret_place(place.tmpfs_dir)
            .map(|memory| secrets_in(&memory, &place.owner, private.directory.path()))
            .transpose();
        match secrets {
            // What the user did not ask for may be missing.
            Err(error) if place.tmpfs_dir.is_none() => {
                tracing::warn!(error = %butler_base::error::chain(&error), "secret files go to the work directory");
                Ok((tool_input, None))
            }
            secrets => Ok((tool_input, secrets?)),
        }
    }

    /// The directory for plans and everything else that is large.
    pub(in crate::run) const fn private(&self) -> &PrivateDirectory {
        &self.private.directory
    }

    /// The directory for small files with secrets.
    pub(in crate::run) fn secrets(&self) -> &PrivateDirectory {
        &self.secrets.as_ref().unwrap_or(&self.private).directory
    }

    /// What Terraform gets as its standard input, so that others see that it lives.
    pub(in crate::run) fn tool_input(&self) -> Input {
        Input::File(self.tool_input.clone())
    }

    /// Where the clone goes; it does not exist yet.
    pub(in crate::run) fn source(&self) -> PathBuf {
        self.private().path().join(SOURCE)
    }

    /// Where Terragrunt keeps its copies; it need not exist.
    pub(in crate::run) fn downloads(&self) -> PathBuf {
        self.private().path().join(DOWNLOADS)
    }

    /// Takes over `module`, a directory in the clone: its `.terraform` becomes a link to a private
    /// directory, because the backend's settings are stored there in clear text. The name stays
    /// relative, so that `path.module` does. Files that are written beside it from here on are
    /// overwritten at the end.
    pub(in crate::run) fn adopt(&self, module: &Path) -> Result<(), WipeError> {
        let data = self.private().subdirectory("data")?;
        self.mark(module)?;
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
        name_directory(&data, &link).map_err(failed("create"))?;
        // Nor is a state that came with the clone one that this run could not store: it must not be
        // pushed or kept, and a link of that name would have Terraform write wherever it leads.
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

    /// Says for those that may come after this runner where the module is, and which files of the
    /// clone are older than the run's own.
    fn mark(&self, module: &Path) -> Result<(), WipeError> {
        let source = self.source();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| WipeError { act: "create", path, source }
        };
        let real = std::fs::canonicalize(&source).map_err(failed(&source))?;
        let inside = module.strip_prefix(&source).or_else(|_| module.strip_prefix(&real));
        // Relative, because the work directory may have several names.
        let inside = Path::new(SOURCE).join(inside.unwrap_or(Path::new("")));
        self.private().write(MODULE, inside.as_os_str().as_encoded_bytes()).map(|_| ())
    }

    /// Takes a state that Terraform could not store out of the clone: into `recovery`, or, where
    /// that is not possible, beside the run's directory, which needs no room on the disk.
    /// Returns where it is, if there was one.
    ///
    /// # Errors
    /// When it cannot be moved, with where it still is.
    pub(in crate::run) fn rescue_state(
        &self,
        recovery: &Path,
    ) -> Result<Option<PathBuf>, (PathBuf, std::io::Error)> {
        let module = self.module.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match module {
            Some(module) => keep_state(&module, recovery, self.private().path())
                .map_err(|error| (module.join(ERRORED_STATE), error)),
            None => Ok(None),
        }
    }

    /// Wipes what no report is made of: the secrets, `unused`, and the clone, but for one that holds the
    /// only copy of a state. The rest needs [`Self::wipe`] or [`Self::wipe_but_clone`] all the same.
    pub(in crate::run) fn wipe_unused(
        &mut self,
        unused: &[PathBuf],
        but_clone: bool,
    ) -> Result<(), WipeError> {
        let secrets = self.secrets.take();
        let private = self.private();
        // What is overwritten waits for the disk, and what is only removed does not.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new();
            let checkout =
                (!but_clone).then(|| thread.spawn_scoped(scope, || private.wipe_checkout()));
            let secrets = secrets.map_or(Ok(()), OwnedDirectory::wipe);
            let wiped = unused.iter().fold(secrets, |wiped, file| wiped.and(wipe_file(file)));
            wiped.and(match checkout {
                None => Ok(()),
                Some(Ok(thread)) => {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }
                // There may be no more threads.
                Some(Err(_)) => private.wipe_checkout(),
            })
        })
    }

    /// Wipes everything. What cannot be wiped is an error; the rest is wiped all the same.
    pub(in crate::run) fn wipe(self) -> Result<(), WipeError> {
        drop(self.tool_input);
        let secrets = self.secrets.map_or(Ok(()), OwnedDirectory::wipe);
        // Last: as long as it is there, others know that this run is not over.
        secrets.and(self.private.wipe())
    }

    /// The same but for the clone, which holds the only copy of a state, and for that by which
    /// others find it when this process has ended.
    pub(in crate::run) fn wipe_but_clone(self) -> Result<(), WipeError> {
        let secrets = self.secrets.map_or(Ok(()), OwnedDirectory::wipe);
        secrets.and(self.private.directory.wipe_private())
    }
}

/// Makes the directory for the secrets of the run in `run`.
fn secrets_in(memory: &Path, owner: &str, run: &Path) -> Result<OwnedDirectory, WipeError> {
    let OwnedDirectory { directory, lock } =
        OwnedDirectory::create(memory, owner, Layout::default())?;
    let secrets = OwnedDirectory { directory: directory.with_spare(run), lock };
    secrets.belongs_to(run)?;
    Ok(secrets)
}

/// The module in the directory `run` of a run whose runner is dead.
pub(in crate::run) fn module_of(run: &Path) -> Option<PathBuf> {
    let source = std::fs::canonicalize(run.join(SOURCE)).ok()?;
    let inside = os_string(std::fs::read(run.join(MODULE)).ok()?);
    let module = std::fs::canonicalize(run.join(inside)).ok()?;
    // A link in the clone may have been changed since.
    module.starts_with(source).then_some(module)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::time::UNIX_EPOCH;

    use super::*;

    /// A run's directory in `base`, with its secrets in `base` too.
    fn create(base: &Path) -> RunDirectory {
        let place = Place { work_dir: base, tmpfs_dir: Some(base), owner: "run 7".to_owned() };
        RunDirectory::create(&place, &mut None).unwrap()
    }

    #[test]
    fn a_state_survives_the_wipe_where_the_cache_cannot_take_it() {
        let base = tempfile::tempdir().unwrap();
        let run = create(base.path());
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
    fn a_state_that_cannot_be_moved_stays_while_the_secrets_are_wiped() {
        let base = tempfile::tempdir().unwrap();
        let run = create(base.path());
        std::fs::create_dir(run.source()).unwrap();
        run.adopt(&run.source()).unwrap();
        let state = run.source().join("errored.tfstate");
        std::fs::write(&state, "precious").unwrap();
        let private = run.private().path().to_owned();
        let secrets = run.secrets().path().to_owned();
        std::fs::write(private.join("plan.tfplan"), "hunter22").unwrap();
        std::fs::write(private.join("data/terraform.tfstate"), "hunter22").unwrap();
        run.wipe_but_clone().unwrap();
        assert_eq!(std::fs::read_to_string(&state).unwrap(), "precious");
        assert!(!secrets.exists());
        let mut left: Vec<_> =
            std::fs::read_dir(&private).unwrap().map(|it| it.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["module", "owner.lock", "source", "tool.lock"]);
        assert_eq!(module_of(&private), Some(std::fs::canonicalize(private.join(SOURCE)).unwrap()));
    }

    #[test]
    fn a_state_that_was_not_stored_survives_the_wipe() {
        let base = tempfile::tempdir().unwrap();
        let run = create(base.path());
        let module = run.source();
        std::fs::create_dir(&module).unwrap();
        run.adopt(&module).unwrap();
        let cache = base.path().join("cache");
        assert_eq!(run.rescue_state(&cache).unwrap(), None);
        std::fs::write(module.join("errored.tfstate"), "precious").unwrap();
        let kept = run.rescue_state(&cache).unwrap().unwrap();
        run.wipe().unwrap();
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "precious");
        assert_eq!(std::fs::metadata(kept).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_state_that_came_with_the_clone_is_not_taken_for_this_runs() {
        let base = tempfile::tempdir().unwrap();
        let secret = base.path().join("secret");
        std::fs::write(&secret, "of another").unwrap();
        for linked in [false, true] {
            let run = create(base.path());
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
    fn what_is_written_into_the_clone_is_overwritten_and_the_data_directory_is_private() {
        let base = tempfile::tempdir().unwrap();
        let run = create(base.path());
        let module = run.source().join("module");
        std::fs::create_dir_all(module.join(".terraform")).unwrap();
        run.adopt(&module).unwrap();
        std::fs::write(module.join(".terraform/terraform.tfstate"), "hunter22").unwrap();
        assert!(run.private().path().join("data/terraform.tfstate").exists());
        let state = module.join("terraform.tfstate.d/stage/terraform.tfstate.backup");
        std::fs::create_dir_all(state.parent().unwrap()).unwrap();
        let artefact = run.source().join("artefact");
        let open = [state, artefact].map(|path| {
            std::fs::write(&path, "hunter22").unwrap();
            // As those do it who unpack archives.
            File::options().write(true).open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
            File::open(&path).unwrap()
        });
        run.wipe().unwrap();
        for open in open {
            assert_eq!(std::io::read_to_string(open).unwrap(), "\0".repeat(8));
        }
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_git_checked_out_is_not_overwritten() {
        let base = tempfile::tempdir().unwrap();
        let run = create(base.path());
        std::fs::create_dir(run.source()).unwrap();
        let file = run.source().join("large.bin");
        std::fs::write(&file, "hunter22").unwrap();
        // The time of a file's entry is taken from a clock that ticks.
        let ticked = || {
            let probe = base.path().join("probe");
            std::fs::write(&probe, "").unwrap();
            let [one, other] = [&probe, &file].map(|path| {
                let found = std::fs::metadata(path).unwrap();
                (found.ctime(), found.ctime_nsec())
            });
            one > other
        };
        while !ticked() {}
        run.adopt(&run.source()).unwrap();
        let open = File::open(&file).unwrap();
        run.wipe().unwrap();
        assert_eq!(std::io::read_to_string(open).unwrap(), "hunter22");
    }

    #[test]
    fn what_has_to_be_executable_is_not_in_memory() {
        let base = tempfile::tempdir().unwrap();
        let run = create(base.path());
        let secret = run.secrets().write("secret", b"hunter22").unwrap();
        assert!(!secret.starts_with(run.private().path()));
        let script = run.secrets().write_executable("script", b"#!/bin/sh\n").unwrap();
        assert!(script.starts_with(run.private().path()));
        assert_eq!(std::fs::metadata(&script).unwrap().mode() & 0o777, 0o700);
    }
}
