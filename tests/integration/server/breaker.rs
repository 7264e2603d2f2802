//! Applies that fail in a row stop all others that no person has approved.

use butler_base::http::{self, Redirects};

use super::*;

/// A module whose apply fails.
const FAILS: &str = "resource \"terraform_data\" \"one\" {
  provisioner \"local-exec\" {
    command = \"false\"
  }
}
";

/// Layers that are applied at once, and are not tried again.
fn configure(installation: &Installation, repository: &Repository, layers: &[&str]) {
    let entries = layers.iter().map(|name| {
        format!("  {name}: {{repository: infra, path: envs/{name}, backend: {{type: local}}}}\n")
    });
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{strategy: auto, retries: {{max: 1}}}}
layers:
{}",
        repository.url(),
        entries.collect::<String>(),
    ));
}

#[tokio::test]
async fn three_failed_applies_stop_the_others_until_an_administrator_resets_the_breaker() {
    let path = |name: &str| format!("envs/{name}/main.tf");
    let modules = [("a", FAILS), ("b", FAILS), ("c", FAILS), ("d", LAYER), ("e", LAYER)];
    let modules = modules.map(|(name, module)| (path(name), module));
    let files: Vec<_> = modules.iter().map(|(path, module)| (path.as_str(), *module)).collect();
    let repository = Repository::create(&files);
    let mut installation = Installation::new();
    configure(&installation, &repository, &["a", "b", "c"]);
    installation.serve(&[]).await;
    installation.until_problem(&["automatic applies of all layers are stopped"]).await;
    for layer in ["a", "b", "c"] {
        installation.until(layer, "Failed", 2).await;
    }

    configure(&installation, &repository, &["a", "b", "c", "d", "e"]);
    for layer in ["d", "e"] {
        installation.until(layer, "Succeeded", 1).await;
        let is_blocked = || installation.layer(layer)["reasons"][0]["gate"] == "breaker";
        eventually("a layer that is stopped", is_blocked).await;
        assert_eq!(installation.layer(layer)["phase"], "Blocked");
    }
    // A person decides about one plan.
    let applied = installation.ask(&["layer", "apply", "d", "--wait"]);
    assert!(applied.status.success(), "{}", text(&applied));
    assert_eq!(installation.layer("e")["phase"], "Blocked");
    assert_eq!(installation.runs("e").len(), 1);

    let token = std::fs::read_to_string(installation.data().join("admin.token")).unwrap();
    let client = http::client(None, Redirects::Refuse).unwrap();
    let address = &installation.server.as_ref().unwrap().address;
    let reset = client.post(format!("{address}/api/v1/breaker/reset")).bearer_auth(token.trim());
    reset.send().await.unwrap().error_for_status().unwrap();
    installation.until("e", "Succeeded", 2).await;
    assert_eq!(installation.runs("e")[0]["approvedBy"], Value::Null);
    assert_eq!(installation.problems(), Vec::<String>::new());
}
