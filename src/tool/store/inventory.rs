//! Collects what is known about the versions of a product on this machine.
//!
//! The directories show what is installed, the records next to the executables where it came from,
//! locks and notes which process works on or uses a version, and the journal what was done. Nothing
//! here installs or removes a version. Only the list of [`available`] versions needs the network.

use semver::Version;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::tool::error::ToolError;
use crate::tool::options::ToolOptions;
use crate::tool::store::cache::Cache;
use crate::tool::store::default::default_version;
use crate::tool::store::journal::{self, Act, Entry, Outcome};
use crate::tool::store::lookup::Lookup;
use crate::tool::store::note;
use crate::tool::store::queue::{self, InProgress, Queue, queue};
use crate::tool::store::status::{InstalledVersion, Signer, Source, State, Status};
use crate::tool::store::usage::{self, User};
use crate::tool::vendor::index;
use butler_base::blocking::blocking;
use butler_base::error::chain;
use butler_base::process::Processes;
use butler_protocol::spec::{Product, ToolRequest};

/// A released version.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Available {
    /// The version.
    pub version: Version,
    /// Whether it is a version before the release proper.
    pub prerelease: bool,
    /// Whether it is installed.
    pub installed: bool,
}

/// The history of the versions of `product`, the latest entry last, including operations that ended
/// with the death of their process.
///
/// # Errors
/// When there can be no cache, or it cannot be read.
pub fn history(product: Product, options: &ToolOptions) -> Result<Vec<Entry>, ToolError> {
    let cache = Cache::of(options)?;
    for version in cache.traces(product)? {
        drop(note::read(&cache, &ToolRequest { product, version }));
    }
    Ok(journal::read(&cache, product))
}

/// The processes that use `request` now.
///
/// # Errors
/// When there can be no cache, or it cannot be read.
pub fn users(request: &ToolRequest, options: &ToolOptions) -> Result<Vec<User>, ToolError> {
    Ok(usage::users(&Cache::of(options)?, request))
}

/// The complete status of `product`. If the metadata of an executable differs from its record, its
/// checksum is computed.
///
/// # Errors
/// When there can be no cache, or it cannot be read.
pub async fn status(product: Product, options: &ToolOptions) -> Result<Status, ToolError> {
    let installed = inventory(product, options).await?;
    let current = default_version(product, options)?;
    let queue = queue(product, options)?;
    let mut history = history(product, options)?;
    let state = current_state(current.as_ref(), &installed, &queue, &history);
    history.reverse();
    let found = installed.iter().find(|it| Some(&it.version) == current.as_ref()).cloned();
    Ok(Status {
        product: product.name(),
        state,
        binary_path: found.as_ref().map(|it| it.path.clone()),
        installed_at: found.as_ref().map(|it| it.installed_at.clone()),
        source: found.as_ref().map(|it| it.source.clone()),
        trust: found.as_ref().map(|it| it.trust),
        signed_by: found.as_ref().and_then(|it| it.signed_by.clone()),
        users: found.map(|it| it.users).unwrap_or_default(),
        current_version: current,
        queue,
        history,
        installed,
    })
}

/// The installed versions of `product`, the newest first.
///
/// # Errors
/// When there can be no cache, or it cannot be read.
pub async fn inventory(
    product: Product,
    options: &ToolOptions,
) -> Result<Vec<InstalledVersion>, ToolError> {
    let cache = Cache::of(options)?;
    let default = default_version(product, options)?;
    let looking = move |abandoned: &CancellationToken| {
        let mut requests = cache.directories(product)?;
        requests.sort_unstable_by(|one, other| other.version.cmp(&one.version));
        let processes = Processes::now();
        let looked = requests.into_iter().filter_map(|request| {
            let default = default.as_ref() == Some(&request.version);
            look(&cache, &request, default, &processes, abandoned)
        });
        Ok(looked.collect())
    };
    blocking(looking).await
}

/// The released versions of `product`, the newest first, as the release site or mirror lists them.
///
/// # Errors
/// When the list cannot be fetched or read, or the cache not be read.
pub async fn available(
    product: Product,
    options: &ToolOptions,
) -> Result<Vec<Available>, ToolError> {
    let mut released = index::released(product, options).await?;
    released.sort_unstable_by(|one, other| other.cmp(one));
    released.dedup();
    let cache = Cache::of(options)?;
    let mut installed = cache.directories(product)?;
    installed.retain(|request| cache.is_installed(request));
    let available = |version: Version| Available {
        prerelease: !version.pre.is_empty(),
        installed: installed.iter().any(|request| request.version == version),
        version,
    };
    Ok(released.into_iter().map(available).collect())
}

/// One version; none if it has gone in the meantime.
fn look(
    cache: &Cache,
    request: &ToolRequest,
    default: bool,
    processes: &Processes,
    abandoned: &CancellationToken,
) -> Option<InstalledVersion> {
    let record = cache.record(request)?;
    let last_used_at = usage::last_use(cache, request).map(journal::moment);
    let (state, problem) = match cache.lookup(request, abandoned) {
        Ok(Lookup::Installed(_)) => (State::Ready, None),
        Ok(Lookup::Tampered(_)) => {
            (State::Failed, Some("it is not the executable that was verified".to_owned()))
        }
        Ok(Lookup::Missing) => (State::Failed, Some("its executable is missing".to_owned())),
        Err(error) => (State::Failed, Some(chain(&error))),
    };
    let state = match (queue::working(cache, request), state) {
        (Some(act), State::Failed) if act.operation == Act::Install => State::Installing,
        (Some(act), _) if act.operation == Act::Uninstall => removing(&act),
        (_, state) => state,
    };
    let path = cache.executable(request);
    Some(InstalledVersion {
        product: request.product.name(),
        version: request.version.clone(),
        default,
        state,
        problem,
        size: std::fs::metadata(&path).map_or(0, |metadata| metadata.len()),
        path: path.display().to_string(),
        source: Source::of(&record),
        trust: (&record.signer).into(),
        signed_by: Signer::of(request.product, record.signer.fingerprint()),
        installed_at: record.installed_at,
        last_used_at,
        users: usage::users_among(processes, cache, request),
    })
}

/// The state of the current version; without one, of the operation in progress or the last failure.
fn current_state(
    current: Option<&Version>,
    installed: &[InstalledVersion],
    queue: &Queue,
    history: &[Entry],
) -> State {
    if let Some(found) = installed.iter().find(|it| Some(&it.version) == current) {
        return found.state;
    }
    let is_meant = |version: &Version| current.is_none_or(|current| current == version);
    match &queue.in_progress {
        Some(act) if is_meant(&act.version) && act.operation == Act::Install => {
            return State::Installing;
        }
        _ => {}
    }
    let failed = |entry: &Entry| entry.operation == Act::Install && entry.state == Outcome::Failed;
    let last = history.iter().rev().find(|entry| is_meant(&entry.version));
    match last {
        Some(entry) if failed(entry) && (current.is_some() || installed.is_empty()) => {
            State::Failed
        }
        _ => State::NotInstalled,
    }
}

/// The state during a removal: pending deletion while the drain period lasts.
fn removing(act: &InProgress) -> State {
    if act.drains_until.is_some() { State::PendingDeletion } else { State::Uninstalling }
}
