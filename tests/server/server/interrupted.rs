//! Applies that are interrupted in the middle.

use super::files::Files;
use super::*;
use butler_testing::files_provider::FilesProvider;

/// Five files, each of which is written after the one before. The third one waits for the file `gate`.
fn chain(managed: &Path) -> String {
    let file = |number: u32| (managed.join(number.to_string()), number.to_string());
    FilesProvider::chain(&[0, 1, 2, 3, 4].map(file), 2, &managed.join("gate"))
}

/// A server in the middle of an apply: two of five files are written, and the third one waits.
async fn in_the_middle() -> Files {
    let files = Files::serve("a", "retries: {max: 5}", chain).await;
    eventually("the second file", || files.content("1") == "1").await;
    assert_eq!(files.actions("a"), ["apply", "plan"]);
    files
}

/// The names of the files that exist.
fn written(files: &Files) -> Vec<String> {
    (0..5).map(|number| number.to_string()).filter(|name| !files.content(name).is_empty()).collect()
}

#[tokio::test]
async fn apply_goes_on_when_the_server_is_killed_and_is_made_once() {
    let mut files = in_the_middle().await;
    files.installation.kill().await;
    files.write("gate", "open");
    eventually("the last file", || files.content("4") == "4").await;
    files.start().await;
    files.installation.until("a", "Succeeded", 2).await;
    let apply = &files.installation.runs("a")[0];
    assert_eq!(apply["attempts"].as_array().unwrap().len(), 1, "{apply}");
    eventually("rest", || files.installation.layer("a")["phase"] == "Noop").await;
    let layer = files.installation.layer("a");
    assert_eq!(
        (&layer["lease"], &layer["appliedRevision"]["commit"]),
        (&Value::Null, &files.repository.head().into())
    );
    files.installation.until_tidy().await;
}

#[tokio::test]
async fn apply_whose_runner_is_killed_is_planned_again_after_the_end_of_its_processes() {
    let files = in_the_middle().await;
    let pid = running(&files.installation.data())[0];
    butler_base::platform::kill_child(Pid::from_raw(pid)).unwrap();
    // Processes of it still exist, so nothing else may use the state.
    assert_eq!(files.actions("a"), ["apply", "plan"]);
    files.write("gate", "open");
    eventually("a plan after the lost apply", || {
        let runs = files.installation.runs("a");
        runs.len() > 2 && runs[0]["phase"] == "Succeeded"
    })
    .await;
    let runs = files.installation.runs("a");
    // The newest run may be the next apply already.
    let lost = runs.iter().rev().find(|run| run["action"] == "apply");
    let outcome = &lost.unwrap()["attempts"][0]["outcome"];
    assert_eq!(outcome, "its process ended without a report");
    eventually("rest", || files.installation.layer("a")["phase"] == "Noop").await;
    assert_eq!(written(&files).len(), 5);
    // Each file has one resource in the state.
    let state = files.installation.data().join("states/a/terraform.tfstate");
    let state: Value = serde_json::from_slice(&std::fs::read(state).unwrap()).unwrap();
    assert_eq!(state["resources"].as_array().unwrap().len(), 5, "{state}");
    files.installation.until_tidy().await;
}

#[tokio::test]
async fn cancelled_apply_keeps_what_was_done_and_rests_until_a_person_asks() {
    let files = in_the_middle().await;
    let id = files.installation.runs("a")[0]["id"].as_str().unwrap().to_owned();
    let cancelled = files.installation.json(&["run", "cancel", &id]);
    assert_eq!(cancelled["cancelling"], true, "{cancelled}");
    let log = || text(&files.installation.ask(&["run", "logs", &id]));
    eventually("Terraform's interruption", || log().contains("Interrupt received")).await;
    files.write("gate", "open");
    files.installation.until("a", "Skipped", 2).await;
    assert_eq!(written(&files), ["0", "1", "2"]);
    eventually("a free state", || files.installation.layer("a")["lease"] == Value::Null).await;
    let reason = files.installation.layer("a")["reasons"][0]["text"].as_str().unwrap().to_owned();
    assert!(reason.contains("the apply was cancelled after 3 of 5 changes"), "{reason}");
    let shown = text(&files.installation.ask(&["run", "show", &id]));
    assert!(shown.contains("cancelled, after 3 of 5 changes"), "{shown}");
    // The rest is applied when a person asks for a plan.
    assert!(files.installation.ask(&["layer", "plan", "a", "--wait"]).status.success());
    files.installation.until("a", "Succeeded", 4).await;
    assert_eq!(written(&files).len(), 5);
    assert_eq!(files.installation.runs("a")[1]["counts"]["add"], 2);
}
