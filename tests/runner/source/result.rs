//! The files of a fetch must be complete for the module.

use butler_base::error::Advice;
use butler_source::git::FetchError;

use super::{Case, MAIN, with_history};
use butler_testing::git_server::Repository;

#[tokio::test]
async fn fetch_into_an_existing_directory_is_refused() {
    let repository = with_history();
    let case = Case::new(&repository.url(), "main");
    std::fs::create_dir(case.clone()).unwrap();
    let error = case.fail().await;
    assert!(error.to_string().contains("exists already"), "{error}");
}

#[tokio::test]
async fn working_directory_must_be_inside_the_clone() {
    let repository = with_history();
    std::os::unix::fs::symlink("/etc", repository.path().join("link")).unwrap();
    repository.commit("Link", &[]);
    let mut case = Case::new(&repository.url(), "main");
    case.source.working_directory = "modules/a".to_owned();
    let checkout = case.succeed().await;
    assert_eq!(checkout.directory, checkout.root.join("modules/a"));
    for directory in ["/etc", "modules/../..", "link", "missing", "main.tf"] {
        let mut case = Case::new(&repository.url(), "main");
        case.source.working_directory = directory.to_owned();
        let error = case.fail().await;
        assert!(matches!(error, FetchError::WorkingDirectory { .. }), "{error:?}");
        assert!(error.to_string().contains(directory), "{error}");
    }
}

#[tokio::test]
async fn git_lfs_pointers_in_the_module_are_refused() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n";
    let repository =
        Repository::create(&[MAIN, ("function/code.zip", pointer), ("other/main.tf", "")]);
    let error = Case::new(&repository.url(), "main").fail().await;
    assert!(error.to_string().contains("`function/code.zip`"), "{error}");
    assert!(error.advice().unwrap().contains("Git LFS"));
    let mut case = Case::new(&repository.url(), "main");
    case.source.working_directory = "other".to_owned();
    case.succeed().await;
}
