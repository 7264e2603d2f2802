//! Finds out who uses a run's directory, by locks that end with their processes.
//!
//! The runner holds a lock on a file in each directory that it creates. Terraform inherits a lock on another file as
//! its standard input and passes it on to its providers. So the runner does not need process ids, times or a list to
//! decide whether a directory is in use. A directory counts as a run's only if it contains the runner's file, belongs
//! to this user, and is not accessible for others.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::origin::Origin;
use butler_base::platform::fs::{
    MetadataExt, OFlag, OpenOptionsExt, is_at, try_lock, try_lock_shared, user,
};
use butler_base::platform::{is_local, os_string, processes_of_user};
use butler_base::secret::{Layout, PrivateDirectory, WipeError};

/// The prefix of the names of run directories. A cache directory in the same parent has the number of a user instead of
/// `run-`.
pub(in crate::run) const PREFIX: &str = "butler-runner-run-";

/// The file that the runner locks. It contains the origin of the runner, the name of the run, and in a directory of
/// secrets the path of the run's directory, which contains Terraform's lock.
const OWNER_LOCK: &str = "owner.lock";

/// The file that Terraform locks.
const TOOL_LOCK: &str = "tool.lock";

/// The mode of a directory that is shared with the user of the run's tools, whose number is that of its group.
const SHARED: u32 = 0o710;

/// How often a directory is created. Another process that cleans up can take it for an orphaned one before it is
/// locked, which is rare.
const CREATE_ATTEMPTS: usize = 10;

/// Two processes that clean up can contend for a lock that each holds for a moment.
const LOCK_ATTEMPTS: usize = 4;
const LOCK_PAUSE: Duration = Duration::from_millis(25);

/// The largest size of the owner's file, in bytes: paths have at most 4,096 bytes.
const MAX_OWNER_FILE: u64 = 5000;

/// A private directory that is locked as long as this process lives.
#[derive(Debug)]
pub(in crate::run) struct OwnedDirectory {
    pub(in crate::run) directory: PrivateDirectory,
    /// `None` if the file system has no locks. Other processes cannot recognise such a directory as orphaned.
    pub(in crate::run) lock: Option<File>,
}

impl OwnedDirectory {
    /// Creates a directory in `parent` for `owner`, such as `run 7`.
    pub(in crate::run) fn create(
        parent: &Path,
        owner: &str,
        layout: Layout,
    ) -> Result<Self, WipeError> {
        Self::create_with(parent, owner, layout, || PrivateDirectory::create(parent, PREFIX))
    }

    /// Creates the directory `path`, which must not exist.
    pub(in crate::run) fn create_at(
        path: &Path,
        owner: &str,
        layout: Layout,
    ) -> Result<Self, WipeError> {
        Self::create_with(path, owner, layout, || PrivateDirectory::create_at(path))
    }

    fn create_with(
        place: &Path,
        owner: &str,
        layout: Layout,
        create: impl Fn() -> Result<PrivateDirectory, WipeError>,
    ) -> Result<Self, WipeError> {
        let mut lost = ErrorKind::ResourceBusy.into();
        for _ in 0..CREATE_ATTEMPTS {
            let directory = create()?.with_layout(layout);
            match create_owner_lock(&directory.path().join(OWNER_LOCK), owner) {
                Ok(lock) => return Ok(Self { directory, lock }),
                Err(error) if is_lost_race(&error) => lost = error,
                Err(error) => {
                    return Err(wipe_error("create", &directory.path().join(OWNER_LOCK))(error));
                }
            }
        }
        Err(wipe_error("create", place)(lost))
    }

    /// Records the run's directory: a directory of secrets is in use while the run's is. Writes to the file that is
    /// already open, because there may be no descriptor for another one.
    pub(in crate::run) fn record_run_directory(&self, run: &Path) -> Result<(), WipeError> {
        let Some(mut lock) = self.lock.as_ref() else { return Ok(()) };
        let line = [b"\n", run.as_os_str().as_encoded_bytes()].concat();
        lock.write_all(&line).map_err(wipe_error("write", &self.directory.path().join(OWNER_LOCK)))
    }

    /// The file for Terraform's standard input: empty, and locked until the last process that inherited it has ended.
    pub(in crate::run) fn tool_input(&self) -> Result<Arc<File>, WipeError> {
        let path = self.directory.path().join(TOOL_LOCK);
        self.directory.write(TOOL_LOCK, b"")?;
        let file = File::open(&path).map_err(wipe_error("open", &path))?;
        if let Err(error) = try_lock_shared(&file) {
            warn_of_missing_lock(&path, &error);
        }
        Ok(Arc::new(file))
    }

    /// Wipes the directory, and releases the lock after that.
    ///
    /// # Errors
    /// The first file that could not be overwritten or removed. The others are wiped anyway.
    pub(in crate::run) fn wipe(self) -> Result<(), WipeError> {
        let path = self.directory.path().to_owned();
        let wiped = self.directory.wipe();
        drop(self.lock);
        match wiped {
            // On some systems an open file, and so its directory, remains until it is closed.
            Err(error) if error.path == path && std::fs::remove_dir(&path).is_ok() => Ok(()),
            wiped => wiped,
        }
    }
}

fn wipe_error(act: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> WipeError + use<> {
    let path = path.to_owned();
    move |source| WipeError { act, path, source }
}

fn warn_of_missing_lock(path: &Path, error: &TryLockError) {
    tracing::warn!(path = %path.display(), %error, "cannot lock; going on without");
}

/// Creates the owner's file and locks it.
fn create_owner_lock(path: &Path, owner: &str) -> std::io::Result<Option<File>> {
    let mut file = open(path, OpenOptions::new().create_new(true))?;
    match try_lock(&file) {
        // A process that cleans up locked it first and has removed it.
        Ok(()) if !is_at(&file, path) => return Err(ErrorKind::NotFound.into()),
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ErrorKind::ResourceBusy.into()),
        Err(error) => {
            warn_of_missing_lock(path, &error);
            return Ok(None);
        }
    }
    file.write_all(format!("{}\n{}", Origin::here().to_line(), one_line(owner)).as_bytes())?;
    Ok(Some(file))
}

/// Whether another process took the new directory for an orphaned one.
fn is_lost_race(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ResourceBusy)
}

fn open(path: &Path, options: &mut OpenOptions) -> std::io::Result<File> {
    options.read(true).write(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)
}

/// The user of a directory.
#[derive(Debug)]
pub(in crate::run) enum DirectoryUse {
    /// It is not a run's directory of this user, or its runner is alive, or another process cleans it up.
    NotAvailable,
    /// It is empty: its runner was killed before the first file or after the last one. A runner that is creating it
    /// creates another one if it is removed.
    Empty,
    /// It is not visible from here whether it is in use.
    Unknown(OrphanedDirectory),
    /// Its runner is dead, but its Terraform is alive.
    ByTool(OrphanedDirectory),
    /// It is not in use.
    Unused(OrphanedDirectory),
}

/// A directory whose runner is dead. No other process cleans it up while this value exists.
#[derive(Debug)]
pub(in crate::run) struct OrphanedDirectory {
    pub(in crate::run) path: PathBuf,
    /// The name of its run, such as `run 7`; empty if it is unknown.
    pub(in crate::run) owner: String,
    /// The origin of its runner.
    pub(in crate::run) origin: Origin,
    /// `None` after it was released.
    lock: Option<File>,
}

impl OrphanedDirectory {
    /// Releases the lock, and removes the directory if it is otherwise empty: on some systems an open file remains
    /// until it is closed. Returns whether the directory is gone.
    pub(in crate::run) fn remove_unlocked(&mut self) -> bool {
        drop(self.lock.take());
        std::fs::remove_dir(&self.path).is_ok()
    }
}

/// The directories in `parent` with a name like that of a run's directory, in the order of their names.
pub(in crate::run) fn list_run_directories(parent: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(parent)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Finds out who uses `path`.
pub(in crate::run) fn inspect_directory(path: &Path) -> DirectoryUse {
    let Some(found) = own_directory(path) else { return DirectoryUse::NotAvailable };
    let lock = path.join(OWNER_LOCK);
    let file = match open(&lock, &mut OpenOptions::new()) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound && is_empty(path) => {
            return DirectoryUse::Empty;
        }
        Err(_) => return DirectoryUse::NotAvailable,
    };
    match try_lock(&file) {
        Ok(()) if is_at(&file, &lock) => {}
        Ok(()) | Err(TryLockError::WouldBlock) => return DirectoryUse::NotAvailable,
        Err(TryLockError::Error(error)) => {
            tracing::debug!(path = %lock.display(), %error, "cannot lock");
            return DirectoryUse::NotAvailable;
        }
    }
    let (origin, owner, run) = read_owner(&file);
    let here = Origin::here();
    let visible = origin.has_visible_locks(&here, is_local(&file));
    // A path that does not exist here can exist in another container, in which Terraform can be running.
    let reachable = origin.is_same_host(&here) || run.as_ref().is_none_or(|run| run.exists());
    let orphaned = OrphanedDirectory { path: path.to_owned(), owner, origin, lock: Some(file) };
    // The runner is dead, so it does not start Terraform any more.
    if !visible || !reachable {
        DirectoryUse::Unknown(orphaned)
    } else if is_held(&path.join(TOOL_LOCK))
        || run.is_some_and(|run| is_held(&run.join(TOOL_LOCK)))
        || has_processes(&found)
    {
        DirectoryUse::ByTool(orphaned)
    } else {
        DirectoryUse::Unused(orphaned)
    }
}

/// The metadata of `path` if it is a directory of this user, not a link to one, in which others cannot write or
/// list files. No other user can have created it, or a file in it.
fn own_directory(path: &Path) -> Option<Metadata> {
    let found = std::fs::symlink_metadata(path).ok()?;
    // The other bits can be inherited from the parent directory.
    let is_own = found.is_dir()
        && found.uid() == user()
        && [0o700, SHARED].contains(&(found.mode() & 0o777));
    is_own.then_some(found)
}

/// Whether the user of the run's tools has processes, if the run has one. A process can free the lock of its tool,
/// and could replace files by links while they are wiped.
fn has_processes(found: &Metadata) -> bool {
    found.mode() & 0o777 == SHARED
        && processes_of_user(found.gid()).map_or(true, |processes| !processes.is_empty())
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Reads the owner's file: the origin of the runner, the name of the run in one printable line, and the path of the
/// run's directory, if this one belongs to another.
fn read_owner(file: &File) -> (Origin, String, Option<PathBuf>) {
    let mut text = Vec::new();
    let _ = std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_OWNER_FILE), &mut text);
    let mut lines = text.splitn(3, |byte| *byte == b'\n');
    let mut shown = || one_line(&String::from_utf8_lossy(lines.next().unwrap_or_default()));
    let (origin, owner) = (Origin::parse_line(&shown()), shown());
    let run = lines.next().map(|run| PathBuf::from(os_string(run.to_owned())));
    (origin, owner, run.filter(|run| run.is_absolute()))
}

fn one_line(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).collect()
}

/// Whether a process holds the lock of `path`. An error counts as held.
fn is_held(path: &Path) -> bool {
    let file = match open(path, &mut OpenOptions::new()) {
        Ok(file) => file,
        Err(error) => return error.kind() != ErrorKind::NotFound,
    };
    for attempt in 1..=LOCK_ATTEMPTS {
        match try_lock(&file) {
            Ok(()) => return false,
            Err(TryLockError::WouldBlock) if attempt < LOCK_ATTEMPTS => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(_) => break,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn create(parent: &Path) -> OwnedDirectory {
        OwnedDirectory::create(parent, "run 7", Layout::default()).unwrap()
    }

    /// Leaves the directory as a killed runner does: without a lock.
    fn abandon(directory: OwnedDirectory) -> PathBuf {
        let OwnedDirectory { directory, lock: _lock } = directory;
        let path = directory.path().to_owned();
        std::mem::forget(directory);
        path
    }

    #[test]
    fn directory_is_not_available_while_its_runner_is_alive() {
        let base = tempfile::tempdir().unwrap();
        let directory = create(base.path());
        let path = directory.directory.path().to_owned();
        assert_eq!(list_run_directories(base.path()).unwrap(), std::slice::from_ref(&path));
        assert!(matches!(inspect_directory(&path), DirectoryUse::NotAvailable));
        abandon(directory);
        let DirectoryUse::Unused(leftover) = inspect_directory(&path) else {
            panic!("its runner is dead")
        };
        assert_eq!(leftover.owner, "run 7");
        assert!(
            matches!(inspect_directory(&path), DirectoryUse::NotAvailable),
            "one process cleans up at a time"
        );
    }

    #[test]
    fn directory_is_in_use_while_a_process_holds_the_inherited_lock() {
        let base = tempfile::tempdir().unwrap();
        let run = create(base.path());
        let input = run.tool_input().unwrap();
        let secrets = create(base.path());
        secrets.record_run_directory(run.directory.path()).unwrap();
        let inherited = input.try_clone().unwrap();
        drop(input);
        let (run, secrets) = (abandon(run), abandon(secrets));
        assert!(matches!(inspect_directory(&run), DirectoryUse::ByTool(_)));
        assert!(matches!(inspect_directory(&secrets), DirectoryUse::ByTool(_)));
        drop(inherited);
        assert!(matches!(inspect_directory(&run), DirectoryUse::Unused(_)));
        assert!(matches!(inspect_directory(&secrets), DirectoryUse::Unused(_)));
    }

    /// Replaces the origin of the owner of `path`.
    fn set_origin(path: &Path, line: &str) {
        let text = std::fs::read_to_string(path.join(OWNER_LOCK)).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        std::fs::write(path.join(OWNER_LOCK), format!("{line}\n{rest}")).unwrap();
    }

    #[test]
    fn use_of_secrets_of_another_host_is_unknown_if_its_run_is_not_visible() {
        let base = tempfile::tempdir().unwrap();
        let secrets = create(base.path());
        secrets.record_run_directory(Path::new("/nowhere/run")).unwrap();
        let secrets = abandon(secrets);
        // The run's directory is on this host and gone, so the run has ended.
        assert!(matches!(inspect_directory(&secrets), DirectoryUse::Unused(_)));
        set_origin(&secrets, "of-another another");
        let DirectoryUse::Unknown(leftover) = inspect_directory(&secrets) else {
            panic!("the owner is not visible")
        };
        assert_eq!((leftover.owner.as_str(), leftover.origin.host()), ("run 7", "another"));
        let run = abandon(create(base.path()));
        set_origin(&run, "of-another another");
        assert!(
            matches!(inspect_directory(&run), DirectoryUse::Unused(_)),
            "locks are visible on this file system"
        );
    }

    #[test]
    fn directory_that_inherits_its_group_counts_as_a_runs() {
        let base = tempfile::tempdir().unwrap();
        std::fs::set_permissions(base.path(), PermissionsExt::from_mode(0o2700)).unwrap();
        let path = abandon(create(base.path()));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o2700);
        assert!(matches!(inspect_directory(&path), DirectoryUse::Unused(_)));
    }

    #[test]
    fn directory_that_another_user_could_have_created_is_not_touched() {
        let base = tempfile::tempdir().unwrap();
        let real = abandon(create(base.path()));
        let link = base.path().join(format!("{PREFIX}link"));
        symlink(&real, &link).unwrap();
        assert!(matches!(inspect_directory(&link), DirectoryUse::NotAvailable));
        std::fs::set_permissions(&real, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(matches!(inspect_directory(&real), DirectoryUse::NotAvailable));
        std::fs::set_permissions(&real, PermissionsExt::from_mode(0o700)).unwrap();
        if user() == 0 {
            std::os::unix::fs::chown(&real, Some(65534), None).unwrap();
            assert!(matches!(inspect_directory(&real), DirectoryUse::NotAvailable));
            std::os::unix::fs::chown(&real, Some(0), None).unwrap();
        }
        assert!(matches!(inspect_directory(&real), DirectoryUse::Unused(_)));
    }

    #[test]
    fn directory_without_a_lock_file_is_kept_unless_it_is_empty() {
        let base = tempfile::tempdir().unwrap();
        let make = || PrivateDirectory::create(base.path(), PREFIX).unwrap();
        let (empty, full) = (make(), make());
        full.write("precious", b"").unwrap();
        assert!(matches!(inspect_directory(empty.path()), DirectoryUse::Empty));
        assert!(matches!(inspect_directory(full.path()), DirectoryUse::NotAvailable));
    }

    #[test]
    fn directory_is_created_again_if_another_process_cleans_it_up_first() {
        let base = tempfile::tempdir().unwrap();
        // A thread that cleans up all the time.
        let parent = base.path().to_owned();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let cleaning = std::thread::spawn(move || {
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                for path in list_run_directories(&parent).unwrap_or_default() {
                    match inspect_directory(&path) {
                        DirectoryUse::Unused(leftover) => {
                            let _ = butler_base::secret::wipe_directory(
                                &leftover.path,
                                Layout::default(),
                            );
                        }
                        DirectoryUse::Empty => drop(std::fs::remove_dir(&path)),
                        DirectoryUse::NotAvailable
                        | DirectoryUse::Unknown(_)
                        | DirectoryUse::ByTool(_) => {}
                    }
                }
            }
        });
        let directories: Vec<_> = (0..100).map(|_| create(base.path())).collect();
        stop.send(()).unwrap();
        cleaning.join().unwrap();
        for directory in &directories {
            assert!(directory.directory.path().join(OWNER_LOCK).exists());
        }
    }
}
