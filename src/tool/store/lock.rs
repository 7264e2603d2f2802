//! One lock a version: the right to install or remove it.
//!
//! Processes that want the same version take turns and download it once; those that want others do
//! not meet here. The lock spares work, it does not guard correctness: an installation is put in
//! place by one rename. So a file system that knows no locks costs a warning and perhaps a second
//! download.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::tool::store::cache::Cache;
use crate::tool::store::error::CacheError;
use crate::tool::store::note::{self, Content, Doing};
use crate::tool::store::queue::{InProgress, working};
use crate::tool::{ToolOptions, WhenBusy};
use butler_base::pace::jittered;
use butler_base::platform::fs::{OFlag, OpenOptionsExt, is_at, try_lock};
use butler_protocol::spec::ToolRequest;

/// How often it is tried again: soon enough not to be felt beside a download.
const INTERVAL: Duration = Duration::from_millis(100);

/// The right to install or remove one version; it ends when this is dropped, or with the process.
#[derive(Debug)]
pub(in crate::tool) struct VersionLock {
    /// None where the file system knows no locks.
    _file: Option<File>,
}

/// Takes the lock of `request`. If somebody else has it, waits until `deadline`, and says to `waits`
/// who that is, once for each; or does not wait at all, as `options` want it.
pub(in crate::tool) async fn acquire(
    cache: &Cache,
    request: &ToolRequest,
    options: &ToolOptions,
    deadline: Instant,
    waits: impl Fn(&str),
) -> Result<VersionLock, CacheError> {
    let path = cache.lock_file(request);
    let polling = poll(cache, request, options, &path, &waits);
    match tokio::time::timeout_at(deadline, polling).await {
        Ok(locked) => locked,
        Err(_) => Err(CacheError::Busy {
            holder: holder(working(cache, request).as_ref(), request),
            waited: Some(options.timeout),
        }),
    }
}

async fn poll(
    cache: &Cache,
    request: &ToolRequest,
    options: &ToolOptions,
    path: &Path,
    waits: &impl Fn(&str),
) -> Result<VersionLock, CacheError> {
    let failed = |source| CacheError::Write { path: path.to_owned(), source };
    let (mut waiting, mut is_first) = (None, true);
    let mut named = None;
    loop {
        let file = open(path).map_err(failed)?;
        match try_lock(&file) {
            Ok(()) if is_at(&file, path) => return Ok(VersionLock { _file: Some(file) }),
            // Somebody has tidied the file away; who comes next makes another one.
            Ok(()) => {
                tokio::time::sleep(jittered(INTERVAL)).await;
                continue;
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => {
                tracing::warn!(path = %path.display(), %error, "cannot lock; going on without");
                return Ok(VersionLock { _file: None });
            }
        }
        // Who has just got the lock has not yet said what for: that is asked for once more.
        let found = working(cache, request);
        if found.is_some() || !is_first {
            if options.when_busy == WhenBusy::Refuse {
                return Err(CacheError::Busy {
                    holder: holder(found.as_ref(), request),
                    waited: None,
                });
            }
            if named.as_ref() != Some(&found) {
                waits(&format!("waiting for {}", holder(found.as_ref(), request)));
                named = Some(found);
            }
            // Last, so that whoever is counted among those who wait has said for whom.
            waiting.get_or_insert_with(|| {
                note::write(cache, request, &Content::now(Doing::Wait, &options.owner))
            });
        }
        is_first = false;
        tokio::time::sleep(jittered(INTERVAL)).await;
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)
}

/// Who works on `request`, for people.
pub(in crate::tool) fn holder(found: Option<&InProgress>, request: &ToolRequest) -> String {
    match found {
        Some(InProgress { operation, pid, owner, since, .. }) => {
            let act = operation.gerund();
            format!("process {pid} ({owner}), which has been {act} {request} since {since}")
        }
        None => format!("another process that works on {request}"),
    }
}
