//! The commit of a local working tree.

use std::path::Path;

/// The commit that is checked out at `directory`. `None` outside of a git repository, and before the
/// first commit.
#[must_use]
pub fn checked_out_commit(directory: &Path) -> Option<String> {
    let repository = git2::Repository::discover(directory).ok()?;
    let commit = repository.head().ok()?.peel_to_commit().ok()?;
    Some(commit.id().to_string())
}
