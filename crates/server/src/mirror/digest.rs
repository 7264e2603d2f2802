//! What a layer depends on, and the digest of that.
//!
//! A layer depends on its directory, the local modules that it uses (and those that they use), the
//! files that match its triggers, the plain files of every parent directory up to the root, and the
//! files that its configuration names by relative paths. The digest is a hash of the ids of all of
//! them, so it changes exactly if one of them does: force pushes, squashes, deletions and reverts
//! need no rule of their own.

use std::collections::{BTreeMap, HashMap};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use sha2::{Digest as _, Sha256};

use super::cache::Cache;
use super::references::{Reference, references};
use super::tree::{Entry, Kind, Tree, TreeError, Walk};
use crate::model::Digest;

/// What a layer depends on: entries by path. A directory stands for everything below it.
pub type Dependencies = BTreeMap<String, Entry>;

/// The paths that directories name, by the id of the directory. It is the same for all layers and
/// commits.
#[derive(Debug, Default)]
pub struct ReferenceCache(Cache<Vec<Reference>>);

impl ReferenceCache {
    /// Begins a reading of a repository. What the one before did not use is forgotten.
    pub fn begin(&mut self) {
        self.0.begin();
    }
}

/// The plain files of directories of one commit, which are read once for all layers below them.
#[derive(Debug, Default)]
pub struct ParentFiles(HashMap<String, Dependencies>);

/// An invalid glob.
#[derive(Debug, thiserror::Error)]
#[error("`{glob}` is not a valid glob: {why}")]
pub struct InvalidGlob {
    glob: String,
    why: String,
}

impl From<globset::Error> for InvalidGlob {
    fn from(error: globset::Error) -> Self {
        let glob = error.glob().unwrap_or_default().to_owned();
        Self { glob, why: error.kind().to_string() }
    }
}

/// Compiles globs. `*` does not match `/`; `**` does.
///
/// # Errors
/// If one is not valid.
pub fn globs<'a>(globs: impl IntoIterator<Item = &'a str>) -> Result<GlobSet, InvalidGlob> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(GlobBuilder::new(glob).literal_separator(true).build()?);
    }
    Ok(set.build()?)
}

/// What the layer at `path` depends on, or `None` if there is no such directory. `triggers` are the
/// files that match its triggers ([`matching`]), `parents` belongs to the commit.
///
/// # Errors
/// If an object cannot be read.
pub fn dependencies(
    tree: &impl Tree,
    path: &str,
    triggers: &Dependencies,
    parents: &mut ParentFiles,
    cache: &mut ReferenceCache,
) -> Result<Option<Dependencies>, TreeError> {
    let Some(root) = tree.entry(path)?.filter(|entry| entry.kind == Kind::Directory) else {
        return Ok(None);
    };
    let mut found = Dependencies::new();
    found.insert(path.to_owned(), root);
    follow_references(tree, path, cache, &mut found)?;
    add_files_of_parents(tree, path, parents, &mut found)?;
    found.extend(triggers.clone());
    Ok(Some(found))
}

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

/// Adds what the module at `start`, and the modules that it uses, name by relative paths.
fn follow_references(
    tree: &impl Tree,
    start: &str,
    cache: &mut ReferenceCache,
    found: &mut Dependencies,
) -> Result<(), TreeError> {
    let mut directories = vec![start.to_owned()];
    while let Some(directory) = directories.pop() {
        let Some(entry) = tree.entry(&directory)? else { continue };
        let named = if let Some(named) = cache.0.get(&entry.id) {
            named.clone()
        } else {
            let named = references(tree, &directory)?;
            cache.0.insert(entry.id.clone(), named.clone());
            named
        };
        for reference in named {
            let Some(path) = reference.resolve(tree, &directory)? else { continue };
            if found.contains_key(&path) {
                continue;
            }
            let Some(entry) = tree.entry(&path)? else { continue };
            if entry.kind == Kind::Directory {
                directories.push(path.clone());
            }
            found.insert(path, entry);
        }
    }
    Ok(())
}

/// Adds the files beside the directories that lead to `path`: version files, and the parents of
/// Terragrunt units.
fn add_files_of_parents(
    tree: &impl Tree,
    path: &str,
    parents: &mut ParentFiles,
    found: &mut Dependencies,
) -> Result<(), TreeError> {
    let mut parent = path;
    while !parent.is_empty() {
        parent = parent.rsplit_once('/').map_or("", |(parent, _)| parent);
        if !parents.0.contains_key(parent) {
            parents.0.insert(parent.to_owned(), plain_files(tree, parent)?);
        }
        found.extend(
            parents
                .0
                .get(parent)
                .into_iter()
                .flatten()
                .map(|(path, entry)| (path.clone(), entry.clone())),
        );
    }
    Ok(())
}

fn plain_files(tree: &impl Tree, directory: &str) -> Result<Dependencies, TreeError> {
    let files = tree.list(directory)?.into_iter();
    let plain =
        files.filter(|(_, entry)| matches!(entry.kind, Kind::File | Kind::Executable | Kind::Link));
    Ok(plain.map(|(name, entry)| (below(directory, name), entry)).collect())
}

/// The path of an entry of a directory.
fn below(directory: &str, name: String) -> String {
    if directory.is_empty() { name } else { format!("{directory}/{name}") }
}

/// The files of a commit that match `triggers`.
///
/// # Errors
/// If an object cannot be read, or the commit has too many directories.
pub fn matching(tree: &impl Tree, triggers: &GlobSet) -> Result<Dependencies, TreeError> {
    let mut found = Dependencies::new();
    let mut walk = Walk::from_root();
    if triggers.is_empty() {
        return Ok(found);
    }
    while let Some(directory) = walk.pop()? {
        for (name, entry) in tree.list(&directory)? {
            let path = below(&directory, name);
            if entry.kind == Kind::Directory {
                walk.add(path);
            } else if triggers.is_match(&path) {
                found.insert(path, entry);
            }
        }
    }
    Ok(found)
}
