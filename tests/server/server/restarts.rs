//! What a server that starts shows of layers, before it has reached any git host.

use super::*;

/// Each layer with its phase, as `layer list` shows them.
fn phases(installation: &Installation) -> Vec<(String, String)> {
    let listed = installation.json(&["layer", "list"]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let layers = listed["items"].as_array().unwrap().iter();
    layers.map(|layer| (text(&layer["name"]), text(&layer["phase"]))).collect()
}

fn expected(layers: &[(&str, &str)]) -> Vec<(String, String)> {
    layers.iter().map(|(name, phase)| ((*name).to_owned(), (*phase).to_owned())).collect()
}

#[tokio::test]
async fn all_layers_are_shown_after_a_restart_while_the_git_host_is_away() {
    let (mut installation, repository) = (Installation::new(), repository());
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main, strategy: plan-only}}
layers:
  all: {{paths: ['envs/*']}}
  other: {{path: envs/dns}}
  wrong: {{path: envs/none}}
",
        repository.url()
    ));
    installation.serve(&[]).await;
    for layer in ["all.envs.app", "all.envs.db", "all.envs.dns", "other"] {
        installation.until(layer, "Succeeded", 1).await;
    }
    eventually("a layer without its path", || installation.layer("wrong")["phase"] == "Blocked")
        .await;
    installation.kill().await;
    let moved = installation.path("moved");
    std::fs::rename(repository.path(), &moved).unwrap();
    let all = expected(&[
        ("all.envs.app", "Succeeded"),
        ("all.envs.db", "Succeeded"),
        ("all.envs.dns", "Succeeded"),
        ("other", "Succeeded"),
        ("wrong", "Blocked"),
    ]);
    // As soon as the server is ready, and after the poll has failed.
    installation.serve(&[]).await;
    assert_eq!(phases(&installation), all);
    installation.until_problem(&["cannot read the repository `infra`"]).await;
    assert_eq!(phases(&installation), all);
    assert_eq!(installation.layer("all.envs.dns")["path"], "envs/dns");

    // What a person asks for needs no git host.
    assert!(installation.ask(&["layer", "plan", "all.envs.dns"]).status.success());
    installation.until("all.envs.dns", "Succeeded", 2).await;
    std::fs::rename(&moved, repository.path()).unwrap();
}

#[tokio::test]
async fn layer_that_left_the_configuration_is_skipped_also_after_a_restart() {
    let (mut installation, repository) = (Installation::new(), repository());
    let configuration = |layers: &str| {
        format!(
            "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main, strategy: plan-only}}
layers:
{layers}",
            repository.url()
        )
    };
    let stays = "  stays: {path: envs/dns}\n";
    installation.configure(&configuration(&format!("{stays}  leaves: {{path: envs/app}}\n")));
    installation.serve(&[]).await;
    installation.until("leaves", "Succeeded", 1).await;
    installation.until("stays", "Succeeded", 1).await;
    installation.configure(&configuration(stays));
    eventually("a layer that left", || installation.layer("leaves")["phase"] == "Skipped").await;
    assert_eq!(installation.terminate().await, Some(0));
    installation.serve(&[]).await;
    assert_eq!(phases(&installation), expected(&[("stays", "Succeeded")]));
    let removed = installation.json(&["layer", "list", "--removed"]);
    let names = removed["items"].as_array().unwrap().iter().map(|layer| &layer["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["leaves"]);
    let layer = installation.layer("leaves");
    let reason = layer["reasons"][0]["text"].as_str().unwrap();
    assert!(reason.contains("no longer in the configuration"), "{reason}");
    // Its history is still there, and it continues when it comes back.
    assert_eq!(installation.runs("leaves").len(), 1);
    installation.configure(&configuration(&format!("{stays}  leaves: {{path: envs/app}}\n")));
    eventually("a layer that came back", || installation.layer("leaves")["phase"] == "Succeeded")
        .await;
    assert_eq!(installation.runs("leaves").len(), 1);
}

#[tokio::test]
async fn layers_with_one_state_are_blocked_and_name_each_other() {
    let (mut installation, repository) = (Installation::new(), repository());
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main, strategy: plan-only}}
layers:
  one: {{path: envs/dns, backend: {{type: s3, config: {{bucket: tf, key: same}}}}}}
  two: {{path: envs/app, backend: {{type: s3, config: {{bucket: tf, key: same}}}}}}
  own: {{path: envs/dns}}
",
        repository.url()
    ));
    installation.serve(&[]).await;
    installation.until("own", "Succeeded", 1).await;
    for (layer, other) in [("one", "two"), ("two", "one")] {
        eventually(layer, || installation.layer(layer)["phase"] == "Blocked").await;
        let shown = installation.layer(layer);
        let reason = shown["reasons"][0]["text"].as_str().unwrap();
        assert!(reason.contains(&format!("the same state as `{other}`")), "{reason}");
        assert_eq!(installation.runs(layer).len(), 0);
    }
}

#[tokio::test]
async fn cycle_of_layers_is_refused_with_its_names() {
    let (installation, repository) = (Installation::new(), repository());
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main, strategy: plan-only}}
layers:
  app: {{path: envs/app, after: [db]}}
  db: {{path: envs/db, after: [dns]}}
  dns: {{path: envs/dns, after: [app]}}
",
        repository.url()
    ));
    let refused = installation.once(&[]).await;
    assert_eq!(refused.status.code(), Some(2));
    let text = text(&refused);
    for name in ["app", "db", "dns"] {
        assert!(text.contains(name), "{text}");
    }
    assert!(
        text.contains("`after` leads back to the layer itself: app → db → dns → app"),
        "{text}"
    );
    assert!(!installation.data().exists());
}
