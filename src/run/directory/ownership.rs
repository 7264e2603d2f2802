//! Whose a run's directory is, as the kernel knows it: by locks that end with their holders.
//!
//! The runner holds a lock on a file in each directory that it makes, and Terraform one more that
//! it inherits as its standard input and hands on to its providers. So whether a directory is in use
//! is never a matter of process ids, of times, or of a list that is kept somewhere. Only what has
//! such a file, belongs to this user, and is closed to others is ever taken for a run's directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::origin::Origin;
use butler_base::platform::fs::{
    MetadataExt, OFlag, OpenOptionsExt, is_at, try_lock, try_lock_shared, user,
};
use butler_base::platform::{is_local, os_string};
use butler_base::secret::{Layout, PrivateDirectory, WipeError};

/// How directories of runs are called. The cache's stand-in in the same place has a number there.
pub(in crate::run) const PREFIX: &str = "butler-runner-run-";

/// The file that the runner holds locked; it says where the runner is, whose run this is, and in a
/// directory of secrets where the run's directory is, in which Terraform's lock is.
const OWNER: &str = "owner.lock";

/// The file that Terraform holds locked.
const TOOL: &str = "tool.lock";

/// How often a directory is made anew because somebody who tidies up took it for a leftover in the
/// moment before it was locked. Once is rare.
const ATTEMPTS: usize = 10;

/// Two that tidy up may meet at a lock that each holds for a moment only.
const LOCK_ATTEMPTS: usize = 4;
const LOCK_PAUSE: Duration = Duration::from_millis(25);

/// What of the owner's file is read: paths are no longer than 4,096 bytes.
const LONGEST_OWNER: u64 = 5000;

/// A private directory that is locked as long as this process lives.
#[derive(Debug)]
pub(in crate::run) struct OwnedDirectory {
    pub(in crate::run) directory: PrivateDirectory,
    /// None where the file system knows no locks; then nobody else finds out that it is a leftover.
    pub(in crate::run) lock: Option<File>,
}

impl OwnedDirectory {
    /// Makes one in `parent` for `owner`, such as `run 7`.
    pub(in crate::run) fn create(
        parent: &Path,
        owner: &str,
        layout: Layout,
    ) -> Result<Self, WipeError> {
        let mut lost = ErrorKind::ResourceBusy.into();
        for _ in 0..ATTEMPTS {
            let directory = PrivateDirectory::create(parent, PREFIX)?.with_layout(layout);
            match claim(&directory.path().join(OWNER), owner) {
                Ok(lock) => return Ok(Self { directory, lock }),
                Err(error) if is_lost_race(&error) => lost = error,
                Err(error) => return Err(failed("create", &directory.path().join(OWNER))(error)),
            }
        }
        Err(failed("create", parent)(lost))
    }

    /// Says where the rest of the run is: a directory of secrets is in use while that is. In the file
    /// that is open already, because there may be no descriptor for another one.
    pub(in crate::run) fn belongs_to(&self, run: &Path) -> Result<(), WipeError> {
        let Some(mut lock) = self.lock.as_ref() else { return Ok(()) };
        let line = [b"\n", run.as_os_str().as_encoded_bytes()].concat();
        lock.write_all(&line).map_err(failed("write", &self.directory.path().join(OWNER)))
    }

    /// The file for Terraform's standard input: empty, and locked until the last one that inherited
    /// it is gone.
    pub(in crate::run) fn tool_input(&self) -> Result<Arc<File>, WipeError> {
        let path = self.directory.path().join(TOOL);
        self.directory.write(TOOL, b"")?;
        let file = File::open(&path).map_err(failed("open", &path))?;
        if let Err(error) = try_lock_shared(&file) {
            without_lock(&path, &error);
        }
        Ok(Arc::new(file))
    }
}

impl OwnedDirectory {
    /// Wipes it, and gives up the lock when there is nothing left that it could tell of.
    ///
    /// # Errors
    /// The first thing that could not be overwritten or removed; the rest is wiped all the same.
    pub(in crate::run) fn wipe(self) -> Result<(), WipeError> {
        let path = self.directory.path().to_owned();
        let wiped = self.directory.wipe();
        drop(self.lock);
        match wiped {
            // On some systems a file is there for as long as it is open, and so is what it is in.
            Err(error) if error.path == path && std::fs::remove_dir(&path).is_ok() => Ok(()),
            wiped => wiped,
        }
    }
}

fn failed(act: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> WipeError + use<> {
    let path = path.to_owned();
    move |source| WipeError { act, path, source }
}

fn without_lock(path: &Path, error: &TryLockError) {
    tracing::warn!(path = %path.display(), %error, "cannot lock; going on without");
}

/// Makes the owner's file and locks it.
fn claim(path: &Path, owner: &str) -> std::io::Result<Option<File>> {
    let mut file = open(path, OpenOptions::new().create_new(true))?;
    match try_lock(&file) {
        // Whoever had it in between has removed it by now.
        Ok(()) if !is_at(&file, path) => return Err(ErrorKind::NotFound.into()),
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ErrorKind::ResourceBusy.into()),
        Err(error) => {
            without_lock(path, &error);
            return Ok(None);
        }
    }
    file.write_all(format!("{}\n{}", Origin::here().line(), one_line(owner)).as_bytes())?;
    Ok(Some(file))
}

/// Whether somebody took the new directory for a leftover.
fn is_lost_race(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ResourceBusy)
}

fn open(path: &Path, options: &mut OpenOptions) -> std::io::Result<File> {
    options.read(true).write(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)
}

/// Who uses a directory that was found.
#[derive(Debug)]
pub(in crate::run) enum Use {
    /// It is none of ours, or its runner lives: nobody else's business.
    Foreign,
    /// Nobody, and there is nothing in it: its runner was killed before or after everything else.
    /// It may be just being made; whoever makes it makes another when it is gone.
    Empty,
    /// Nobody can tell from here whether it is in use.
    Unknown(Leftover),
    /// Its runner is dead; its Terraform is not.
    Tool(Leftover),
    /// Nobody.
    Nobody(Leftover),
}

/// A directory whose runner is dead. Nobody else tidies it up while this lives.
#[derive(Debug)]
pub(in crate::run) struct Leftover {
    pub(in crate::run) path: PathBuf,
    /// Whose it was, such as `run 7`; empty where that is not known.
    pub(in crate::run) owner: String,
    /// Where its runner was.
    pub(in crate::run) origin: Origin,
    /// None once it was given up.
    lock: Option<File>,
}

impl Leftover {
    /// Gives up the lock, and removes the directory if nothing else was in it: on some systems a file
    /// is there for as long as it is open. Returns whether it is gone.
    pub(in crate::run) fn remove_unlocked(&mut self) -> bool {
        drop(self.lock.take());
        std::fs::remove_dir(&self.path).is_ok()
    }
}

/// The directories in `place` that are called like a run's, in the order of their names.
pub(in crate::run) fn candidates(place: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(place)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Finds out who uses `path`.
pub(in crate::run) fn inspect(path: &Path) -> Use {
    if !is_own_directory(path) {
        return Use::Foreign;
    }
    let lock = path.join(OWNER);
    let file = match open(&lock, &mut OpenOptions::new()) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound && is_empty(path) => return Use::Empty,
        Err(_) => return Use::Foreign,
    };
    match try_lock(&file) {
        Ok(()) if is_at(&file, &lock) => {}
        Ok(()) | Err(TryLockError::WouldBlock) => return Use::Foreign,
        Err(TryLockError::Error(error)) => {
            tracing::debug!(path = %lock.display(), %error, "cannot lock");
            return Use::Foreign;
        }
    }
    let (origin, owner, run) = said_by(&file);
    let here = Origin::here();
    let told = origin.is_told_by_locks(&here, is_local(&file));
    // What is not there may be another container's, and Terraform may be at work in it.
    let reachable = origin.is_host_of(&here) || run.as_ref().is_none_or(|run| run.exists());
    let leftover = Leftover { path: path.to_owned(), owner, origin, lock: Some(file) };
    // The runner is dead, so nobody starts Terraform from here on.
    if !told || !reachable {
        Use::Unknown(leftover)
    } else if is_held(&path.join(TOOL)) || run.is_some_and(|run| is_held(&run.join(TOOL))) {
        Use::Tool(leftover)
    } else {
        Use::Nobody(leftover)
    }
}

/// Whether `path` is a directory, itself and not what it leads to, of this user and closed to all
/// others: nobody else can have made it, nor have put anything into it.
fn is_own_directory(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| {
        // The bits beyond those may come from the directory that it is in.
        found.is_dir() && found.uid() == user() && found.mode() & 0o777 == 0o700
    })
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// What the owner's file says: where the owner is, who it is as one line that can be shown, and where
/// the run's directory is that this one belongs to.
fn said_by(file: &File) -> (Origin, String, Option<PathBuf>) {
    let mut text = Vec::new();
    let _ = std::io::Read::read_to_end(&mut std::io::Read::take(file, LONGEST_OWNER), &mut text);
    let mut lines = text.splitn(3, |byte| *byte == b'\n');
    let mut shown = || one_line(&String::from_utf8_lossy(lines.next().unwrap_or_default()));
    let (origin, owner) = (Origin::of_line(&shown()), shown());
    let run = lines.next().map(|run| PathBuf::from(os_string(run.to_owned())));
    (origin, owner, run.filter(|run| run.is_absolute()))
}

fn one_line(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).collect()
}

/// Whether somebody holds the lock of `path`. What cannot be found out counts as held.
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

    /// What is left when a runner is killed: the directory, but nobody who holds a lock.
    fn leave(directory: OwnedDirectory) -> PathBuf {
        let OwnedDirectory { directory, lock: _lock } = directory;
        let path = directory.path().to_owned();
        std::mem::forget(directory);
        path
    }

    #[test]
    fn a_directory_is_foreign_while_its_runner_lives() {
        let base = tempfile::tempdir().unwrap();
        let directory = create(base.path());
        let path = directory.directory.path().to_owned();
        assert_eq!(candidates(base.path()).unwrap(), std::slice::from_ref(&path));
        assert!(matches!(inspect(&path), Use::Foreign));
        leave(directory);
        let Use::Nobody(leftover) = inspect(&path) else { panic!("its runner is dead") };
        assert_eq!(leftover.owner, "run 7");
        assert!(matches!(inspect(&path), Use::Foreign), "one tidies up at a time");
    }

    #[test]
    fn a_directory_is_the_tools_while_anybody_holds_what_it_inherited() {
        let base = tempfile::tempdir().unwrap();
        let run = create(base.path());
        let input = run.tool_input().unwrap();
        let secrets = create(base.path());
        secrets.belongs_to(run.directory.path()).unwrap();
        let inherited = input.try_clone().unwrap();
        drop(input);
        let (run, secrets) = (leave(run), leave(secrets));
        assert!(matches!(inspect(&run), Use::Tool(_)));
        assert!(matches!(inspect(&secrets), Use::Tool(_)));
        drop(inherited);
        assert!(matches!(inspect(&run), Use::Nobody(_)));
        assert!(matches!(inspect(&secrets), Use::Nobody(_)));
    }

    /// Has the owner of `path` be where `line` says.
    fn move_owner(path: &Path, line: &str) {
        let said = std::fs::read_to_string(path.join(OWNER)).unwrap();
        let (_, rest) = said.split_once('\n').unwrap();
        std::fs::write(path.join(OWNER), format!("{line}\n{rest}")).unwrap();
    }

    #[test]
    fn secrets_of_another_host_are_unknown_where_its_run_cannot_be_seen() {
        let base = tempfile::tempdir().unwrap();
        let secrets = create(base.path());
        secrets.belongs_to(Path::new("/nowhere/run")).unwrap();
        let secrets = leave(secrets);
        // One of this host's is gone: nobody wipes it before these.
        assert!(matches!(inspect(&secrets), Use::Nobody(_)));
        move_owner(&secrets, "of-another another");
        let Use::Unknown(leftover) = inspect(&secrets) else { panic!("nobody can know") };
        assert_eq!((leftover.owner.as_str(), leftover.origin.host()), ("run 7", "another"));
        let run = leave(create(base.path()));
        move_owner(&run, "of-another another");
        assert!(matches!(inspect(&run), Use::Nobody(_)), "locks tell on this file system");
    }

    #[test]
    fn a_directory_that_inherits_its_group_is_a_runs_all_the_same() {
        let base = tempfile::tempdir().unwrap();
        std::fs::set_permissions(base.path(), PermissionsExt::from_mode(0o2700)).unwrap();
        let path = leave(create(base.path()));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o2700);
        assert!(matches!(inspect(&path), Use::Nobody(_)));
    }

    #[test]
    fn what_somebody_else_could_have_made_is_not_touched() {
        let base = tempfile::tempdir().unwrap();
        let real = leave(create(base.path()));
        let link = base.path().join(format!("{PREFIX}link"));
        symlink(&real, &link).unwrap();
        assert!(matches!(inspect(&link), Use::Foreign));
        std::fs::set_permissions(&real, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(matches!(inspect(&real), Use::Foreign));
        std::fs::set_permissions(&real, PermissionsExt::from_mode(0o700)).unwrap();
        if user() == 0 {
            std::os::unix::fs::chown(&real, Some(65534), None).unwrap();
            assert!(matches!(inspect(&real), Use::Foreign));
            std::os::unix::fs::chown(&real, Some(0), None).unwrap();
        }
        assert!(matches!(inspect(&real), Use::Nobody(_)));
    }

    #[test]
    fn a_directory_without_a_lock_file_is_left_alone_unless_it_is_empty() {
        let base = tempfile::tempdir().unwrap();
        let make = || PrivateDirectory::create(base.path(), PREFIX).unwrap();
        let (empty, full) = (make(), make());
        full.write("precious", b"").unwrap();
        assert!(matches!(inspect(empty.path()), Use::Empty));
        assert!(matches!(inspect(full.path()), Use::Foreign));
    }

    #[test]
    fn a_directory_that_is_taken_for_a_leftover_while_it_is_made_is_made_anew() {
        let base = tempfile::tempdir().unwrap();
        // Somebody who tidies up all the time.
        let place = base.path().to_owned();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let tidying = std::thread::spawn(move || {
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                for path in candidates(&place).unwrap_or_default() {
                    match inspect(&path) {
                        Use::Nobody(leftover) => {
                            let _ = butler_base::secret::wipe_directory(
                                &leftover.path,
                                Layout::default(),
                            );
                        }
                        Use::Empty => drop(std::fs::remove_dir(&path)),
                        Use::Foreign | Use::Unknown(_) | Use::Tool(_) => {}
                    }
                }
            }
        });
        let directories: Vec<_> = (0..100).map(|_| create(base.path())).collect();
        stop.send(()).unwrap();
        tidying.join().unwrap();
        for directory in &directories {
            assert!(directory.directory.path().join(OWNER).exists());
        }
    }
}
