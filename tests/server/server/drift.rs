//! Drift of files that a real provider manages.

use super::files::Files;
use super::*;
use butler_testing::files_provider::FilesProvider;
use serde_json::json;

/// The files of the module, with this content of the first one.
fn module(managed: &Path, first: &str) -> String {
    let paths = ["one", "two"].map(|name| managed.join(name));
    FilesProvider::module(&[(&paths[0], first), (&paths[1], "second")])
}

/// A layer whose first check for drift is due a few seconds after its apply: the moment depends on the name.
const EARLY: &str = "files19";

/// A server that has applied two files.
async fn applied(drift: &str) -> Files {
    let drift = format!("drift: {{every: 1m, {drift}}}");
    let files = Files::serve(EARLY, &drift, |managed| module(managed, "first")).await;
    files.installation.until(EARLY, "Succeeded", 2).await;
    assert_eq!((&*files.content("one"), &*files.content("two")), ("first", "second"));
    files
}

/// The kinds of the events about drift.
fn events(installation: &Installation) -> Vec<String> {
    events_of(installation, "drift-")
}

/// The kinds of the events whose names begin like this.
fn events_of(installation: &Installation, prefix: &str) -> Vec<String> {
    let address = &installation.server.as_ref().unwrap().address;
    let token = std::fs::read_to_string(installation.data().join("admin.token")).unwrap();
    let output = std::process::Command::new("curl")
        .args(["--silent", "--fail", "--noproxy", "*", "--header"])
        .arg(format!("Authorization: Bearer {}", token.trim()))
        .arg(format!("{address}/api/v1/events?layer={EARLY}"))
        .output()
        .unwrap();
    let events: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kinds = events["items"].as_array().unwrap().iter();
    let kinds = kinds.map(|event| event["kind"].as_str().unwrap().to_owned());
    kinds.filter(|kind| kind.starts_with(prefix)).collect()
}

/// A check and an output of the first file.
const CHECKED: &str = r#"
check "content" {
  assert {
    condition     = files_file.f0.content == "first"
    error_message = "The first file says something else."
  }
}
output "first" { value = files_file.f0.content }
"#;

#[tokio::test]
async fn failing_checks_and_moved_outputs_are_told_although_nothing_is_drift() {
    let drift = "drift: {every: 1m, ignore: [files_file.f0.content]}";
    let checked = |managed: &Path| format!("{}{CHECKED}", module(managed, "first"));
    let files = Files::serve(EARLY, drift, checked).await;
    files.installation.until(EARLY, "Succeeded", 2).await;
    files.write("one", "changed by hand");
    let layer = || files.installation.layer(EARLY);
    eventually("a failing check", || layer()["failingChecks"] == json!(["check.content"])).await;
    let layer = layer();
    assert_eq!((&layer["drift"], &layer["movedOutputs"]), (&json!("none"), &json!(["first"])));
    let notes = ["checks failing: check.content", "outputs have moved since the last apply: first"];
    assert_eq!(layer["notes"], json!(notes));
    let listed = text(&files.installation.ask(&["layer", "list"]));
    assert!(listed.contains("checks failing: check.content"), "{listed}");
    assert_eq!(events_of(&files.installation, "checks-"), ["checks-failed"]);
    assert_eq!(events(&files.installation), Vec::<String>::new());
}

#[tokio::test]
async fn check_that_compares_the_code_says_how_much_the_code_wants() {
    let files = applied("compare: code").await;
    files.write("one", "changed by hand");
    until_drift(&files, "found", "code-differs").await;
    assert_eq!(files.installation.layer(EARLY)["wantedChanges"], 1);
    let listed = text(&files.installation.ask(&["layer", "list"]));
    assert!(listed.contains("drift found (the code wants 1 change)"), "{listed}");
    assert_eq!(files.content("one"), "changed by hand");
    assert_eq!(events(&files.installation), ["drift-found"]);
}

#[tokio::test]
async fn file_that_another_program_changed_is_found_and_repaired() {
    let files = applied("repair: true").await;
    files.write("one", "changed by hand");
    eventually("a repair", || files.content("one") == "first").await;
    files.installation.until(EARLY, "Succeeded", 5).await;
    assert_eq!(files.actions(EARLY), ["apply", "plan", "drift", "apply", "plan"]);
    assert_eq!(files.installation.runs(EARLY)[1]["cause"], "drift");
    assert_eq!(files.content("two"), "second");
    assert_eq!(events(&files.installation), ["drift-found", "drift-resolved"]);
}

#[tokio::test]
async fn ignored_attributes_are_no_drift() {
    let files = applied("ignore: [files_file.f0.content]").await;
    files.write("one", "changed by hand");
    files.installation.until(EARLY, "Succeeded", 3).await;
    let layer = || files.installation.layer(EARLY);
    eventually("a checked layer", || layer()["drift"] == "none").await;
    assert_eq!(layer()["driftKind"], "without-effect");
    // Nothing repairs it, and nothing was told.
    assert_eq!(files.content("one"), "changed by hand");
    assert_eq!(events(&files.installation), Vec::<String>::new());
}

/// Runs `terraform` in another checkout of `module`, with the state of the layer.
fn terraform_elsewhere(files: &Files, module: &str, arguments: &[&str]) {
    let checkout = tempfile::tempdir().unwrap();
    let state = files.installation.data().join("states").join(EARLY).join("terraform.tfstate");
    let backend =
        format!("terraform {{\n  backend \"local\" {{ path = \"{}\" }}\n}}\n", state.display());
    std::fs::write(checkout.path().join("main.tf"), module).unwrap();
    std::fs::write(checkout.path().join("backend.tf"), backend).unwrap();
    for arguments in [&["init", "-input=false"], arguments] {
        let output = std::process::Command::new("terraform")
            .args(arguments)
            .current_dir(checkout.path())
            .env("TF_CLI_CONFIG_FILE", files.provider.configuration())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }
}

async fn until_drift(files: &Files, drift: &str, kind: &str) {
    let layer = || files.installation.layer(EARLY);
    eventually(&format!("drift {drift} ({kind})"), || {
        let layer = layer();
        layer["drift"] == drift && layer["driftKind"] == kind
    })
    .await;
}

#[tokio::test]
async fn apply_by_another_program_is_found_and_undone_by_a_person() {
    let files = applied("repair: false").await;
    let other = module(&files.managed, "from a laptop");
    terraform_elsewhere(&files, &other, &["apply", "-auto-approve", "-input=false"]);
    until_drift(&files, "found", "changed-outside").await;
    assert_eq!(files.content("one"), "from a laptop");
    assert_eq!(events(&files.installation), ["drift-found"]);

    // A person applies what the code says.
    assert!(files.installation.ask(&["layer", "plan", EARLY, "--wait"]).status.success());
    assert!(files.installation.ask(&["layer", "apply", EARLY, "--wait"]).status.success());
    eventually("the content of the code", || files.content("one") == "first").await;
    eventually("the end of the drift", || files.installation.layer(EARLY)["drift"] == "unchecked")
        .await;
    assert_eq!(events(&files.installation), ["drift-found", "drift-resolved"]);
}

#[tokio::test]
async fn resource_that_was_removed_from_the_state_is_found() {
    let files = applied("repair: false").await;
    terraform_elsewhere(
        &files,
        &module(&files.managed, "first"),
        &["state", "rm", "files_file.f1"],
    );
    until_drift(&files, "found", "changed-outside").await;
    assert_eq!(files.content("two"), "second");
}

#[tokio::test]
async fn apply_by_another_program_is_repaired_if_the_layer_says_so() {
    let files = applied("repair: true").await;
    let other = module(&files.managed, "from a laptop");
    terraform_elsewhere(&files, &other, &["apply", "-auto-approve", "-input=false"]);
    eventually("a repair", || files.content("one") == "first").await;
    files.installation.until(EARLY, "Succeeded", 5).await;
    assert_eq!(files.actions(EARLY), ["apply", "plan", "drift", "apply", "plan"]);
    assert_eq!(events(&files.installation), ["drift-found", "drift-resolved"]);
}

#[tokio::test]
async fn drift_that_a_person_accepts_is_written_into_the_state() {
    let files = applied("repair: false").await;
    let refused = files.installation.ask(&["layer", "accept", EARLY]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    files.write("one", "changed by hand");
    until_drift(&files, "found", "changes").await;

    let accepted = files.installation.ask(&["layer", "accept", EARLY, "--wait"]);
    assert!(accepted.status.success(), "{}", text(&accepted));
    eventually("an approved apply", || {
        let _ = files.installation.ask(&["layer", "approve", EARLY]);
        files.installation.layer(EARLY)["drift"] == "unchecked"
    })
    .await;
    assert_eq!(files.content("one"), "changed by hand");
    assert_eq!(events(&files.installation), ["drift-found", "drift-resolved"]);
    let state = files.installation.data().join("states").join(EARLY).join("terraform.tfstate");
    assert!(std::fs::read_to_string(state).unwrap().contains("changed by hand"));
}

#[tokio::test]
async fn drift_that_a_commit_accepts_ends_with_an_empty_plan() {
    let files = applied("repair: false").await;
    files.write("one", "changed by hand");
    until_drift(&files, "found", "changes").await;
    let says = module(&files.managed, "changed by hand");
    files.repository.commit("Say what was changed", &[("module/main.tf", &says)]);
    assert!(files.installation.ask(&["layer", "sync", EARLY, "--wait"]).status.success());
    eventually("the end of the drift", || files.installation.layer(EARLY)["drift"] == "unchecked")
        .await;
    assert_eq!(files.content("one"), "changed by hand");
    assert_eq!(events(&files.installation), ["drift-found", "drift-resolved"]);
    assert_eq!(files.actions(EARLY), ["plan", "drift", "apply", "plan"]);
}
