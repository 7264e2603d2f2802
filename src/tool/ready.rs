//! From a request to an executable: on PATH, in the cache, or downloaded.

use super::blocking::blocking;
use super::cache::{Cache, CacheError, Lookup};
use super::error::ToolError;
use super::path::SearchPath;
use super::platform::Platform;
use super::{InstalledTool, Origin, ToolOptions, lock, release};
use crate::spec::ToolRequest;

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
    let tool = |path, origin| InstalledTool { request: request.clone(), path, origin };

    let search = SearchPath::new(options.search_path.as_deref(), cache.path_memory());
    if let Some(found) = search.find(request.product, |version| *version == request.version).await {
        return Ok(tool(found.path, Origin::Path));
    }
    // Without the lock at first: a prebaked cache may be read-only.
    if let Lookup::Installed(path) = lookup(&cache, request).await? {
        return Ok(tool(path, Origin::Cache));
    }
    let directory = cache.prepare(request.product)?;
    let path = cache.lock_file(request);
    let lock = lock::acquire(&path, || {
        progress(&format!("waiting for another run that is installing {request}"));
    });
    let lock = lock.await.map_err(|source| match source.kind() {
        std::io::ErrorKind::TimedOut => CacheError::Locked { path },
        _ => CacheError::Write { path, source },
    })?;
    match lookup(&cache, request).await? {
        Lookup::Installed(path) => return Ok(tool(path, Origin::Cache)),
        Lookup::Tampered(path) => {
            tracing::warn!(path = %path.display(), "this is not the executable that was verified");
            progress(&format!("{request} in the cache was changed; downloading it again"));
        }
        Lookup::Missing => {}
    }
    let archive = release::fetch(request, platform, options, &directory, progress).await?;
    progress(&format!("unpacking {request}"));
    let wanted = request.clone();
    let installed = blocking(move |abandoned| {
        // The lock goes with the work: who drops the future does not stop it at once.
        let _lock = lock;
        cache.install(&wanted, archive, abandoned)
    });
    Ok(tool(installed.await?, Origin::Downloaded))
}

async fn lookup(cache: &Cache, request: &ToolRequest) -> Result<Lookup, CacheError> {
    let (cache, request) = (cache.clone(), request.clone());
    blocking(move |abandoned| cache.lookup(&request, abandoned)).await
}
