//! Layers that come after others.

use super::*;

#[tokio::test]
async fn plan_that_a_person_wants_before_an_upstream_layer_is_applied_is_made_again_after_that() {
    let files = [("envs/network/main.tf", LAYER), ("envs/app/main.tf", LAYER)];
    let repository = Repository::create(&files);
    let mut installation = Installation::new();
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, backend: {{type: local}}}}
layers:
  network: {{path: envs/network}}
  app: {{path: envs/app, after: [network]}}
",
        repository.url(),
    ));
    installation.serve(&[]).await;
    installation.until("network", "Succeeded", 1).await;
    let reason =
        || installation.layer("app")["reasons"][0]["text"].as_str().unwrap_or_default().to_owned();
    let waits = "not applied yet at this commit: network (its plan waits for an approval since ";
    eventually("the reason of the upstream layer", || reason().starts_with(waits)).await;
    assert!(reason().ends_with("; `layer plan app` plans it before that"), "{}", reason());
    assert_eq!(installation.layer("app")["waitsFor"], serde_json::json!(["network"]));

    let planned = installation.ask(&["layer", "plan", "app", "--wait"]);
    assert!(planned.status.success(), "{}", text(&planned));
    let plan = installation.runs("app")[0].clone();
    assert_eq!(plan["madeBefore"], serde_json::json!(["network"]));
    let shown = text(&installation.ask(&["run", "show", plan["id"].as_str().unwrap()]));
    assert!(shown.contains("network is applied"), "{shown}");
    eventually("a plan that waits", || reason().starts_with("waiting for approval")).await;

    // It can be approved, and is not applied before.
    let digest = plan["planDigest"].as_str().unwrap();
    let approved = installation.ask(&["layer", "approve", "app", "--plan-digest", digest]);
    assert!(approved.status.success(), "{}", text(&approved));
    eventually("an apply that waits", || reason().starts_with("not applied yet")).await;
    let of_network = installation.runs("network")[0]["planDigest"].as_str().unwrap().to_owned();
    let applied =
        installation.ask(&["layer", "approve", "network", "--plan-digest", &of_network, "--wait"]);
    assert!(applied.status.success(), "{}", text(&applied));

    // The upstream layer has changed something: there is a new plan, which needs a new approval.
    eventually("a new plan", || {
        let newest = &installation.runs("app")[0];
        newest["cause"] == "dependency" && newest["phase"] == "Succeeded"
    })
    .await;
    eventually("a plan that waits again", || reason().starts_with("waiting for approval")).await;
    let runs = installation.runs("app");
    assert_eq!(runs[0]["madeBefore"], serde_json::json!([]));
    let apply = runs.iter().find(|run| run["action"] == "apply").unwrap();
    assert_eq!(
        (&apply["phase"], apply["attempts"].as_array().unwrap().len()),
        (&"Superseded".into(), 0)
    );
}
