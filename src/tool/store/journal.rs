//! The history of the versions of a product, for users who want to know how the present state came
//! about.
//!
//! One file per product, of limited length, written as a whole under a lock and put in place by a
//! rename. It is a record, not a source of truth: the directories alone show what is installed. If
//! the journal cannot be read or written, the runner logs that and continues.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::store::cache::Cache;
use crate::tool::store::record;
use butler_base::platform::fs::{OFlag, OpenOptionsExt, is_at, try_lock};
use butler_protocol::spec::Product;

/// How many entries are kept of each product.
const LONGEST: usize = 100;

/// How often the lock of the journal is tried; writing the journal takes a few milliseconds. After
/// that, the entry is left out: a stopped process must not block others.
const ATTEMPTS: usize = 1000;
const PAUSE: Duration = Duration::from_millis(5);

/// What was done.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// A version was installed.
    Install,
    /// A version was removed.
    Uninstall,
}

impl Act {
    /// The name of the operation while it is in progress.
    pub(in crate::tool) const fn gerund(self) -> &'static str {
        match self {
            Self::Install => "installing",
            Self::Uninstall => "uninstalling",
        }
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// As it should.
    Succeeded,
    /// It did not.
    Failed,
}

/// One act.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Of which version.
    pub version: Version,
    /// What.
    pub operation: Act,
    /// How it ended.
    pub state: Outcome,
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

impl Entry {
    /// The entry of an operation that began at `started` and has just ended, with or without an
    /// error.
    pub(in crate::tool) fn ended(
        version: &Version,
        operation: Act,
        started: SystemTime,
        error: Option<String>,
    ) -> Self {
        let state = if error.is_none() { Outcome::Succeeded } else { Outcome::Failed };
        Self {
            version: version.clone(),
            operation,
            state,
            started_at: moment(started),
            completed_at: moment(SystemTime::now()),
            error,
        }
    }
}

/// A point in time by RFC 3339, to the second.
pub(in crate::tool) fn moment(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// The history of `product`, the latest entry last.
pub(in crate::tool) fn read(cache: &Cache, product: Product) -> Vec<Entry> {
    let kept = raw(&cache.journal(product)).into_iter();
    kept.filter_map(|entry| serde_json::from_value(entry).ok()).collect()
}

/// Appends `entry` to the history of `product`. Entries that other processes append concurrently are
/// kept.
pub(in crate::tool) fn append(cache: &Cache, product: Product, entry: Entry) {
    let path = cache.journal(product);
    let added = serde_json::to_value(entry).map_err(io::Error::from).and_then(|entry| {
        let _lock = lock(&path)?;
        let mut entries = raw(&path);
        entries.push(entry);
        let surplus = entries.len().saturating_sub(LONGEST);
        entries.drain(..surplus);
        record::write(&path, &entries)
    });
    if let Err(error) = added {
        tracing::debug!(%product, %error, "cannot write the history");
    }
}

/// The entries as JSON, including those that a newer release wrote.
fn raw(path: &Path) -> Vec<Value> {
    record::read(path).unwrap_or_default()
}

/// Locks the journal. Each writer replaces the file, so only a lock on the file that is at `path`
/// after locking counts.
fn lock(path: &Path) -> io::Result<File> {
    for _ in 0..ATTEMPTS {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)?;
        match try_lock(&file) {
            Ok(()) if is_at(&file, path) => return Ok(file),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            // On a file system without locks, one of two concurrent entries may be lost.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::vendor::platform::Platform;

    fn cache() -> (tempfile::TempDir, Cache) {
        let directory = tempfile::tempdir().unwrap();
        let platform = Platform { system: "linux", architecture: "amd64" };
        let cache = Cache::new(directory.path(), platform).unwrap();
        cache.prepare(Product::Terraform).unwrap();
        (directory, cache)
    }

    fn installed(patch: u64) -> Entry {
        Entry::ended(&Version::new(1, 0, patch), Act::Install, SystemTime::now(), None)
    }

    fn patches(cache: &Cache) -> Vec<u64> {
        read(cache, Product::Terraform).into_iter().map(|entry| entry.version.patch).collect()
    }

    #[test]
    fn concurrent_entries_are_all_kept() {
        let (_directory, cache) = cache();
        std::thread::scope(|scope| {
            for writer in 0..20 {
                let cache = &cache;
                scope.spawn(move || {
                    for entry in 0..5 {
                        append(cache, Product::Terraform, installed(writer * 5 + entry));
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
        for patch in 0..LONGEST as u64 + 3 {
            append(&cache, Product::Terraform, installed(patch));
        }
        assert_eq!(patches(&cache), (3..LONGEST as u64 + 3).collect::<Vec<_>>());
    }

    #[test]
    fn unreadable_journal_is_replaced() {
        let (_directory, cache) = cache();
        let path = cache.journal(Product::Terraform);
        for broken in ["", "{", "[1, 2", "{\"a\": 1}"] {
            std::fs::write(&path, broken).unwrap();
            assert_eq!(patches(&cache), [0; 0], "{broken}");
            append(&cache, Product::Terraform, installed(7));
            assert_eq!(patches(&cache), [7], "{broken}");
        }
        // An entry that a newer release wrote must be kept.
        std::fs::write(&path, r#"[{"operation": "repair"}]"#).unwrap();
        append(&cache, Product::Terraform, installed(7));
        assert_eq!(patches(&cache), [7]);
        assert!(std::fs::read_to_string(&path).unwrap().contains("repair"));
    }
}
