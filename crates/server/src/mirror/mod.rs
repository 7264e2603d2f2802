//! What repositories contain: which commits change which layers.

mod digest;
mod git_tree;
mod references;
#[cfg(test)]
mod tests;
mod tree;

pub use digest::{Dependencies, InvalidGlob, ReferenceCache, dependencies, digest, globs};
pub use git_tree::GitTree;
pub use tree::{Entry, Kind, Tree, TreeError, join};
