//! Records which processes use an installed version, so that no process removes it during a run.
//!
//! A user of a version first takes a shared lock on `.VERSION.users/used`, then looks the version
//! up, and keeps the lock. A process that removes the version takes the lock exclusively, for the
//! duration of one rename. So a user either holds the lock, and the version stays, or looks the
//! version up after the rename and does not find it. The lock shows *whether* a version is used, a
//! note shows *by which process*, and the modification time of the file shows when it was last
//! used.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::tool::options::ToolOptions;
use crate::tool::store::cache::{Cache, inspect};
use crate::tool::store::error::CacheError;
use crate::tool::store::note::{self, Activity, Note, NoteContent};
use crate::tool::store::queue::in_progress;
use crate::tool::store::record::rfc3339;
use crate::tool::store::version_lock::holder;
use butler_base::platform::fs::{OFlag, OpenOptionsExt, is_at, try_lock, try_lock_shared};
use butler_base::process::Processes;
use butler_protocol::spec::ToolRequest;

/// The time between two attempts; the exclusive lock is held only for a moment.
const INTERVAL: Duration = Duration::from_millis(20);

/// After this many attempts, the wait is reported to the user.
const REPORTED_ATTEMPT: usize = 50;

/// A process that uses a version.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionUser {
    /// Its process id.
    pub pid: u32,
    /// Its owner, such as `run 7`.
    pub owner: String,
    /// The time since which it uses the version, by RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
}

/// Marks a version as used until this is dropped or the process ends.
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

/// Marks `request`, installed or not, as used by this process. While another process removes it,
/// waits until `deadline`. `None` if the use cannot be recorded, as in a read-only cache without such
/// a file.
pub(in crate::tool) async fn mark_in_use(
    cache: &Cache,
    request: &ToolRequest,
    options: &ToolOptions,
    deadline: Instant,
    waits: impl Fn(&str),
) -> Result<Option<InUse>, CacheError> {
    let path = cache.used_file(request);
    let mut attempts = 0;
    let used = loop {
        let file = match open(cache, request, &path) {
            Ok(file) => file,
            // Another process removed its directory in between.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && attempts < REPORTED_ATTEMPT =>
            {
                attempts += 1;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(path = %path.display(), %error, "cannot mark this version as in use, so another process may remove it; give this user read access to the cache");
                return Ok(None);
            }
            // As in a read-only image, where no process can remove a version.
            Err(error) => {
                tracing::debug!(%request, %error, "cannot mark this version as in use");
                return Ok(None);
            }
        };
        match try_lock_shared(&file) {
            Ok(()) if is_at(&file, &path) => break file,
            // Another process removed the file; the next attempt creates it again.
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => {
                tracing::warn!(path = %path.display(), %error, "cannot lock the file; continuing without a lock");
                break file;
            }
        }
        attempts += 1;
        let by = || holder(in_progress(cache, request).as_ref(), request);
        if Instant::now() >= deadline {
            return Err(CacheError::Busy { holder: by(), waited: Some(options.timeout) });
        }
        if attempts == REPORTED_ATTEMPT {
            waits(&format!("waiting for {}", by()));
        }
        tokio::time::sleep(INTERVAL).await;
    };
    touch(&used);
    let note = note::write(cache, request, &NoteContent::now(Activity::Use, &options.owner));
    Ok(Some(InUse { used, _note: note }))
}

/// Proof that no process uses a version. No process can begin to use it while this exists.
#[derive(Debug)]
pub(in crate::tool) struct Unused {
    /// None if the file system does not support locks.
    _used: Option<File>,
}

/// Makes sure that no process uses `request`; otherwise returns its users. The list is empty if they
/// are unknown, because the cache is read-only for them. Blocks for a second at most.
pub(in crate::tool) fn claim_unused(
    cache: &Cache,
    request: &ToolRequest,
) -> Result<Result<Unused, Vec<VersionUser>>, CacheError> {
    claim(cache, request, IfMissing::Create, || std::thread::sleep(INTERVAL))
}

/// Checks for users of `request` like [`claim_unused`], but writes nothing: the result may be outdated a
/// moment later. Blocks for a second at most.
pub(in crate::tool) fn check_unused(
    cache: &Cache,
    request: &ToolRequest,
) -> Result<Result<(), Vec<VersionUser>>, CacheError> {
    let found = claim(cache, request, IfMissing::Unused, || std::thread::sleep(INTERVAL))?;
    Ok(found.map(drop))
}

/// The handling of a missing file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum IfMissing {
    /// Create it, so that no process can begin to use the version.
    Create,
    /// The version was never used.
    Unused,
}

fn claim(
    cache: &Cache,
    request: &ToolRequest,
    if_missing: IfMissing,
    mut pause: impl FnMut(),
) -> Result<Result<Unused, Vec<VersionUser>>, CacheError> {
    let path = cache.used_file(request);
    let mut attempts = 0;
    let used = loop {
        let opened = match if_missing {
            IfMissing::Create => open(cache, request, &path),
            IfMissing::Unused => open_existing(cache, request, &path),
        };
        match opened {
            Ok(file) => match try_lock(&file) {
                Ok(()) if is_at(&file, &path) => break Some(file),
                // Another process removed the file.
                Ok(()) => {}
                // It may be another process that checks for users: that takes a moment.
                Err(TryLockError::WouldBlock) => {
                    let users = users(cache, request);
                    if !users.is_empty() {
                        return Ok(Err(users));
                    }
                }
                Err(TryLockError::Error(error)) => {
                    tracing::warn!(path = %path.display(), %error, "cannot lock the file; continuing without detecting runs on other machines that use this version");
                    break None;
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if if_missing == IfMissing::Unused {
                    break None;
                }
            }
            Err(source) => return Err(CacheError::Write { path, source }),
        }
        attempts += 1;
        if attempts == REPORTED_ATTEMPT {
            return Ok(Err(Vec::new()));
        }
        pause();
    };
    let users = users(cache, request);
    Ok(if users.is_empty() { Ok(Unused { _used: used }) } else { Err(users) })
}

/// All users of `request` now: processes with a note, and processes that run the executable without
/// one, because their user asked for its path.
pub(in crate::tool) fn users(cache: &Cache, request: &ToolRequest) -> Vec<VersionUser> {
    users_among(&Processes::now(), cache, request)
}

/// [`users`] with a list of processes.
pub(in crate::tool) fn users_among(
    processes: &Processes,
    cache: &Cache,
    request: &ToolRequest,
) -> Vec<VersionUser> {
    let notes = note::read(cache, request).into_iter();
    let mut users: Vec<_> = notes
        .filter(|content| content.doing == Activity::Use)
        .map(|NoteContent { pid, owner, since, .. }| VersionUser { pid, owner, since })
        .collect();
    let known: Vec<_> = users.iter().map(|user| user.pid).collect();
    let running = processes.running(&cache.executable(request), &known);
    users.extend(running.into_iter().map(|process| VersionUser {
        pid: process.pid,
        owner: "not started by butler-runner".to_owned(),
        since: rfc3339(process.since),
    }));
    users
}

/// Records that `request` is used now, without a lock.
pub(in crate::tool) fn record_use(cache: &Cache, request: &ToolRequest) {
    if let Ok(used) = open(cache, request, &cache.used_file(request)) {
        touch(&used);
    }
}

/// The time of the last use of `request`, if one was recorded.
pub(in crate::tool) fn last_use(cache: &Cache, request: &ToolRequest) -> Option<SystemTime> {
    std::fs::metadata(cache.used_file(request)).ok()?.modified().ok()
}

/// Opens the file, and creates it if it is missing. Opens it read-only if it cannot be written:
/// a lock needs no write access.
fn open(cache: &Cache, request: &ToolRequest, path: &Path) -> io::Result<File> {
    match open_existing(cache, request, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    cache.create_users_directory(request)?;
    // Readable for all: every user who may run the version must be able to lock it.
    match without_following().write(true).create_new(true).mode(0o644).open(path) {
        Ok(file) => {
            // Creating the file does not count as a use of the version.
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

/// Opens the file if it exists.
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

/// Records the time of use, unless the cache is read-only.
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
        cache.install_stub(request);
        (directory, cache)
    }

    #[test]
    fn concurrent_checks_are_not_counted_as_users() {
        let request = "1.9.8".parse().unwrap();
        let (_directory, cache) = cache_with(&request);
        let mut other = Some(claim_unused(&cache, &request).unwrap().unwrap());
        let met = std::cell::Cell::new(false);
        let found = claim(&cache, &request, IfMissing::Create, || {
            met.set(other.take().is_some());
        });
        assert!(met.get(), "the other one held it");
        assert!(found.unwrap().is_ok());
        // A process that holds the lock for longer counts as a user.
        let other = claim_unused(&cache, &request).unwrap().unwrap();
        let mut pauses = 0;
        let found = claim(&cache, &request, IfMissing::Create, || pauses += 1);
        assert_eq!(found.unwrap().unwrap_err(), []);
        assert_eq!(pauses, REPORTED_ATTEMPT - 1);
        drop(other);
    }

    #[test]
    fn check_writes_nothing_and_claim_does_not_count_as_use() {
        let request = "1.9.8".parse().unwrap();
        let (_directory, cache) = cache_with(&request);
        let then = SystemTime::now() - Duration::from_hours(50);
        File::open(cache.version(&request)).unwrap().set_modified(then).unwrap();
        assert_eq!(check_unused(&cache, &request).unwrap(), Ok(()));
        assert!(!cache.users(&request).exists());
        drop(claim_unused(&cache, &request).unwrap().unwrap());
        assert_eq!(last_use(&cache, &request), Some(then));
    }

    #[test]
    fn every_user_can_lock_a_version_that_it_may_run() {
        let request = "1.9.8".parse().unwrap();
        let (_directory, cache) = cache_with(&request);
        record_use(&cache, &request);
        let users = cache.users(&request);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o055;
        assert_eq!((mode(&users), mode(&cache.used_file(&request))), (0o055, 0o044));
    }
}
