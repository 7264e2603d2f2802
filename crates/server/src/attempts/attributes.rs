//! The files `.gitattributes` of a commit, for files that are read without a checkout.
//!
//! libgit2 reads attributes from an index if there is no working tree. So each repository of a commit, its own and those
//! of its submodules, has an index in memory with these files alone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use butler_source::UnknownEncoding;
use butler_source::attributes::Conversion;
use git2::{AttrCheckFlags, FileMode, Index, IndexEntry, IndexTime, Oid, Repository};

use crate::mirror::below;

/// The name of the files.
pub(super) const FILE: &str = ".gitattributes";

/// The attributes of files in the repositories of a commit.
pub(super) struct Attributes {
    mirror: PathBuf,
    /// By the directories of the repositories.
    repositories: HashMap<String, Repository>,
}

impl Attributes {
    pub(super) fn new(mirror: &Path) -> Self {
        Self { mirror: mirror.to_owned(), repositories: HashMap::new() }
    }

    /// Adds the file in `directory`, which is in the repository at `root`.
    pub(super) fn add(&mut self, root: &str, directory: &str, id: Oid) -> Result<(), git2::Error> {
        if !self.repositories.contains_key(root) {
            let repository = Repository::open_bare(&self.mirror)?;
            repository.set_index(&mut Index::new()?)?;
            self.repositories.insert(root.to_owned(), repository);
        }
        let Some(repository) = self.repositories.get(root) else { return Ok(()) };
        let never = IndexTime::new(0, 0);
        repository.index()?.add(&IndexEntry {
            ctime: never,
            mtime: never,
            dev: 0,
            ino: 0,
            mode: FileMode::Blob.into(),
            uid: 0,
            gid: 0,
            file_size: 0,
            id,
            flags: 0,
            flags_extended: 0,
            path: below(relative(root, directory), FILE).into_bytes(),
        })
    }

    /// How a file in the repository at `root` is checked out.
    ///
    /// # Errors
    /// If it has an encoding that is not known.
    pub(super) fn conversion(&self, root: &str, path: &str) -> Result<Conversion, UnknownEncoding> {
        let flags = AttrCheckFlags::INDEX_ONLY | AttrCheckFlags::NO_SYSTEM;
        match self.repositories.get(root) {
            Some(repository) => Conversion::of(repository, relative(root, path), flags),
            None => Ok(Conversion::default()),
        }
    }
}

/// The path in the repository at `root`.
fn relative<'a>(root: &str, path: &'a str) -> &'a str {
    path.strip_prefix(root).unwrap_or(path).trim_start_matches('/')
}
