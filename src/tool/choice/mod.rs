//! Which version is meant: by a run, a file, a constraint, a default, or what is on PATH.

pub(super) mod choose;
mod package;
pub(super) mod path;
pub(super) mod wish;
