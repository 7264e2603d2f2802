//! Removes an installed version, when nobody uses it.
//!
//! It is refused at once while somebody does. Otherwise the version is pending deletion for the
//! drain period: whoever is just starting with it, and may have been told its path before, has that
//! time to show up. Then it goes in one rename, made while nobody can begin to use it (see
//! [`crate::tool::store::usage`]), and is deleted from there. Until the rename nothing has changed: a process
//! that dies or is stopped leaves the version as it was.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::tool::blocking::blocking;
use crate::tool::choice::default;
use crate::tool::error::ToolError;
use crate::tool::store::attempt::Attempt;
use crate::tool::store::cache::Cache;
use crate::tool::store::error::CacheError;
use crate::tool::store::inventory::cache;
use crate::tool::store::journal::{Act, moment};
use crate::tool::store::lock;
use crate::tool::store::usage::{self, User};
use crate::tool::{ToolOptions, WhenBusy};
use butler_base::cancel::{Stop, StopReason};
use butler_base::error::Advice;
use butler_base::platform::Signal;
use butler_protocol::spec::ToolRequest;

/// What became of a version that was to be removed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Uninstalled {
    /// It is gone.
    Removed {
        /// How much room it took, in bytes.
        bytes: u64,
        /// Whether it was the default of its product, which has none now.
        was_default: bool,
    },
    /// There was none.
    NotInstalled,
}

/// Why a version was not removed.
#[derive(Debug, thiserror::Error)]
pub enum UninstallError {
    /// There is no cache, or it cannot be used.
    #[error(transparent)]
    Tool(Box<ToolError>),
    /// Somebody uses it.
    #[error("{request} is in use{}", by(users))]
    InUse {
        /// Which version.
        request: ToolRequest,
        /// Who; empty where the lock is held but nobody says who holds it.
        users: Vec<User>,
    },
    /// Somebody asked for it who may be about to start it.
    #[error("{request} was asked for at {at} and may be about to be used")]
    AskedFor {
        /// Which version.
        request: ToolRequest,
        /// When, by RFC 3339.
        at: String,
    },
    /// A signal came in the drain period.
    #[error("{request} was not removed: stopped by {signal}")]
    Stopped {
        /// Which version.
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
            Self::InUse { .. } => Some("retry after that has ended".to_owned()),
            Self::AskedFor { .. } => {
                Some("try again, or remove it at once with --drain-period 0".to_owned())
            }
            Self::Stopped { .. } => None,
        }
    }
}

/// ` by 2 runs: pid 12, run 7, since ...; pid 13, run 8, since ...`.
pub(in crate::tool) fn by(users: &[User]) -> String {
    let kind =
        if users.iter().all(|user| user.owner.starts_with("run ")) { "run" } else { "process" };
    let (count, plural) = match (users.len(), kind) {
        (0, _) => {
            return " by a process that cannot be named: the cache is read-only for it".to_owned();
        }
        (1, _) => (1, ""),
        (count, "run") => (count, "s"),
        (count, _) => (count, "es"),
    };
    let each: Vec<_> = users
        .iter()
        .map(|User { pid, owner, since }| format!("pid {pid}, {owner}, since {since}"))
        .collect();
    format!(" by {count} {kind}{plural}: {}", each.join("; "))
}

/// Removes `request` after it was left to others for `drain`. `progress` gets a line before that.
///
/// A stop is heard in the drain period alone: what follows takes no time.
///
/// # Errors
/// When somebody uses it, before or after that time, or works on it; when it cannot be removed; when
/// it was stopped. The version stays as it was.
pub async fn uninstall(
    request: &ToolRequest,
    options: &ToolOptions,
    drain: Duration,
    stop: &Stop,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Uninstalled, UninstallError> {
    let cache = cache(options)?;
    if !cache.has(request)? {
        return Ok(Uninstalled::NotInstalled);
    }
    let (looked, wanted) = (cache.clone(), request.clone());
    blocking(move |_| look(&looked, &wanted)).await?;
    let options = ToolOptions { when_busy: WhenBusy::Refuse, ..options.clone() };
    let deadline = Instant::now() + options.timeout;
    let lock = lock::acquire(&cache, request, &options, deadline, |_| {}).await?;
    let begun = SystemTime::now();
    let until = begun + drain;
    let act = (Act::Uninstall, Some(until));
    let mut attempt = Attempt::begin(&cache, request, act, &options.owner, lock);
    if !drain.is_zero() {
        let drain = humantime::format_duration(drain);
        progress(&format!(
            "{request} is pending deletion: it is removed in {drain} if nobody uses it by then"
        ));
    }
    tokio::select! {
        () = tokio::time::sleep(drain) => {}
        StopReason::Signal(signal) = stop.requested() => {
            let error = UninstallError::Stopped { request: request.clone(), signal };
            return attempt.ended(Err(error));
        }
    }
    attempt.go_on();
    let request = request.clone();
    let since = (!drain.is_zero()).then_some(begun);
    let removing = blocking(move |_| attempt.ended(remove(&cache, &request, since)));
    removing.await
}

/// Fails if somebody uses `request` now. Blocks for a moment, and leaves no trace.
pub(in crate::tool) fn look(cache: &Cache, request: &ToolRequest) -> Result<(), UninstallError> {
    usage::look(cache, request)?.map_err(|users| in_use(request, users))
}

fn in_use(request: &ToolRequest, users: Vec<User>) -> UninstallError {
    UninstallError::InUse { request: request.clone(), users }
}

/// Fails if somebody has asked for `request` since then, as people do who ask for its path: they use
/// it without a lock, and only when they have started it, can it be seen.
pub(in crate::tool) fn refuse_asked_for(
    cache: &Cache,
    request: &ToolRequest,
    since: SystemTime,
) -> Result<(), UninstallError> {
    match usage::last_use(cache, request) {
        Some(at) if at >= since => {
            Err(UninstallError::AskedFor { request: request.clone(), at: moment(at) })
        }
        _ => Ok(()),
    }
}

/// Removes `request`, if nobody uses it or has asked for it `since`. Needs the version's lock.
/// Blocks for a moment.
pub(in crate::tool) fn remove(
    cache: &Cache,
    request: &ToolRequest,
    since: Option<SystemTime>,
) -> Result<Uninstalled, UninstallError> {
    // Somebody may have done it before the lock was had.
    if !cache.has(request)? {
        return Ok(Uninstalled::NotInstalled);
    }
    let unused = usage::unused(cache, request)?.map_err(|users| in_use(request, users))?;
    if let Some(since) = since {
        refuse_asked_for(cache, request, since)?;
    }
    let default = default::effective(cache, request.product);
    let was_default = default.as_ref() == Some(&request.version);
    let bytes = cache.remove(request, unused)?;
    if let Err(error) = default::forget(cache, request) {
        // It is none all the same: what is not installed is no default.
        tracing::debug!(%request, error = butler_base::error::chain(&error), "cannot forget the default");
    }
    Ok(Uninstalled::Removed { bytes, was_default })
}
