//! The operations on the versions of a product at this moment, and the number of waiting processes.

use schemars::JsonSchema;
use semver::Version;
use serde::Serialize;

use crate::tool::error::ToolError;
use crate::tool::options::ToolOptions;
use crate::tool::store::cache::Cache;
use crate::tool::store::journal::Act;
use crate::tool::store::note::{self, Content, Doing};
use butler_protocol::spec::{Product, ToolRequest};

/// What processes do with the versions of a product, and how many wait.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// How many processes wait for what another one does.
    pub pending: usize,
    /// What is being done; the one that began first, where several versions are worked on at once.
    pub in_progress: Option<InProgress>,
}

/// A version that a living process installs or removes.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InProgress {
    /// The version.
    pub version: Version,
    /// What is done with it.
    pub operation: Act,
    /// The process that does it.
    pub pid: u32,
    /// Whose process that is, such as `run 7`.
    pub owner: String,
    /// Since when, by RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// Until when, by RFC 3339, a version that is pending deletion is left to those who may just
    /// be starting with it; none when it is being installed, or being removed for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub drains_until: Option<String>,
}

/// What is being done with the versions of `product`, and how many processes wait for it.
///
/// # Errors
/// When there can be no cache, or it cannot be read.
pub fn queue(product: Product, options: &ToolOptions) -> Result<Queue, ToolError> {
    let cache = Cache::of(options)?;
    let mut queue = Queue::default();
    for version in cache.traces(product)? {
        let request = ToolRequest { product, version };
        for content in note::read(&cache, &request) {
            queue.pending += usize::from(content.doing == Doing::Wait);
            let Some(found) = InProgress::of(&request, content) else { continue };
            if queue.in_progress.as_ref().is_none_or(|first| found.since < first.since) {
                queue.in_progress = Some(found);
            }
        }
    }
    Ok(queue)
}

/// What is being done with `request`, if anything is: it is being installed, is pending deletion,
/// or is being removed.
///
/// # Errors
/// When there can be no cache.
pub fn in_progress(
    request: &ToolRequest,
    options: &ToolOptions,
) -> Result<Option<InProgress>, ToolError> {
    Ok(working(&Cache::of(options)?, request))
}

/// The process that works on `request` now.
pub(in crate::tool) fn working(cache: &Cache, request: &ToolRequest) -> Option<InProgress> {
    note::read(cache, request).into_iter().find_map(|content| InProgress::of(request, content))
}

impl InProgress {
    fn of(request: &ToolRequest, content: Content) -> Option<Self> {
        let operation = match content.doing {
            Doing::Install => Act::Install,
            Doing::Uninstall => Act::Uninstall,
            Doing::Use | Doing::Wait => return None,
        };
        Some(Self {
            version: request.version.clone(),
            operation,
            pid: content.pid,
            owner: content.owner,
            since: content.since,
            drains_until: content.until,
        })
    }
}
