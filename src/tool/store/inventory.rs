//! Collects the status of the versions of a product on this machine.
//!
//! Directories show which versions are installed, records their sources, notes the processes that
//! use or change them, and the history earlier operations. Nothing here installs or removes a version. Only the list of [`available`] versions needs the network.

use semver::Version;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::tool::error::ToolError;
use crate::tool::options::ToolOptions;
use crate::tool::store::cache::Cache;
use crate::tool::store::default::default_version;
use crate::tool::store::history::{self, HistoryEntry, OperationOutcome, ToolOperation};
use crate::tool::store::lookup::Lookup;
use crate::tool::store::queue::{self, InProgress, Queue};
use crate::tool::store::record::rfc3339;
use crate::tool::store::status::{InstalledVersion, Signer, ToolSource, ToolStatus, VersionState};
use crate::tool::store::usage;
use crate::tool::vendor::index;
use butler_base::blocking::blocking;
use butler_base::error::chain;
use butler_base::process::Processes;
use butler_protocol::spec::{Product, ToolRequest};

/// A released version.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleasedVersion {
    /// The version.
    pub version: Version,
    /// Whether it is a prerelease, such as 1.15.0-rc1.
    pub prerelease: bool,
    /// Whether it is installed.
    pub installed: bool,
}

/// The complete status of `product`. If the metadata of an executable differs from its record, its
/// checksum is computed.
///
/// # Errors
/// When there can be no cache, or it cannot be read.
pub async fn status(product: Product, options: &ToolOptions) -> Result<ToolStatus, ToolError> {
    let installed = inventory(product, options).await?;
    let current = default_version(product, options)?;
    let cache = Cache::of(options)?;
    // Before the history is read, because it adds the unfinished operations of dead processes.
    let queue = queue::queue(product, &cache)?;
    let mut history = history::read(&cache.history_file(product));
    let state = current_state(current.as_ref(), &installed, &queue, &history);
    history.reverse();
    let found = installed.iter().find(|it| Some(&it.version) == current.as_ref()).cloned();
    Ok(ToolStatus {
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
    let inspecting = move |abandoned: &CancellationToken| {
        let mut requests = cache.directories(product)?;
        requests.sort_unstable_by(|one, other| other.version.cmp(&one.version));
        let processes = Processes::now();
        let installed = requests.into_iter().filter_map(|request| {
            let default = default.as_ref() == Some(&request.version);
            inspect_version(&cache, &request, default, &processes, abandoned)
        });
        Ok(installed.collect())
    };
    blocking(inspecting).await
}

/// The released versions of `product`, the newest first, as the release site or mirror lists them.
///
/// # Errors
/// When the list cannot be fetched or read, or the cache not be read.
pub async fn available(
    product: Product,
    options: &ToolOptions,
) -> Result<Vec<ReleasedVersion>, ToolError> {
    let mut released = index::released(product, options).await?;
    released.sort_unstable_by(|one, other| other.cmp(one));
    released.dedup();
    let cache = Cache::of(options)?;
    let mut installed = cache.directories(product)?;
    installed.retain(|request| cache.is_installed(request));
    let available = |version: Version| ReleasedVersion {
        prerelease: !version.pre.is_empty(),
        installed: installed.iter().any(|request| request.version == version),
        version,
    };
    Ok(released.into_iter().map(available).collect())
}

/// The status of one version; `None` if another process removed it in the meantime.
fn inspect_version(
    cache: &Cache,
    request: &ToolRequest,
    default: bool,
    processes: &Processes,
    abandoned: &CancellationToken,
) -> Option<InstalledVersion> {
    let record = cache.record(request)?;
    let last_used_at = usage::last_use(cache, request).map(rfc3339);
    let (state, problem) = match cache.lookup(request, abandoned) {
        Ok(Lookup::Installed(_)) => (VersionState::Ready, None),
        Ok(Lookup::Tampered(_)) => {
            (VersionState::Failed, Some("it is not the executable that was verified".to_owned()))
        }
        Ok(Lookup::Missing) => (VersionState::Failed, Some("its executable is missing".to_owned())),
        Err(error) => (VersionState::Failed, Some(chain(&error))),
    };
    let state = match (queue::in_progress(cache, request), state) {
        (Some(running), VersionState::Failed) if running.operation == ToolOperation::Install => {
            VersionState::Installing
        }
        (Some(running), _) if running.operation == ToolOperation::Uninstall => {
            removal_state(&running)
        }
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
        source: ToolSource::of(&record),
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
    history: &[HistoryEntry],
) -> VersionState {
    if let Some(found) = installed.iter().find(|it| Some(&it.version) == current) {
        return found.state;
    }
    let is_relevant = |version: &Version| current.is_none_or(|current| current == version);
    match &queue.in_progress {
        Some(running)
            if is_relevant(&running.version) && running.operation == ToolOperation::Install =>
        {
            return VersionState::Installing;
        }
        _ => {}
    }
    let failed = |entry: &HistoryEntry| {
        entry.operation == ToolOperation::Install && entry.state == OperationOutcome::Failed
    };
    let last = history.iter().rev().find(|entry| is_relevant(&entry.version));
    match last {
        Some(entry) if failed(entry) && (current.is_some() || installed.is_empty()) => {
            VersionState::Failed
        }
        _ => VersionState::NotInstalled,
    }
}

/// The state during a removal: pending deletion while the drain period lasts.
fn removal_state(running: &InProgress) -> VersionState {
    if running.drains_until.is_some() {
        VersionState::PendingDeletion
    } else {
        VersionState::Uninstalling
    }
}
