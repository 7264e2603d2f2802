//! Times in which actions are forbidden.

use super::*;

#[tokio::test]
async fn apply_waits_for_the_end_of_a_window_and_its_plan_is_made() {
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    let mut installation = Installation::new();
    let configure = |installation: &Installation, windows: &str| {
        installation.configure(&format!(
            "repositories: {{infra: {{url: '{}'}}}}
layers:
  a: {{repository: infra, path: envs/a, backend: {{type: local}}, strategy: auto}}
  b: {{repository: infra, path: envs/a, backend: {{type: local}}}}
{windows}",
            repository.url(),
        ));
    };
    // A window that begins each minute and takes an hour never ends.
    let window = "windows: [{deny: [apply, drift], layers: ['*'], schedule: '* * * * *', for: 1h}]";
    configure(&installation, window);
    installation.serve(&[]).await;
    installation.until("b", "Succeeded", 1).await;
    eventually("an apply that waits", || installation.layer("a")["reasons"][0]["gate"] == "window")
        .await;
    let layer = installation.layer("a");
    assert_eq!(layer["phase"], "PendingTrigger");
    let reason = layer["reasons"][0]["text"].as_str().unwrap();
    assert!(reason.starts_with("a window forbids `apply` until 20"), "{reason}");
    let runs = installation.runs("a");
    let of = |index: usize| {
        let run = &runs[index];
        (run["action"].as_str().unwrap(), run["phase"].as_str().unwrap())
    };
    assert_eq!((of(0), of(1)), (("apply", "PendingTrigger"), ("plan", "Succeeded")));
    // An approval does not open the window.
    assert!(installation.ask(&["layer", "apply", "b"]).status.success());
    let is_closed = || installation.layer("b")["reasons"][0]["gate"] == "window";
    eventually("an approved apply that waits", is_closed).await;
    assert!(installation.runs("b")[0]["attempts"].as_array().unwrap().is_empty());

    // An administrator lets this run start, and only this one.
    let forbidden = runs[0]["id"].as_str().unwrap();
    let given = ["run", "override-window", forbidden, "--reason", "incident-4711"];
    assert!(installation.ask(&given).status.success());
    installation.until("a", "Succeeded", 2).await;
    let shown = &installation.runs("a")[0];
    assert_eq!((&shown["id"], shown["action"].as_str()), (&runs[0]["id"], Some("apply")));
    assert_eq!(shown["windowOverride"]["reason"], "incident-4711");
    assert!(installation.runs("b")[0]["attempts"].as_array().unwrap().is_empty());

    configure(&installation, "");
    for layer in ["a", "b"] {
        installation.until(layer, "Succeeded", 2).await;
        assert_eq!(installation.runs(layer)[0]["action"], "apply");
    }
}
