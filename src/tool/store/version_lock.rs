//! One lock per version: the right to install or remove it.
//!
//! Processes that want the same version take turns and download it once; processes that want
//! different versions do not wait for each other. The lock saves work but does not guard
//! correctness, because an installation appears in one rename. On a file system without
//! locks, the cost is a warning and perhaps a second download.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::tool::options::{ToolOptions, WhenBusy};
use crate::tool::store::brief_lock::open_lock_file;
use crate::tool::store::cache::Cache;
use crate::tool::store::error::CacheError;
use crate::tool::store::note::{self, Activity, NoteContent};
use crate::tool::store::queue::{InProgress, in_progress};
use butler_base::pace::jittered;
use butler_base::platform::fs::{is_at, try_lock};
use butler_protocol::spec::ToolRequest;

/// The time between two attempts, short compared with a download.
const INTERVAL: Duration = Duration::from_millis(100);

/// The right to install or remove one version; it ends when this is dropped, or with the process.
#[derive(Debug)]
pub(in crate::tool) struct VersionLock {
    /// None if the file system does not support locks.
    _file: Option<File>,
}

/// Takes the lock of `request`. If another process has it, waits until `deadline` and reports each
/// holder to `waits` once, or fails at once if `options` say so.
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
            holder: holder(in_progress(cache, request).as_ref(), request),
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
        let file = open_lock_file(path).map_err(failed)?;
        match try_lock(&file) {
            Ok(()) if is_at(&file, path) => return Ok(VersionLock { _file: Some(file) }),
            // Another process removed the file; the next attempt creates it again.
            Ok(()) => {
                tokio::time::sleep(jittered(INTERVAL)).await;
                continue;
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => {
                tracing::warn!(path = %path.display(), %error, "cannot lock the file; continuing without a lock");
                return Ok(VersionLock { _file: None });
            }
        }
        // A process that has just taken the lock may not have written its note yet: look once more.
        let found = in_progress(cache, request);
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
            // Last, so that a process that is counted as waiting has already named the holder.
            waiting.get_or_insert_with(|| {
                note::write(cache, request, &NoteContent::now(Activity::Wait, &options.owner))
            });
        }
        is_first = false;
        tokio::time::sleep(jittered(INTERVAL)).await;
    }
}

/// Describes the process that works on `request`, for messages.
pub(in crate::tool) fn holder(found: Option<&InProgress>, request: &ToolRequest) -> String {
    match found {
        Some(InProgress { operation, pid, owner, since, .. }) => {
            let activity = operation.gerund();
            format!("process {pid} ({owner}), which has been {activity} {request} since {since}")
        }
        None => format!("another process that works on {request}"),
    }
}
