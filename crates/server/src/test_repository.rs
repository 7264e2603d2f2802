//! A git repository for tests.

use std::path::Path;

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Oid, Repository, Signature};

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
        self.commit_tree(index.write_tree().unwrap())
    }

    /// Commits what was committed last, with a submodule at `path`.
    pub(crate) fn add_submodule(&self, path: &str, commit: &str) -> Commit {
        let last = self.repository.head().unwrap().peel_to_tree().unwrap();
        let mut update = TreeUpdateBuilder::new();
        update.upsert(path, Oid::from_str(commit).unwrap(), FileMode::Commit);
        self.commit_tree(update.create_updated(&self.repository, &last).unwrap())
    }

    /// A commit of another repository, which a mirror keeps in the same one.
    pub(crate) fn commit_elsewhere(&self, files: &[(&str, &str)]) -> String {
        let empty = self.repository.treebuilder(None).unwrap().write().unwrap();
        let mut update = TreeUpdateBuilder::new();
        for (path, text) in files {
            update.upsert(*path, self.repository.blob(text.as_bytes()).unwrap(), FileMode::Blob);
        }
        let empty = self.repository.find_tree(empty).unwrap();
        let tree = update.create_updated(&self.repository, &empty).unwrap();
        let tree = self.repository.find_tree(tree).unwrap();
        let author = Signature::now("a", "a@example.com").unwrap();
        let commit = self.repository.commit(None, &author, &author, "elsewhere", &tree, &[]);
        commit.unwrap().to_string()
    }

    /// Commits what was committed last, with directories `a` below each other in a directory of its root.
    pub(crate) fn commit_deep(&self, directory: &str, depth: usize) -> Commit {
        let last = self.repository.head().unwrap().peel_to_tree().unwrap();
        let tree = self.packed_tree(depth);
        let update = |parent: &git2::Tree<'_>, name: &str, tree: Oid| {
            let mut builder = self.repository.treebuilder(Some(parent)).unwrap();
            builder.insert(name, tree, 0o040_000).unwrap();
            builder.write().unwrap()
        };
        let parent = last.get_name(directory).unwrap().to_object(&self.repository).unwrap();
        let parent = update(&parent.into_tree().unwrap(), "a", tree);
        self.commit_tree(update(&last, directory, parent))
    }

    /// A tree with others below each other, written as one pack. A file for each of them would be slow, also for other
    /// tests.
    fn packed_tree(&self, depth: usize) -> Oid {
        let repository = Repository::open(self.repository.path()).unwrap();
        let objects = repository.odb().unwrap();
        let _in_memory = objects.add_new_mempack_backend(1000).unwrap();
        let mut pack = repository.packbuilder().unwrap();
        let mut tree = repository.treebuilder(None).unwrap().write().unwrap();
        pack.insert_object(tree, None).unwrap();
        for _ in 0..depth {
            let mut builder = repository.treebuilder(None).unwrap();
            builder.insert("a", tree, 0o040_000).unwrap();
            tree = builder.write().unwrap();
            pack.insert_object(tree, None).unwrap();
        }
        pack.write(&repository.path().join("objects/pack"), 0o644).unwrap();
        tree
    }

    /// Commits a tree.
    pub(crate) fn commit_tree(&self, tree: Oid) -> Commit {
        let tree = self.repository.find_tree(tree).unwrap();
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
