//! The user of an isolated run: a number that no other run on the machine and no process has.
//!
//! The lock of a file is the right to use a number. The file contains the directory of the run, so that a number
//! whose runner was killed stays reserved until that directory is removed: its files belong to the number. A number
//! whose processes cannot be ended stays reserved until the machine is started again.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::END_USER_COMMAND;
use crate::settings::UserRange;
use butler_base::platform::fs::{
    DirBuilderExt, MetadataExt, OFlag, OpenOptionsExt, try_lock, user,
};
use butler_base::platform::{
    end_processes_of_user, give_directory, is_user_mapped, os_string, processes_of_user,
};
use butler_base::process::run_helper;

/// The directory of the locks. Only root can use it, and it is empty after a start of the machine.
const LOCKS: &str = "/run/butler-runner/users";

/// What the file of a number contains whose processes cannot be ended: a directory that is never removed.
const ALWAYS: &str = "/";

/// The user of a run. Dropping this kills the user's processes and frees the number.
#[derive(Debug)]
pub(in crate::run) struct RunUser {
    id: u32,
    lock: File,
    /// The executable of the runner, which becomes the user to kill its processes.
    runner: PathBuf,
    /// Whether all processes are known to have ended. No command of the run is started after that.
    ended: AtomicBool,
    /// The states that the user gets, which are given back at the end.
    states: Option<PathBuf>,
}

/// The states of a server's layers, each in a directory of its own.
#[derive(Debug, Default)]
pub(in crate::run) struct States<'run> {
    /// The parent of these directories; `None` without a server.
    pub(in crate::run) of_server: Option<&'run Path>,
    /// The directory of the run's own layer, if the server keeps its state.
    pub(in crate::run) own: Option<PathBuf>,
}

/// No user can be taken.
#[derive(Debug, thiserror::Error)]
pub(in crate::run) enum RunUserError {
    /// The directory of the locks cannot be used, or the processes cannot be listed.
    #[error("cannot take a user for the run with a lock in `{LOCKS}`")]
    Lock(#[source] io::Error),
    /// Each user is in use.
    #[error(
        "none of the users {} to {} is free: each is in use by a process or a run, owns states of another layer whose \
         run was killed, or does not exist in this user namespace", .0.first, .0.last
    )]
    NotFree(UserRange),
}

impl RunUser {
    /// Takes a user of `range` for the run with this directory. `runner` is the executable of the runner.
    ///
    /// # Errors
    /// If no user is free.
    pub(in crate::run) fn take(
        range: UserRange,
        runner: &Path,
        run: &Path,
        states: States<'_>,
    ) -> Result<Self, RunUserError> {
        let taken = take_in(Path::new(LOCKS), range, run, |id| {
            // After the lock: the processes of a runner that was killed just now exist already.
            Ok(is_user_mapped(id)?
                && processes_of_user(id)?.is_empty()
                && !states.of_others_belong_to(id)?)
        });
        let mut user = taken.map_err(RunUserError::Lock)?.ok_or(RunUserError::NotFree(range))?;
        runner.clone_into(&mut user.runner);
        user.states = states.own;
        Ok(user)
    }

    /// The number of the user, and of its group.
    pub(in crate::run) const fn id(&self) -> u32 {
        self.id
    }

    /// Kills all processes of the user that the commands so far have left.
    ///
    /// # Errors
    /// If it is not known that none is left.
    pub(in crate::run) fn end_processes(&self) -> io::Result<()> {
        let arguments = [END_USER_COMMAND.into(), self.id.to_string().into()];
        end_processes_of_user(self.id, || run_helper(&self.runner, &arguments))
    }

    /// Kills all processes of the user, and takes the states back from it: the number is that of another layer's run
    /// later. The files of the run can be wiped safely after that. No command may be started after that.
    ///
    /// # Errors
    /// If it is not known that no process is left.
    pub(in crate::run) fn end(&self) -> io::Result<()> {
        if self.ended.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.end_processes()?;
        self.ended.store(true, Ordering::Relaxed);
        let Some(states) = &self.states else { return Ok(()) };
        match give_directory(states, user()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let path = states.display();
                tracing::error!(%path, user = self.id, %error, "cannot take the states back from the run's user; only this layer can use the number again");
            }
            _ => {}
        }
        Ok(())
    }

    /// Keeps the number from other runs until the machine is started again.
    fn reserve(&mut self) -> io::Result<()> {
        self.lock.set_len(0)?;
        self.lock.write_all(ALWAYS.as_bytes())
    }
}

impl Drop for RunUser {
    fn drop(&mut self) {
        // Fails only if the disk does; the number is then free when the directory of the run is gone.
        let _ = match self.end() {
            Ok(()) => self.lock.set_len(0),
            Err(error) => {
                tracing::error!(user = self.id, %error, "processes of the run's user are left: no run gets this number before the machine is started again");
                self.reserve()
            }
        };
    }
}

impl States<'_> {
    /// Whether the states of another layer belong to the user `id`: the runner of their last run was killed before it
    /// could take them back.
    fn of_others_belong_to(&self, id: u32) -> io::Result<bool> {
        let Some(of_server) = self.of_server else { return Ok(false) };
        let entries = match std::fs::read_dir(of_server) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let found = match entry.metadata() {
                // Another runner can have removed it just now.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                found => found?,
            };
            if Some(entry.path()) != self.own && [found.uid(), found.gid()].contains(&id) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The numbers of `range`, each once, from its `start`th one on.
fn numbers(range: UserRange, start: u32) -> impl Iterator<Item = u32> {
    let count = range.last - range.first + 1;
    (0..count).map(move |index| range.first + (start % count + index) % count)
}

/// Takes the first number that no run has and that `is_unused`, from a random one on.
fn take_in(
    locks: &Path,
    range: UserRange,
    run: &Path,
    is_unused: impl Fn(u32) -> io::Result<bool>,
) -> io::Result<Option<RunUser>> {
    create_locks(locks)?;
    for id in numbers(range, fastrand::u32(..)) {
        let Some(mut lock) = lock(&locks.join(id.to_string()))? else { continue };
        if is_reserved(&lock, run)? || !is_unused(id)? {
            continue;
        }
        lock.set_len(0)?;
        lock.write_all(run.as_os_str().as_encoded_bytes())?;
        let (runner, ended) = (PathBuf::new(), AtomicBool::new(false));
        return Ok(Some(RunUser { id, lock, runner, ended, states: None }));
    }
    Ok(None)
}

/// Creates the directory of the locks, or checks that no other user can use it.
fn create_locks(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = std::fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != user() || found.mode() & 0o077 != 0 {
        let text = "it must be a directory of this user, with mode 0700";
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

/// The locked file at `path`; `None` if another process has the lock.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    let file = options.custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)?;
    match try_lock(&file) {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether the directory in the file of a killed runner still exists. The directory `run` does not count: this run has
/// created it again, after the files of the killed run were wiped.
fn is_reserved(mut lock: &File, run: &Path) -> io::Result<bool> {
    let mut path = Vec::new();
    lock.read_to_end(&mut path)?;
    let path = PathBuf::from(os_string(path));
    Ok(!path.as_os_str().is_empty() && path != run && path.try_exists().unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Takes a user whose processes are killed by a program that does nothing: it has none.
    fn take_in(
        locks: &Path,
        range: UserRange,
        run: &Path,
        is_free: impl Fn(u32) -> io::Result<bool>,
    ) -> io::Result<Option<RunUser>> {
        let mut taken = super::take_in(locks, range, run, is_free)?;
        if let Some(user) = &mut taken {
            user.runner = "/bin/true".into();
        }
        Ok(taken)
    }

    /// Users that no machine has: the processes of a user are ended.
    const RANGE: UserRange = UserRange { first: 3_000_000_100, last: 3_000_000_104 };

    #[test]
    fn each_number_is_tried_once_from_the_start_on() {
        let tried = |start| numbers(RANGE, start).collect::<Vec<_>>();
        assert_eq!(
            tried(0),
            [3_000_000_100, 3_000_000_101, 3_000_000_102, 3_000_000_103, 3_000_000_104]
        );
        assert_eq!(
            tried(3),
            [3_000_000_103, 3_000_000_104, 3_000_000_100, 3_000_000_101, 3_000_000_102]
        );
        assert_eq!(tried(13), tried(3));
        assert_eq!(
            tried(u32::MAX),
            [3_000_000_100, 3_000_000_101, 3_000_000_102, 3_000_000_103, 3_000_000_104]
        );
        let whole = UserRange { first: 1, last: u32::MAX - 1 };
        assert_eq!(numbers(whole, u32::MAX - 3).take(3).last(), Some(1));
    }

    #[test]
    fn number_of_a_process_or_of_another_run_is_not_taken() {
        let base = tempfile::tempdir().unwrap();
        let (locks, run) = (base.path().join("locks"), base.path().join("gone"));
        let take = || {
            take_in(&locks, RANGE, &run, |id| Ok(![3_000_000_101, 3_000_000_103].contains(&id)))
                .unwrap()
        };
        let taken: Vec<_> = std::iter::from_fn(take).collect();
        let ids: BTreeSet<_> = taken.iter().map(RunUser::id).collect();
        assert_eq!(ids, [3_000_000_100, 3_000_000_102, 3_000_000_104].into());
        drop(taken);
        assert!(take().is_some());
    }

    #[test]
    fn number_of_a_killed_runner_is_reserved_until_its_directory_is_gone() {
        let base = tempfile::tempdir().unwrap();
        let (locks, run) = (base.path().join("locks"), base.path().join("run"));
        std::fs::create_dir(&run).unwrap();
        create_locks(&locks).unwrap();
        for id in numbers(RANGE, 0) {
            std::fs::write(locks.join(id.to_string()), run.to_str().unwrap()).unwrap();
        }
        let other = base.path().join("other");
        let take = |run: &Path| take_in(&locks, RANGE, run, |_| Ok(true)).unwrap();
        assert!(take(&other).is_none());
        std::fs::remove_dir(&run).unwrap();
        assert!(take(&other).is_some());
    }

    #[test]
    fn number_of_a_killed_runner_is_not_reserved_against_the_next_run_in_its_directory() {
        let base = tempfile::tempdir().unwrap();
        let (locks, run) = (base.path().join("locks"), base.path().join("run"));
        std::fs::create_dir(&run).unwrap();
        create_locks(&locks).unwrap();
        let only = UserRange { first: 3_000_000_100, last: 3_000_000_100 };
        std::fs::write(locks.join("3000000100"), run.to_str().unwrap()).unwrap();
        let take = |run: &Path| take_in(&locks, only, run, |_| Ok(true)).unwrap();
        assert!(take(&base.path().join("other")).is_none());
        assert!(take(&run).is_some());
    }

    #[test]
    fn number_with_processes_that_do_not_end_is_reserved_after_its_directory_is_gone() {
        let base = tempfile::tempdir().unwrap();
        let (locks, run) = (base.path().join("locks"), base.path().join("gone"));
        let only = UserRange { first: 3_000_000_100, last: 3_000_000_100 };
        let take = || super::take_in(&locks, only, &run, |_| Ok(true)).unwrap();
        let user = take().unwrap();
        // Its executable does not exist, so it cannot be known that the processes have ended.
        drop(user);
        assert_eq!(std::fs::read_to_string(locks.join("3000000100")).unwrap(), ALWAYS);
        assert!(take().is_none());
    }

    #[test]
    fn owner_of_states_is_free_for_their_own_layer_only() {
        let base = tempfile::tempdir().unwrap();
        let (own, other) = (base.path().join("own"), base.path().join("other"));
        std::fs::create_dir(&own).unwrap();
        let owner = own.metadata().unwrap().uid();
        let is_owner = |own: Option<&Path>, id| {
            let states = States { of_server: Some(base.path()), own: own.map(Path::to_owned) };
            states.of_others_belong_to(id).unwrap()
        };
        assert!(!is_owner(Some(&own), owner));
        assert!(is_owner(None, owner));
        assert!(is_owner(Some(&other), owner));
        assert!(!is_owner(Some(&other), 61_184));
        assert!(!States::default().of_others_belong_to(owner).unwrap());
    }

    #[test]
    fn directory_of_locks_that_others_can_use_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(base.path(), permissions).unwrap();
        assert!(take_in(base.path(), RANGE, base.path(), |_| Ok(true)).is_err());
    }
}
