//! Jobs that a server finds again: after a restart, beside another server, and across broken watches.

use butler_testing::{PASSWORD, Postgres};

use super::*;
use butler_testing::api_server::FaultEffect;

#[tokio::test]
async fn job_outlives_a_killed_server_and_is_found_again() {
    let (mut site, backend) = Site::with_held_plan("strategy: plan-only").await;
    site.installation.kill().await;
    // The plan ends while no server runs; its runner sends its reports until one takes them.
    backend.release();
    site.start().await;
    site.installation.until("a", "Succeeded", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1, "{run}");
    let log = site.log(&run);
    assert!(log.contains("Plan: 1 to add, 0 to change, 0 to destroy."), "{log}");
    assert_eq!(log.matches("Terraform used the selected providers").count(), 1, "{log}");
    assert_eq!(site.cluster.all("jobs").len(), 1);
}

#[tokio::test]
async fn job_that_ended_while_no_server_ran_is_not_left_open() {
    let (mut site, _backend) = Site::with_held_plan("strategy: plan-only, retries: {max: 1}").await;
    site.installation.kill().await;
    site.cluster.course(PodCourse::OutOfMemory);
    site.until_the_job_has_failed().await;
    site.start().await;
    site.installation.until("a", "Failed", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(of(&run), OUT_OF_MEMORY, "{run}");
}

#[tokio::test]
async fn server_that_looks_into_another_namespace_does_not_take_jobs_for_gone() {
    let (mut site, backend) = Site::with_held_plan("strategy: plan-only").await;
    site.installation.kill().await;
    // It looks for all attempts before it is ready.
    site.start_with(&["--job-namespace", "elsewhere"]).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(run["attempts"][0]["ended"], Value::Null, "{run}");
    assert_ne!(site.installation.layer("a")["lease"], Value::Null);
    let log = std::fs::read_to_string(site.installation.path("server.log")).unwrap();
    assert!(log.contains("is in the namespace `runs` of https://127.0.0.1:"), "{log}");
    site.installation.kill().await;
    backend.release();
    site.start().await;
    site.installation.until("a", "Succeeded", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1, "{run}");
}

#[tokio::test]
async fn job_that_was_left_without_its_token_is_deleted_and_the_run_started_again() {
    let mut site = Site::new(LAYER, "strategy: plan-only").await;
    let away = FaultEffect::Status(503, "ServiceUnavailable", "etcd is away");
    site.cluster.faults("POST", "/secrets", away, usize::MAX);
    site.start().await;
    eventually("a Job", || site.cluster.all("jobs").len() == 1).await;
    site.installation.kill().await;
    site.cluster.heal();
    site.start().await;
    site.installation.until("a", "Succeeded", 1).await;
    let run = site.installation.runs("a").remove(0);
    let outcomes = run["attempts"].as_array().unwrap();
    let outcomes: Vec<_> = outcomes.iter().map(|it| it["outcome"].as_str()).collect();
    assert_eq!(
        outcomes,
        [Some("the objects of its Job were not all created"), Some("succeeded")],
        "{run}"
    );
    assert_eq!(site.cluster.all("jobs").len(), 1);
}

#[tokio::test]
async fn second_server_with_the_same_store_leaves_the_jobs_of_the_first_one_alone() {
    let backend = HeldBackend::start().await;
    let postgres = Postgres::start();
    let mut site = Site::new(&backend.module(), "strategy: plan-only").await;
    let store = format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/postgres", postgres.port());
    let store = ["--store", &store];
    let mut other = site.beside();
    let port = HeldPort::new();
    let url = format!("https://127.0.0.1:{}", port.port());
    let login = format!("KUBECONFIG={}", other.path("kubeconfig").display());
    let words = ["--executor", "kubernetes", "--attempt-url", &url, store[0], store[1]];
    site.cluster.course(PodCourse::Unschedulable);
    site.start_with(&store).await;
    eventually("a Job that waits", || site.reasons().contains("has not begun")).await;
    // The other one is told about all Jobs and pods as soon as it watches them.
    let watches = || site.cluster.requests().iter().filter(|it| it.contains("watch=")).count();
    let before = watches();
    other.serve_behind(&["env", &login], &words.map(str::to_owned)).await;
    eventually("the watches of the other server", || watches() >= before + 2).await;
    assert!(other.ask(&["layer", "sync", "a"]).status.success());
    site.cluster.course(PodCourse::Run);
    backend.wait_for_request().await;
    backend.release();
    site.installation.until("a", "Succeeded", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1, "{run}");
    assert_eq!(site.cluster.all("jobs").len(), 1);
    assert_eq!(other.terminate().await, Some(0));
}

#[tokio::test]
async fn runner_that_has_begun_is_not_ended_because_its_node_does_not_say_so() {
    let backend = HeldBackend::start().await;
    let layer = "strategy: plan-only, job: {start-timeout: 12s}";
    let mut site = Site::new(&backend.module(), layer).await;
    site.cluster.course(PodCourse::Unseen);
    // No event makes the server look.
    site.cluster.hold_events(true);
    site.start().await;
    backend.wait_for_request().await;
    // After its creation, ten seconds later, and after the limit.
    eventually("looks at the Job", || site.requests("GET") >= 3).await;
    backend.release();
    site.installation.until("a", "Succeeded", 1).await;
    assert_eq!(site.requests("DELETE"), 0);
    let run = site.installation.runs("a").remove(0);
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1, "{run}");
}

/// The server hears of the end late, more than once, and from a list instead of a watch.
#[tokio::test]
async fn end_of_a_job_is_recorded_once_if_its_watch_breaks_and_expires() {
    let backend = HeldBackend::start().await;
    let layer = "strategy: plan-only, retries: {max: 1}";
    let mut site = Site::new(&backend.module(), layer).await;
    site.cluster.repeat_events();
    site.cluster.hold_events(true);
    site.start().await;
    backend.wait_for_request().await;
    // The server looks after the creation, and ten seconds later. From then on, it depends on its watch.
    eventually("the last look without a watch", || site.requests("GET") >= 2).await;
    site.cluster.course(PodCourse::OutOfMemory);
    backend.release();
    site.until_the_job_has_failed().await;
    site.cluster.forget_history();
    site.cluster.break_watches();
    site.cluster.hold_events(false);
    // A server without a watch asks when the attempt has been silent for a minute.
    let noticed = site.installation.until("a", "Failed", 1);
    let noticed = tokio::time::timeout(std::time::Duration::from_secs(30), noticed).await;
    noticed.expect("the watch tells of the end");
    // The list tells of the first Job again while the second one runs.
    site.cluster.forget_history();
    site.cluster.break_watches();
    let run = site.plan(PodCourse::Run, 2).await;
    assert_eq!(run["phase"], "Succeeded", "{run}");
    for (run, outcome) in site.installation.runs("a").iter().zip(["succeeded", OUT_OF_MEMORY]) {
        assert_eq!((of(run), run["attempts"].as_array().unwrap().len()), (outcome, 1), "{run}");
    }
}
