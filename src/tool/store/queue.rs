//! The operations on the versions of a product at this moment, and the number of waiting processes.

use schemars::JsonSchema;
use semver::Version;
use serde::Serialize;

use crate::tool::store::cache::Cache;
use crate::tool::store::error::CacheError;
use crate::tool::store::history::ToolOperation;
use crate::tool::store::note::{self, Activity, NoteContent};
use butler_protocol::spec::{Product, ToolRequest};

/// The operation in progress on the versions of a product, and the number of waiting processes.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// How many processes wait for another one.
    pub pending: usize,
    /// The operation in progress; if there are several, the one that began first.
    pub in_progress: Option<InProgress>,
}

/// A version that a living process installs or removes.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InProgress {
    /// The version.
    pub version: Version,
    /// The operation.
    pub operation: ToolOperation,
    /// The id of the process.
    pub pid: u32,
    /// The owner of the process, such as `run 7`.
    pub owner: String,
    /// Since when, by RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// The end of the drain period, by RFC 3339, of a version that is pending deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub drains_until: Option<String>,
}

/// The operation in progress on the versions of `product`, and the number of waiting processes.
pub(in crate::tool) fn queue(product: Product, cache: &Cache) -> Result<Queue, CacheError> {
    let mut queue = Queue::default();
    for version in cache.tracked_versions(product)? {
        let request = ToolRequest { product, version };
        for content in note::read(cache, &request) {
            queue.pending += usize::from(content.doing == Activity::Wait);
            let Some(found) = InProgress::of(&request, content) else { continue };
            if queue.in_progress.as_ref().is_none_or(|first| found.since < first.since) {
                queue.in_progress = Some(found);
            }
        }
    }
    Ok(queue)
}

/// The operation on `request` that is in progress.
pub(in crate::tool) fn in_progress(cache: &Cache, request: &ToolRequest) -> Option<InProgress> {
    note::read(cache, request).into_iter().find_map(|content| InProgress::of(request, content))
}

impl InProgress {
    fn of(request: &ToolRequest, content: NoteContent) -> Option<Self> {
        Some(Self {
            version: request.version.clone(),
            operation: content.doing.operation()?,
            pid: content.pid,
            owner: content.owner,
            since: content.since,
            drains_until: content.until,
        })
    }
}
