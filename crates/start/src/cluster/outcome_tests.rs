//! What is said of an end, for each that a Job and its pod can have.

use serde_json::{Value, json};

use super::*;

fn job(condition: Option<(&str, &str, &str)>) -> Sight<Job> {
    let conditions: Vec<Value> = condition
        .into_iter()
        .map(|(type_, reason, message)| {
            json!({"type": type_, "status": "True", "reason": reason, "message": message})
        })
        .collect();
    let job = json!({"metadata": {}, "status": {"conditions": conditions}});
    Sight::There(Box::new(serde_json::from_value(job).unwrap()))
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

fn said(job: &Sight<Job>, pod: &Sight<Pod>) -> (u8, String) {
    match verdict(job, pod, &Seen::default()) {
        Verdict::Open => panic!("open"),
        Verdict::Provisional(outcome) | Verdict::Final(outcome) => (outcome.code, outcome.summary),
    }
}

#[test]
fn the_runners_exit_code_is_the_outcome() {
    for (code, summary) in [
        (0, "the run succeeded"),
        (1, "the runner ended with exit code 1"),
        (3, "the runner ended with exit code 3"),
        (143, "the runner ended with exit code 143"),
    ] {
        let pod = Sight::There(pod(&terminated(code, "Error")));
        let expected = (u8::try_from(code).unwrap(), summary.to_owned());
        assert_eq!(said(&job(None), &pod), expected);
    }
    let failed = Sight::There(pod(&terminated(1, "Error")));
    assert!(matches!(verdict(&job(None), &failed, &Seen::default()), Verdict::Provisional(_)));
    let limit = job(Some(("Failed", "BackoffLimitExceeded", "Job has reached the limit")));
    assert!(matches!(verdict(&limit, &failed, &Seen::default()), Verdict::Final(_)));
    assert_eq!(said(&limit, &failed).1, "the runner ended with exit code 1");
}

#[test]
fn what_the_cluster_did_is_said() {
    let deadline = job(Some((
        "FailureTarget",
        "DeadlineExceeded",
        "Job was active longer than specified deadline",
    )));
    let killed = Sight::There(pod(&terminated(143, "Error")));
    assert_eq!(
        said(&deadline, &killed).1,
        "the runner ended with exit code 143: DeadlineExceeded: Job was active longer than specified deadline"
    );
    assert_eq!(
        said(&deadline, &Sight::Nothing).1,
        "the run never began: DeadlineExceeded: Job was active longer than specified deadline"
    );
    let memory = Sight::There(pod(&terminated(137, "OOMKilled")));
    let Verdict::Provisional(outcome) = verdict(&job(None), &memory, &Seen::default()) else {
        panic!()
    };
    assert_eq!(outcome.code, 137);
    assert_eq!(outcome.hint.unwrap(), "give it more with --memory");
    let evicted = json!({
        "phase": "Failed", "reason": "Evicted",
        "message": "The node was low on resource: ephemeral-storage.",
    });
    assert_eq!(
        said(&job(None), &Sight::There(pod(&evicted))).1,
        "the pod was removed before the runner reported its result: Evicted: The node was low on resource: ephemeral-storage."
    );
    let lost = json!({"phase": "Running", "conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
    }], "containerStatuses": [{
        "name": "runner", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {}},
    }]});
    let gone = Sight::Gone(pod(&lost));
    assert!(said(&job(None), &gone).1.ends_with("DeletionByPodGC: PodGC: node no longer exists"));
    let waiting = Sight::Gone(pod(&json!({"phase": "Pending"})));
    assert_eq!(
        said(&deadline, &waiting).1,
        "the run never began: DeadlineExceeded: Job was active longer than specified deadline"
    );
}

/// The Job is over before anybody has looked for its pod, or seen it.
#[test]
fn a_pod_that_was_not_looked_at_says_nothing_yet() {
    let ended = |type_: &str, status: Value| {
        let condition = json!([{"type": type_, "status": "True", "reason": "R"}]);
        let mut job = json!({"metadata": {}, "status": status});
        job["status"]["conditions"] = condition;
        Sight::There(Box::new(serde_json::from_value(job).unwrap()))
    };
    let complete = ended("Complete", json!({"succeeded": 1}));
    assert_eq!(verdict(&complete, &Sight::Unknown, &Seen::default()), Verdict::Open);
    assert_eq!(
        verdict(&complete, &Sight::Nothing, &Seen::default()),
        Verdict::Provisional(succeeded())
    );
    let failed = verdict(&ended("Failed", json!({"failed": 1})), &Sight::Nothing, &Seen::default());
    let Verdict::Provisional(outcome) = failed else { panic!("{failed:?}") };
    assert_eq!(outcome.code, 1);
    let never = verdict(&ended("Failed", json!({})), &Sight::Nothing, &Seen::default());
    assert_eq!(never, Verdict::Final(never_began(Some("R"), &Seen::default())));
}

#[test]
fn job_that_completed_beats_what_was_seen_of_its_pod_before() {
    let running = pod(&json!({"phase": "Running", "containerStatuses": [{
        "name": "runner", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {}},
    }]}));
    let complete = job(Some(("Complete", "CompletionsReached", "")));
    assert_eq!(
        verdict(&complete, &Sight::Gone(running), &Seen::default()),
        Verdict::Final(succeeded())
    );
}

/// The Job was created, so a cluster without it has deleted it, even if this process never saw it.
#[test]
fn job_that_is_never_seen_was_deleted() {
    let Verdict::Provisional(outcome) = verdict(&Sight::Nothing, &Sight::Nothing, &Seen::default())
    else {
        panic!("it is waited for, and nothing comes")
    };
    assert_eq!(outcome.code, FAILED);
    assert!(outcome.summary.ends_with("is unknown: the Job was deleted"), "{outcome:?}");
    assert_eq!(verdict(&Sight::Unknown, &Sight::Nothing, &Seen::default()), Verdict::Open);
}

#[test]
fn pod_that_its_node_did_not_take_never_ran() {
    let rejected = pod(&json!({
        "phase": "Failed", "reason": "OutOfmemory", "message": "Node didn't have enough resource",
    }));
    assert_eq!(
        said(&job(None), &Sight::There(rejected)).1,
        "the run never began: OutOfmemory: Node didn't have enough resource"
    );
}

/// A state that a kubelet makes up, with the message and the identifier that it has.
fn unknown(message: &str, id: &str) -> Sight<Pod> {
    Sight::There(pod(&json!({"phase": "Failed", "containerStatuses": [{
        "name": "runner", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "containerID": id, "state": {"terminated": {
            "exitCode": 137, "reason": "ContainerStatusUnknown", "message": message,
        }},
    }]})))
}

#[test]
fn exit_code_of_a_container_that_never_started_is_not_the_runners() {
    let located = "The container could not be located when the pod was terminated";
    let wait = "ErrImagePull: not found".to_owned();
    let seen = Seen { has_run: false, wait: Some(wait) };
    let limit = job(Some(("Failed", "BackoffLimitExceeded", "")));
    let Verdict::Final(outcome) = verdict(&limit, &unknown(located, ""), &seen) else {
        panic!("open")
    };
    assert_eq!(
        (outcome.code, &*outcome.summary),
        (1, "the run never began: ErrImagePull: not found")
    );
    assert_eq!(outcome.hint.unwrap(), "check --image, --runner-version and --pull-secret");
    let nothing = said(&limit, &unknown(located, ""));
    assert_eq!(nothing, (1, "the run never began: its container was not started".to_owned()));
}

/// A node that restarts has lost its containers, and what they ended with.
#[test]
fn container_that_its_node_has_lost_has_begun() {
    let ran = "The container could not be located when the pod was deleted.  The container used to be Running";
    let lost = "the pod was removed before the runner reported its result: ";
    let limit = job(Some(("Failed", "BackoffLimitExceeded", "")));
    for pod in [unknown(ran, ""), unknown("", "containerd://5f0c")] {
        let (code, summary) = said(&limit, &pod);
        assert!(code == 1 && summary.starts_with(lost), "{code}: {summary}");
    }
    let seen = Seen { has_run: true, wait: None };
    let Verdict::Final(outcome) = verdict(&limit, &unknown("", ""), &seen) else { panic!() };
    assert!(outcome.summary.starts_with(lost), "{outcome:?}");
}

/// The kernel kills one process of the container with cgroups v1.
#[test]
fn child_that_was_out_of_memory_is_not_the_runner() {
    for (code, summary) in [
        (0, "the run succeeded"),
        (
            1,
            "the runner ended with exit code 1: a process of its own was killed because the container was out of memory (OOMKilled)",
        ),
        (137, "the runner was killed because the container was out of memory (OOMKilled)"),
    ] {
        let pod = Sight::There(pod(&terminated(code, "OOMKilled")));
        assert_eq!(said(&job(None), &pod).1, summary);
    }
}
