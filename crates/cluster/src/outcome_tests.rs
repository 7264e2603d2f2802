//! The outcome for each end that a Job and its pod can have.

use serde_json::{Value, json};

use super::*;

fn job(condition: Option<(&str, &str, &str)>) -> ObservedObject<Job> {
    let conditions: Vec<Value> = condition
        .into_iter()
        .map(|(type_, reason, message)| {
            json!({"type": type_, "status": "True", "reason": reason, "message": message})
        })
        .collect();
    let job = json!({"metadata": {}, "status": {"conditions": conditions}});
    ObservedObject::There(Box::new(serde_json::from_value(job).unwrap()))
}

fn pod(status: &Value) -> Box<Pod> {
    Box::new(serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap())
}

fn terminated(code: i32, reason: &str) -> Value {
    json!({
        "phase": if code == 0 { "Succeeded" } else { "Failed" },
        "containerStatuses": [{
            "name": "runner", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "reason": reason}},
        }],
    })
}

fn outcome_of(job: &ObservedObject<Job>, pod: &ObservedObject<Pod>) -> (u8, String) {
    match verdict(job, pod, &RunHistory::default()) {
        Verdict::Open => panic!("open"),
        Verdict::Provisional(outcome) | Verdict::Final(outcome) => (outcome.code, outcome.summary),
    }
}

#[test]
fn outcome_has_the_runners_exit_code() {
    for (code, summary) in [
        (0, "the run succeeded"),
        (1, "the runner ended with exit code 1"),
        (3, "the runner ended with exit code 3"),
        (143, "the runner ended with exit code 143"),
    ] {
        let pod = ObservedObject::There(pod(&terminated(code, "Error")));
        let expected = (u8::try_from(code).unwrap(), summary.to_owned());
        assert_eq!(outcome_of(&job(None), &pod), expected);
    }
    let failed = ObservedObject::There(pod(&terminated(1, "Error")));
    assert!(matches!(
        verdict(&job(None), &failed, &RunHistory::default()),
        Verdict::Provisional(_)
    ));
    let limit = job(Some(("Failed", "BackoffLimitExceeded", "Job has reached the limit")));
    assert!(matches!(verdict(&limit, &failed, &RunHistory::default()), Verdict::Final(_)));
    assert_eq!(outcome_of(&limit, &failed).1, "the runner ended with exit code 1");
}

#[test]
fn outcome_contains_the_clusters_reason() {
    let deadline = job(Some((
        "FailureTarget",
        "DeadlineExceeded",
        "Job was active longer than specified deadline",
    )));
    let killed = ObservedObject::There(pod(&terminated(143, "Error")));
    assert_eq!(
        outcome_of(&deadline, &killed).1,
        "the runner ended with exit code 143: DeadlineExceeded: Job was active longer than specified deadline"
    );
    assert_eq!(
        outcome_of(&deadline, &ObservedObject::Nothing).1,
        "the run never began: DeadlineExceeded: Job was active longer than specified deadline"
    );
    let memory = ObservedObject::There(pod(&terminated(137, "OOMKilled")));
    let Verdict::Provisional(outcome) = verdict(&job(None), &memory, &RunHistory::default()) else {
        panic!()
    };
    assert_eq!(outcome.code, 137);
    assert_eq!(outcome.hint.unwrap(), "give it more with --memory");
    let evicted = json!({
        "phase": "Failed", "reason": "Evicted",
        "message": "The node was low on resource: ephemeral-storage.",
    });
    assert_eq!(
        outcome_of(&job(None), &ObservedObject::There(pod(&evicted))).1,
        "the pod was removed before the runner reported its result: Evicted: The node was low on resource: ephemeral-storage."
    );
    let lost = json!({"phase": "Running", "conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
    }], "containerStatuses": [{
        "name": "runner", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {}},
    }]});
    let gone = ObservedObject::Gone(pod(&lost));
    assert!(
        outcome_of(&job(None), &gone).1.ends_with("DeletionByPodGC: PodGC: node no longer exists")
    );
    let waiting = ObservedObject::Gone(pod(&json!({"phase": "Pending"})));
    assert_eq!(
        outcome_of(&deadline, &waiting).1,
        "the run never began: DeadlineExceeded: Job was active longer than specified deadline"
    );
}

/// The Job is over before the first state of its pod arrives.
#[test]
fn verdict_is_open_until_the_state_of_the_pod_is_known() {
    let ended = |type_: &str, status: Value| {
        let condition = json!([{"type": type_, "status": "True", "reason": "R"}]);
        let mut job = json!({"metadata": {}, "status": status});
        job["status"]["conditions"] = condition;
        ObservedObject::There(Box::new(serde_json::from_value(job).unwrap()))
    };
    let complete = ended("Complete", json!({"succeeded": 1}));
    assert_eq!(verdict(&complete, &ObservedObject::Unknown, &RunHistory::default()), Verdict::Open);
    assert_eq!(
        verdict(&complete, &ObservedObject::Nothing, &RunHistory::default()),
        Verdict::Provisional(succeeded())
    );
    let failed = verdict(
        &ended("Failed", json!({"failed": 1})),
        &ObservedObject::Nothing,
        &RunHistory::default(),
    );
    let Verdict::Provisional(outcome) = failed else { panic!("{failed:?}") };
    assert_eq!(outcome.code, 1);
    let never =
        verdict(&ended("Failed", json!({})), &ObservedObject::Nothing, &RunHistory::default());
    assert_eq!(never, Verdict::Final(never_began(Some("R"), &RunHistory::default())));
}

#[test]
fn completed_job_takes_precedence_over_an_older_state_of_its_pod() {
    let running = pod(&json!({"phase": "Running", "containerStatuses": [{
        "name": "runner", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {}},
    }]}));
    let complete = job(Some(("Complete", "CompletionsReached", "")));
    assert_eq!(
        verdict(&complete, &ObservedObject::Gone(running), &RunHistory::default()),
        Verdict::Final(succeeded())
    );
}

/// The runner created the Job, so a cluster without it has deleted it, even if no state of it was received.
#[test]
fn missing_job_was_deleted() {
    let Verdict::Provisional(outcome) =
        verdict(&ObservedObject::Nothing, &ObservedObject::Nothing, &RunHistory::default())
    else {
        panic!("it is waited for, and nothing comes")
    };
    assert_eq!(outcome.code, FAILED);
    assert!(outcome.summary.ends_with("is unknown: the Job was deleted"), "{outcome:?}");
    assert_eq!(
        verdict(&ObservedObject::Unknown, &ObservedObject::Nothing, &RunHistory::default()),
        Verdict::Open
    );
}

#[test]
fn run_never_began_if_the_node_rejected_its_pod() {
    let rejected = pod(&json!({
        "phase": "Failed", "reason": "OutOfmemory", "message": "Node didn't have enough resource",
    }));
    assert_eq!(
        outcome_of(&job(None), &ObservedObject::There(rejected)).1,
        "the run never began: OutOfmemory: Node didn't have enough resource"
    );
}

/// The state that a kubelet reports for a container that it does not know.
fn unknown(message: &str, id: &str) -> ObservedObject<Pod> {
    ObservedObject::There(pod(&json!({"phase": "Failed", "containerStatuses": [{
        "name": "runner", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "containerID": id, "state": {"terminated": {
            "exitCode": 137, "reason": "ContainerStatusUnknown", "message": message,
        }},
    }]})))
}

#[test]
fn run_never_began_if_its_container_was_never_started() {
    let located = "The container could not be located when the pod was terminated";
    let wait = "ErrImagePull: not found".to_owned();
    let seen = RunHistory { has_run: false, wait: Some(wait) };
    let limit = job(Some(("Failed", "BackoffLimitExceeded", "")));
    let Verdict::Final(outcome) = verdict(&limit, &unknown(located, ""), &seen) else {
        panic!("open")
    };
    assert_eq!(
        (outcome.code, &*outcome.summary),
        (1, "the run never began: ErrImagePull: not found")
    );
    assert_eq!(outcome.hint.unwrap(), "check --image, --runner-version and --pull-secret");
    let nothing = outcome_of(&limit, &unknown(located, ""));
    assert_eq!(nothing, (1, "the run never began: its container was not started".to_owned()));
}

/// A node that restarts has lost its containers and their exit codes.
#[test]
fn run_has_begun_if_its_node_lost_the_container() {
    let ran = "The container could not be located when the pod was deleted.  The container used to be Running";
    let lost = "the pod was removed before the runner reported its result: ";
    let limit = job(Some(("Failed", "BackoffLimitExceeded", "")));
    for pod in [unknown(ran, ""), unknown("", "containerd://5f0c")] {
        let (code, summary) = outcome_of(&limit, &pod);
        assert!(code == 1 && summary.starts_with(lost), "{code}: {summary}");
    }
    let seen = RunHistory { has_run: true, wait: None };
    let Verdict::Final(outcome) = verdict(&limit, &unknown("", ""), &seen) else { panic!() };
    assert!(outcome.summary.starts_with(lost), "{outcome:?}");
}

/// The kernel kills one process of the container with cgroups v1.
#[test]
fn summary_distinguishes_the_killed_child_from_the_runner() {
    for (code, summary) in [
        (0, "the run succeeded"),
        (
            1,
            "the runner ended with exit code 1: a process of its own was killed because the container was out of memory (OOMKilled)",
        ),
        (137, "the runner was killed because the container was out of memory (OOMKilled)"),
    ] {
        let pod = ObservedObject::There(pod(&terminated(code, "OOMKilled")));
        assert_eq!(outcome_of(&job(None), &pod).1, summary);
    }
}
