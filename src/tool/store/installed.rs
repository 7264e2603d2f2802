//! Lists and finds installed versions, without network access.

use std::path::{Path, PathBuf};

use crate::tool::error::ToolError;
use crate::tool::options::ToolOptions;
use crate::tool::store::cache::Cache;
use crate::tool::store::lookup::Lookup;
use crate::tool::store::usage;
use crate::tool::vendor::platform::Platform;
use butler_base::blocking::blocking;
use butler_protocol::spec::{Product, ToolRequest};

/// The versions of all products in the cache at `directory`, newest first, without checking that
/// they are unchanged. Empty if there cannot be a cache.
#[must_use]
pub fn installed_versions(directory: &Path) -> Vec<ToolRequest> {
    let cache = Platform::current().ok().and_then(|it| Cache::new(directory, it).ok());
    let Some(cache) = cache else { return Vec::new() };
    let of = |product| {
        let mut versions = cache.versions(product);
        versions.sort_by(|one, other| other.cmp(one));
        versions.into_iter().map(move |version| ToolRequest { product, version })
    };
    Product::ALL.into_iter().flat_map(of).collect()
}

/// The executable of `request`, if it is in the cache and the one that was verified.
///
/// # Errors
/// When it is not there, not the one that was verified, or another user could have written it.
pub async fn installed(request: &ToolRequest, options: &ToolOptions) -> Result<PathBuf, ToolError> {
    let cache = Cache::new(&options.cache, Platform::current()?)?;
    let (looked, wanted) = (cache.clone(), request.clone());
    match blocking(move |abandoned| looked.lookup(&wanted, abandoned)).await? {
        Lookup::Installed(path) => {
            // A process that asks for the path is about to start the executable.
            usage::record_use(&cache, request);
            Ok(path)
        }
        Lookup::Missing => Err(ToolError::NotInstalled { request: request.clone() }),
        Lookup::Tampered(path) => Err(ToolError::Tampered { request: request.clone(), path }),
    }
}
