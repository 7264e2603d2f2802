//! Answers what is installed, without asking anybody.

use std::path::PathBuf;

use crate::spec::ToolRequest;
use crate::tool::ToolOptions;
use crate::tool::blocking::blocking;
use crate::tool::error::ToolError;
use crate::tool::store::cache::{Cache, Lookup};
use crate::tool::store::usage;
use crate::tool::vendor::platform::Platform;

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
