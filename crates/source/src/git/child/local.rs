//! A repository in a directory of this machine: its objects are read where they are.
//!
//! libgit2 has no shallow fetch from a directory. It walks the whole history, compresses all of it
//! again, and unpacks the result. Instead the clone names the repository's objects as its alternate
//! (gitrepository-layout(5)), as `git clone --shared` does: nothing is copied but what is checked out.

use std::io::Write;
use std::path::Path;

use git2::Repository;

use super::super::failure::FetchError;

/// How a URL begins whose repository is in a directory.
const PREFIX: &str = "file://";

/// Has `clone` read the objects of the repository at `url`, a URL as libgit2 is going to use it.
/// False if the objects must be fetched instead: the repository is not in a directory, or git
/// cannot name that directory as an alternate.
///
/// Must come before the first object is looked up in `clone`, which reads the list of alternates once.
///
/// # Errors
/// When the repository belongs to another user and is not a `safe.directory`, or when the clone
/// cannot be written.
pub(super) fn share_objects(clone: &Repository, url: &str) -> Result<bool, FetchError> {
    let Some(path) = directory(url) else { return Ok(false) };
    // This checks whose it is. A worktree has its objects elsewhere.
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
    // What is fetched has been hashed on its way; what is read from here has not.
    git2::opts::strict_hash_verification(true);
    Ok(true)
}

/// The directory that a `file` URL leads to.
fn directory(url: &str) -> Option<std::path::PathBuf> {
    let url = url.starts_with(PREFIX).then(|| url::Url::parse(url).ok()).flatten()?;
    url.to_file_path().ok()
}

/// Writes the alternate, and where the history ends if the repository has only a part of it.
fn write(clone: &Path, objects: &[u8], shallow: &Path) -> std::io::Result<()> {
    let mut alternates = fs_err::File::create(clone.join("objects/info/alternates"))?;
    alternates.write_all(objects)?;
    alternates.write_all(b"\n")?;
    if shallow.exists() {
        fs_err::copy(shallow, clone.join("shallow"))?;
    }
    Ok(())
}
