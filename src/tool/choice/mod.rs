//! Chooses the version: from the run, a file, a constraint, a default, or PATH.

pub(super) mod choose;
mod limit;
mod package;
pub(super) mod path;
pub(super) mod version_sources;
