//! Finds the files of a commit that a module reaches: those that it names, and those that these name.
//!
//! [`needs`] reads a [`Tree`], which is a commit in a repository: [`GitTree`]. It does not evaluate a module. What it
//! does not understand it reports, and its callers must then expect that the module reads any file.

mod cache;
mod git_tree;
mod links;
mod named;
mod needs;
mod parents;
mod search;
mod syntax;
mod tree;

pub use cache::{Cache, ReferenceCache};
pub use git_tree::{GitTree, MOST_NESTED, submodule_tree};
pub use links::{Located, locate};
pub use needs::{AbsentSubmodule, LayerFiles, Needs, needs};
pub use parents::ParentFiles;
pub use syntax::{Syntax, TERRAGRUNT, is_override, syntax};
pub use tree::{Dependencies, Entry, Kind, Tree, TreeError, Walk, below, check_depth, is_in, join};
