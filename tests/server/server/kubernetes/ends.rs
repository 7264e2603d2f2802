//! How attempts end whose Job the cluster ends, does not start, or does not take.

use std::collections::BTreeSet;

use super::*;
use butler_testing::api_server::FaultEffect;
use butler_testing::linters::yaml;

/// What the Role of `generate server` allows: verbs with resources.
fn allowed() -> BTreeSet<String> {
    let printed = runner().args(["generate", "server"]).output().unwrap();
    let objects = yaml(&String::from_utf8(printed.stdout).unwrap());
    let role = objects.into_iter().find(|object| object["kind"] == "Role").unwrap();
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let rules = role["rules"].as_array().unwrap().iter();
    let pairs = rules.flat_map(|rule| {
        let resources = texts(&rule["resources"]);
        texts(&rule["verbs"]).into_iter().flat_map(move |verb| {
            resources.clone().into_iter().map(move |it| format!("{verb} {it}"))
        })
    });
    pairs.collect()
}

/// What these requests needed.
fn needed(requests: &[String]) -> BTreeSet<String> {
    let pair = |request: &String| {
        let (method, url) = request.split_once(' ').unwrap();
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let mut parts = path.split("/namespaces/").nth(1).unwrap().split('/').skip(1);
        let (resource, name) = (parts.next().unwrap(), parts.next());
        let verb = match (method, name) {
            ("POST", _) => "create",
            ("DELETE", _) => "delete",
            ("GET", Some(_)) => "get",
            ("GET", None) if query.contains("watch=") => "watch",
            ("GET", None) => "list",
            _ => panic!("{request}"),
        };
        format!("{verb} {resource}")
    };
    requests.iter().map(pair).collect()
}

/// Lets the cluster end the Job of a plan that waits in its backend. Its outcome and its log say why.
async fn ends(course: PodCourse, outcome: &str, line: &str) {
    let (site, backend) = Site::with_held_plan("strategy: plan-only, retries: {max: 1}").await;
    site.cluster.course(course);
    // Terraform ends after a signal only when its backend has answered.
    backend.release();
    site.installation.until("a", "Failed", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(of(&run), outcome, "{run}");
    eventually("the reason", || site.reasons().contains(outcome)).await;
    // In the words of the cluster, and what can be done about it.
    eventually("the cluster's words", || site.reasons().contains(line)).await;
    let log = site.log(&run);
    assert!(log.lines().last().is_some_and(|last| last.contains(line)), "{log}");
    site.installation.until_free("a").await;
}

#[tokio::test]
async fn job_without_enough_memory_says_so() {
    let line = "the container was out of memory (OOMKilled)";
    ends(PodCourse::OutOfMemory, OUT_OF_MEMORY, line).await;
}

#[tokio::test]
async fn job_without_enough_memory_says_so_also_if_the_container_was_not_told() {
    let line =
        "the container or its node was out of memory; increase `memory` of the layer's `job`";
    ends(PodCourse::Killed, OUT_OF_MEMORY, line).await;
}

#[tokio::test]
async fn job_whose_terraform_was_killed_for_its_memory_says_so() {
    let line =
        "a process of its own was killed because the container was out of memory (OOMKilled)";
    ends(PodCourse::ChildOutOfMemory, OUT_OF_MEMORY, line).await;
}

#[tokio::test]
async fn apply_without_enough_memory_is_not_planned_and_applied_again() {
    let backend = HttpBackend::start().await;
    let directory = tempfile::tempdir().unwrap();
    let begun = directory.path().join("begun");
    let module = format!(
        "resource \"terraform_data\" \"one\" {{
  provisioner \"local-exec\" {{
    command = \"touch {} && sleep 600\"
  }}
}}
",
        begun.display()
    );
    let state = backend.config();
    let layer = format!("strategy: auto, backend: {{type: http, config: {state}}}");
    let mut site = Site::new(&module, &layer).await;
    site.start().await;
    eventually("an apply that has begun", || begun.exists()).await;
    site.cluster.course(PodCourse::OutOfMemory);
    site.installation.until("a", "Failed", 2).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!((&run["action"], of(&run)), (&"apply".into(), OUT_OF_MEMORY), "{run}");
    eventually("the reason", || site.reasons().contains("it is not planned again by itself")).await;
    let layer = site.installation.layer("a");
    assert_eq!((&layer["phase"], &layer["nextLook"]), (&"Failed".into(), &Value::Null), "{layer}");
    assert!(site.reasons().contains("increase `memory` of the layer's `job`"), "{layer}");
}

#[tokio::test]
async fn job_whose_pod_is_evicted_says_so() {
    ends(PodCourse::Evicted, "its pod was evicted from the node", "ephemeral-storage").await;
}

#[tokio::test]
async fn job_whose_node_is_lost_says_so() {
    ends(PodCourse::NodeLost, "the node of its pod was lost", "DisruptionTarget").await;
}

#[tokio::test]
async fn job_that_exceeds_its_deadline_says_so() {
    ends(PodCourse::Deadline, "its Job was active for longer than its deadline", "deadline").await;
}

#[tokio::test]
async fn pod_that_cannot_begin_is_a_reason_of_its_layer_and_has_a_limit() {
    let layer = "strategy: plan-only, retries: {max: 1}, job: {start-timeout: 6s}";
    let mut site = Site::new(LAYER, layer).await;
    site.start().await;
    site.installation.until("a", "Succeeded", 1).await;
    for (number, (course, outcome, sentence)) in [
        (PodCourse::NoImage, "its image could not be pulled", "failed to pull and unpack"),
        (PodCourse::NoSecret, "an object that its pod needs is missing", "secret \\\"git-token"),
        (PodCourse::Unschedulable, "no node had room for its pod", "3 Insufficient memory"),
    ]
    .into_iter()
    .enumerate()
    {
        site.cluster.course(course);
        assert!(site.installation.ask(&["layer", "plan", "a"]).status.success());
        eventually(&format!("the reason of {course:?}"), || {
            let reasons = site.reasons();
            reasons.contains("the pod of the attempt has not begun") && reasons.contains(sentence)
        })
        .await;
        site.installation.until("a", "Failed", number + 2).await;
        let run = site.installation.runs("a").remove(0);
        assert!(of(&run).starts_with(outcome), "{run}");
        let log = site.log(&run);
        assert!(log.contains("the pod did not begin within 6s: "), "{log}");
        // The reason names what was missing.
        eventually("the reason", || {
            let reasons = site.reasons();
            reasons.contains("did not begin within") && reasons.contains(sentence)
        })
        .await;
        // The Job of the attempt is deleted, so its pod cannot begin later.
        let name = |job: &Value| job["metadata"]["annotations"]["butler.dev/run-id"].clone();
        let id = format!("{}-1", run["id"].as_str().unwrap());
        assert!(site.cluster.all("jobs").iter().all(|job| name(job) != *id), "{id}");
    }
    site.cluster.course(PodCourse::Quota);
    let run = site.plan(PodCourse::Quota, 5).await;
    assert_eq!(of(&run), "a quota or an admission rule did not allow its pod", "{run}");
    let log = site.log(&run);
    assert!(log.contains("exceeded quota: runs"), "{log}");
    // Afterwards, the layer is planned as ever.
    let run = site.plan(PodCourse::Run, 6).await;
    assert_eq!(run["phase"], "Succeeded", "{run}");
    // All of that is what the Role of an installation allows, and the Role allows no more.
    assert_eq!(needed(&site.cluster.requests()), allowed());
}

#[tokio::test]
async fn api_server_that_refuses_jobs_fails_the_attempt_and_one_that_is_away_is_waited_for() {
    let layer = "strategy: plan-only, retries: {max: 1}, job: {start-timeout: 10s}";
    let mut site = Site::new(LAYER, layer).await;
    let denied = FaultEffect::Status(403, "Forbidden", "User \"server\" cannot create resource");
    site.cluster.faults("POST", "/jobs", denied, 1);
    site.start().await;
    site.installation.until("a", "Failed", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(of(&run), "the cluster does not allow the server to create Jobs", "{run}");
    let log = site.log(&run);
    assert!(log.contains("no permission to `create` `jobs.batch`"), "{log}");

    let away = FaultEffect::Status(503, "ServiceUnavailable", "etcd is away");
    site.cluster.faults("POST", "/jobs", away, 2);
    let run = site.plan(PodCourse::Run, 2).await;
    assert_eq!(run["phase"], "Succeeded", "{run}");
}

#[tokio::test]
async fn cancelled_plan_deletes_its_job_and_keeps_its_log() {
    let backend = HeldBackend::start().await;
    let module = backend.reading_module();
    let mut site = Site::new(&module, "strategy: plan-only").await;
    site.start().await;
    backend.wait_for_request().await;
    site.installation.until("a", "ClosingOut", 1).await;
    let run = site.installation.runs("a").remove(0);
    let cancelled = site.installation.ask(&["run", "cancel", run["id"].as_str().unwrap()]);
    assert!(cancelled.status.success(), "{}", text(&cancelled));
    eventually("Terraform's interruption", || site.log(&run).contains("Interrupt received")).await;
    backend.release();
    site.installation.until("a", "Skipped", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(run["ended"], "cancelled", "{run}");
    assert!(site.log(&run).contains("Gracefully shutting down"));
    eventually("no Job", || site.cluster.objects() == 0).await;
}

#[tokio::test]
async fn plan_whose_job_cannot_be_created_yet_is_cancelled_at_once() {
    let mut site = Site::new(LAYER, "strategy: plan-only").await;
    let denied = FaultEffect::Status(403, "Forbidden", "User \"server\" cannot create resource");
    site.cluster.faults("POST", "/jobs", denied, usize::MAX);
    site.start().await;
    eventually("a Job that is refused", || site.reasons().contains("no permission")).await;
    let run = site.installation.runs("a").remove(0);
    let cancelled = site.installation.ask(&["run", "cancel", run["id"].as_str().unwrap()]);
    assert!(cancelled.status.success(), "{}", text(&cancelled));
    site.installation.until("a", "Skipped", 1).await;
    site.installation.until_free("a").await;
    assert_eq!(site.cluster.objects(), 0);
}
