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

/// A pod whose runner has ended like this, with the rest of its status.
fn ended_with(code: i32, reason: &str, rest: &Value) -> Pod {
    let mut pod = ended(code, reason, LONG_AGO);
    let mut status = serde_json::to_value(pod.status.take()).unwrap();
    status.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    pod.status = Some(serde_json::from_value(status).unwrap());
    pod
}

/// A pod whose cluster removes it for this reason.
fn target(reason: &str) -> Value {
    json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]})
}

/// The record of a Job that has ended, or that waits for too long.
fn class(job: &Job, pod: Option<&Pod>) -> JobFailure {
    match state(Some(job), pod) {
        JobState::Ended(end) => end.failure,
        JobState::Waiting(wait) => wait.failure(),
        other => panic!("{other:?}"),
    }
}

/// The rows of the table of failures in docs/server-kubernetes.md that a Job or its pod can cause, in its order, each with
/// the shapes that clusters give it.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_row_of_the_documented_table_has_its_class() {
    let failed = |reason: &str| job(&[("Failed", reason)]);
    let (open, limit) = (job(&[]), failed("BackoffLimitExceeded"));
    let (deadline, policy) = (failed("DeadlineExceeded"), failed("PodFailurePolicy"));
    let ends = job(&[("FailureTarget", "DeadlineExceeded")]);
    let status = |status: Value| Some(pod(&status));
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
    let deleted = {
        let mut pod = ended(137, "Error", LONG_AGO);
        pod.metadata.deletion_timestamp = Some(Time(LONG_AGO.parse().unwrap()));
        pod
    };
    for (what, job, pod, expected) in vec![
        ("no image", &open, Some(waiting("ImagePullBackOff")), JobFailure::Image),
        (
            "no image until the deadline",
            &deadline,
            Some(waiting("ErrImagePull")),
            JobFailure::Image,
        ),
        ("no Secret", &open, Some(waiting("CreateContainerConfigError")), JobFailure::Setup),
        (
            "no Secret until the deadline",
            &deadline,
            Some(waiting("CreateContainerConfigError")),
            JobFailure::Setup,
        ),
        (
            "no node has the resources",
            &limit,
            status(json!({"phase": "Failed", "reason": "OutOfcpu"})),
            JobFailure::NoRoom,
        ),
        (
            "no node has the memory",
            &limit,
            status(json!({"phase": "Failed", "reason": "OutOfmemory"})),
            JobFailure::NoRoom,
        ),
        // The kernel kills the whole container: cgroups v2, and process 1 with cgroups v1.
        (
            "memory, the container",
            &limit,
            Some(ended(137, "OOMKilled", LONG_AGO)),
            JobFailure::OutOfMemory,
        ),
        (
            "memory, before the Job says so",
            &open,
            Some(ended(137, "OOMKilled", LONG_AGO)),
            JobFailure::OutOfMemory,
        ),
        // The kernel kills a child, and the runner ends by itself: cgroups v1, and v2 with `singleProcessOOMKill`.
        ("memory, a child", &limit, Some(ended(1, "OOMKilled", LONG_AGO)), JobFailure::OutOfMemory),
        // The container's runtime has missed the event, or the whole node was out of memory.
        ("memory, missed", &limit, Some(ended(137, "Error", LONG_AGO)), JobFailure::OutOfMemory),
        (
            "memory, missed, no reason",
            &limit,
            Some(ended(137, "", LONG_AGO)),
            JobFailure::OutOfMemory,
        ),
        ("evicted before it began", &policy, Some(pod(&evicted)), JobFailure::Evicted),
        ("evicted, killed", &policy, Some(ended_with(137, "Error", &evicted)), JobFailure::Evicted),
        ("evicted, ended", &policy, Some(ended_with(143, "Error", &evicted)), JobFailure::Evicted),
        (
            "evicted, without a policy",
            &limit,
            Some(ended_with(137, "Error", &evicted)),
            JobFailure::Evicted,
        ),
        (
            "evicted, unknown",
            &policy,
            Some(ended_with(137, "ContainerStatusUnknown", &evicted)),
            JobFailure::Evicted,
        ),
        ("drained", &policy, status(target("EvictionByEvictionAPI")), JobFailure::Evicted),
        ("preempted", &policy, status(target("PreemptionByScheduler")), JobFailure::Evicted),
        (
            "preempted by the kubelet",
            &policy,
            status(json!({"phase": "Failed", "reason": "Preempting"})),
            JobFailure::Evicted,
        ),
        (
            "the node shuts down",
            &policy,
            Some(ended_with(143, "Error", &target("TerminationByKubelet"))),
            JobFailure::Evicted,
        ),
        ("the node is gone", &policy, status(target("DeletionByPodGC")), JobFailure::NodeLost),
        (
            "the node is tainted",
            &policy,
            status(target("DeletionByTaintManager")),
            JobFailure::NodeLost,
        ),
        (
            "the node is lost",
            &limit,
            status(json!({"phase": "Failed", "reason": "NodeLost"})),
            JobFailure::NodeLost,
        ),
        ("the node and its pod are gone", &policy, None, JobFailure::NodeLost),
        ("deadline, ended", &deadline, Some(ended(143, "Error", LONG_AGO)), JobFailure::Deadline),
        (
            "deadline, killed after its grace period",
            &deadline,
            Some(ended(137, "Error", LONG_AGO)),
            JobFailure::Deadline,
        ),
        (
            "deadline, the Job ends",
            &ends,
            Some(ended(143, "Error", LONG_AGO)),
            JobFailure::Deadline,
        ),
        ("deadline, no pod", &deadline, None, JobFailure::Deadline),
        (
            "deadline of the pod",
            &limit,
            status(json!({"phase": "Failed", "reason": "DeadlineExceeded"})),
            JobFailure::Deadline,
        ),
        (
            "deadline of the pod, killed",
            &limit,
            Some(ended_with(137, "Error", &json!({"reason": "DeadlineExceeded"}))),
            JobFailure::Deadline,
        ),
        ("no report", &limit, Some(ended(1, "Error", LONG_AGO)), JobFailure::Ended),
        ("no report, killed because it was deleted", &limit, Some(deleted), JobFailure::Ended),
        (
            "no report of a success",
            &job_complete(),
            Some(ended(0, "Completed", LONG_AGO)),
            JobFailure::Ended,
        ),
        (
            "no report, unknown",
            &limit,
            Some(ended(137, "ContainerStatusUnknown", LONG_AGO)),
            JobFailure::Ended,
        ),
    ] {
        assert_eq!(class(job, pod.as_ref()), expected, "{what}");
    }
}

fn job_complete() -> Job {
    job(&[("Complete", "CompletionsReached")])
}

#[test]
fn summary_of_a_container_without_memory_says_so() {
    let limit = job(&[("Failed", "BackoffLimitExceeded")]);
    for (code, reason) in [(137, "OOMKilled"), (1, "OOMKilled"), (137, "Error"), (137, "")] {
        let JobState::Ended(end) = state(Some(&limit), Some(&ended(code, reason, LONG_AGO))) else {
            panic!("{code} {reason}");
        };
        assert!(end.summary.contains("out of memory"), "{}", end.summary);
        assert_eq!(end.failure.advice(), Some("increase `memory` of the layer's `job`"));
    }
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
