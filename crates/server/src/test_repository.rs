//! A git repository for tests.

use std::path::Path;

use git2::{Repository, Signature};

use crate::model::Commit;

/// A repository in a temporary directory.
pub(crate) struct TestRepository {
    directory: tempfile::TempDir,
    pub(crate) repository: Repository,
}

impl TestRepository {
    /// A repository without commits.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::init(directory.path()).unwrap();
        Self { directory, repository }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Commits all files.
    pub(crate) fn commit(&self) -> Commit {
        let mut index = self.repository.index().unwrap();
        index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
        index.update_all(["*"], None).unwrap();
        let tree = self.repository.find_tree(index.write_tree().unwrap()).unwrap();
        let author = Signature::now("a", "a@example.com").unwrap();
        let head = self.repository.head().ok().and_then(|head| head.peel_to_commit().ok());
        let parents: Vec<_> = head.iter().collect();
        let id = self
            .repository
            .commit(Some("HEAD"), &author, &author, "change", &tree, &parents)
            .unwrap();
        Commit::new(id.to_string())
    }
}
