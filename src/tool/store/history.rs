//! The history of a product: which versions were installed and removed, and what failed.
//!
//! One file per product, of limited length, written completely under a lock and replaced by a
//! rename. It is a record, not a source of truth: the directories alone show what is installed. If
//! it cannot be read or written, the runner logs that and continues.

use std::path::Path;
use std::time::SystemTime;

use schemars::JsonSchema;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::store::brief_lock::lock_briefly;
use crate::tool::store::cache::Cache;
use crate::tool::store::error::CacheError;
use crate::tool::store::record::{self, rfc3339};
use butler_base::error::chain;
use butler_protocol::spec::ToolRequest;

/// How many entries are kept of each product.
const MAX_ENTRIES: usize = 100;

/// An operation on a version.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolOperation {
    /// The version is installed.
    Install,
    /// The version is removed.
    Uninstall,
}

impl ToolOperation {
    /// The name of the operation while it is in progress.
    pub(in crate::tool) const fn gerund(self) -> &'static str {
        match self {
            Self::Install => "installing",
            Self::Uninstall => "uninstalling",
        }
    }
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperationOutcome {
    /// The operation is complete.
    Succeeded,
    /// The operation failed, was cancelled, or was interrupted.
    Failed,
}

/// An operation that ended.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// The version.
    pub version: Version,
    /// The operation.
    pub operation: ToolOperation,
    /// The result of the operation.
    pub state: OperationOutcome,
    /// When it began, by RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub started_at: String,
    /// When it ended, by RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub completed_at: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Reads the history of a product from the file at `path`, the latest entry last.
pub(in crate::tool) fn read(path: &Path) -> Vec<HistoryEntry> {
    let entries = read_json(path).into_iter();
    entries.filter_map(|entry| serde_json::from_value(entry).ok()).collect()
}

/// Appends an operation on `request` that began at `started_at` and has just ended. Entries that
/// other processes append concurrently are kept.
pub(in crate::tool) fn append(
    cache: &Cache,
    request: &ToolRequest,
    operation: ToolOperation,
    started_at: String,
    error: Option<String>,
) {
    let entry = HistoryEntry {
        version: request.version.clone(),
        operation,
        state: match error {
            None => OperationOutcome::Succeeded,
            Some(_) => OperationOutcome::Failed,
        },
        started_at,
        completed_at: rfc3339(SystemTime::now()),
        error,
    };
    if let Err(error) = try_append(&cache.history_file(request.product), &entry) {
        tracing::debug!(%request, error = chain(&error), "cannot write the history");
    }
}

fn try_append(path: &Path, entry: &HistoryEntry) -> Result<(), CacheError> {
    let write = |source| CacheError::Write { path: path.to_owned(), source };
    let added = serde_json::to_value(entry).map_err(|error| write(error.into()))?;
    let _lock = lock_briefly(path)?;
    let mut entries = read_json(path);
    entries.push(added);
    let surplus = entries.len().saturating_sub(MAX_ENTRIES);
    entries.drain(..surplus);
    record::write(path, &entries).map_err(write)
}

/// The entries as JSON, so that entries of a newer release are kept.
fn read_json(path: &Path) -> Vec<Value> {
    record::read(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::vendor::platform::Platform;
    use butler_protocol::spec::Product;

    fn cache() -> (tempfile::TempDir, Cache) {
        let directory = tempfile::tempdir().unwrap();
        let platform = Platform { system: "linux", architecture: "amd64" };
        let cache = Cache::new(directory.path(), platform).unwrap();
        cache.prepare(Product::Terraform).unwrap();
        (directory, cache)
    }

    fn append_install(cache: &Cache, patch: u64) {
        let version = Version::new(1, 0, patch);
        let request = ToolRequest { product: Product::Terraform, version };
        append(cache, &request, ToolOperation::Install, rfc3339(SystemTime::now()), None);
    }

    fn patches(cache: &Cache) -> Vec<u64> {
        read(&cache.history_file(Product::Terraform))
            .into_iter()
            .map(|entry| entry.version.patch)
            .collect()
    }

    #[test]
    fn concurrent_entries_are_all_kept() {
        let (_directory, cache) = cache();
        std::thread::scope(|scope| {
            for writer in 0..20 {
                let cache = &cache;
                scope.spawn(move || {
                    for entry in 0..5 {
                        append_install(cache, writer * 5 + entry);
                    }
                });
            }
        });
        let mut found = patches(&cache);
        found.sort_unstable();
        assert_eq!(found, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn oldest_entries_are_dropped_above_the_limit() {
        let (_directory, cache) = cache();
        for patch in 0..MAX_ENTRIES as u64 + 3 {
            append_install(&cache, patch);
        }
        assert_eq!(patches(&cache), (3..MAX_ENTRIES as u64 + 3).collect::<Vec<_>>());
    }

    #[test]
    fn unreadable_history_is_replaced() {
        let (_directory, cache) = cache();
        let path = cache.history_file(Product::Terraform);
        for broken in ["", "{", "[1, 2", "{\"a\": 1}"] {
            std::fs::write(&path, broken).unwrap();
            assert_eq!(patches(&cache), [0; 0], "{broken}");
            append_install(&cache, 7);
            assert_eq!(patches(&cache), [7], "{broken}");
        }
        // An entry that a newer release wrote must be kept.
        std::fs::write(&path, r#"[{"operation": "repair"}]"#).unwrap();
        append_install(&cache, 7);
        assert_eq!(patches(&cache), [7]);
        assert!(std::fs::read_to_string(&path).unwrap().contains("repair"));
    }
}
