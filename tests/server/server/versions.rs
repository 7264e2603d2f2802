//! Layers with several versions of Terraform.

use super::*;
use butler_testing::release_site::{ReleaseSite, archive, platform};
use butler_testing::terraform::machine_terraform;

#[tokio::test]
async fn each_layer_uses_its_version_and_each_version_is_downloaded_once() {
    let mut installation = Installation::new();
    // The machine's own Terraform under other numbers: the runner chooses by the number.
    let program = std::fs::read(machine_terraform().0).unwrap();
    let zip = archive(&[("terraform", &program)]);
    let versions = ["1.90.1", "1.90.2"];
    let site = ReleaseSite::start_with_archives(versions.map(|it| (it, zip.clone())).to_vec());
    let files = ["a", "b", "c", "d"].map(|name| format!("{name}/main.tf"));
    let files = files.each_ref().map(|path| (path.as_str(), LAYER));
    let repository = Repository::create(&files);
    let layers = [("a", versions[0]), ("b", versions[0]), ("c", versions[1]), ("d", versions[1])];
    let entries = layers.map(|(name, tool)| format!("  {name}: {{path: {name}, tool: {tool}}}\n"));
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main}}
layers:
{}",
        repository.url(),
        entries.concat(),
    ));
    let (url, key) = (site.url().to_string(), site.key_file().display().to_string());
    let arguments = ["--mirror", &url, "--signing-key", &key, "--concurrency", "4"];
    installation.serve(&arguments.map(str::to_owned)).await;
    for (layer, version) in layers {
        installation.until(layer, "Succeeded", 1).await;
        let id = installation.runs(layer)[0]["id"].as_str().unwrap().to_owned();
        let log = text(&installation.ask(&["run", "logs", &id]));
        let path = installation.data().join(format!("cache/terraform/{version}/terraform"));
        assert!(log.contains(&path.display().to_string()), "{log}");
    }
    for version in versions {
        let name = format!("terraform_{version}_{}.zip", platform());
        assert_eq!(site.seen(&name).len(), 1, "{:?}", site.requests());
    }
}
