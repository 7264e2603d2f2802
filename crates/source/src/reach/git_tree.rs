//! The files of a commit in a git repository.
//!
//! A submodule whose commit is in the repository is a directory with the files of that commit, as in
//! a checkout. The mirror contains the commits of all submodules that it may fetch.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use git2::{ErrorClass, ObjectType, Repository, TreeEntry};

use super::tree::{Entry, Kind, Tree, TreeError, below, join};
use crate::gitmodules;

/// The most submodules in each other. More is a mistake or an attack.
pub const MOST_NESTED: usize = 10;

/// The longest target of a link, in bytes: what Linux allows.
const LONGEST_TARGET: usize = 4096;

/// The files of one commit.
pub struct GitTree<'a> {
    repository: &'a Repository,
    root: git2::Tree<'a>,
    /// Directories whose entries were looked up. libgit2 does not keep large ones, and a directory with
    /// a thousand layers would be read and parsed for each of them.
    directories: RefCell<HashMap<String, git2::Tree<'a>>>,
    /// [`Tree::absent`], once it is known.
    absent: RefCell<Option<Vec<String>>>,
}

impl<'a> GitTree<'a> {
    /// The files of `commit`.
    ///
    /// # Errors
    /// If the repository does not have the commit, or it cannot be read.
    pub fn of(repository: &'a Repository, commit: &str) -> Result<Self, TreeError> {
        let failed = |error: git2::Error| failed(commit, &error);
        let id = git2::Oid::from_str(commit).map_err(failed)?;
        let root = repository.find_commit(id).and_then(|commit| commit.tree()).map_err(failed)?;
        Ok(Self { repository, root, directories: RefCell::default(), absent: RefCell::default() })
    }

    /// The entry at a path other than the root.
    fn find(&self, path: &str) -> Result<Option<TreeEntry<'static>>, TreeError> {
        let Some((parents, _)) = path.rsplit_once('/') else {
            return entry_of(&self.root, path, path);
        };
        // Paths come from files of the repository and can be long: this is not recursive.
        let mut tree = self.root.clone();
        let ends = parents.match_indices('/').map(|(end, _)| end).chain([parents.len()]);
        let mut begin = 0;
        for end in ends {
            let (directory, name) = (&path[..end], &path[begin..end]);
            let known = self.directories.borrow().get(directory).cloned();
            tree = if let Some(known) = known {
                known
            } else {
                let Some(found) = self.open(entry_of(&tree, name, path)?, path)? else {
                    return Ok(None);
                };
                self.directories.borrow_mut().insert(directory.to_owned(), found.clone());
                found
            };
            begin = end + 1;
        }
        entry_of(&tree, &path[begin..], path)
    }

    /// Whether the entry at `path` is a submodule, whether or not its files are there.
    ///
    /// # Errors
    /// If an object cannot be read.
    pub fn is_submodule(&self, path: &str) -> Result<bool, TreeError> {
        if path.is_empty() {
            return Ok(false);
        }
        Ok(self.find(path)?.and_then(|entry| entry.kind()) == Some(ObjectType::Commit))
    }

    /// The repository that has the directory at `path`, and the files with this name in the directories that lead to it:
    /// that of the commit, or of a submodule. Both are paths in the commit.
    ///
    /// # Errors
    /// If an object cannot be read.
    pub fn on_the_way(
        &self,
        path: &str,
        name: &str,
    ) -> Result<(String, Vec<(String, git2::Oid)>), TreeError> {
        let (mut root, mut found, mut directory) = (String::new(), Vec::new(), String::new());
        let mut tree = self.root.clone();
        let mut rest = path.split('/').filter(|part| !part.is_empty());
        loop {
            let is_file = [0o100_644, 0o100_664, 0o100_755];
            if let Some(entry) = tree.get_name(name).filter(|it| is_file.contains(&it.filemode())) {
                found.push((directory.clone(), entry.id()));
            }
            let Some(part) = rest.next() else { return Ok((root, found)) };
            directory = below(&directory, part);
            let entry = entry_of(&tree, part, path)?;
            let is_submodule = entry.as_ref().and_then(TreeEntry::kind) == Some(ObjectType::Commit);
            let Some(inner) = self.open(entry, path)? else { return Ok((root, found)) };
            if is_submodule {
                root.clone_from(&directory);
                found.clear();
            }
            tree = inner;
        }
    }

    /// The directory that an entry is.
    fn open(
        &self,
        entry: Option<TreeEntry<'_>>,
        path: &str,
    ) -> Result<Option<git2::Tree<'a>>, TreeError> {
        let Some(entry) = entry else { return Ok(None) };
        let tree = match entry.kind() {
            Some(ObjectType::Tree) => self.repository.find_tree(entry.id()).map(Some),
            Some(ObjectType::Commit) => submodule_tree(self.repository, entry.id()),
            _ => Ok(None),
        };
        tree.map_err(|error| failed(path, &error))
    }

    fn described(&self, found: &TreeEntry<'_>, path: &str) -> Result<Option<Entry>, TreeError> {
        let Some(entry) = described(found) else { return Ok(None) };
        if entry.kind != Kind::Submodule {
            return Ok(Some(entry));
        }
        let tree = submodule_tree(self.repository, found.id()).map_err(|it| failed(path, &it))?;
        let directory = |tree: git2::Tree<'_>| (Kind::Directory, tree.id().to_string());
        let (kind, id) = tree.map_or((entry.kind, entry.id), directory);
        Ok(Some(Entry { kind, id }))
    }
}

/// The files of a submodule at `commit`; `None` if the mirror does not have the commit.
///
/// # Errors
/// If an object cannot be read.
pub fn submodule_tree(
    repository: &Repository,
    commit: git2::Oid,
) -> Result<Option<git2::Tree<'_>>, git2::Error> {
    // A mirror can have the commit as history, without files.
    match repository.find_commit(commit).and_then(|commit| commit.tree()) {
        Ok(tree) => Ok(Some(tree)),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The entry of a directory. `path` is for messages.
fn entry_of(
    tree: &git2::Tree<'_>,
    name: &str,
    path: &str,
) -> Result<Option<TreeEntry<'static>>, TreeError> {
    match tree.get_path(Path::new(name)) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

impl Tree for GitTree<'_> {
    fn entry(&self, path: &str) -> Result<Option<Entry>, TreeError> {
        if path.is_empty() {
            let id = self.root.id().to_string();
            return Ok(Some(Entry { kind: Kind::Directory, id }));
        }
        let Some(found) = self.find(path)? else { return Ok(None) };
        self.described(&found, path)
    }

    fn list(&self, directory: &str) -> Result<Vec<(String, Entry)>, TreeError> {
        let tree = if directory.is_empty() {
            Some(self.root.clone())
        } else {
            self.open(self.find(directory)?, directory)?
        };
        let Some(tree) = tree else { return Ok(Vec::new()) };
        let mut entries = Vec::new();
        for found in &tree {
            // Names that are not UTF-8 cannot be named by a configuration.
            let Ok(name) = found.name().map(str::to_owned) else { continue };
            // Git never makes such names, but a repository can contain them.
            if matches!(&*name, "." | "..") || name.contains(['/', '\0']) {
                continue;
            }
            if let Some(entry) = self.described(&found, directory)? {
                entries.push((name, entry));
            }
        }
        Ok(entries)
    }

    fn text(&self, path: &str, most: usize) -> Result<Option<String>, TreeError> {
        let Some(found) = self.entry(path)? else { return Ok(None) };
        if !matches!(found.kind, Kind::File | Kind::Executable) {
            return Ok(None);
        }
        self.content(path, &found, most)
    }

    fn link(&self, path: &str) -> Result<Option<String>, TreeError> {
        let Some(found) = self.entry(path)?.filter(|found| found.kind == Kind::Link) else {
            return Ok(None);
        };
        self.content(path, &found, LONGEST_TARGET)
    }

    fn absent(&self) -> Result<Vec<String>, TreeError> {
        if let Some(known) = self.absent.borrow().as_ref() {
            return Ok(known.clone());
        }
        let mut absent = Vec::new();
        let mut waiting = vec![(String::new(), 0, self.root.clone())];
        while let Some((directory, depth, tree)) = waiting.pop() {
            let failed = |error: git2::Error| TreeError::Content {
                path: below(&directory, gitmodules::FILE),
                why: error.message().to_owned(),
            };
            for found in gitmodules::submodules(self.repository, &tree).map_err(failed)? {
                let Some(path) = join(&directory, &found.path).filter(|_| !found.is_left_out)
                else {
                    continue;
                };
                match submodule_tree(self.repository, found.commit).map_err(failed)? {
                    Some(tree) if depth < MOST_NESTED => waiting.push((path, depth + 1, tree)),
                    _ => absent.push(path),
                }
            }
        }
        absent.sort();
        *self.absent.borrow_mut() = Some(absent.clone());
        Ok(absent)
    }
}

impl GitTree<'_> {
    /// The content of a blob, if it has at most `most` bytes and is UTF-8.
    fn content(&self, path: &str, found: &Entry, most: usize) -> Result<Option<String>, TreeError> {
        let failed = |error: git2::Error| failed(path, &error);
        let id = git2::Oid::from_str(&found.id).map_err(failed)?;
        // The size is known before the content is read.
        let (size, _) =
            self.repository.odb().and_then(|odb| odb.read_header(id)).map_err(failed)?;
        if size > most {
            return Ok(None);
        }
        let blob = self.repository.find_blob(id).map_err(failed)?;
        Ok(std::str::from_utf8(blob.content()).ok().map(str::to_owned))
    }
}

/// What an entry is; a submodule is one, whether or not its commit is there.
fn described(found: &TreeEntry<'_>) -> Option<Entry> {
    let kind = match found.filemode() {
        0o040_000 => Kind::Directory,
        0o100_755 => Kind::Executable,
        0o120_000 => Kind::Link,
        0o160_000 => Kind::Submodule,
        0o100_644 | 0o100_664 => Kind::File,
        _ => return None,
    };
    Some(Entry { kind, id: found.id().to_string() })
}

fn failed(path: &str, error: &git2::Error) -> TreeError {
    let (path, why) = (path.to_owned(), error.message().to_owned());
    match error.class() {
        // Objects that were read and are malformed, or are not of the kind that their directory says.
        ErrorClass::Tree | ErrorClass::Object | ErrorClass::Invalid => {
            TreeError::Content { path, why }
        }
        _ => TreeError::Read { path, why },
    }
}
