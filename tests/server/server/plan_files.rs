//! What a saved plan brings to the run that applies it.

use super::files::Files;
use super::*;
use butler_testing::files_provider::FilesProvider;

/// A module whose plan makes `build/archive`, which its apply reads, and which has no lock file.
fn archive(managed: &Path) -> String {
    let head = FilesProvider::module(&[]);
    format!(
        "{head}data \"files_archive\" \"it\" {{
  path    = \"build/archive\"
  content = \"packed\"
}}
resource \"terraform_data\" \"upload\" {{
  input = data.files_archive.it.content
  provisioner \"local-exec\" {{
    command = \"cp build/archive {0}/uploaded && cp .terraform.lock.hcl {0}/lock\"
  }}
}}
",
        managed.display()
    )
}

#[tokio::test]
async fn apply_gets_the_files_and_the_lock_file_of_its_plan() {
    let files = Files::serve("a", "", archive).await;
    files.installation.until("a", "Succeeded", 2).await;
    assert_eq!(files.actions("a"), ["apply", "plan"]);
    assert_eq!(files.content("uploaded"), "packed");
    assert!(files.content("lock").contains("example.com/acme/files"), "{}", files.content("lock"));
    files.installation.until_tidy().await;
}

#[tokio::test]
async fn plan_with_a_path_below_home_is_applied_in_each_isolation() {
    const MODULE: &str =
        "resource \"terraform_data\" \"path\" {\n  input = pathexpand(\"~/.kube/config\")\n}\n";
    let repository = Repository::create(&[("module/main.tf", MODULE)]);
    for isolation in ["landlock", "none"] {
        let mut installation = Installation::new();
        installation.configure(&format!(
            "repositories: {{infra: {{url: '{}'}}}}
layers:
  a: {{repository: infra, path: module, backend: {{type: local}}, strategy: auto}}
",
            repository.url()
        ));
        installation.serve(&["--isolation", isolation].map(str::to_owned)).await;
        installation.until("a", "Succeeded", 2).await;
        assert_eq!(installation.runs("a")[0]["action"], "apply", "{isolation}");
    }
}

#[tokio::test]
async fn plan_of_another_machine_is_applied_at_its_path_and_made_again_at_another_one() {
    let repository = Repository::create(&[("module/main.tf", LAYER)]);
    let mut first = Installation::new();
    let configure = |installation: &Installation| {
        installation.configure(&format!(
            "repositories: {{infra: {{url: '{}'}}}}
layers:
  a: {{repository: infra, path: module, backend: {{type: local}}}}
",
            repository.url()
        ));
    };
    configure(&first);
    first.serve(&[]).await;
    first.until("a", "Succeeded", 1).await;
    assert_eq!(first.terminate().await, Some(0));

    // A copy at the same path, as on a machine to which the data directory was moved.
    let (data, moved) = (first.data(), first.path("moved"));
    std::fs::rename(&data, &moved).unwrap();
    copy(&moved, &data);
    // A copy at another path.
    let mut second = Installation::new();
    configure(&second);
    copy(&moved, &second.data());
    std::fs::remove_dir_all(moved).unwrap();

    first.serve(&[]).await;
    let applied = first.ask(&["layer", "apply", "a", "--wait"]);
    assert!(text(&applied).contains("1 added"), "{}", text(&applied));

    second.serve(&[]).await;
    let refused = second.ask(&["layer", "apply", "a", "--wait"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    let expected = "the saved plan is not applied: the backend has changed since it was made";
    assert!(text(&refused).contains(expected), "{}", text(&refused));
    second.until("a", "Succeeded", 3).await;
    let applied = second.ask(&["layer", "apply", "a", "--wait"]);
    assert!(text(&applied).contains("1 added"), "{}", text(&applied));
}

/// Copies a directory with its modes.
fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}
