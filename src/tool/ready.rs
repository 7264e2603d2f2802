//! From a request to an executable: on PATH, in the cache, or downloaded.

use std::path::Path;
use std::sync::Arc;

use tokio::time::Instant;

use crate::tool::choice::path::{FoundTool, SearchPath};
use crate::tool::error::ToolError;
use crate::tool::fetch::release;
use crate::tool::installed_tool::{InstalledTool, Origin};
use crate::tool::options::ToolOptions;
use crate::tool::store::attempt::Attempt;
use crate::tool::store::cache::Cache;
use crate::tool::store::error::CacheError;
use crate::tool::store::history::ToolOperation;
use crate::tool::store::installed::installed;
use crate::tool::store::lookup::Lookup;
use crate::tool::store::{usage, version_lock};
use crate::tool::vendor::platform::Platform;
use crate::tool::version_query::query_version_in;
use butler_base::blocking::blocking;
use butler_base::process::Environment;
use butler_protocol::spec::ToolRequest;

/// Makes the executable of `request` available. `progress` gets a line for each slow step.
///
/// If the future is dropped, its processes end, and an incomplete installation is never used.
///
/// # Errors
/// When it cannot be downloaded, verified or stored.
pub async fn ready(
    request: &ToolRequest,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<InstalledTool, ToolError> {
    let cache = Cache::new(&options.cache, Platform::current()?)?;
    match on_path(request, options, &cache, |_| true).await {
        Some(tool) => Ok(tool),
        None => from_cache(request, options, &cache, progress).await,
    }
}

/// The directory and environment in which a tool is going to run.
#[derive(Clone, Copy, Debug)]
pub struct RunLocation<'a> {
    /// The directory.
    pub directory: &'a Path,
    /// Its environment.
    pub environment: &'a Environment,
}

/// Checks that `tool` starts the wanted version in the directory of the run, if that is known, and
/// makes another executable ready if it does not. Only a possible shim is started for that.
///
/// # Errors
/// When it cannot be downloaded, verified or stored.
pub async fn ensure_wanted_version(
    tool: InstalledTool,
    at: Option<RunLocation<'_>>,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<InstalledTool, ToolError> {
    if starts_wanted_version(&tool, at).await {
        return Ok(tool);
    }
    let cache = Cache::new(&options.cache, Platform::current()?)?;
    match on_path(&tool.request, options, &cache, |found| found.is_itself).await {
        Some(tool) => Ok(tool),
        None => from_cache(&tool.request, options, &cache, progress).await,
    }
}

/// The executable of `request` that a run in that directory would start, without a download.
///
/// # Errors
/// When it is not there, not the one that was verified, or another user could have written it.
pub async fn startable(
    request: &ToolRequest,
    at: RunLocation<'_>,
    options: &ToolOptions,
) -> Result<InstalledTool, ToolError> {
    let cache = Cache::new(&options.cache, Platform::current()?)?;
    if let Some(tool) = on_path(request, options, &cache, |_| true).await {
        if starts_wanted_version(&tool, Some(at)).await {
            return Ok(tool);
        }
        if let Some(tool) = on_path(request, options, &cache, |found| found.is_itself).await {
            return Ok(tool);
        }
    }
    let (path, request) = (installed(request, options).await?, request.clone());
    Ok(InstalledTool { request, path, origin: Origin::Cache, in_use: None })
}

/// Whether `tool` starts the wanted version in the directory of the run.
async fn starts_wanted_version(tool: &InstalledTool, at: Option<RunLocation<'_>>) -> bool {
    if tool.origin != Origin::Shim {
        return true;
    }
    let (path, request) = (tool.path.display(), &tool.request);
    let Some(RunLocation { directory, environment }) = at else {
        tracing::warn!(
            "not using `{path}`: in the directory of the run, it may start a version other than {request}"
        );
        return false;
    };
    let there = directory.display();
    match query_version_in(&tool.path, request.product, directory, environment).await {
        Ok(Ok(printed)) if printed.is(request) => true,
        Ok(Ok(printed)) => {
            let printed = printed.describe();
            tracing::warn!("not using `{path}`: in `{there}` it starts {printed}, not {request}");
            false
        }
        Ok(Err(why)) => {
            tracing::warn!("not using `{path}`: in `{there}` it does not print its version: {why}");
            false
        }
        Err(error) => {
            let error = butler_base::error::chain(&error);
            tracing::warn!(error, "not using `{path}`: cannot start it in `{there}`");
            false
        }
    }
}

/// The executable on PATH, if it exists. An executable in the cache is skipped: it is used through
/// the cache, which records its users.
async fn on_path(
    request: &ToolRequest,
    options: &ToolOptions,
    cache: &Cache,
    usable: impl Fn(&FoundTool) -> bool,
) -> Option<InstalledTool> {
    let own = std::fs::canonicalize(&options.cache).ok();
    let is_own = |path: &Path| match (&own, std::fs::canonicalize(path)) {
        (Some(own), Ok(path)) => path.starts_with(own),
        _ => false,
    };
    let search = SearchPath::new(options.search_path.as_deref(), cache.path_memory());
    let is_wanted =
        |it: &FoundTool| it.version == request.version && usable(it) && !is_own(&it.path);
    let FoundTool { path, is_itself, .. } = search.find(request.product, is_wanted).await?;
    let origin = if is_itself { Origin::Path } else { Origin::Shim };
    Some(InstalledTool { request: request.clone(), path, origin, in_use: None })
}

async fn from_cache(
    request: &ToolRequest,
    options: &ToolOptions,
    cache: &Cache,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<InstalledTool, ToolError> {
    let tool =
        |path, origin, in_use| InstalledTool { request: request.clone(), path, origin, in_use };
    let deadline = Instant::now() + options.timeout;
    // Before the lookup, so that no process removes the version that it finds.
    let in_use =
        usage::mark_in_use(cache, request, options, deadline, progress).await?.map(Arc::new);
    // Without the lock at first: a prebaked cache may be read-only.
    if let Lookup::Installed(path) = lookup(cache, request).await? {
        return Ok(tool(path, Origin::Cache, in_use));
    }
    let directory = cache.prepare(request.product)?;
    let lock = version_lock::acquire(cache, request, options, deadline, progress).await?;
    match lookup(cache, request).await? {
        Lookup::Installed(path) => return Ok(tool(path, Origin::Cache, in_use)),
        Lookup::Tampered(path) => {
            tracing::warn!(path = %path.display(), "this is not the executable that was verified");
            progress(&format!("{request} in the cache was changed; downloading it again"));
        }
        Lookup::Missing => {}
    }
    let attempt =
        Attempt::begin(cache, request, (ToolOperation::Install, None), &options.owner, lock);
    // The time spent waiting for other processes counts against the timeout.
    let left = deadline.saturating_duration_since(Instant::now());
    let options = ToolOptions { timeout: left, ..options.clone() };
    let archive =
        match release::fetch_release(request, Platform::current()?, &options, &directory, progress)
            .await
        {
            Ok(archive) => archive,
            Err(error) => return attempt.finish(Err(error)),
        };
    progress(&format!("unpacking {request}"));
    let (cache, wanted) = (cache.clone(), request.clone());
    let installing = blocking(move |abandoned| {
        // The closure owns the attempt, and with it the lock: dropping the future does not stop the
        // work at once.
        attempt.finish(cache.install(&wanted, archive, abandoned))
    });
    Ok(tool(installing.await?, Origin::Downloaded, in_use))
}

async fn lookup(cache: &Cache, request: &ToolRequest) -> Result<Lookup, CacheError> {
    let (cache, request) = (cache.clone(), request.clone());
    blocking(move |abandoned| cache.lookup(&request, abandoned)).await
}
