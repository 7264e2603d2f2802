//! Which version a run gets, out of everything that has a say.
//!
//! What names a version beats what only limits it, and what is nearer to the run beats what is
//! further away. Within `required_version` what is there already beats what would have to be
//! downloaded, so that a run does not change its tool because somebody published a release.

use semver::Version;

use super::cache::Cache;
use super::constraint::{Constraint, ConstraintError};
use super::error::ToolError;
use super::path::SearchPath;
use super::platform::Platform;
use super::{ToolOptions, VersionWish, index};
use crate::spec::Product;
use crate::spec::ToolRequest;

/// Decides on the exact version: the run's, else the version file's, else one that satisfies
/// `required_version` (the default, one on PATH, the newest in the cache, the newest released),
/// else the default, else what is on PATH.
///
/// A `required_version` that the run's version contradicts is left to the tool, which says so best.
///
/// # Errors
/// When nothing decides, a constraint cannot be read or satisfied, or the list of releases is
/// needed and cannot be fetched.
pub async fn choose(wish: &VersionWish, options: &ToolOptions) -> Result<ToolRequest, ToolError> {
    if let Some(exact) = &wish.exact {
        return Ok(exact.clone());
    }
    let choice = Choice::new(wish, options)?;
    if let Some((name, content)) = &wish.version_file {
        let unreadable = |source| ToolError::VersionFile { name: name.clone(), source };
        return match VersionFile::parse(name, content).map_err(unreadable)? {
            VersionFile::Exact(request) => Ok(request),
            VersionFile::Newest(product) => choice.newest_released(product, None).await,
            VersionFile::Limit(product, constraint) => {
                choice.satisfying(Some(product), &constraint).await
            }
        };
    }
    if !wish.required.is_empty() {
        let constraint = Constraint::all(&wish.required).map_err(ToolError::RequiredVersion)?;
        return choice.satisfying(None, &constraint).await;
    }
    if let Some(default) = &wish.default {
        return Ok(default.clone());
    }
    choice.on_path(&Product::ENGINES, |_| true).await.ok_or(ToolError::NoVersion)
}

/// What a version file asks for.
#[derive(Debug, Eq, PartialEq)]
enum VersionFile {
    Exact(ToolRequest),
    Newest(Product),
    Limit(Product, Constraint),
}

impl VersionFile {
    /// Reads the first line that is neither empty nor a comment. A file whose name speaks of tofu
    /// is about `OpenTofu`, unless the version itself names a product.
    fn parse(name: &str, content: &str) -> Result<Self, ConstraintError> {
        let product = if name.contains("tofu") { Product::OpenTofu } else { Product::Terraform };
        let line = content
            .trim_start_matches('\u{feff}')
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim())
            .find(|line| !line.is_empty())
            .unwrap_or_default();
        if line == "latest" {
            return Ok(Self::Newest(product));
        }
        let bare: Result<Version, _> = line.strip_prefix('v').unwrap_or(line).parse();
        if let Ok(version) = bare {
            return Ok(Self::Exact(ToolRequest { product, version }));
        }
        match line.parse::<ToolRequest>() {
            Ok(request) => Ok(Self::Exact(request)),
            Err(_) => Ok(Self::Limit(product, line.parse()?)),
        }
    }
}

struct Choice<'a> {
    options: &'a ToolOptions,
    default: Option<&'a ToolRequest>,
    cache: Cache,
    search: SearchPath<'a>,
}

impl<'a> Choice<'a> {
    fn new(wish: &'a VersionWish, options: &'a ToolOptions) -> Result<Self, ToolError> {
        let cache = Cache::new(&options.cache, Platform::current()?)?;
        let search = SearchPath::new(options.search_path.as_deref(), cache.path_memory());
        Ok(Self { options, default: wish.default.as_ref(), cache, search })
    }

    /// The best version that satisfies `constraint`. Where no product is named, it is the
    /// default's, else Terraform; only what is on PATH may then be `OpenTofu` too.
    async fn satisfying(
        &self,
        product: Option<Product>,
        constraint: &Constraint,
    ) -> Result<ToolRequest, ToolError> {
        let named = product.or(self.default.map(|default| default.product));
        let product = named.unwrap_or(Product::Terraform);
        if let Some(default) = self.default
            && default.product == product
            && constraint.allows(&default.version)
        {
            return Ok(default.clone());
        }
        let products = named.as_ref().map_or(Product::ENGINES.as_slice(), std::slice::from_ref);
        if let Some(found) = self.on_path(products, |version| constraint.allows(version)).await {
            return Ok(found);
        }
        let cached = self.cache.versions(product).into_iter();
        if let Some(version) = cached.filter(|version| constraint.suggests(version)).max() {
            return Ok(ToolRequest { product, version });
        }
        self.newest_released(product, Some(constraint)).await
    }

    async fn on_path(
        &self,
        products: &[Product],
        wanted: impl Fn(&Version) -> bool,
    ) -> Option<ToolRequest> {
        for product in products {
            if let Some(found) = self.search.find(*product, &wanted).await {
                return Some(ToolRequest { product: *product, version: found.version });
            }
        }
        None
    }

    async fn newest_released(
        &self,
        product: Product,
        constraint: Option<&Constraint>,
    ) -> Result<ToolRequest, ToolError> {
        let wanted = |version: &Version| match constraint {
            Some(constraint) => constraint.suggests(version),
            None => version.pre.is_empty(),
        };
        let released = index::released(product, self.options).await?;
        let version = released.into_iter().filter(wanted).max();
        version.map(|version| ToolRequest { product, version }).ok_or_else(|| {
            let constraint = constraint.map_or_else(|| "latest".to_owned(), ToString::to_string);
            ToolError::NoneSatisfies { product, constraint }
        })
    }
}
