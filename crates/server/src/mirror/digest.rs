//! The digest of what a layer depends on.
//!
//! It is a hash of the ids of all of that, so it changes exactly if one of them does: force pushes,
//! squashes, deletions and reverts need no rule of their own.

use sha2::{Digest as _, Sha256};

use super::globs::Globs;
use super::{Dependencies, Kind, Tree, TreeError, Walk, below};
use crate::model::Digest;

/// The digest of dependencies.
#[must_use]
pub fn digest(dependencies: &Dependencies) -> Digest {
    let mut hash = Sha256::new();
    for (path, entry) in dependencies {
        // An executable is another file for a provisioner.
        for part in [path, &entry.id, entry.kind.mode()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    Digest::new(hex::encode(hash.finalize()))
}

/// The files of a commit that match `triggers`.
///
/// # Errors
/// If an object cannot be read, or the commit has too many directories.
pub fn matching(tree: &impl Tree, triggers: &Globs) -> Result<Dependencies, TreeError> {
    let mut found = Dependencies::new();
    let mut walk = Walk::from("");
    if triggers.is_empty() {
        return Ok(found);
    }
    while let Some(directory) = walk.pop()? {
        for (name, entry) in tree.list(&directory)? {
            let path = below(&directory, &name);
            if entry.kind == Kind::Directory {
                walk.add(path)?;
            } else if triggers.is_match(&path) {
                found.insert(path, entry);
            }
        }
    }
    Ok(found)
}
