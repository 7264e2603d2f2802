//! Repositories in a local directory: a clone shares their objects, and a mirror copies them.
//!
//! libgit2 has no shallow fetch from a directory. It walks the whole history, compresses all of it
//! again, and unpacks the result. Instead the clone names the repository's objects as its alternate
//! (gitrepository-layout(5)), as `git clone --shared` does: only files of the checkout are written. A
//! mirror must keep what the repository removes, so it gets a copy of the objects of single commits.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use git2::{ObjectType, OdbLookupFlags, Oid, PackBuilder, Repository};

use super::super::failure::FetchError;
use super::super::history::parents;
use super::depth::Depth;

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
    let Some(source) = open(url)? else { return Ok(false) };
    // The objects of a worktree are in another directory.
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

/// The repository at `url`, the URL that libgit2 uses, if it is in a directory.
///
/// # Errors
/// When the repository belongs to another user and is not a `safe.directory`.
pub(super) fn open(url: &str) -> Result<Option<Repository>, FetchError> {
    let source = directory(url).map(Repository::open).transpose();
    source.map_err(|error| FetchError::git("open the repository", &error))
}

/// Copies `commits` and their files to a repository that may have some of them, and the commits of this much history.
///
/// # Errors
/// When one of them cannot be read or written.
pub(super) fn copy(
    source: &Repository,
    target: &Repository,
    commits: &[Oid],
    depth: Depth,
) -> Result<(), git2::Error> {
    let known = target.odb()?;
    let is_known = |id| known.exists_ext(id, OdbLookupFlags::NO_REFRESH);
    let mut pack = source.packbuilder()?;
    insert_commits(&mut pack, source, commits, is_known)?;
    insert_history(&mut pack, source, commits, depth)?;
    pack.write(&target.path().join("objects/pack"), 0)
}

/// Adds the history of `commits` to a pack, without files.
///
/// # Errors
/// When an object cannot be read.
pub(super) fn insert_history(
    pack: &mut PackBuilder<'_>,
    source: &Repository,
    commits: &[Oid],
    depth: Depth,
) -> Result<(), git2::Error> {
    let objects = source.odb()?;
    let mut seen: HashSet<Oid> = commits.iter().copied().collect();
    let mut generation = commits.to_vec();
    let mut left = depth.generations();
    while left > 0 && !generation.is_empty() {
        left -= 1;
        let mut older = Vec::new();
        for parent in generation.iter().filter_map(|id| parents(&objects, *id)).flatten() {
            // A shallow repository does not have all parents.
            if seen.insert(parent) && objects.exists(parent) {
                pack.insert_object(parent, None)?;
                older.push(parent);
            }
        }
        generation = older;
    }
    Ok(())
}

/// Adds `commits` and their files to a pack, without history. Directories can be nested deep, so this is not
/// recursive, as libgit2's own function is.
///
/// # Errors
/// When an object cannot be read.
pub(super) fn insert_commits(
    pack: &mut PackBuilder<'_>,
    source: &Repository,
    commits: &[Oid],
    is_known: impl Fn(Oid) -> bool,
) -> Result<(), git2::Error> {
    let mut waiting = Vec::new();
    for id in commits {
        pack.insert_object(*id, None)?;
        waiting.push(source.find_commit(*id)?.tree_id());
    }
    let mut seen = HashSet::new();
    while let Some(id) = waiting.pop() {
        // A pack is written as a whole: the entries of a tree are there if the tree is.
        if is_known(id) || !seen.insert(id) {
            continue;
        }
        pack.insert_object(id, None)?;
        for entry in &source.find_tree(id)? {
            match entry.kind() {
                Some(ObjectType::Tree) => waiting.push(entry.id()),
                Some(ObjectType::Blob) if !is_known(entry.id()) => {
                    pack.insert_object(entry.id(), entry.name().ok())?;
                }
                _ => {}
            }
        }
    }
    Ok(())
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
