//! From a request to an executable: on PATH, in the cache, or downloaded.

use std::sync::Arc;
use std::time::SystemTime;

use super::blocking::blocking;
use super::cache::{Cache, CacheError, Lookup};
use super::error::ToolError;
use super::journal::{Act, Entry};
use super::path::SearchPath;
use super::platform::Platform;
use super::{InstalledTool, Origin, ToolOptions, journal, lock, release, usage};
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
    let tool =
        |path, origin, in_use| InstalledTool { request: request.clone(), path, origin, in_use };

    let search = SearchPath::new(options.search_path.as_deref(), cache.path_memory());
    if let Some(found) = search.find(request.product, |version| *version == request.version).await {
        return Ok(tool(found.path, Origin::Path, None));
    }
    // First of all, so that nobody removes what is found.
    let in_use = usage::begin(&cache, request, &options.owner).await.map(Arc::new);
    // Without the lock at first: a prebaked cache may be read-only.
    if let Lookup::Installed(path) = lookup(&cache, request).await? {
        return Ok(tool(path, Origin::Cache, in_use));
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
        Lookup::Installed(path) => return Ok(tool(path, Origin::Cache, in_use)),
        Lookup::Tampered(path) => {
            tracing::warn!(path = %path.display(), "this is not the executable that was verified");
            progress(&format!("{request} in the cache was changed; downloading it again"));
        }
        Lookup::Missing => {}
    }
    let started = SystemTime::now();
    let installing = async {
        let archive = release::fetch(request, platform, options, &directory, progress).await?;
        progress(&format!("unpacking {request}"));
        let (cache, wanted) = (cache.clone(), request.clone());
        let installed = blocking(move |abandoned| {
            // The lock goes with the work: who drops the future does not stop it at once.
            let _lock = lock;
            cache.install(&wanted, archive, abandoned)
        });
        installed.await
    };
    let installed = installing.await;
    let error = installed.as_ref().err().map(|error| crate::error::chain(error));
    let entry = Entry::ended(&request.version, Act::Install, started, error);
    journal::append(&cache, request.product, entry);
    Ok(tool(installed?, Origin::Downloaded, in_use))
}

async fn lookup(cache: &Cache, request: &ToolRequest) -> Result<Lookup, CacheError> {
    let (cache, request) = (cache.clone(), request.clone());
    blocking(move |abandoned| cache.lookup(&request, abandoned)).await
}
