//! What is known about the versions of a product on this machine.

use super::ToolOptions;
use super::cache::Cache;
use super::error::ToolError;
use super::journal::{self, Entry};
use super::note;
use super::platform::Platform;
use super::usage::{self, User};
use crate::spec::{Product, ToolRequest};

/// What was done with the versions of `product`, the latest last; what processes were in the middle
/// of when they died too.
///
/// # Errors
/// When there can be no cache.
pub fn history(product: Product, options: &ToolOptions) -> Result<Vec<Entry>, ToolError> {
    let cache = cache(options)?;
    for version in cache.traces(product) {
        drop(note::read(&cache, &ToolRequest { product, version }));
    }
    Ok(journal::read(&cache, product))
}

/// Everybody who uses `request` now.
///
/// # Errors
/// When there can be no cache.
pub fn users(request: &ToolRequest, options: &ToolOptions) -> Result<Vec<User>, ToolError> {
    Ok(usage::users(&cache(options)?, request))
}

/// The cache that `options` name.
pub(super) fn cache(options: &ToolOptions) -> Result<Cache, ToolError> {
    Ok(Cache::new(&options.cache, Platform::current()?)?)
}
