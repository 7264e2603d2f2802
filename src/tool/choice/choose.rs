//! Chooses the exact version of a tool; docs/versions.md has the rules as a table.
//!
//! A source that names a version takes precedence over one that only limits it, and a source that
//! is closer to the run over one that is farther away. Within a limit, an installed version is
//! preferred to a download, so that a run does not change its tool because a new version was
//! released.

use semver::Version;

use crate::tool::choice::limit::Limit;
use crate::tool::choice::path::SearchPath;
use crate::tool::choice::version_sources::VersionSources;
use crate::tool::error::ToolError;
use crate::tool::options::ToolOptions;
use crate::tool::store::cache::Cache;
use crate::tool::store::default;
use crate::tool::vendor::index;
use crate::tool::vendor::platform::Platform;
use butler_protocol::spec::{
    ModuleLimit, NEWEST_ALLOWED, OLDEST_ALLOWED, Product, RequestedVersion, RequiredVersions,
    ToolRequest, VersionFile, VersionSelector,
};

/// Where to search for a version that satisfies a constraint.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Reach {
    /// Among the installed versions; if none fits, among the released ones.
    #[default]
    InstalledFirst,
    /// Only among the installed versions, without network access.
    Installed,
    /// Only among the released versions.
    Released,
}

/// Chooses the exact version of a run: the one that it names, else a version file's, else one
/// that satisfies `required_version`, else the default, else the default of this machine
/// ([`crate::tool::use_version`]), else the version on PATH.
///
/// If the version of the run or of a file contradicts `required_version`, the tool itself reports it.
/// For a version file, the runner also warns.
///
/// # Errors
/// When no version is requested, a constraint cannot be read or satisfied, or the list of releases is
/// needed and cannot be fetched.
pub async fn choose(
    sources: &VersionSources,
    reach: Reach,
    options: &ToolOptions,
) -> Result<ToolRequest, ToolError> {
    let choice = Choice::new(sources, reach, options)?;
    if let Some(wanted) = &sources.named {
        return choice.resolve(wanted, None).await;
    }
    if let Some(request) = choice.for_module().await? {
        return Ok(request);
    }
    if let Some(default) = choice.default() {
        return Ok(default.clone());
    }
    choice.first_on_machine().await.ok_or(ToolError::NoVersion)
}

/// Chooses the version for a directory from its version files or `required_version`, as for a run in
/// it. `None` if neither requests a version.
///
/// # Errors
/// When a constraint cannot be read or satisfied, or a list is needed and cannot be fetched.
pub async fn choose_for_module(
    sources: &VersionSources,
    reach: Reach,
    options: &ToolOptions,
) -> Result<Option<ToolRequest>, ToolError> {
    Choice::new(sources, reach, options)?.for_module().await
}

/// Chooses the requested version: the newest installed one, else the newest released one.
///
/// # Errors
/// When no version matches, or the list of releases is needed and cannot be fetched.
pub async fn choose_wanted(
    wanted: &RequestedVersion,
    reach: Reach,
    options: &ToolOptions,
) -> Result<ToolRequest, ToolError> {
    let sources = VersionSources { product: Some(wanted.product), ..VersionSources::default() };
    let choice = Choice::new(&sources, reach, options)?;
    match &wanted.selector {
        VersionSelector::Within(constraint) => {
            choice.newest(wanted.product, Limit::Given(constraint)).await
        }
        _ => choice.resolve(wanted, None).await,
    }
}

struct Choice<'a> {
    sources: &'a VersionSources,
    reach: Reach,
    options: &'a ToolOptions,
    cache: Cache,
    search: SearchPath<'a>,
}

impl<'a> Choice<'a> {
    fn new(
        sources: &'a VersionSources,
        reach: Reach,
        options: &'a ToolOptions,
    ) -> Result<Self, ToolError> {
        let cache = Cache::new(&options.cache, Platform::current()?)?;
        let search = SearchPath::new(options.search_path.as_deref(), cache.path_memory());
        Ok(Self { sources, reach, options, cache, search })
    }

    /// The products to choose from, in order of preference.
    fn products(&self) -> &[Product] {
        let engines: &[Product] = if self.needs_tofu() { &TOFU_FIRST } else { &Product::ENGINES };
        self.sources.product.as_ref().map_or(engines, std::slice::from_ref)
    }

    /// Whether only `OpenTofu` reads the module, and no other product is wanted.
    fn needs_tofu(&self) -> bool {
        self.sources.required.needs_tofu
            && self.sources.product.is_none_or(|product| product == Product::OpenTofu)
    }

    /// The configured default, if its product is allowed and can read the module.
    fn default(&self) -> Option<&ToolRequest> {
        let is_allowed = |product| {
            let is_possible = product != Product::Terraform || !self.needs_tofu();
            is_possible && self.sources.product.is_none_or(|allowed| allowed == product)
        };
        self.sources.default.as_ref().filter(|default| is_allowed(default.product))
    }

    async fn for_module(&self) -> Result<Option<ToolRequest>, ToolError> {
        for file in &self.sources.version_files {
            for product in self.products() {
                let unreadable =
                    |source| ToolError::VersionFile { name: file.place.clone(), source };
                let wanted = RequestedVersion::of_file(file, *product).map_err(unreadable)?;
                if let Some(wanted) = self.first_available(&wanted).await {
                    let request = self.resolve(wanted, Some(file)).await?;
                    tracing::debug!(file = file.place, %request, "using the version from the version file");
                    self.warn_of_contradiction(file, &request);
                    return Ok(Some(request));
                }
            }
        }
        // The constraints are for the tool that Terragrunt starts, not for Terragrunt.
        let is_for_terragrunt = self.sources.product == Some(Product::Terragrunt);
        if is_for_terragrunt || self.sources.required == RequiredVersions::default() {
            return Ok(None);
        }
        // The product is chosen first, because the versions of different products are not comparable.
        let product = self.preferred_product().await;
        match self.required_version(product)? {
            Some(limit) => self.best_within(product, Limit::Module(&limit)).await.map(Some),
            None => Ok(None),
        }
    }

    /// What the module's own constraints allow of `product`.
    fn required_version(&self, product: Product) -> Result<Option<ModuleLimit>, ToolError> {
        self.sources.required.limit(product).map_err(ToolError::RequiredVersion)
    }

    fn warn_of_contradiction(&self, file: &VersionFile, request: &ToolRequest) {
        if let Ok(Some(required)) = self.required_version(request.product)
            && !required.allows(&request.version)
        {
            tracing::warn!(file = file.place, %request, required_version = %required, "using the version from the version file, although the module's `required_version` does not allow it");
        }
    }

    /// The first version on this machine; if none of them is, the first one.
    async fn first_available<'w>(
        &self,
        wanted: &'w [RequestedVersion],
    ) -> Option<&'w RequestedVersion> {
        if wanted.len() > 1 {
            for wanted in wanted {
                if let VersionSelector::Exact(version) = &wanted.selector
                    && self.is_on_machine(wanted.product, version).await
                {
                    return Some(wanted);
                }
            }
        }
        wanted.first()
    }

    async fn is_on_machine(&self, product: Product, version: &Version) -> bool {
        self.cache.versions(product).contains(version)
            || self.search.find(product, |found| found.version == *version).await.is_some()
    }

    /// The exact version of `wanted`, from the version file `file` if that is set.
    async fn resolve(
        &self,
        wanted: &RequestedVersion,
        file: Option<&VersionFile>,
    ) -> Result<ToolRequest, ToolError> {
        let product = wanted.product;
        let required = |word| {
            let place = file.map_or_else(|| word, |file| file.place.as_str()).to_owned();
            self.required_version(product)?.ok_or(ToolError::NothingRequired { place, word })
        };
        match &wanted.selector {
            VersionSelector::Exact(version) => {
                Ok(ToolRequest { product, version: version.clone() })
            }
            VersionSelector::Within(constraint) => {
                self.best_within(product, Limit::Given(constraint)).await
            }
            VersionSelector::Newest(constraint) => {
                let newest = constraint.as_ref().map(|it| (Limit::Given(it), End::Newest));
                self.end_of_list(product, newest).await
            }
            VersionSelector::NewestAllowed => {
                let limit = required(NEWEST_ALLOWED)?;
                self.end_of_list(product, Some((Limit::Module(&limit), End::Newest))).await
            }
            VersionSelector::OldestAllowed => {
                let limit = required(OLDEST_ALLOWED)?;
                self.end_of_list(product, Some((Limit::Module(&limit), End::Oldest))).await
            }
            VersionSelector::OfModule => match self.default().filter(|it| it.product == product) {
                Some(default) => Ok(default.clone()),
                None => self.on_machine(product, |_| true).await.ok_or(ToolError::NoVersion),
            },
        }
    }

    /// The best version of `product` that is within `limit`.
    async fn best_within(
        &self,
        product: Product,
        limit: Limit<'_>,
    ) -> Result<ToolRequest, ToolError> {
        if self.reach != Reach::Released {
            let allowed = |version: &Version| limit.allows(version);
            let default = self.default().filter(|default| default.product == product);
            if let Some(default) = default.filter(|default| allowed(&default.version)) {
                return Ok(default.clone());
            }
            if let Some(found) = self.on_machine(product, allowed).await {
                return Ok(found);
            }
        }
        self.newest(product, limit).await
    }

    /// The product if none is named: the default's, else the first one on this machine, else Terraform.
    async fn preferred_product(&self) -> Product {
        match (self.sources.product, self.default()) {
            (Some(product), _) => product,
            (None, Some(default)) => default.product,
            (None, None) if self.needs_tofu() => Product::OpenTofu,
            (None, None) => {
                let first = self.first_on_machine().await;
                first.map_or(Product::Terraform, |request| request.product)
            }
        }
    }

    /// The version on this machine of the first product that it has.
    async fn first_on_machine(&self) -> Option<ToolRequest> {
        for product in self.products() {
            if let Some(found) = self.on_machine(*product, |_| true).await {
                return Some(found);
            }
        }
        None
    }

    /// The version of `product` on this machine that `wanted` accepts: its default, else the one on
    /// PATH.
    async fn on_machine(
        &self,
        product: Product,
        wanted: impl Fn(&Version) -> bool,
    ) -> Option<ToolRequest> {
        let request = |version| ToolRequest { product, version };
        if let Some(version) = default::installed_default(&self.cache, product).filter(&wanted) {
            return Some(request(version));
        }
        let found = self.search.find(product, |found| wanted(&found.version)).await;
        found.map(|found| request(found.version))
    }

    /// The newest one in the cache that satisfies `constraint`, else the newest released.
    async fn newest(&self, product: Product, limit: Limit<'_>) -> Result<ToolRequest, ToolError> {
        if self.reach == Reach::InstalledFirst {
            let cached = self.cache.versions(product).into_iter();
            if let Some(version) = cached.filter(|version| limit.suggests(version)).max() {
                return Ok(ToolRequest { product, version });
            }
        }
        self.end_of_list(product, Some((limit, End::Newest))).await
    }

    /// The newest or oldest version that `limit` allows, of the released versions or, with
    /// [`Reach::Installed`], of the installed ones.
    async fn end_of_list(
        &self,
        product: Product,
        limit: Option<(Limit<'_>, End)>,
    ) -> Result<ToolRequest, ToolError> {
        let mut installed = self.cache.versions(product);
        installed.sort();
        let known = if self.reach == Reach::Installed {
            installed.clone()
        } else {
            let unlisted = |source| ToolError::Unlisted {
                product,
                installed: installed.clone(),
                source: Box::new(source),
            };
            index::released(product, self.options).await.map_err(unlisted)?
        };
        let is_release = |version: &&Version| version.pre.is_empty() && version.build.is_empty();
        let newest = known.iter().filter(is_release).max().cloned();
        let found = match limit {
            None => newest.clone(),
            Some((limit, end)) => {
                let fitting = known.into_iter().filter(|version| limit.suggests(version));
                match end {
                    End::Newest => fitting.max(),
                    End::Oldest => fitting.min(),
                }
            }
        };
        found.map(|version| ToolRequest { product, version }).ok_or_else(|| {
            let constraint = limit.map_or_else(|| "latest".to_owned(), |(it, _)| it.to_string());
            if self.reach == Reach::Installed {
                ToolError::NoneInstalled { product, constraint, installed }
            } else {
                ToolError::NoneSatisfies { product, constraint, newest }
            }
        })
    }
}

/// `OpenTofu` before Terraform, for modules that only `OpenTofu` reads.
const TOFU_FIRST: [Product; 2] = [Product::OpenTofu, Product::Terraform];

/// Which end of a list.
#[derive(Clone, Copy, Debug)]
enum End {
    Newest,
    Oldest,
}
