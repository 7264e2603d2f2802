//! Repositories in a local directory: their objects are shared and not copied.
//!
//! libgit2 has no shallow fetch from a directory. It walks the whole history, compresses all of it
//! again, and unpacks the result. Instead the clone names the repository's objects as its alternate
//! (gitrepository-layout(5)), as `git clone --shared` does: only files of the checkout are written.

use std::io::Write;
use std::path::Path;

use git2::Repository;

use super::super::failure::FetchError;

/// The prefix of the URL of a local repository.
const PREFIX: &str = "file://";

/// Makes `clone` read the objects of the repository at `url`, the URL that libgit2 uses. Returns false if the objects must be fetched instead: the repository is not in a directory, or git
/// cannot name that directory as an alternate.
///
/// Must come before the first object is looked up in `clone`, which reads the list of alternates once.
///
/// # Errors
/// When the repository belongs to another user and is not a `safe.directory`, or when the clone
/// cannot be written.
pub(super) fn share_objects(clone: &Repository, url: &str) -> Result<bool, FetchError> {
    let Some(path) = directory(url) else { return Ok(false) };
    // This checks the owner. The objects of a worktree are in another directory.
    let source =
        Repository::open(path).map_err(|error| FetchError::git("open the repository", &error))?;
    let objects = source.commondir().join("objects");
    let line = objects.as_os_str().as_encoded_bytes();
    // One path per line; libgit2 does not support an escaped line break.
    if line.contains(&b'\n') {
        return Ok(false);
    }
    let written = write(clone.path(), line, &source.commondir().join("shallow"));
    written.map_err(|error| FetchError::Git {
        act: "share the repository's objects".to_owned(),
        reason: butler_base::error::chain(&error),
    })?;
    // Fetched objects were hashed when they were received; these were not.
    git2::opts::strict_hash_verification(true);
    Ok(true)
}

/// The directory that a `file` URL leads to.
fn directory(url: &str) -> Option<std::path::PathBuf> {
    let url = url.starts_with(PREFIX).then(|| url::Url::parse(url).ok()).flatten()?;
    url.to_file_path().ok()
}

/// Writes the alternate, and copies the list of shallow commits if the repository has one.
fn write(clone: &Path, objects: &[u8], shallow: &Path) -> std::io::Result<()> {
    let mut alternates = fs_err::File::create(clone.join("objects/info/alternates"))?;
    alternates.write_all(objects)?;
    alternates.write_all(b"\n")?;
    if shallow.exists() {
        fs_err::copy(shallow, clone.join("shallow"))?;
    }
    Ok(())
}
