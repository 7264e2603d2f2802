//! Answers what is installed, without asking anybody.

use std::path::{Path, PathBuf};

use crate::tool::ToolOptions;
use crate::tool::blocking::blocking;
use crate::tool::error::ToolError;
use crate::tool::store::cache::{Cache, Lookup};
use crate::tool::store::usage;
use crate::tool::vendor::platform::Platform;
use butler_protocol::spec::{Product, ToolRequest};

/// The versions of all products in the cache at `directory`, newest first, without a look at whether
/// they are what was verified. None where there can be no cache.
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
/// When it is not there, not the one that was verified, or could be somebody else's.
pub async fn installed(request: &ToolRequest, options: &ToolOptions) -> Result<PathBuf, ToolError> {
    let cache = Cache::new(&options.cache, Platform::current()?)?;
    let (looked, wanted) = (cache.clone(), request.clone());
    match blocking(move |abandoned| looked.lookup(&wanted, abandoned)).await? {
        Lookup::Installed(path) => {
            // Whoever asks where it is, is about to start it.
            usage::remember(&cache, request);
            Ok(path)
        }
        Lookup::Missing => Err(ToolError::NotInstalled { request: request.clone() }),
        Lookup::Tampered(path) => Err(ToolError::Tampered { request: request.clone(), path }),
    }
}
