//! The files of a commit in a git repository.

use std::path::Path;

use git2::{ObjectType, Repository};

use super::tree::{Entry, Kind, Tree, TreeError};
use crate::model::Commit;

/// The files of one commit.
pub struct GitTree<'a> {
    repository: &'a Repository,
    root: git2::Tree<'a>,
}

impl<'a> GitTree<'a> {
    /// The files of `commit`.
    ///
    /// # Errors
    /// If the repository does not have the commit, or it cannot be read.
    pub fn of(repository: &'a Repository, commit: &Commit) -> Result<Self, TreeError> {
        let failed = |error: git2::Error| failed(commit.as_str(), &error);
        let id = git2::Oid::from_str(commit.as_str()).map_err(failed)?;
        let root = repository.find_commit(id).and_then(|commit| commit.tree()).map_err(failed)?;
        Ok(Self { repository, root })
    }

    fn directory(&self, path: &str) -> Result<Option<git2::Tree<'a>>, TreeError> {
        if path.is_empty() {
            return Ok(Some(self.root.clone()));
        }
        match self.root.get_path(Path::new(path)) {
            Ok(entry) if entry.kind() == Some(ObjectType::Tree) => {
                let tree = self.repository.find_tree(entry.id());
                tree.map(Some).map_err(|error| failed(path, &error))
            }
            Ok(_) => Ok(None),
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
            Err(error) => Err(failed(path, &error)),
        }
    }
}

impl Tree for GitTree<'_> {
    fn entry(&self, path: &str) -> Result<Option<Entry>, TreeError> {
        if path.is_empty() {
            let id = self.root.id().to_string();
            return Ok(Some(Entry { kind: Kind::Directory, id }));
        }
        match self.root.get_path(Path::new(path)) {
            Ok(found) => Ok(entry(&found)),
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
            Err(error) => Err(failed(path, &error)),
        }
    }

    fn list(&self, directory: &str) -> Result<Vec<(String, Entry)>, TreeError> {
        let Some(tree) = self.directory(directory)? else { return Ok(Vec::new()) };
        // Names that are not UTF-8 cannot be named by a configuration.
        let named = tree.iter().filter_map(|found| {
            let name = found.name().ok()?.to_owned();
            // Git never makes such names, but a repository can contain them.
            let leads_elsewhere = matches!(&*name, "." | "..") || name.contains(['/', '\0']);
            Some((name, entry(&found)?)).filter(|_| !leads_elsewhere)
        });
        Ok(named.collect())
    }

    fn text(&self, path: &str, most: usize) -> Result<Option<String>, TreeError> {
        let Some(found) = self.entry(path)? else { return Ok(None) };
        if !matches!(found.kind, Kind::File | Kind::Executable) {
            return Ok(None);
        }
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

fn entry(found: &git2::TreeEntry<'_>) -> Option<Entry> {
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
    TreeError { path: path.to_owned(), why: error.message().to_owned() }
}
