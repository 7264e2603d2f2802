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

use super::cache::{Cache, make_private};
use super::note::{self, Content, Doing, Note};
use crate::spec::ToolRequest;

/// The file whose lock says whether a version is used.
pub(super) const USED: &str = "used";

/// How often it is tried again: the lock is held alone only for a moment.
const INTERVAL: Duration = Duration::from_millis(20);

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

/// Says that `owner`, in this process, uses `request`, installed or not. While somebody removes
/// it, waits. None where nobody can be told: in a read-only cache that nobody has ever used.
pub(super) async fn begin(cache: &Cache, request: &ToolRequest, owner: &str) -> Option<InUse> {
    let used = loop {
        let path = cache.users(request).join(USED);
        let file = match open(&path) {
            Ok(file) => file,
            Err(error) => {
                tracing::debug!(%request, %error, "cannot say that this version is used");
                return None;
            }
        };
        match file.try_lock_shared() {
            // Otherwise somebody has tidied it away in between, and it tells nobody anything.
            Ok(()) if is_at(&file, &path) => break file,
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => tokio::time::sleep(INTERVAL).await,
            Err(TryLockError::Error(error)) => {
                tracing::warn!(path = %path.display(), %error, "cannot lock; going on without");
                break file;
            }
        }
    };
    touch(&used);
    let note = note::write(cache, request, &Content::now(Doing::Use, owner));
    Some(InUse { used, _note: note })
}

/// Everybody who uses `request` now.
pub(super) fn users(cache: &Cache, request: &ToolRequest) -> Vec<User> {
    let notes = note::read(cache, request).into_iter();
    notes
        .filter(|content| content.doing == Doing::Use)
        .map(|Content { pid, owner, since, .. }| User { pid, owner, since })
        .collect()
}

/// Opens the file, for reading only where nothing can be written: its lock can be had all the same.
fn open(path: &Path) -> io::Result<File> {
    let follow_no_link = nix::fcntl::OFlag::O_NOFOLLOW.bits();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(follow_no_link);
    make_private(path.parent().unwrap_or(path))
        .and_then(|()| options.clone().write(true).create(true).mode(0o600).open(path))
        .or_else(|_| options.open(path))
}

/// Whether `path` still leads to `file`.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Remembers that the version is used now; a read-only cache does not.
fn touch(used: &File) {
    let _ = used.set_modified(SystemTime::now());
}
