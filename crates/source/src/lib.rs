//! A module's source: fetches it with git, and reads its declarations.
//!
//! [`git`] runs libgit2 in a supervised child process with credentials and host keys. [`module`] reads
//! variables, backends and version constraints from the files. [`reach`] finds what a module reads of its commit. [`unparsed`] finds values in files that
//! cannot be parsed. [`attributes`]
//! converts files as a checkout does. Nothing here writes into a module.

pub mod attributes;
mod encoding;
#[cfg(test)]
mod fuzz_tests;
pub mod git;
mod gitmodules;
pub mod hcl;
pub mod module;
pub mod reach;
pub mod unparsed;
mod version_files;

pub use encoding::UnknownEncoding;
pub use version_files::{IgnoredVersionFile, VersionFiles, version_files};
