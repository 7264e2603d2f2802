//! Where the releases of each product come from: the vendor's site, or a mirror of it.

use std::collections::BTreeMap;

use url::Url;

use crate::spec::Product;

/// Where releases come from. A URL in here may hold a password, so it cannot be printed.
#[derive(Clone, Default)]
pub struct Sites {
    common: Option<Url>,
    own: BTreeMap<Product, Url>,
}

impl Sites {
    /// One mirror for all products (`--mirror`), or none.
    #[must_use]
    pub fn mirrored(mirror: Option<Url>) -> Self {
        Self { common: mirror, own: BTreeMap::new() }
    }

    /// What takes the place of scheme, host and leading path of the vendor's URLs for `product`.
    #[must_use]
    pub fn mirror(&self, product: Product) -> Option<&Url> {
        self.common.as_ref().or_else(|| self.own.get(&product))
    }

    /// All URLs, for whoever has to keep their logins out of what is shown.
    pub fn urls(&self) -> impl Iterator<Item = &Url> {
        self.common.iter().chain(self.own.values())
    }
}

/// Without what the URLs may hold of credentials.
impl std::fmt::Debug for Sites {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.urls().map(super::download::shown)).finish()
    }
}
