//! Locks of Terraform on the state of a layer, with the real `http` backend.

use serde_json::json;

use super::*;
use butler_testing::http_backend::HttpBackend;

/// A layer whose state `backend` keeps. A plan that fails is not tried again.
fn configure(installation: &Installation, repository: &Repository, backend: &HttpBackend) {
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers:
  a:
    repository: infra
    path: envs/a
    retries: {{max: 1}}
    backend: {{type: http, config: {}}}
",
        repository.url(),
        backend.config(),
    ));
}

fn lock(id: &str) -> Value {
    json!({"ID": id, "Operation": "OperationTypeApply", "Who": "alice@host"})
}

/// Waits until the layer shows this lock.
async fn until_locked(installation: &Installation, id: &str) {
    eventually(&format!("the lock {id}"), || installation.layer("a")["stateLock"]["id"] == id)
        .await;
}

#[tokio::test]
async fn lock_that_blocks_a_plan_is_shown_and_removed_only_by_its_own_id() {
    let backend = HttpBackend::start().await;
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    let mut installation = Installation::new();
    configure(&installation, &repository, &backend);
    backend.set_lock(Some(lock("of-alice")));
    installation.serve(&[]).await;
    until_locked(&installation, "of-alice").await;

    let layer = installation.layer("a");
    assert_eq!(layer["phase"], "Blocked", "{layer}");
    let reasons = layer["reasons"].to_string();
    for part in [
        "the state is locked (id of-alice;",
        "`butler-runner layer unlock a --state-lock of-alice` removes the lock",
    ] {
        assert!(reasons.contains(part), "{reasons}");
    }
    let id = installation.runs("a")[0]["id"].as_str().unwrap().to_owned();
    for shown in [&["layer", "show", "a"][..], &["run", "show", &id]] {
        let shown = text(&installation.ask(shown));
        let row = shown.lines().find(|line| line.starts_with("state lock:"));
        assert!(row.is_some_and(|row| row.ends_with("id of-alice")), "{shown}");
    }

    let refused = installation.ask(&["layer", "unlock", "a", "--state-lock", "of-bob"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("another lock than `of-bob`"), "{}", text(&refused));
    assert_eq!(backend.lock(), Some(lock("of-alice")));

    let removed = installation.ask(&["layer", "unlock", "a", "--state-lock", "of-alice"]);
    assert!(removed.status.success(), "{}", text(&removed));
    installation.until("a", "Succeeded", 2).await;
    let run = &installation.runs("a")[0];
    let id = run["id"].as_str().unwrap();
    let expected = format!("run {id} removes the state lock, then plans");
    assert!(text(&removed).starts_with(&expected), "{}", text(&removed));
    assert_eq!((&run["cause"], &run["counts"]["add"]), (&"unlock".into(), &1.into()), "{run}");
    let log = text(&installation.ask(&["run", "logs", id]));
    assert!(log.contains("Removed the state lock `of-alice`"), "{log}");
    assert_eq!(backend.lock(), None);
    eventually("no lock", || installation.layer("a")["stateLock"].is_null()).await;
}

#[tokio::test]
async fn lock_of_a_holder_that_came_after_the_report_stays() {
    let backend = HttpBackend::start().await;
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    let mut installation = Installation::new();
    configure(&installation, &repository, &backend);
    backend.set_lock(Some(lock("of-alice")));
    installation.serve(&[]).await;
    until_locked(&installation, "of-alice").await;

    backend.set_lock(Some(lock("of-bob")));
    let asked = installation.ask(&["layer", "unlock", "a", "--state-lock", "of-alice"]);
    assert!(asked.status.success(), "{}", text(&asked));
    until_locked(&installation, "of-bob").await;
    assert_eq!(backend.lock(), Some(lock("of-bob")));
    let run = &installation.runs("a")[0];
    assert_eq!((&run["cause"], &run["phase"]), (&"unlock".into(), &"Failed".into()), "{run}");
    let log = text(&installation.ask(&["run", "logs", run["id"].as_str().unwrap()]));
    let expected = "the state lock `of-alice` is not removed, because another one is held";
    assert!(log.contains(expected), "{log}");
}
