//! Layers that get another name, and layers that share a state.

use super::*;

fn configure(installation: &Installation, repository: &Repository, layers: &str) {
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}\nlayers:\n{layers}",
        repository.url()
    ));
}

fn state(installation: &Installation, layer: &str) -> PathBuf {
    installation.data().join("states").join(layer).join("terraform.tfstate")
}

fn ids(runs: &[Value]) -> Vec<String> {
    runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

/// A layer with a resource whose file is gone, which its last check for drift has found.
async fn drifted(repository: &Repository) -> Installation {
    let mut installation = Installation::new();
    let layer = "repository: infra, path: envs/a, strategy: auto, backend: {type: local}, drift: \
                 {every: 1m}";
    configure(&installation, repository, &format!("  old: {{{layer}}}\n"));
    installation.serve(&[]).await;
    installation.until("old", "Succeeded", 2).await;
    eventually("a layer at rest", || installation.layer("old")["phase"] == "Noop").await;
    installation
}

#[tokio::test]
async fn renamed_layer_keeps_its_history_and_its_state() {
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    let mut installation = drifted(&repository).await;
    let before = installation.runs("old");
    let applied = installation.layer("old")["appliedRevision"].clone();
    assert_eq!(applied["commit"], repository.head());
    let text = std::fs::read_to_string(state(&installation, "old")).unwrap();
    assert!(text.contains("terraform_data"), "{text}");
    installation.until_tidy().await;
    assert_eq!(installation.terminate().await, Some(0));

    let renamed = "  new: {repository: infra, path: envs/a, formerly: old, strategy: auto, backend: \
                   {type: local}}\n";
    configure(&installation, &repository, renamed);
    installation.serve(&[]).await;
    eventually("a layer at rest", || installation.layer("new")["phase"] == "Noop").await;
    assert_eq!(ids(&installation.runs("new")), ids(&before), "nothing is planned");
    assert_eq!(installation.layer("new")["appliedRevision"], applied);
    assert_eq!(std::fs::read_to_string(state(&installation, "new")).unwrap(), text);
    assert!(!installation.data().join("states/old").exists());
    let listed = installation.json(&["layer", "list"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    let log = installation.ask(&["run", "logs", &ids(&before)[0]]);
    assert!(super::text(&log).contains("Apply complete"), "{}", super::text(&log));

    // The state is used: there is nothing to add.
    assert!(installation.ask(&["layer", "plan", "new", "--wait"]).status.success());
    let plan = installation.runs("new")[0].clone();
    let counts = plan["counts"].as_object().unwrap();
    assert!(counts.values().all(|count| *count == 0), "{plan}");

    // What stays in the file changes nothing.
    assert_eq!(installation.terminate().await, Some(0));
    installation.serve(&[]).await;
    let known = before.len() + 1;
    assert_eq!(installation.runs("new").len(), known);
    repository.commit("Change", &[("envs/a/main.tf", &LAYER.replace("\"a\"", "\"b\""))]);
    assert!(installation.ask(&["layer", "sync", "new", "--wait"]).status.success());
    installation.until("new", "Succeeded", known + 2).await;
    assert_eq!(installation.runs("new")[1]["counts"]["change"], 1);
}

#[tokio::test]
async fn state_that_both_names_have_blocks_the_layer_and_is_kept() {
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    let mut installation = drifted(&repository).await;
    installation.until_tidy().await;
    assert_eq!(installation.terminate().await, Some(0));
    let (old, new) = (state(&installation, "old"), state(&installation, "new"));
    std::fs::create_dir(new.parent().unwrap()).unwrap();
    std::fs::write(&new, "of another layer").unwrap();
    let renamed =
        "  new: {repository: infra, path: envs/a, formerly: old, backend: {type: local}}\n";
    configure(&installation, &repository, renamed);
    installation.serve(&[]).await;
    eventually("a blocked layer", || installation.layer("new")["phase"] == "Blocked").await;
    let reasons = installation.layer("new")["reasons"].to_string();
    assert!(reasons.contains("cannot move the state of the layer `old` to `new`"), "{reasons}");
    assert_eq!(std::fs::read_to_string(&new).unwrap(), "of another layer");
    assert!(old.exists());
    assert_eq!(installation.runs("new").len(), 2, "nothing starts");

    // A person decides, and a server that starts goes on.
    assert_eq!(installation.terminate().await, Some(0));
    std::fs::rename(&new, installation.path("moved-away")).unwrap();
    installation.serve(&[]).await;
    eventually("a layer at rest", || installation.layer("new")["phase"] == "Noop").await;
    assert!(new.exists() && !old.exists());
}

#[tokio::test]
async fn layers_whose_modules_name_one_state_are_blocked_until_a_commit_changes_one() {
    let mut installation = Installation::new();
    let states = installation.path("states");
    std::fs::create_dir(&states).unwrap();
    let module = |name: &str| {
        let path = states.join(name);
        format!(
            "terraform {{\n  backend \"local\" {{\n    path = \"{}\"\n  }}\n}}\n{LAYER}",
            path.display()
        )
    };
    let repository = Repository::create(&[
        ("envs/a/main.tf", &module("one.tfstate")),
        ("envs/b/main.tf", &module("one.tfstate")),
    ]);
    let common = format!("isolation: {{write: ['{}']}}", states.display());
    let layers = format!(
        "  a: {{repository: infra, path: envs/a, {common}}}
  b: {{repository: infra, path: envs/b, {common}}}
"
    );
    configure(&installation, &repository, &layers);
    installation.serve(&[]).await;
    for (layer, other) in [("a", "`b`"), ("b", "`a`")] {
        eventually("a blocked layer", || installation.layer(layer)["phase"] == "Blocked").await;
        let reasons = installation.layer(layer)["reasons"].to_string();
        assert!(reasons.contains("the same state as") && reasons.contains(other), "{reasons}");
        assert_eq!(installation.runs(layer), Vec::<Value>::new());
    }
    repository.commit("Separate", &[("envs/b/main.tf", &module("two.tfstate"))]);
    assert!(installation.ask(&["layer", "sync", "b", "--wait"]).status.success());
    for layer in ["a", "b"] {
        installation.until(layer, "Succeeded", 1).await;
        assert_eq!(installation.runs(layer)[0]["counts"]["add"], 1);
    }
}
