//! Drift of files that a real provider manages.

use super::*;
use crate::support::files_provider::FilesProvider;

/// A layer whose first check for drift is due a few seconds after its apply: the moment depends on the name.
const EARLY: &str = "files19";

/// A repository with a module of two files, and a server that applies it. Returns the files' paths too.
async fn applied(drift: &str) -> (Installation, FilesProvider, Repository, [PathBuf; 2]) {
    let mut installation = Installation::new();
    let provider = FilesProvider::unpack();
    let managed = installation.path("managed");
    std::fs::create_dir(&managed).unwrap();
    let files = [managed.join("one"), managed.join("two")];
    let module = FilesProvider::module(&[(&files[0], "first"), (&files[1], "second")]);
    let repository = Repository::create(&[("module/main.tf", &module)]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{2}'}}}}
layers:
  {EARLY}:
    repository: infra
    path: module
    strategy: auto
    backend: {{type: local}}
    isolation: {{read: ['{0}'], write: ['{1}']}}
    drift: {{every: 1m, {drift}}}
",
        provider.mirror().display(),
        managed.display(),
        repository.url(),
    ));
    let settings = installation.path("settings.yaml");
    let path = provider.mirror();
    let mirror = format!("{{filesystemMirror: {{path: '{}'}}}}", path.display());
    std::fs::write(&settings, format!("terraformrc: {{providerInstallation: {mirror}}}\n"))
        .unwrap();
    installation.serve(&["--settings".to_owned(), settings.display().to_string()]).await;
    installation.until(EARLY, "Succeeded", 2).await;
    assert_eq!(std::fs::read_to_string(&files[0]).unwrap(), "first");
    (installation, provider, repository, files)
}

/// The kinds of the events of the layer.
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
    let kinds = events["items"].as_array().unwrap().iter().map(|event| event["kind"].clone());
    kinds.map(|kind| kind.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn file_that_somebody_changed_is_found_and_repaired() {
    let (installation, _provider, _repository, files) = applied("repair: true").await;
    std::fs::write(&files[0], "changed by hand").unwrap();
    eventually("a repair", || std::fs::read_to_string(&files[0]).unwrap() == "first").await;
    installation.until(EARLY, "Succeeded", 5).await;
    let runs = installation.runs(EARLY);
    let actions: Vec<&str> = runs.iter().map(|run| run["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["apply", "plan", "drift", "apply", "plan"]);
    assert_eq!(runs[1]["cause"], "drift");
    assert_eq!(std::fs::read_to_string(&files[1]).unwrap(), "second");
    eventually("the end of the drift", || {
        let kinds = events(&installation);
        kinds.iter().filter(|kind| kind.starts_with("drift-")).eq(["drift-found", "drift-resolved"])
    })
    .await;
}

#[tokio::test]
async fn drift_is_shown_and_ignored_attributes_are_none() {
    let (installation, _provider, _repository, files) =
        applied("ignore: [files_file.f0.content]").await;
    std::fs::write(&files[0], "changed by hand").unwrap();
    installation.until(EARLY, "Succeeded", 3).await;
    eventually("a checked layer", || installation.layer(EARLY)["drift"] == "none").await;
    assert_eq!(installation.layer(EARLY)["driftKind"], "without-effect");
    // Nothing repairs it, and nothing was told.
    assert_eq!(std::fs::read_to_string(&files[0]).unwrap(), "changed by hand");
    assert!(!events(&installation).iter().any(|kind| kind.starts_with("drift-")));
}
