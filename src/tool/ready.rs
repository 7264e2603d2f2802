//! From a request to an executable: on PATH, in the cache, or downloaded.

use std::sync::Arc;

use tokio::time::Instant;

use crate::spec::ToolRequest;
use crate::tool::blocking::blocking;
use crate::tool::choice::path::SearchPath;
use crate::tool::error::ToolError;
use crate::tool::fetch::release;
use crate::tool::store::attempt::Attempt;
use crate::tool::store::cache::{Cache, CacheError, Lookup};
use crate::tool::store::journal::Act;
use crate::tool::store::{lock, usage};
use crate::tool::vendor::platform::Platform;
use crate::tool::{InstalledTool, Origin, ToolOptions};

/// Makes exactly `request` ready. `progress` gets a line for each step that takes time.
///
/// May be dropped at any point: what it started ends, and nothing is left that a later run could
/// take for installed.
///
/// # Errors
/// When it cannot be downloaded, verified or stored.
pub async fn ready(
    request: &ToolRequest,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<InstalledTool, ToolError> {
    let platform = Platform::current()?;
    let cache = Cache::new(&options.cache, platform)?;
    let tool =
        |path, origin, in_use| InstalledTool { request: request.clone(), path, origin, in_use };

    let search = SearchPath::new(options.search_path.as_deref(), cache.path_memory());
    if let Some(found) = search.find(request.product, |version| *version == request.version).await {
        return Ok(tool(found.path, Origin::Path, None));
    }
    let deadline = Instant::now() + options.timeout;
    // First of all, so that nobody removes what is found.
    let in_use = usage::begin(&cache, request, options, deadline, progress).await?.map(Arc::new);
    // Without the lock at first: a prebaked cache may be read-only.
    if let Lookup::Installed(path) = lookup(&cache, request).await? {
        return Ok(tool(path, Origin::Cache, in_use));
    }
    let directory = cache.prepare(request.product)?;
    let lock = lock::acquire(&cache, request, options, deadline, progress).await?;
    match lookup(&cache, request).await? {
        Lookup::Installed(path) => return Ok(tool(path, Origin::Cache, in_use)),
        Lookup::Tampered(path) => {
            tracing::warn!(path = %path.display(), "this is not the executable that was verified");
            progress(&format!("{request} in the cache was changed; downloading it again"));
        }
        Lookup::Missing => {}
    }
    let attempt = Attempt::begin(&cache, request, (Act::Install, None), &options.owner, lock);
    // What was spent on waiting for others is not there for the download.
    let left = deadline.saturating_duration_since(Instant::now());
    let options = ToolOptions { timeout: left, ..options.clone() };
    let archive = match release::fetch(request, platform, &options, &directory, progress).await {
        Ok(archive) => archive,
        Err(error) => return attempt.ended(Err(error)),
    };
    progress(&format!("unpacking {request}"));
    let (cache, wanted) = (cache.clone(), request.clone());
    let installing = blocking(move |abandoned| {
        // The attempt, and the lock with it, goes with the work: who drops the future does not stop
        // it at once.
        attempt.ended(cache.install(&wanted, archive, abandoned))
    });
    Ok(tool(installing.await?, Origin::Downloaded, in_use))
}

async fn lookup(cache: &Cache, request: &ToolRequest) -> Result<Lookup, CacheError> {
    let (cache, request) = (cache.clone(), request.clone());
    blocking(move |abandoned| cache.lookup(&request, abandoned)).await
}
