//! Keeps the packages of providers for the next run, without letting runs get into each other's way.
//!
//! Terraform never works in the cache itself, which it could not share. Each `init` gets a directory
//! of its own as its plugin cache (a [`View`]), with hard links to those packages that the module's
//! `.terraform.lock.hcl` vouches for. What `init` downloads lands there too, and goes into the cache
//! afterwards, in one rename. So nothing in the cache is ever half made, nothing changes under a run,
//! a run keeps what it uses when it is pruned, and locks only spare downloads.

mod books;
mod error;
mod lock;
mod locked;
mod own;
mod package;
mod prune;
mod view;

pub use error::ProvidersError;
pub use own::{VARIABLE, lock as lock_plugin_cache, plugin_cache};
pub use prune::{Pruned, Removed, prune};
pub use view::{Directories, VIEW, View};
