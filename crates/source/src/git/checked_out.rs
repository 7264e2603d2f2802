//! The commit of a local working tree.

use std::path::Path;

/// The commit that is checked out where `directory` is; none outside of a git repository, or where
/// it has no commit yet.
#[must_use]
pub fn checked_out_commit(directory: &Path) -> Option<String> {
    let repository = git2::Repository::discover(directory).ok()?;
    let commit = repository.head().ok()?.peel_to_commit().ok()?;
    Some(commit.id().to_string())
}
