//! The state for each end that a Job can have.

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T10:00:00Z";
const LONG_AGO: &str = "2026-01-01T09:00:00Z";
const JUST_NOW: &str = "2026-01-01T09:59:50Z";

fn job(conditions: &[(&str, &str)]) -> Job {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(type_, reason)| {
            let at = LONG_AGO;
            json!({"type": type_, "status": "True", "reason": reason, "lastTransitionTime": at})
        })
        .collect();
    let job = json!({
        "metadata": {"creationTimestamp": LONG_AGO},
        "status": {"active": 1, "conditions": conditions},
    });
    serde_json::from_value(job).unwrap()
}

fn pod(status: &Value) -> Pod {
    let pod =
        json!({"metadata": {}, "spec": {"containers": [], "nodeName": "n1"}, "status": status});
    serde_json::from_value(pod).unwrap()
}

fn container(state: &Value) -> Value {
    json!([{
        "name": "runner", "image": "", "imageID": "", "ready": state["running"].is_object(),
        "restartCount": 0, "state": state,
    }])
}

fn waiting(reason: &str) -> Pod {
    let state = json!({"waiting": {"reason": reason, "message": "m"}});
    pod(&json!({"phase": "Pending", "containerStatuses": container(&state)}))
}

fn running(conditions: &Value) -> Pod {
    let state = json!({"running": {}});
    pod(&json!({
        "phase": "Running", "conditions": conditions, "containerStatuses": container(&state),
    }))
}

fn ended(code: i32, reason: &str, at: &str) -> Pod {
    let state = json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}});
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    pod(&json!({"phase": phase, "containerStatuses": container(&state)}))
}

fn state(job: Option<&Job>, pod: Option<&Pod>) -> JobState {
    let pods: Vec<Pod> = pod.cloned().into_iter().collect();
    state_of(job, &pods, NOW.parse().unwrap())
}

fn failure_at(job: &Job, pod: Option<&Pod>) -> JobFailure {
    match state(Some(job), pod) {
        JobState::Ended(end) => end.failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn job_waits_until_its_runner_begins() {
    let since = LONG_AGO.parse().unwrap();
    for (pod, why) in [
        (None, None),
        (Some(waiting("ContainerCreating")), None),
        (Some(waiting("ErrImagePull")), Some("ErrImagePull: m".to_owned())),
    ] {
        let expected = JobState::Waiting(JobWait { since, why });
        let mut job = job(&[]);
        if pod.is_none() {
            job.status = None;
        }
        assert_eq!(state(Some(&job), pod.as_ref()), expected);
    }
    assert_eq!(state(Some(&job(&[])), Some(&running(&json!([])))), JobState::Running);
    assert_eq!(state(None, None), JobState::Missing);
}

#[test]
fn wait_that_is_over_has_a_class() {
    for (why, expected) in [
        ("ErrImagePull: not found", JobFailure::Image),
        ("ImagePullBackOff: not found", JobFailure::Image),
        ("CreateContainerConfigError: secret \"x\" not found", JobFailure::Setup),
        ("FailedMount: secret \"x\" not found", JobFailure::Setup),
        ("FailedCreate: exceeded quota", JobFailure::Quota),
        ("Unschedulable: 0/3 nodes are available", JobFailure::NoRoom),
    ] {
        let wait = JobWait { since: Timestamp::UNIX_EPOCH, why: Some(why.to_owned()) };
        assert_eq!(wait.failure(), expected, "{why}");
    }
}

#[test]
fn pod_on_a_node_that_does_not_answer_may_still_run() {
    let silent = running(&json!([{"type": "Ready", "status": "False"}]));
    let expected = JobState::Silent { node: "n1".to_owned() };
    assert_eq!(state(Some(&job(&[])), Some(&silent)), expected);
    // Also if its Job is to end, or is gone.
    let deadline = job(&[("FailureTarget", "DeadlineExceeded")]);
    assert_eq!(state(Some(&deadline), Some(&silent)), expected);
    assert_eq!(state(None, Some(&silent)), expected);
}

#[test]
fn each_end_has_a_class() {
    let failed = |reason: &str| job(&[("Failed", reason)]);
    let limit = failed("BackoffLimitExceeded");
    let memory = ended(137, "OOMKilled", LONG_AGO);
    assert_eq!(failure_at(&limit, Some(&memory)), JobFailure::OutOfMemory);
    let stopped = ended(143, "Error", LONG_AGO);
    let deadline = failed("DeadlineExceeded");
    assert_eq!(failure_at(&deadline, Some(&stopped)), JobFailure::Deadline);
    assert_eq!(failure_at(&deadline, None), JobFailure::Deadline);
    let evicted = pod(&json!({"phase": "Failed", "reason": "Evicted", "message": "disk"}));
    assert_eq!(failure_at(&failed("PodFailurePolicy"), Some(&evicted)), JobFailure::Evicted);
    let target = |reason: &str| {
        let condition = json!([{"type": "DisruptionTarget", "status": "True", "reason": reason}]);
        pod(&json!({"phase": "Failed", "conditions": condition}))
    };
    let policy = failed("PodFailurePolicy");
    for (reason, expected) in [
        ("EvictionByEvictionAPI", JobFailure::Evicted),
        ("PreemptionByScheduler", JobFailure::Evicted),
        ("TerminationByKubelet", JobFailure::Evicted),
        ("DeletionByPodGC", JobFailure::NodeLost),
        ("DeletionByTaintManager", JobFailure::NodeLost),
    ] {
        assert_eq!(failure_at(&policy, Some(&target(reason))), expected, "{reason}");
    }
    // The node and its pod are gone.
    assert_eq!(failure_at(&policy, None), JobFailure::NodeLost);
    let rejected = pod(&json!({"phase": "Failed", "reason": "OutOfcpu"}));
    assert_eq!(failure_at(&limit, Some(&rejected)), JobFailure::NoRoom);
    assert_eq!(failure_at(&limit, Some(&ended(1, "Error", LONG_AGO))), JobFailure::Ended);
    let complete = job(&[("Complete", "CompletionsReached")]);
    assert_eq!(failure_at(&complete, Some(&ended(0, "Completed", LONG_AGO))), JobFailure::Ended);
}

#[test]
fn reason_of_the_jobs_controller_is_waited_for() {
    let state = |at: &str| state(Some(&job(&[])), Some(&ended(1, "Error", at)));
    assert_eq!(state(JUST_NOW), JobState::Running);
    assert!(matches!(state(LONG_AGO), JobState::Ended(_)));
}

#[test]
fn missing_claim_or_account_is_no_question_of_room_or_quota() {
    for (why, expected) in [
        ("Unschedulable: persistentvolumeclaim \"cache\" not found", JobFailure::Setup),
        (
            "FailedCreate: Error creating: pods \"a\" is forbidden: error looking up service account \
             runs/tf: serviceaccount \"tf\" not found",
            JobFailure::Setup,
        ),
        ("FailedCreate: Error creating: exceeded quota: runs", JobFailure::Quota),
        ("FailedCreatePodSandBox: failed to set up network", JobFailure::NoRoom),
    ] {
        let wait = JobWait { since: Timestamp::UNIX_EPOCH, why: Some(why.to_owned()) };
        assert_eq!(wait.failure(), expected, "{why}");
    }
}

#[test]
fn job_whose_pod_has_just_vanished_does_not_wait_for_its_begin() {
    let mut job = Job::default();
    assert!(matches!(state_of(Some(&job), &[], Timestamp::now()), JobState::Waiting(_)));
    job.status = Some(k8s_openapi::api::batch::v1::JobStatus {
        active: Some(1),
        ..k8s_openapi::api::batch::v1::JobStatus::default()
    });
    assert_eq!(state_of(Some(&job), &[], Timestamp::now()), JobState::Running);
    job.metadata.deletion_timestamp = Some(Time(Timestamp::now()));
    assert_eq!(state_of(Some(&job), &[], Timestamp::now()), JobState::Missing);
}
