//! The files of a commit that an attempt gets.

use std::os::unix::ffi::OsStrExt;

use super::*;

#[tokio::test]
async fn attempt_whose_files_cannot_be_sent_fails_at_once_with_the_reason() {
    let mut installation = Installation::new();
    let repository = Repository::create(&[("a/main.tf", LAYER), ("b/main.tf", LAYER)]);
    let target = std::ffi::OsStr::from_bytes(b"\xff");
    std::os::unix::fs::symlink(target, repository.path().join("a/link")).unwrap();
    // The mirror leaves out a submodule without an address, as git does.
    repository.commit("Add a link", &[]);
    let missing = format!("160000,{},b/missing", "1".repeat(40));
    repository.git(&["update-index", "--add", "--cacheinfo", &missing]);
    repository.git(&["commit", "--quiet", "--message", "Add a submodule"]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main}}
layers: {{a: {{path: a}}, b: {{path: b}}}}
",
        repository.url()
    ));
    installation.serve(&[]).await;
    installation.until("a", "Failed", 1).await;
    installation.until("b", "Succeeded", 1).await;
    let run = installation.runs("a").remove(0);
    let log = text(&installation.ask(&["run", "logs", run["id"].as_str().unwrap()]));
    assert!(log.contains("Error: the target of the link `a/link` is not UTF-8"), "{log}");
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1);
    eventually("the end of the process", || running(&installation.data()).is_empty()).await;
}
