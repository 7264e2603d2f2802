//! Runs that a person cancels.

use super::faults::HeldBackend;
use super::*;

#[tokio::test]
async fn cancelled_plan_ends_its_process_and_keeps_its_log() {
    let mut installation = Installation::new();
    let backend = HeldBackend::start().await;
    let repository = Repository::create(&[("envs/a/main.tf", &backend.reading_module())]);
    installation.serve(&Installation::quick_start(&repository)).await;
    backend.wait_for_request().await;
    installation.until("envs.a", "ClosingOut", 1).await;
    let id = installation.runs("envs.a")[0]["id"].as_str().unwrap().to_owned();

    let cancelled = installation.json(&["run", "cancel", &id]);
    assert_eq!(cancelled["cancelling"], true, "{cancelled}");
    let log = || text(&installation.ask(&["run", "logs", &id]));
    eventually("Terraform's interruption", || log().contains("Interrupt received")).await;
    assert_eq!(installation.json(&["run", "show", &id])["cancelling"], true);
    backend.release();
    installation.until("envs.a", "Skipped", 1).await;
    let run = installation.json(&["run", "show", &id]);
    assert_eq!((&run["ended"], &run["cancelling"]), (&"cancelled".into(), &false.into()));
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1);
    let log = log();
    assert!(log.contains("Gracefully shutting down"), "{log}");

    // Nothing of the attempt is left, and others can use the state.
    let directory = attempts(&installation.data()).remove(0);
    eventually("the end of the processes", || !directory.join("home").exists()).await;
    installation.until_free("envs.a").await;
    let list = text(&installation.ask(&["layer", "list"]));
    assert!(list.contains("the plan was cancelled; `layer plan` plans again"), "{list}");
    let again = installation.ask(&["run", "cancel", &id]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again).contains("is over"), "{}", text(&again));

    assert!(installation.ask(&["layer", "plan", "envs.a"]).status.success());
    eventually("another plan", || {
        let runs = installation.runs("envs.a");
        runs.len() == 2 && !runs[0]["attempts"].as_array().unwrap().is_empty()
    })
    .await;
}

#[tokio::test]
async fn run_that_waits_is_cancelled_without_a_process() {
    let mut installation = Installation::new();
    let backend = HeldBackend::start().await;
    let repository =
        Repository::create(&[("envs/a/main.tf", &backend.module()), ("envs/b/main.tf", LAYER)]);
    let mut arguments = Installation::quick_start(&repository);
    arguments.extend(["--concurrency".to_owned(), "1".to_owned()]);
    installation.serve(&arguments).await;
    backend.wait_for_request().await;
    eventually("a run that waits", || installation.runs("envs.b").len() == 1).await;
    let run = installation.runs("envs.b")[0].clone();
    let id = run["id"].as_str().unwrap();
    let cancelled = installation.ask(&["run", "cancel", id, "--wait"]);
    assert!(cancelled.status.success(), "{}", text(&cancelled));
    assert!(text(&cancelled).contains(&format!("run {id} is cancelled")), "{}", text(&cancelled));
    backend.release();
    eventually("a layer with a cancelled run", || {
        let layer = installation.layer("envs.b");
        layer["reasons"][0]["text"].as_str().unwrap_or_default().contains("was cancelled")
    })
    .await;
    assert_eq!(attempts(&installation.data()).len(), 1);
}
