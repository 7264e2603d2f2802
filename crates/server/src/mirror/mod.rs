//! What repositories contain: which commits change which layers.

mod backend;
mod commit_title;
mod digest;
mod globs;
#[cfg(test)]
mod needs_tests;
#[cfg(test)]
mod tests;

pub use backend::{BackendBlock, BackendCache, ModuleBackend, module_backend};
pub use butler_source::reach::{
    AbsentSubmodule, Dependencies, Entry, GitTree, Kind, LayerFiles, MOST_NESTED, Needs,
    ParentFiles, ReferenceCache, TERRAGRUNT, Tree, TreeError, Walk, below, check_depth, is_in,
    join, needs, submodule_tree, syntax,
};
pub use commit_title::commit_title;
pub use digest::{digest, matching};
pub use globs::{Globs, InvalidGlob, can_match_in, globs, never_matches};
