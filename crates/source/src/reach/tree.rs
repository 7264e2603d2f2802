//! What a commit contains.

use std::collections::BTreeMap;

/// What an entry of a tree is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A directory, whose id depends on everything below it.
    Directory,
    /// A file.
    File,
    /// A file that can be executed.
    Executable,
    /// A symbolic link.
    Link,
    /// A commit of another repository that is not there.
    Submodule,
}

impl Kind {
    /// The mode, as git writes it. Digests are stored, so it never changes.
    #[must_use]
    pub const fn mode(self) -> &'static str {
        match self {
            Self::Directory => "040000",
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
            Self::Submodule => "160000",
        }
    }
}

/// An entry of a tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// The object's id, in hexadecimal.
    pub id: String,
}

/// The dependencies of a layer: entries by path. A directory stands for everything below it.
pub type Dependencies = BTreeMap<String, Entry>;

/// A tree cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The repository cannot be read. It can be read later, or after it was fetched again.
    #[error("cannot read `{path}` of the commit: {why}")]
    Read {
        /// The path.
        path: String,
        /// What failed.
        why: String,
    },
    /// The commit contains something that cannot be used. That stays so.
    #[error("cannot use `{path}` of the commit: {why}")]
    Content {
        /// The path.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

/// The files of one commit. Paths are relative to its root, with `/`, without `.` and `..`; the root
/// is the empty path.
pub trait Tree {
    /// The entry at a path.
    ///
    /// # Errors
    /// If an object cannot be read.
    fn entry(&self, path: &str) -> Result<Option<Entry>, TreeError>;

    /// The entries of a directory with their names; none if it is not a directory.
    ///
    /// # Errors
    /// If an object cannot be read.
    fn list(&self, directory: &str) -> Result<Vec<(String, Entry)>, TreeError>;

    /// The content of a file of at most `most` bytes, if it is UTF-8.
    ///
    /// # Errors
    /// If an object cannot be read.
    fn text(&self, path: &str, most: usize) -> Result<Option<String>, TreeError>;

    /// The target of the symbolic link at `path`, if it is one and the target is UTF-8.
    ///
    /// # Errors
    /// If an object cannot be read.
    fn link(&self, path: &str) -> Result<Option<String>, TreeError>;

    /// The paths of the submodules that git would check out, and whose files are not there. Those in a submodule that
    /// is not there are not known.
    ///
    /// # Errors
    /// If an object cannot be read, or `.gitmodules` is not valid.
    fn absent(&self) -> Result<Vec<String>, TreeError>;
}

/// The most directories below each other that are looked at.
const DEEPEST: usize = 100;

/// The most directories of a commit that are looked at.
const MOST: usize = 100_000;

/// How much of a path that is too deep is shown, in characters.
const SHOWN: usize = 60;

/// The directories of a commit that are still to be looked at. A small repository can contain directories
/// without end, so there are limits.
#[derive(Debug)]
pub struct Walk {
    waiting: Vec<String>,
    left: usize,
}

impl Walk {
    /// Begins at a directory.
    #[must_use]
    pub fn from(directory: &str) -> Self {
        Self { waiting: vec![directory.to_owned()], left: MOST }
    }

    /// Adds a directory.
    ///
    /// # Errors
    /// If it is too deep.
    pub fn add(&mut self, directory: String) -> Result<(), TreeError> {
        check_depth(&directory)?;
        self.waiting.push(directory);
        Ok(())
    }

    /// The next directory.
    ///
    /// # Errors
    /// If there were too many.
    pub fn pop(&mut self) -> Result<Option<String>, TreeError> {
        let Some(directory) = self.waiting.pop() else { return Ok(None) };
        let Some(left) = self.left.checked_sub(1) else {
            let why = format!("it has more than {MOST} directories");
            return Err(TreeError::Content { path: directory, why });
        };
        self.left = left;
        Ok(Some(directory))
    }
}

/// Refuses a directory with too many above it.
///
/// # Errors
/// If it is too deep.
pub fn check_depth(directory: &str) -> Result<(), TreeError> {
    if directory.matches('/').count() < DEEPEST {
        return Ok(());
    }
    let shown: String = directory.chars().take(SHOWN).collect();
    let why = format!("it has more than {DEEPEST} directories below each other");
    Err(TreeError::Content { path: format!("{shown}…"), why })
}

/// Whether `path` is `directory` or below it.
#[must_use]
pub fn is_in(path: &str, directory: &str) -> bool {
    let below = path.strip_prefix(directory);
    directory.is_empty() || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The path of an entry of a directory.
#[must_use]
pub fn below(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// The path that `relative` leads to from `directory`, if that is inside the repository.
#[must_use]
pub fn join(directory: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_ends_at_its_limits() {
        let mut walk = Walk::from("");
        walk.left = 2;
        assert_eq!(walk.pop().unwrap().as_deref(), Some(""));
        let error = walk.add("a/".repeat(DEEPEST)).unwrap_err().to_string();
        let shown = "a/".repeat(SHOWN / 2);
        assert_eq!(
            error,
            format!(
                "cannot use `{shown}…` of the commit: it has more than 100 directories below each other"
            )
        );
        assert_eq!(walk.pop().unwrap(), None);
        walk.add("a".to_owned()).unwrap();
        walk.add("b".to_owned()).unwrap();
        assert_eq!(walk.pop().unwrap().as_deref(), Some("b"));
        assert!(matches!(walk.pop(), Err(TreeError::Content { .. })));
    }

    #[test]
    fn paths_stay_inside_the_repository() {
        assert_eq!(join("envs/prod", "../../modules/network").as_deref(), Some("modules/network"));
        assert_eq!(join("envs/prod", "./a//b/").as_deref(), Some("envs/prod/a/b"));
        assert_eq!(join("envs", "..").as_deref(), Some(""));
        assert_eq!(join("envs", "../.."), None);
        assert!(is_in("a/b", "a") && is_in("a", "a") && is_in("a", "") && !is_in("ab", "a"));
    }
}
