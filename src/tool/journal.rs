//! What was done with the versions of a product, for people who want to know how it came to this.
//!
//! One file a product, bounded, written whole and put in place at once. It is a record, not a
//! source of truth: what is installed shows in the directories alone, and a journal that cannot be
//! read or written costs a log line.

use std::time::SystemTime;

use schemars::JsonSchema;
use semver::Version;
use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::note::{Content, Doing};
use super::record;
use crate::spec::{Product, ToolRequest};

/// How many entries are kept of each product.
const LONGEST: usize = 100;

/// What was done.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// A version was installed.
    Install,
    /// A version was removed.
    Uninstall,
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
    /// What was begun at `started` and has just ended, with an error or without.
    pub(super) fn ended(
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
pub(super) fn moment(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// All that is remembered of `product`, the latest last.
pub(super) fn read(cache: &Cache, product: Product) -> Vec<Entry> {
    record::read(&cache.journal(product)).unwrap_or_default()
}

/// Remembers `entry` of `product`.
pub(super) fn append(cache: &Cache, product: Product, entry: Entry) {
    let mut entries = read(cache, product);
    entries.push(entry);
    let surplus = entries.len().saturating_sub(LONGEST);
    entries.drain(..surplus);
    if let Err(error) = record::write(&cache.journal(product), &entries) {
        tracing::debug!(%product, %error, "cannot write the history");
    }
}

/// Remembers what a process was in the middle of when it died; it is noticed only now.
pub(super) fn interrupted(cache: &Cache, request: &ToolRequest, note: &Content) {
    let operation = match note.doing {
        Doing::Install => Act::Install,
        Doing::Uninstall => Act::Uninstall,
        Doing::Use | Doing::Wait => return,
    };
    let error = format!("process {} ({}) died in the middle of it", note.pid, note.owner);
    let entry = Entry {
        version: request.version.clone(),
        operation,
        state: Outcome::Failed,
        started_at: note.since.clone(),
        completed_at: moment(SystemTime::now()),
        error: Some(error),
    };
    append(cache, request.product, entry);
}
