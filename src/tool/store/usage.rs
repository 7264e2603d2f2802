//! Who uses an installed version, so that nobody removes it from under a run.
//!
//! Whoever wants to use a version first takes a shared lock on `.VERSION.users/used`, then looks the
//! version up, and keeps the lock. Who removes it takes that lock alone, for the moment of the one
//! rename. So a user either holds the lock, and the version stays, or looks it up after the rename
//! and finds nothing: there is no moment between. The lock says *whether* a version is used, a note
//! *by whom*, and the file's time when it last was.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::process::running;
use crate::spec::ToolRequest;
use crate::tool::ToolOptions;
use crate::tool::store::cache::{Cache, CacheError, inspect, make_private};
use crate::tool::store::journal::moment;
use crate::tool::store::lock::holder;
use crate::tool::store::note::{self, Content, Doing, Note};
use crate::tool::store::queue::working;

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
            Err(error) => {
                tracing::debug!(%request, %error, "cannot say that this version is used");
                return Ok(None);
            }
        };
        match file.try_lock_shared() {
            Ok(()) if is_at(&file, &path) => break file,
            // Somebody has tidied the file away; who comes next makes another one.
            Ok(()) => continue,
            Err(TryLockError::WouldBlock) => {}
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
/// cache may be read-only for its users.
pub(in crate::tool) fn unused(
    cache: &Cache,
    request: &ToolRequest,
) -> Result<Result<Unused, Vec<User>>, CacheError> {
    let path = cache.users(request).join(USED);
    let used = loop {
        let file = open(cache, request, &path)
            .map_err(|source| CacheError::Write { path: path.clone(), source })?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => break Some(file),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Err(users(cache, request))),
            Err(TryLockError::Error(error)) => {
                tracing::warn!(path = %path.display(), %error, "cannot lock, so runs on other machines that use this version cannot be seen; going on without");
                break None;
            }
        }
    };
    let users = users(cache, request);
    Ok(if users.is_empty() { Ok(Unused { _used: used }) } else { Err(users) })
}

/// Everybody who uses `request` now: who says so, and every process that runs the executable, as
/// people do who ask for its path.
pub(in crate::tool) fn users(cache: &Cache, request: &ToolRequest) -> Vec<User> {
    let notes = note::read(cache, request).into_iter();
    let mut users: Vec<_> = notes
        .filter(|content| content.doing == Doing::Use)
        .map(|Content { pid, owner, since, .. }| User { pid, owner, since })
        .collect();
    let known: Vec<_> = users.iter().map(|user| user.pid).collect();
    users.extend(running(&cache.executable(request), &known).into_iter().map(|process| User {
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

/// Opens the file, for reading only where nothing can be written: its lock can be had all the same.
fn open(cache: &Cache, request: &ToolRequest, path: &Path) -> io::Result<File> {
    for directory in [cache.product(request.product), cache.users(request)] {
        inspect(&directory).map_err(io::Error::other)?;
    }
    let follow_no_link = nix::fcntl::OFlag::O_NOFOLLOW.bits();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(follow_no_link);
    make_private(&cache.users(request))
        .and_then(|()| options.clone().write(true).create(true).mode(0o600).open(path))
        .or_else(|_| options.open(path))
}

/// Whether `path` still leads to `file`.
pub(in crate::tool) fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Remembers that the version is used now; a read-only cache does not.
fn touch(used: &File) {
    let _ = used.set_modified(SystemTime::now());
}
