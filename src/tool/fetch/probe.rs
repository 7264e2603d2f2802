//! Checks, without installing anything, whether a release site responds and which tools are on PATH.

use std::path::PathBuf;
use std::time::SystemTime;

use reqwest::StatusCode;
use reqwest::header::DATE;
use semver::Version;

use crate::tool::choice::path::SearchPath;
use crate::tool::error::ToolError;
use crate::tool::fetch::download::{DownloadError, Fetcher};
use crate::tool::fetch::login::redacted;
use crate::tool::options::ToolOptions;
use crate::tool::store::cache::Cache;
use crate::tool::vendor::product::Vendored as _;
use butler_protocol::spec::Product;

/// The response of a release site.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Its status.
    pub status: StatusCode,
    /// The time of its clock.
    pub date: Option<SystemTime>,
}

/// The URL of the list of versions of `product`, without credentials.
#[must_use]
pub fn list_url(product: Product, options: &ToolOptions) -> String {
    redacted(&product.index(options.sites.mirror(product)).0)
}

/// Requests the list of versions of `product` once, and reads only the head of the response: the list
/// may have 7 MB.
///
/// # Errors
/// When the site does not respond.
pub async fn probe(product: Product, options: &ToolOptions) -> Result<Probe, ToolError> {
    let (url, _) = product.index(options.sites.mirror(product));
    let silent = |status| Probe { status, date: None };
    let answer = match Fetcher::new(product, options).probe(&url).await {
        Ok(Some(answer)) => answer,
        Ok(None) => return Ok(silent(StatusCode::OK)),
        Err(DownloadError::NotFound { .. }) => return Ok(silent(StatusCode::NOT_FOUND)),
        Err(error) => return Err(error.into()),
    };
    let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    Ok(Probe { status: answer.status(), date })
}

/// Reads the version of the first executable on PATH of the first of `products` that is on PATH, and
/// stores it for [`on_path`] and later searches.
pub async fn learn(products: &[Product], options: &ToolOptions) {
    if let Ok(cache) = Cache::of(options) {
        let search = SearchPath::new(options.search_path.as_deref(), cache.path_memory());
        search.learn(products).await;
    }
}

/// The first executable of `product` on PATH, and its version.
///
/// # Errors
/// When there can be no cache.
pub async fn on_path(
    product: Product,
    options: &ToolOptions,
) -> Result<Option<(PathBuf, Version)>, ToolError> {
    let memory = Cache::of(options)?.path_memory();
    let search = SearchPath::new(options.search_path.as_deref(), memory);
    let found = search.find(product, |_| true).await;
    Ok(found.map(|found| (found.path, found.version)))
}
