//! Removes an installed version that is not in use.
//!
//! If a process uses the version, the removal fails at once. Otherwise the version is pending
//! deletion for the drain period: a process that is just starting, and that may have read the path
//! earlier, has that time to lock the version. Then the version is removed in one rename, under a
//! lock that keeps new users out (see [`crate::tool::store::usage`]), and deleted from its new
//! place. Before the rename nothing changes: if the process dies or is stopped, the version stays
//! as it was.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::tool::error::ToolError;
use crate::tool::options::{ToolOptions, WhenBusy};
use crate::tool::store::attempt::Attempt;
use crate::tool::store::cache::Cache;
use crate::tool::store::default;
use crate::tool::store::error::CacheError;
use crate::tool::store::history::ToolOperation;
use crate::tool::store::record::rfc3339;
use crate::tool::store::usage::{self, VersionUser};
use crate::tool::store::version_lock;
use butler_base::blocking::blocking;
use butler_base::cancel::{Stop, StopReason};
use butler_base::error::Advice;
use butler_base::platform::Signal;
use butler_protocol::spec::ToolRequest;

/// The result of a removal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Uninstalled {
    /// It was removed.
    Removed {
        /// Its size on disk, in bytes.
        bytes: u64,
        /// Whether it was the default. The product has no default now.
        was_default: bool,
    },
    /// It was not installed.
    NotInstalled,
}

/// Why a version was not removed.
#[derive(Debug, thiserror::Error)]
pub enum UninstallError {
    /// The cache cannot be used.
    #[error(transparent)]
    Tool(Box<ToolError>),
    /// A process uses it.
    #[error("{request} is in use{}", describe_users(users))]
    InUse {
        /// The version.
        request: ToolRequest,
        /// Its users; empty if the lock is held but the holder is unknown.
        users: Vec<VersionUser>,
    },
    /// Its path was requested, so a process may be about to start it.
    #[error("the path of {request} was requested at {at}, so a process may be about to start it")]
    PathRequested {
        /// The version.
        request: ToolRequest,
        /// When, by RFC 3339.
        at: String,
    },
    /// A signal arrived in the drain period.
    #[error("{request} was not removed: stopped by {signal}")]
    Stopped {
        /// The version.
        request: ToolRequest,
        /// The signal.
        signal: Signal,
    },
}

impl From<ToolError> for UninstallError {
    fn from(error: ToolError) -> Self {
        Self::Tool(Box::new(error))
    }
}

impl From<CacheError> for UninstallError {
    fn from(error: CacheError) -> Self {
        ToolError::from(error).into()
    }
}

impl Advice for UninstallError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Tool(error) => error.advice(),
            Self::InUse { .. } => Some("retry when the version is not in use".to_owned()),
            Self::PathRequested { .. } => {
                Some("retry later, or remove it immediately with --drain-period 0".to_owned())
            }
            Self::Stopped { .. } => None,
        }
    }
}

/// ` by 2 runs: pid 12, run 7, since ...; pid 13, run 8, since ...`.
pub(in crate::tool) fn describe_users(users: &[VersionUser]) -> String {
    let kind =
        if users.iter().all(|user| user.owner.starts_with("run ")) { "run" } else { "process" };
    let (count, plural) = match (users.len(), kind) {
        (0, _) => {
            return " by an unknown process: it has no write access to the cache".to_owned();
        }
        (1, _) => (1, ""),
        (count, "run") => (count, "s"),
        (count, _) => (count, "es"),
    };
    let each: Vec<_> = users
        .iter()
        .map(|VersionUser { pid, owner, since }| format!("pid {pid}, {owner}, since {since}"))
        .collect();
    format!(" by {count} {kind}{plural}: {}", each.join("; "))
}

/// Removes `request` after the drain period. `progress` gets a line before the drain period.
///
/// A stop has effect only in the drain period, because the removal takes only milliseconds.
///
/// # Errors
/// When a process uses it before or after the drain period, or installs or removes it; when it cannot be
/// removed; when the removal was stopped. The version stays unchanged.
pub async fn uninstall(
    request: &ToolRequest,
    options: &ToolOptions,
    drain: Duration,
    stop: &Stop,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Uninstalled, UninstallError> {
    let cache = Cache::of(options)?;
    if !cache.has_directory(request)? {
        return Ok(Uninstalled::NotInstalled);
    }
    let (looked, wanted) = (cache.clone(), request.clone());
    blocking(move |_| refuse_in_use(&looked, &wanted)).await?;
    let options = ToolOptions { when_busy: WhenBusy::Refuse, ..options.clone() };
    let deadline = Instant::now() + options.timeout;
    let lock = version_lock::acquire(&cache, request, &options, deadline, |_| {}).await?;
    let begun = SystemTime::now();
    let until = begun + drain;
    let operation = (ToolOperation::Uninstall, Some(until));
    let mut attempt = Attempt::begin(&cache, request, operation, &options.owner, lock);
    if !drain.is_zero() {
        let drain = humantime::format_duration(drain);
        progress(&format!(
            "{request} is pending deletion: it is removed in {drain} unless a process uses it by then"
        ));
    }
    tokio::select! {
        () = tokio::time::sleep(drain) => {}
        StopReason::Signal(signal) = stop.requested() => {
            let error = UninstallError::Stopped { request: request.clone(), signal };
            return attempt.finish(Err(error));
        }
    }
    attempt.end_drain_period();
    let request = request.clone();
    let since = (!drain.is_zero()).then_some(begun);
    let removing = blocking(move |_| attempt.finish(remove(&cache, &request, since)));
    removing.await
}

/// Fails if a process uses `request` now. Blocks for a second at most, and writes nothing.
pub(in crate::tool) fn refuse_in_use(
    cache: &Cache,
    request: &ToolRequest,
) -> Result<(), UninstallError> {
    usage::check_unused(cache, request)?.map_err(|users| in_use(request, users))
}

fn in_use(request: &ToolRequest, users: Vec<VersionUser>) -> UninstallError {
    UninstallError::InUse { request: request.clone(), users }
}

/// Fails if the path of `request` was requested since then: a process that got it uses the version
/// without a lock, and is visible only after it has started the executable.
pub(in crate::tool) fn refuse_path_requested(
    cache: &Cache,
    request: &ToolRequest,
    since: SystemTime,
) -> Result<(), UninstallError> {
    match usage::last_use(cache, request) {
        Some(at) if at >= since => {
            Err(UninstallError::PathRequested { request: request.clone(), at: rfc3339(at) })
        }
        _ => Ok(()),
    }
}

/// Removes `request`, if no process uses it or requested its path `since`. Needs the version's lock.
/// Blocks.
pub(in crate::tool) fn remove(
    cache: &Cache,
    request: &ToolRequest,
    since: Option<SystemTime>,
) -> Result<Uninstalled, UninstallError> {
    // Another process may have removed it before this one got the lock.
    if !cache.has_directory(request)? {
        return Ok(Uninstalled::NotInstalled);
    }
    let unused = usage::claim_unused(cache, request)?.map_err(|users| in_use(request, users))?;
    if let Some(since) = since {
        refuse_path_requested(cache, request, since)?;
    }
    let default = default::installed_default(cache, request.product);
    let was_default = default.as_ref() == Some(&request.version);
    let bytes = cache.remove(request, unused)?;
    if let Err(error) = default::clear_default(cache, request) {
        // Harmless: a version that is not installed is not used as the default.
        tracing::debug!(%request, error = butler_base::error::chain(&error), "cannot forget the default");
    }
    Ok(Uninstalled::Removed { bytes, was_default })
}
