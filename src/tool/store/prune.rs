//! Frees space in the cache: removes versions that were not used for a long time, the least
//! recently used of too many, and the leftovers of killed processes.
//!
//! Never removes a version that is in use, that another process works on, or that is the default.
//! Each version is removed in the same way as by `uninstall`, but without a drain period: if a
//! process requested its path within that period, the version stays.

use std::path::Path;
use std::time::{Duration, SystemTime};

use semver::Version;
use serde::Serialize;
use tokio::time::Instant;

use crate::tool::error::ToolError;
use crate::tool::options::{ToolOptions, WhenBusy};
use crate::tool::store::attempt::Attempt;
use crate::tool::store::cache::Cache;
use crate::tool::store::default;
use crate::tool::store::error::CacheError;
use crate::tool::store::history::ToolOperation;
use crate::tool::store::queue::in_progress;
use crate::tool::store::record::rfc3339;
use crate::tool::store::uninstall::{
    UninstallError, describe_users, refuse_in_use, refuse_path_requested, remove,
};
use crate::tool::store::usage;
use crate::tool::store::version_lock::{self, VersionLock};
use butler_base::blocking::blocking;
use butler_protocol::spec::{Product, ToolRequest};

/// The age from which an unfinished file counts as left over: no process writes a file for so long.
const LEFTOVER_AGE: Duration = Duration::from_hours(1);

/// Which versions to remove. Without a limit, only the leftovers of killed processes are removed.
#[derive(Clone, Debug, Default)]
pub struct PruneLimits {
    /// Versions that were not used for this long.
    pub unused_for: Option<Duration>,
    /// The least recently used versions, until all take no more than this, in bytes.
    pub larger_than: Option<u64>,
    /// The drain period: a version that was used within this time stays.
    pub drain: Duration,
    /// Only report the versions.
    pub dry_run: bool,
}

/// The removed versions and leftovers, or with `dry_run` those that would be removed.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pruned {
    /// The versions that exceed a limit, the least recently used first.
    pub versions: Vec<PrunedVersion>,
    /// How many directories and files of killed processes were removed.
    pub leftovers: usize,
    /// The paths that could not be removed, with the errors.
    pub left: Vec<String>,
    /// The freed space, in bytes.
    #[serde(skip)]
    pub bytes: u64,
}

/// A version that exceeds a limit.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrunedVersion {
    /// The product.
    #[serde(serialize_with = "product_name")]
    pub product: Product,
    /// The version.
    pub version: Version,
    /// When it was last used, by RFC 3339.
    pub last_used: String,
    /// Its size on disk, in bytes.
    pub bytes: u64,
    /// Whether it was removed.
    #[serde(flatten)]
    pub result: PruneResult,
}

/// Whether a version was removed.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "fate")]
pub enum PruneResult {
    /// It was removed, or would be with `dry_run`.
    Removed,
    /// It stays: it is the default, or a process uses it or works on it.
    Kept {
        /// The reason.
        reason: String,
    },
    /// It could not be removed.
    Failed {
        /// The error.
        reason: String,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn product_name<S: serde::Serializer>(product: &Product, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(product.name())
}

/// Removes the versions of `products` that exceed `limits`, and the leftovers of killed processes.
///
/// # Errors
/// When there can be no cache, or it cannot be read. A version that cannot be removed is in the result.
pub async fn prune(
    products: &[Product],
    limits: &PruneLimits,
    options: &ToolOptions,
) -> Result<Pruned, ToolError> {
    let pruning = Pruning {
        cache: Cache::of(options)?,
        limits,
        options: ToolOptions { when_busy: WhenBusy::Refuse, ..options.clone() },
    };
    let mut pruned = Pruned::default();
    pruning.remove_versions(products, &mut pruned).await?;
    for product in products {
        pruning.remove_leftovers(*product, &mut pruned).await?;
    }
    Ok(pruned)
}

struct Pruning<'a> {
    cache: Cache,
    limits: &'a PruneLimits,
    options: ToolOptions,
}

impl Pruning<'_> {
    async fn remove_versions(
        &self,
        products: &[Product],
        pruned: &mut Pruned,
    ) -> Result<(), CacheError> {
        let mut versions = Vec::new();
        for product in products {
            let requests = self.cache.directories(*product)?.into_iter();
            versions.extend(
                requests
                    .map(|request| (self.last_use(&request), self.cache.size(&request), request)),
            );
        }
        versions.sort_by_key(|(used, ..)| *used);
        let mut total: u64 = versions.iter().map(|(_, bytes, _)| bytes).sum();
        let now = SystemTime::now();
        for (used, bytes, request) in versions {
            let age = now.duration_since(used).unwrap_or_default();
            let is_old = self.limits.unused_for.is_some_and(|limit| age >= limit);
            let is_too_much = self.limits.larger_than.is_some_and(|limit| total > limit);
            if !(is_old || is_too_much) {
                continue;
            }
            let default = default::installed_default(&self.cache, request.product);
            let result = if default.as_ref() == Some(&request.version) {
                PruneResult::Kept { reason: "the default".to_owned() }
            } else {
                self.remove(&request).await
            };
            if result == PruneResult::Removed {
                total -= bytes;
                pruned.bytes += bytes;
            }
            let ToolRequest { product, version } = request;
            let last_used = rfc3339(used);
            pruned.versions.push(PrunedVersion { product, version, last_used, bytes, result });
        }
        Ok(())
    }

    /// The time of the last use or, for an unused version, of the installation.
    fn last_use(&self, request: &ToolRequest) -> SystemTime {
        let installed = || std::fs::metadata(self.cache.version(request)).ok()?.modified().ok();
        usage::last_use(&self.cache, request).or_else(installed).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    async fn remove(&self, request: &ToolRequest) -> PruneResult {
        match self.try_remove(request).await {
            Ok(()) => PruneResult::Removed,
            Err(UninstallError::InUse { users, .. }) => {
                PruneResult::Kept { reason: format!("in use{}", describe_users(&users)) }
            }
            Err(UninstallError::PathRequested { at, .. }) => PruneResult::Kept {
                reason: format!(
                    "its path was requested at {at}; a process may be about to start it"
                ),
            },
            Err(UninstallError::Tool(error))
                if matches!(*error, ToolError::Cache(CacheError::Busy { .. })) =>
            {
                PruneResult::Kept { reason: error.to_string() }
            }
            Err(error) => PruneResult::Failed { reason: butler_base::error::chain(&error) },
        }
    }

    async fn try_remove(&self, request: &ToolRequest) -> Result<(), UninstallError> {
        let since = SystemTime::now().checked_sub(self.limits.drain);
        let since = since.unwrap_or(SystemTime::UNIX_EPOCH);
        let (cache, wanted) = (self.cache.clone(), request.clone());
        blocking(move |_| {
            refuse_in_use(&cache, &wanted)?;
            refuse_path_requested(&cache, &wanted, since)
        })
        .await?;
        if self.limits.dry_run {
            return Ok(());
        }
        let lock = self.lock(request).await?;
        let operation = (ToolOperation::Uninstall, None);
        let attempt = Attempt::begin(&self.cache, request, operation, &self.options.owner, lock);
        let (cache, request) = (self.cache.clone(), request.clone());
        blocking(move |_| attempt.finish(remove(&cache, &request, Some(since)))).await?;
        Ok(())
    }

    async fn lock(&self, request: &ToolRequest) -> Result<VersionLock, CacheError> {
        let deadline = Instant::now() + self.options.timeout;
        version_lock::acquire(&self.cache, request, &self.options, deadline, |_| {}).await
    }

    /// Removes the leftovers of killed processes: incomplete directories, unfinished files, and notes and
    /// locks of missing versions.
    async fn remove_leftovers(
        &self,
        product: Product,
        pruned: &mut Pruned,
    ) -> Result<(), CacheError> {
        for version in self.cache.tracked_versions(product)? {
            let request = ToolRequest { product, version };
            let is_worked_on = in_progress(&self.cache, &request).is_some();
            let partial = self.cache.partial(&request)?;
            let is_gone = self.cache.has_directory(&request).is_ok_and(|is_there| !is_there);
            if is_worked_on || (partial.is_empty() && !is_gone) {
                continue;
            }
            if self.limits.dry_run {
                for path in &partial {
                    self.discard(path, pruned);
                }
                continue;
            }
            // Processes create such directories only with this lock.
            let Ok(_lock) = self.lock(&request).await else { continue };
            for path in self.cache.partial(&request)? {
                self.discard(&path, pruned);
            }
            if is_gone {
                let cache = self.cache.clone();
                let removing = move |_: &_| {
                    if let Ok(Ok(unused)) = usage::claim_unused(&cache, &request) {
                        cache.remove_traces(&request, unused);
                    }
                };
                blocking(removing).await;
            }
        }
        for path in self.cache.unfinished(product, SystemTime::now() - LEFTOVER_AGE)? {
            self.discard(&path, pruned);
        }
        Ok(())
    }

    fn discard(&self, path: &Path, pruned: &mut Pruned) {
        let bytes = crate::tool::store::cache::size(path);
        let remove = if path.is_dir() { std::fs::remove_dir_all } else { std::fs::remove_file };
        match if self.limits.dry_run { Ok(()) } else { remove(path) } {
            Ok(()) => {
                pruned.leftovers += 1;
                pruned.bytes += bytes;
            }
            Err(error) => {
                pruned.left.push(format!("`{}`: {error}", path.display()));
            }
        }
    }
}
