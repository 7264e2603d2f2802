//! A module's source: fetches it with git, and reads its declarations.
//!
//! [`git`] runs libgit2 in a supervised child process with credentials and host keys. [`module`] reads
//! variables, backends and version constraints from the files. [`unparsed`] finds values in files that
//! cannot be parsed. Nothing here writes into a module.

#[cfg(test)]
mod fuzz_tests;
pub mod git;
pub mod hcl;
pub mod module;
pub mod unparsed;
mod version_files;

pub use version_files::{IgnoredVersionFile, VersionFiles, version_files};
