//! The directory of one run: the clone, private files, and a directory in memory for secrets if there is one. All of
//! it is wiped at the end of the run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::descriptors::DescriptorReserve;
use super::errored_state::{ERRORED_STATE, KeptState, keep_errored_state};
use super::memory;
use super::ownership::OwnedDirectory;
use super::run_user::RunUser;
use crate::providers::VIEW;
use crate::settings::Settings;
use butler_base::platform::fs::{DirBuilderExt, name_directory};
use butler_base::platform::os_string;
use butler_base::process::Input;
use butler_base::secret::{Layout, PrivateDirectory, WipeError, remove_directory, wipe_file};

/// The clone.
const SOURCE: &str = "source";

/// The name of Terraform's data directory in a module.
const DATA_DIRECTORY: &str = ".terraform";

/// The file with the path of the module in the clone. It is written when the clone is complete.
const MODULE: &str = "module";

/// The directory for files that the tools write for the runner, such as the plan.
const TOOL_FILES: &str = "tool";

/// TMPDIR of the tools of an isolated run.
pub(in crate::run) const TEMPORARY: &str = "tmp";

/// The directory for Terragrunt's copies of modules, in which Terraform then runs.
pub(in crate::run) const DOWNLOADS: &str = "terragrunt";

/// The parts of a run's directory that are not secret and can be large: downloads of `init`, and the clone without the
/// files that the run writes into it.
pub(in crate::run) const LAYOUT: Layout =
    Layout { public: &[SOURCE, "providers", VIEW, "modules"], changed: Some((SOURCE, MODULE)) };

/// One run's directory; it is wiped when it is dropped.
#[derive(Debug)]
pub(in crate::run) struct RunDirectory {
    /// In memory, and wiped first; `None` if there is no directory in memory.
    secrets: Option<OwnedDirectory>,
    /// The parent of the tools' TMPDIR, if its path in `private` would be too long.
    temporary: OnceLock<OwnedDirectory>,
    private: OwnedDirectory,
    tool_input: Arc<File>,
    module: Mutex<Option<PathBuf>>,
    /// The user of the tools, if they have one of their own. It is free when the files are wiped.
    user: OnceLock<RunUser>,
}

/// The parents of a run's directories, and the name of the run.
#[derive(Debug)]
pub(in crate::run) struct RunDirectoryOptions<'run> {
    pub(in crate::run) work_dir: &'run Path,
    /// The path of the directory itself, if the run's configuration names it. A plan and its apply are at
    /// the same path then.
    pub(in crate::run) path: Option<&'run Path>,
    pub(in crate::run) tmpfs_dir: Option<&'run Path>,
    /// The name of the run for people, such as `run 7`.
    pub(in crate::run) owner: String,
}

impl<'run> RunDirectoryOptions<'run> {
    /// The options of `settings`, with the path that the run's configuration names.
    pub(in crate::run) fn new(settings: &'run Settings, path: Option<&'run Path>) -> Self {
        let Settings { work_dir, tmpfs_dir, .. } = settings;
        Self { work_dir, path, tmpfs_dir: tmpfs_dir.as_deref(), owner: settings.owner() }
    }
}

impl RunDirectory {
    /// Creates the directory, and one for secrets in memory. If that fails, the descriptors of `reserve` are freed for
    /// the wipe.
    pub(in crate::run) fn create(
        options: &RunDirectoryOptions<'_>,
        reserve: &mut Option<DescriptorReserve>,
    ) -> Result<Self, WipeError> {
        let private = match options.path {
            None => OwnedDirectory::create(options.work_dir, &options.owner, LAYOUT)?,
            Some(path) => OwnedDirectory::create_at(path, &options.owner, LAYOUT)?,
        };
        match Self::complete(options, &private) {
            Ok((tool_input, secrets)) => Ok(Self {
                secrets,
                temporary: OnceLock::new(),
                private,
                tool_input,
                module: Mutex::default(),
                user: OnceLock::new(),
            }),
            Err(error) => {
                drop(reserve.take());
                Err(error)
            }
        }
    }

    fn complete(
        options: &RunDirectoryOptions<'_>,
        private: &OwnedDirectory,
    ) -> Result<(Arc<File>, Option<OwnedDirectory>), WipeError> {
        private.directory.subdirectory(TOOL_FILES)?;
        let tool_input = private.tool_input()?;
        let secrets = memory::secrets_directory(options.tmpfs_dir)
            .map(|memory| {
                create_secrets_directory(&memory, &options.owner, private.directory.path())
            })
            .transpose();
        match secrets {
            // The run can do without a directory in memory that the user did not request.
            Err(error) if options.tmpfs_dir.is_none() => {
                tracing::warn!(error = %butler_base::error::chain(&error), "secret files go to the work directory");
                Ok((tool_input, None))
            }
            secrets => Ok((tool_input, secrets?)),
        }
    }

    /// The directory for plans and other large files.
    pub(in crate::run) const fn private(&self) -> &PrivateDirectory {
        &self.private.directory
    }

    /// The directory for small files with secrets.
    pub(in crate::run) fn secrets(&self) -> &PrivateDirectory {
        &self.secrets.as_ref().unwrap_or(&self.private).directory
    }

    /// Terraform's standard input. Its lock shows other processes that Terraform is alive.
    pub(in crate::run) fn tool_input(&self) -> Input {
        Input::File(self.tool_input.clone())
    }

    /// The directory for files that the tools write for the runner. The other files of [`Self::private`] are the
    /// runner's own.
    pub(in crate::run) fn tool_files(&self) -> PathBuf {
        self.private().path().join(TOOL_FILES)
    }

    /// Creates a private directory in `parent` for the tools' TMPDIR.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(in crate::run) fn create_temporary(
        &self,
        parent: &Path,
        owner: &str,
    ) -> Result<PathBuf, WipeError> {
        let created = OwnedDirectory::create(parent, owner, Layout::default())?;
        created.record_run_directory(self.private().path())?;
        // The tools must not write beside it, where the lock of the runner is.
        let path = created.directory.subdirectory(TEMPORARY)?;
        // A second one would be wiped here; there is one for each run.
        let _ = self.temporary.set(created);
        Ok(path)
    }

    /// The directory of [`Self::create_temporary`], if there is one.
    pub(in crate::run) fn temporary(&self) -> Option<PathBuf> {
        self.temporary.get().map(|owned| owned.directory.path().join(TEMPORARY))
    }

    /// Keeps the user of the tools until the directory is wiped.
    pub(in crate::run) fn keep_user(&self, user: RunUser) {
        // A second one would be free here; there is one for each run.
        let _ = self.user.set(user);
    }

    /// Ends the processes that the tools have left, which could replace files by links during the wipe, and takes the
    /// states back from their user. No tool may be started after that.
    ///
    /// # Errors
    /// If it is not known that no process is left. The files must be wiped still, because they contain secrets.
    pub(in crate::run) fn end_user(&self) -> std::io::Result<()> {
        self.user.get().map_or(Ok(()), RunUser::end)
    }

    /// The path for the clone, which does not exist yet.
    pub(in crate::run) fn source(&self) -> PathBuf {
        self.private().path().join(SOURCE)
    }

    /// The path for Terragrunt's copies, which may not exist.
    pub(in crate::run) fn downloads(&self) -> PathBuf {
        self.private().path().join(DOWNLOADS)
    }

    /// Prepares `module`, a directory in the clone: its `.terraform` becomes a link to a private directory, because
    /// Terraform stores the backend's settings there in clear text. The name stays relative, so that `path.module`
    /// does. Files that are written to the clone from now on are overwritten at the end. See
    /// [`keep_data_in_module`] for modules that the tool sends to a server.
    pub(in crate::run) fn prepare_module(&self, module: &Path) -> Result<(), WipeError> {
        let data = self.private().subdirectory("data")?;
        self.record_module(module)?;
        let link = module.join(DATA_DIRECTORY);
        let failed = |act| {
            let path = link.clone();
            move |source| WipeError { act, path, source }
        };
        // A `.terraform` in the repository would decide where secrets are written.
        match std::fs::symlink_metadata(&link) {
            Ok(metadata) if metadata.is_dir() => {
                remove_directory(&link).map_err(failed("remove"))?;
            }
            Ok(_) => std::fs::remove_file(&link).map_err(failed("remove"))?,
            Err(_) => {}
        }
        name_directory(&data, &link).map_err(failed("create"))?;
        // An `errored.tfstate` in the repository is not a state of this run, so it must not be pushed or kept. If it is
        // a link, Terraform would write to its target.
        let cloned = module.join(ERRORED_STATE);
        match std::fs::remove_file(&cloned) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(WipeError { act: "remove", path: cloned, source });
            }
            _ => {}
        }
        *self.module.lock().unwrap_or_else(PoisonError::into_inner) = Some(module.to_owned());
        Ok(())
    }

    /// Records the path of the module for a later process that cleans up. The time of the file separates files of the
    /// clone from files of the run.
    fn record_module(&self, module: &Path) -> Result<(), WipeError> {
        let source = self.source();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| WipeError { act: "create", path, source }
        };
        let real = std::fs::canonicalize(&source).map_err(failed(&source))?;
        let inside = module.strip_prefix(&source).or_else(|_| module.strip_prefix(&real));
        // Relative, because the work directory can have several names.
        let inside = Path::new(SOURCE).join(inside.unwrap_or(Path::new("")));
        self.private().write(MODULE, inside.as_os_str().as_encoded_bytes()).map(|_| ())
    }

    /// Moves a state that Terraform could not store out of the clone; see [`keep_errored_state`].
    ///
    /// # Errors
    /// If it cannot be moved, with its path.
    pub(in crate::run) fn rescue_state(
        &self,
        recovery: &Path,
    ) -> Result<Option<KeptState>, (PathBuf, std::io::Error)> {
        // The teardown has logged an error.
        let _ = self.end_user();
        let module = self.module.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match module {
            Some(module) => keep_errored_state(&module, recovery, self.private().path())
                .map_err(|error| (module.join(ERRORED_STATE), error)),
            None => Ok(None),
        }
    }

    /// Wipes the files that no report needs: the secrets, `unused`, and the clone, unless it contains the only copy of a
    /// state. [`Self::wipe`] or [`Self::wipe_but_clone`] must be called for the rest.
    pub(in crate::run) fn wipe_unused(
        &mut self,
        unused: &[PathBuf],
        but_clone: bool,
    ) -> Result<(), WipeError> {
        // The teardown has logged an error.
        let _ = self.end_user();
        let secrets = self.secrets.take();
        let private = self.private();
        // In parallel: overwriting waits for the disk, removing does not.
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
                // The limit of threads can be reached.
                Some(Err(_)) => private.wipe_checkout(),
            })
        })
    }

    /// Wipes everything. Continues after an error and returns the first one.
    pub(in crate::run) fn wipe(self) -> Result<(), WipeError> {
        // The teardown has logged an error.
        let _ = self.end_user();
        drop(self.tool_input);
        let others = wipe_all([self.secrets, self.temporary.into_inner()]);
        // Last: other processes use this directory to see that the run has not ended.
        others.and(self.private.wipe())
    }

    /// The same, except for the clone, which contains the only copy of a state, and the files by which a later process
    /// recognises the directory.
    pub(in crate::run) fn wipe_but_clone(self) -> Result<(), WipeError> {
        // The teardown has logged an error.
        let _ = self.end_user();
        let others = wipe_all([self.secrets, self.temporary.into_inner()]);
        others.and(self.private.directory.wipe_private())
    }
}

/// Replaces the link of [`RunDirectory::prepare_module`] by a directory. A tool that sends the module to a server leaves out
/// the directory `.terraform`, but follows a link of this name and sends its target: providers and the settings of the
/// backend.
///
/// # Errors
/// If the link cannot be removed, or the directory cannot be created.
pub(in crate::run) fn keep_data_in_module(module: &Path) -> Result<(), WipeError> {
    let path = module.join(DATA_DIRECTORY);
    let failed = |act| {
        let path = path.clone();
        move |source| WipeError { act, path, source }
    };
    if !path.is_symlink() {
        return Ok(());
    }
    std::fs::remove_file(&path).map_err(failed("remove"))?;
    std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(failed("create"))
}

/// Wipes the directories of a run in other directories. Continues after an error and returns the first one.
fn wipe_all(directories: [Option<OwnedDirectory>; 2]) -> Result<(), WipeError> {
    directories.into_iter().flatten().map(OwnedDirectory::wipe).fold(Ok(()), Result::and)
}

/// Creates the directory for the secrets of the run in `run`.
fn create_secrets_directory(
    memory: &Path,
    owner: &str,
    run: &Path,
) -> Result<OwnedDirectory, WipeError> {
    let OwnedDirectory { directory, lock } =
        OwnedDirectory::create(memory, owner, Layout::default())?;
    let secrets = OwnedDirectory { directory: directory.with_spare(run), lock };
    secrets.record_run_directory(run)?;
    Ok(secrets)
}

/// The module in the directory `run` of a run whose runner is dead.
pub(in crate::run) fn module_of(run: &Path) -> Option<PathBuf> {
    let source = std::fs::canonicalize(run.join(SOURCE)).ok()?;
    let inside = os_string(std::fs::read(run.join(MODULE)).ok()?);
    let module = std::fs::canonicalize(run.join(inside)).ok()?;
    // A link in the clone can have changed since.
    module.starts_with(source).then_some(module)
}

#[cfg(test)]
#[path = "run_directory_tests.rs"]
mod tests;
