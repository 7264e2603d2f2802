//! Drift of files that a real provider manages.

use super::files::Files;
use super::*;
use butler_testing::files_provider::FilesProvider;

/// A layer whose first check for drift is due a few seconds after its apply: the moment depends on the name.
const EARLY: &str = "files19";

/// A server that has applied two files.
async fn applied(drift: &str) -> Files {
    let drift = format!("drift: {{every: 1m, {drift}}}");
    let module = |managed: &Path| {
        let paths = ["one", "two"].map(|name| managed.join(name));
        FilesProvider::module(&[(&paths[0], "first"), (&paths[1], "second")])
    };
    let files = Files::serve(EARLY, &drift, module).await;
    files.installation.until(EARLY, "Succeeded", 2).await;
    assert_eq!((&*files.content("one"), &*files.content("two")), ("first", "second"));
    files
}

/// The kinds of the events about drift.
fn events(installation: &Installation) -> Vec<String> {
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
    kinds.filter(|kind| kind.starts_with("drift-")).collect()
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
