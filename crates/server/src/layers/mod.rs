//! The layers that a configuration means: one for each `path`, and one for each directory that
//! matches `paths`.
//!
//! [`read()`] finds out what a repository contains for them, and [`Catalog::new`] puts together the
//! layers of all repositories. [`read_include()`] reads configuration that is in a repository.

mod budget;
mod catalog;
mod files;
mod include;
mod naming;
mod read;
mod resolve;
mod state_key;
mod submodules;
#[cfg(test)]
mod tests;
mod windows;

pub use catalog::{Catalog, LayerSource};
pub use files::layer_files;
pub use include::{IncludedFiles, read_include};
pub use read::{Caches, Heads, Reading, origin, read, references};
pub use state_key::ModuleStateKey;
pub use submodules::{AbsentSubmodules, LeftOut};
