//! The provider cache: keeps the packages of providers for later runs, and is safe for concurrent runs.
//!
//! Concurrent runs of Terraform cannot share a plugin cache, so Terraform never works in the provider
//! cache. Each `init` gets a plugin cache of its own (a [`View`]) with hard links to the packages whose
//! checksums are in the module's `.terraform.lock.hcl`. Packages that `init` downloads are moved from
//! the view to the provider cache, each in one rename. So a package in the cache is complete and does
//! not change, a run keeps its packages when the cache is pruned, and locks only save downloads.

mod bookkeeping;
mod error;
mod lock;
mod locked;
mod package;
mod prune;
mod user_plugin_cache;
mod view;

pub use error::ProvidersError;
pub use prune::{Pruned, PrunedPackage, prune};
pub use user_plugin_cache::{
    VARIABLE, configuration_text, configuration_texts, lock_plugin_cache, plugin_cache,
    replaces_packages,
};
pub use view::{Directories, VIEW, View};
