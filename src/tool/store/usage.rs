//! Who uses an installed version, so that nobody removes it from under a run.
//!
//! Whoever wants to use a version first takes a shared lock on `.VERSION.users/used`, then looks the
//! version up, and keeps the lock. Who removes it takes that lock alone, for the moment of the one
//! rename. So a user either holds the lock, and the version stays, or looks it up after the rename
//! and finds nothing: there is no moment between. The lock says *whether* a version is used, a note
//! *by whom*, and the file's time when it last was.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::tool::ToolOptions;
use crate::tool::store::cache::{Cache, inspect};
use crate::tool::store::error::CacheError;
use crate::tool::store::journal::moment;
use crate::tool::store::lock::holder;
use crate::tool::store::note::{self, Content, Doing, Note};
use crate::tool::store::queue::working;
use butler_base::platform::fs::{OFlag, OpenOptionsExt, is_at, try_lock, try_lock_shared};
use butler_base::process::Processes;
use butler_protocol::spec::ToolRequest;

/// The file whose lock says whether a version is used.
pub(in crate::tool) const USED: &str = "used";

/// How often it is tried again: the lock is held alone only for a moment.
const INTERVAL: Duration = Duration::from_millis(20);

/// After so many attempts it is no moment any more, and the user hears of it.
const PATIENT: usize = 50;

/// A process that uses a version.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// Its process id.
    pub pid: u32,
    /// What it does, such as `run 7`.
    pub owner: String,
    /// Since when, by RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
}

/// Says that a version is used, until this is dropped or the process ends.
#[derive(Debug)]
pub struct InUse {
    used: File,
    _note: Option<Note>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        touch(&self.used);
    }
}

/// Says that this process uses `request`, installed or not. While somebody removes it, waits until
/// `deadline`. None where nobody can be told, as in a read-only cache that has no such file.
pub(in crate::tool) async fn begin(
    cache: &Cache,
    request: &ToolRequest,
    options: &ToolOptions,
    deadline: Instant,
    waits: impl Fn(&str),
) -> Result<Option<InUse>, CacheError> {
    let path = cache.users(request).join(USED);
    let mut attempts = 0;
    let used = loop {
        let file = match open(cache, request, &path) {
            Ok(file) => file,
            // Its directory was tidied away in between.
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < PATIENT => {
                attempts += 1;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(path = %path.display(), %error, "nobody can see that this version is used, so that it can be removed meanwhile: let this user read what is in the cache");
                return Ok(None);
            }
            // As in an image: nobody can remove anything there either.
            Err(error) => {
                tracing::debug!(%request, %error, "cannot say that this version is used");
                return Ok(None);
            }
        };
        match try_lock_shared(&file) {
            Ok(()) if is_at(&file, &path) => break file,
            // Somebody has tidied the file away; who comes next makes another one.
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => {
                tracing::warn!(path = %path.display(), %error, "cannot lock; going on without");
                break file;
            }
        }
        attempts += 1;
        let by = || holder(working(cache, request).as_ref(), request);
        if Instant::now() >= deadline {
            return Err(CacheError::Busy { holder: by(), waited: Some(options.timeout) });
        }
        if attempts == PATIENT {
            waits(&format!("waiting for {}", by()));
        }
        tokio::time::sleep(INTERVAL).await;
    };
    touch(&used);
    let note = note::write(cache, request, &Content::now(Doing::Use, &options.owner));
    Ok(Some(InUse { used, _note: note }))
}

/// The certainty that nobody uses a version, and that nobody begins to while this lives.
#[derive(Debug)]
pub(in crate::tool) struct Unused {
    /// None where the file system knows no locks.
    _used: Option<File>,
}

/// Makes sure that nobody uses `request`; else says who does. That may be nobody who has a name: a
/// cache may be read-only for its users. Blocks, for a second at most.
pub(in crate::tool) fn unused(
    cache: &Cache,
    request: &ToolRequest,
) -> Result<Result<Unused, Vec<User>>, CacheError> {
    claim(cache, request, Missing::Make, || std::thread::sleep(INTERVAL))
}

/// Who uses `request`, as [`unused`] finds it, without a trace: nothing is written, and what is
/// found may have changed a moment later. Blocks, for a second at most.
pub(in crate::tool) fn look(
    cache: &Cache,
    request: &ToolRequest,
) -> Result<Result<(), Vec<User>>, CacheError> {
    let found = claim(cache, request, Missing::Unused, || std::thread::sleep(INTERVAL))?;
    Ok(found.map(drop))
}

/// What it means that the file is missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Missing {
    /// It has to be made, so that nobody can begin to use the version.
    Make,
    /// That nobody has ever used the version.
    Unused,
}

fn claim(
    cache: &Cache,
    request: &ToolRequest,
    missing: Missing,
    mut pause: impl FnMut(),
) -> Result<Result<Unused, Vec<User>>, CacheError> {
    let path = cache.users(request).join(USED);
    let mut attempts = 0;
    let used = loop {
        let opened = match missing {
            Missing::Make => open(cache, request, &path),
            Missing::Unused => open_existing(cache, request, &path),
        };
        match opened {
            Ok(file) => match try_lock(&file) {
                Ok(()) if is_at(&file, &path) => break Some(file),
                // Somebody has tidied the file away.
                Ok(()) => {}
                // It may be another process that looks who uses it: that takes a moment.
                Err(TryLockError::WouldBlock) => {
                    let users = users(cache, request);
                    if !users.is_empty() {
                        return Ok(Err(users));
                    }
                }
                Err(TryLockError::Error(error)) => {
                    tracing::warn!(path = %path.display(), %error, "cannot lock, so runs on other machines that use this version cannot be seen; going on without");
                    break None;
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if missing == Missing::Unused {
                    break None;
                }
            }
            Err(source) => return Err(CacheError::Write { path, source }),
        }
        attempts += 1;
        if attempts == PATIENT {
            return Ok(Err(Vec::new()));
        }
        pause();
    };
    let users = users(cache, request);
    Ok(if users.is_empty() { Ok(Unused { _used: used }) } else { Err(users) })
}

/// Everybody who uses `request` now: who says so, and every process that runs the executable, as
/// people do who ask for its path.
pub(in crate::tool) fn users(cache: &Cache, request: &ToolRequest) -> Vec<User> {
    users_among(&Processes::now(), cache, request)
}

/// The same, where the processes of this machine are known already.
pub(in crate::tool) fn users_among(
    processes: &Processes,
    cache: &Cache,
    request: &ToolRequest,
) -> Vec<User> {
    let notes = note::read(cache, request).into_iter();
    let mut users: Vec<_> = notes
        .filter(|content| content.doing == Doing::Use)
        .map(|Content { pid, owner, since, .. }| User { pid, owner, since })
        .collect();
    let known: Vec<_> = users.iter().map(|user| user.pid).collect();
    let running = processes.running(&cache.executable(request), &known);
    users.extend(running.into_iter().map(|process| User {
        pid: process.pid,
        owner: "started by itself".to_owned(),
        since: moment(process.since),
    }));
    users
}

/// Remembers that somebody uses `request` now who does not say for how long.
pub(in crate::tool) fn remember(cache: &Cache, request: &ToolRequest) {
    if let Ok(used) = open(cache, request, &cache.users(request).join(USED)) {
        touch(&used);
    }
}

/// When `request` was last used, as far as anybody could write it down.
pub(in crate::tool) fn last_use(cache: &Cache, request: &ToolRequest) -> Option<SystemTime> {
    std::fs::metadata(cache.users(request).join(USED)).ok()?.modified().ok()
}

/// Opens the file, which is made where it is missing; for reading only where nothing can be written:
/// its lock can be had all the same.
fn open(cache: &Cache, request: &ToolRequest, path: &Path) -> io::Result<File> {
    match open_existing(cache, request, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    cache.make_users(request)?;
    // Readable for all: whoever may run the version has to be able to say that it is used.
    match without_following().write(true).create_new(true).mode(0o644).open(path) {
        Ok(file) => {
            // To make it is not to use the version.
            if let Ok(installed) = std::fs::metadata(cache.version(request)) {
                let _ = installed.modified().and_then(|then| file.set_modified(then));
            }
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            open_existing(cache, request, path)
        }
        Err(error) => Err(error),
    }
}

/// Opens the file if it is there.
fn open_existing(cache: &Cache, request: &ToolRequest, path: &Path) -> io::Result<File> {
    for directory in [cache.product(request.product), cache.users(request)] {
        inspect(&directory).map_err(io::Error::other)?;
    }
    without_following().write(true).open(path).or_else(|_| without_following().open(path))
}

fn without_following() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_NOFOLLOW.bits());
    options
}

/// Remembers that the version is used now; a read-only cache does not.
fn touch(used: &File) {
    let _ = used.set_modified(SystemTime::now());
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::tool::vendor::platform::Platform;

    fn cache_with(request: &ToolRequest) -> (tempfile::TempDir, Cache) {
        let directory = tempfile::tempdir().unwrap();
        let platform = Platform { system: "linux", architecture: "amd64" };
        let cache = Cache::new(directory.path(), platform).unwrap();
        cache.pretend(request);
        (directory, cache)
    }

    #[test]
    fn those_who_look_at_once_do_not_take_each_other_for_users() {
        let request = "1.9.8".parse().unwrap();
        let (_directory, cache) = cache_with(&request);
        let mut other = Some(unused(&cache, &request).unwrap().unwrap());
        let met = std::cell::Cell::new(false);
        let found = claim(&cache, &request, Missing::Make, || {
            met.set(other.take().is_some());
        });
        assert!(met.get(), "the other one held it");
        assert!(found.unwrap().is_ok());
        // Who stays for longer is no other one who looks.
        let other = unused(&cache, &request).unwrap().unwrap();
        let mut pauses = 0;
        let found = claim(&cache, &request, Missing::Make, || pauses += 1);
        assert_eq!(found.unwrap().unwrap_err(), []);
        assert_eq!(pauses, PATIENT - 1);
        drop(other);
    }

    #[test]
    fn to_look_leaves_no_trace_and_to_claim_is_no_use() {
        let request = "1.9.8".parse().unwrap();
        let (_directory, cache) = cache_with(&request);
        let then = SystemTime::now() - Duration::from_hours(50);
        File::open(cache.version(&request)).unwrap().set_modified(then).unwrap();
        assert_eq!(look(&cache, &request).unwrap(), Ok(()));
        assert!(!cache.users(&request).exists());
        drop(unused(&cache, &request).unwrap().unwrap());
        assert_eq!(last_use(&cache, &request), Some(then));
    }

    #[test]
    fn whoever_may_run_a_version_may_say_that_it_is_used() {
        let request = "1.9.8".parse().unwrap();
        let (_directory, cache) = cache_with(&request);
        remember(&cache, &request);
        let users = cache.users(&request);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o055;
        assert_eq!((mode(&users), mode(&users.join(USED))), (0o055, 0o044));
    }
}
