//! Applies that fail in a row stop all others that no person has approved.

use std::collections::BTreeSet;

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

    let shown = installation.json(&["breaker", "show"]);
    assert_eq!(shown["open"], true, "{shown}");
    let failures = shown["failures"].as_array().unwrap();
    let ids: BTreeSet<_> = failures.iter().map(|it| it["run"].as_str().unwrap()).collect();
    let failed: Vec<String> = ["a", "b", "c"]
        .map(|it| installation.runs(it)[0]["id"].as_str().unwrap().to_owned())
        .to_vec();
    assert_eq!(ids, failed.iter().map(String::as_str).collect());
    assert_eq!(shown["since"], failures[2]["ended"], "{shown}");
    let table = text(&installation.ask(&["breaker", "show"]));
    for shown in ["the breaker is open since 2", "Terraform reported an error", &failed[0]] {
        assert!(table.contains(shown), "{table}");
    }
    let reset = installation.ask(&["breaker", "reset"]);
    assert!(reset.status.success() && text(&reset).contains("is reset"), "{}", text(&reset));
    installation.until("e", "Succeeded", 2).await;
    assert_eq!(installation.runs("e")[0]["approvedBy"], Value::Null);
    assert_eq!(installation.problems(), Vec::<String>::new());
    let closed = serde_json::json!({"open": false, "since": null, "failures": []});
    assert_eq!(installation.json(&["breaker", "show"]), closed);
    assert!(text(&installation.ask(&["breaker", "reset"])).contains("was not open"));
}
