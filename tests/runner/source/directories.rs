//! Repositories in a local directory: only the files of the commit are copied.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use butler_base::error::Advice;

use super::{Case, MAIN, with_history};
use butler_testing::git_server::{Repository, git};
use butler_testing::root::as_root_async;

/// The number of objects in the clone itself, loose or packed.
fn own_objects(clone: &Path) -> usize {
    let counted = git(clone, &["count-objects", "-v"]);
    let numbers = counted.lines().filter_map(|line| line.split_once(": "));
    let own = numbers.filter(|(name, _)| ["count", "in-pack"].contains(name));
    own.map(|(_, number)| number.parse::<usize>().unwrap()).sum()
}

#[tokio::test]
async fn local_directory_is_cloned_without_copying_objects() {
    let repository = with_history();
    let old = repository.git(&["rev-parse", "HEAD~2"]);
    let tag = repository.git(&["rev-parse", "v1.0.0^{commit}"]);
    for (reference, commit) in [
        ("main", &repository.head()),
        ("v1.0.0", &tag),
        ("refs/heads/feature/x", &tag),
        (&old, &old),
        (&old[..9], &old),
    ] {
        let case = Case::new(&repository.url(), reference);
        let checkout = case.succeed().await;
        assert_eq!(&checkout.commit, commit, "{reference}");
        assert_eq!(own_objects(&case.clone()), 0, "{reference}");
        assert!(!case.has_logged("history"), "{reference}");
        assert!(checkout.directory.join("main.tf").is_file());
        // Git itself treats it as a complete repository.
        assert_eq!(&git(&case.clone(), &["rev-parse", "HEAD"]), commit);
        assert_eq!(git(&case.clone(), &["status", "--porcelain"]), "");
        git(&case.clone(), &["fsck", "--strict"]);
    }
}

#[tokio::test]
async fn directory_with_alternate_objects_is_cloned() {
    let repository = with_history();
    let shared = tempfile::tempdir().unwrap();
    let path = shared.path().to_str().unwrap();
    repository.git(&["clone", "--quiet", "--shared", ".", path]);
    let case = Case::new(&format!("file://{path}"), "main");
    assert_eq!(case.succeed().await.commit, repository.head());
    assert_eq!(case.commits(), 3);
}

#[tokio::test]
async fn shallow_directory_and_directory_with_a_space_are_cloned() {
    let repository = with_history();
    let directory = tempfile::tempdir().unwrap();
    let shallow = directory.path().join("shallow clone");
    let path = shallow.to_str().unwrap();
    repository.git(&["clone", "--quiet", "--depth", "1", &repository.url(), path]);
    let case = Case::new(&format!("file://{}", path.replace(' ', "%20")), "main");
    assert_eq!(case.succeed().await.commit, repository.head());
    assert_eq!(case.commits(), 1);
    git(&case.clone(), &["fsck", "--strict"]);
}

#[tokio::test]
async fn worktree_is_cloned() {
    let repository = with_history();
    let directory = tempfile::tempdir().unwrap();
    let worktree = directory.path().join("worktree");
    let path = worktree.to_str().unwrap();
    repository.git(&["worktree", "add", "--quiet", "--detach", path]);
    let case = Case::new(&format!("file://{path}"), "main");
    assert_eq!(case.succeed().await.commit, repository.head());
}

/// The file of a loose object.
fn loose(repository: &Repository, name: &str) -> PathBuf {
    let id = repository.git(&["rev-parse", name]);
    repository.path().join(".git/objects").join(&id[..2]).join(&id[2..])
}

#[tokio::test]
async fn object_with_the_content_of_another_is_refused() {
    let repository = Repository::create(&[MAIN, ("other.tf", "# other\n")]);
    let (object, other) = (loose(&repository, "HEAD:main.tf"), loose(&repository, "HEAD:other.tf"));
    std::fs::remove_file(&object).unwrap();
    std::fs::copy(other, object).unwrap();
    let error = Case::new(&repository.url(), "main").fail().await;
    assert!(error.to_string().contains("check out the commit"), "{error}");
}

#[tokio::test]
async fn directory_of_another_user_is_refused_unless_it_is_a_safe_directory() {
    as_root_async(async {
        let repository = with_history();
        let git_directory = repository.path().join(".git");
        for path in [repository.path(), &git_directory] {
            chown(path, Some(12345), None).unwrap();
        }
        let error = Case::new(&repository.url(), "main").fail().await;
        assert!(error.advice().unwrap().contains("safe.directory"), "{error}");
        let settings = format!("[safe]\n\tdirectory = {}\n", repository.path().display());
        let case = Case::new(&repository.url(), "main").in_home(".gitconfig", &settings);
        case.succeed().await;
    })
    .await;
}
