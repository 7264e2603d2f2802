//! What repositories contain: which commits change which layers.

mod backend;
mod cache;
mod commit_title;
mod digest;
mod git_tree;
mod globs;
mod links;
mod needs;
#[cfg(test)]
mod needs_tests;
mod parents;
mod reach;
mod search;
mod syntax;
#[cfg(test)]
mod tests;
mod tree;

pub use backend::{BackendBlock, BackendCache, ModuleBackend, module_backend};
pub use cache::ReferenceCache;
pub use commit_title::commit_title;
pub use digest::{Dependencies, digest, matching};
pub use git_tree::{GitTree, submodule_tree};
pub use globs::{Globs, InvalidGlob, globs, never_matches};
pub use needs::{LayerFiles, Needs, needs};
pub use parents::ParentFiles;
pub use syntax::{Syntax, TERRAGRUNT, syntax};
pub use tree::{Entry, Kind, Tree, TreeError, Walk, below, check_depth, join};
