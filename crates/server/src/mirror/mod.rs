//! What repositories contain: which commits change which layers.

mod backend;
mod cache;
mod commit_title;
mod digest;
mod git_tree;
mod references;
mod syntax;
#[cfg(test)]
mod tests;
mod tree;

pub use backend::{BackendBlock, BackendCache, ModuleBackend, module_backend};
pub use commit_title::commit_title;
pub use digest::{
    Dependencies, InvalidGlob, ParentFiles, ReferenceCache, dependencies, digest, globs, matching,
};
pub use git_tree::{GitTree, submodule_tree};
pub use syntax::{Syntax, TERRAGRUNT, syntax};
pub use tree::{Entry, Kind, Tree, TreeError, Walk, join};
