//! Sentences about objects as Kubernetes, Tekton and Argo CD write them.

use serde_json::json;

use super::*;
use crate::condition::{Closeout, Owner, Reading};
use crate::config::Registry;

/// The closeout of the only stage of a chain.
fn closeout(stage: &str) -> Closeout {
    let text = format!(
        "followers: [{{id: a, source: {{repository: r, branch: b}}, adapter: {{kubernetes: {{stages: [{{name: s, {stage}, \
         observe: {{api-version: v1, kind: K, name: n}}}}]}}}}}}]"
    );
    let registry = Registry::parse(&text).unwrap_or_else(|errors| panic!("{stage}: {errors:?}"));
    registry.followers[0].stages[0].closeout.clone()
}

fn said(stage: &str, object: &Value) -> String {
    let commit = Commit::parse(&"a".repeat(40)).unwrap();
    match closeout(stage).read(object, &commit, Owner::OtherController) {
        Reading::Failed { said } | Reading::Unfinished { said } | Reading::OtherCommit { said } => {
            said
        }
        Reading::Complete => "complete".to_owned(),
    }
}

fn condition_of(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    let condition = json!({"type": kind, "status": status, "reason": reason, "message": message});
    json!({"status": {"conditions": [{"type": "Other", "status": "True"}, condition]}})
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn value_reason_and_message_of_a_condition_are_told_and_no_path() {
    let tasks = "Tasks Completed: 1 (Failed: 1, Cancelled 0), Skipped: 2";
    let limit = "Job has reached the specified backoff limit";
    let application = |sync: &str, health: &Value| json!({"kind": "Application", "status": {"sync": {"status": sync}, "health": health}});
    let healthy = json!({"status": "Healthy"});
    let mut unsynced = application("OutOfSync", &healthy);
    unsynced["status"]["conditions"] =
        json!([{"type": "ComparisonError", "message": "rpc error: no such file"}]);
    let mut failed_sync = application("OutOfSync", &healthy);
    failed_sync["status"]["operationState"] =
        json!({"phase": "Failed", "message": "one or more objects failed to apply"});
    let workload = |status: &Value| json!({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": status});
    let behind = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 3});
    let mut quota = behind.clone();
    quota["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}]);
    let mut stuck = behind.clone();
    stuck["conditions"] = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "it has timed out progressing"}]);
    let run = |phase: &str, message: &str| json!({"status": {"phase": phase, "message": message}});
    let phase = "kind: runtime, succeeded: [{path: '$.status.phase', equals: ok}], failed: [{path: '$.status.phase', equals: failed}]";
    let ready = "kind: runtime, succeeded: [{path: \"$.status.conditions[?(@.type=='Ready')].status\", equals: 'True'}]";
    let count = "kind: runtime, succeeded: [{path: '$.status.passed', at-least: 12, default: 0}], failed: [{path: '$.status.failed', at-least: 1}]";
    let commit =
        "preset: deployment, source-commit: [\"$.metadata.annotations['example.com/commit']\"]";
    let variable = "preset: deployment, source-commit: [\"$.spec.env[?(@.name=='COMMIT')].value\"]";
    for (stage, object, expected) in [
        (
            "preset: pipeline-run",
            condition_of("Succeeded", "False", "Failed", tasks),
            format!("failed: {tasks}"),
        ),
        (
            "preset: pipeline-run",
            condition_of(
                "Succeeded",
                "False",
                "PipelineRunTimeout",
                "it failed to finish within 1h",
            ),
            "failed: PipelineRunTimeout: it failed to finish within 1h".into(),
        ),
        ("preset: pipeline-run", condition_of("Succeeded", "False", "", ""), "failed".into()),
        (
            "preset: pipeline-run",
            condition_of("Succeeded", "Unknown", "Running", tasks),
            format!("is not ready: Succeeded is Unknown: Running: {tasks}"),
        ),
        ("preset: task-run", json!({}), "has no condition `Succeeded` yet".into()),
        (
            "preset: task-run",
            condition_of("Succeeded", "False", "TaskRunCancelled", "TaskRun \"a\" was cancelled"),
            "failed: TaskRunCancelled: TaskRun \"a\" was cancelled".into(),
        ),
        (
            "preset: job",
            condition_of("Failed", "True", "BackoffLimitExceeded", limit),
            format!("failed: BackoffLimitExceeded: {limit}"),
        ),
        ("preset: job", json!({"status": {"active": 1}}), "has no condition `Complete` yet".into()),
        ("preset: argo", application("OutOfSync", &healthy), "is OutOfSync".into()),
        ("preset: argo", unsynced, "is OutOfSync: rpc error: no such file".into()),
        ("preset: argo", failed_sync, "is OutOfSync: one or more objects failed to apply".into()),
        (
            "preset: argo",
            application(
                "Synced",
                &json!({"status": "Progressing", "message": "waiting for rollout"}),
            ),
            "is Progressing: waiting for rollout".into(),
        ),
        (
            "preset: argo",
            application(
                "Synced",
                &json!({"status": "Degraded", "message": "container is crashing"}),
            ),
            "is Degraded: container is crashing".into(),
        ),
        ("preset: argo", application("Synced", &json!({})), "has no `status` yet".into()),
        (
            "preset: deployment",
            workload(&behind),
            "has `updatedReplicas` 1, and needs at least 3".into(),
        ),
        (
            "preset: deployment",
            workload(&quota),
            "has `updatedReplicas` 1, and needs at least 3: FailedCreate: exceeded quota".into(),
        ),
        (
            "preset: deployment",
            workload(&stuck),
            "failed: ProgressDeadlineExceeded: it has timed out progressing".into(),
        ),
        (
            "preset: stateful-set",
            workload(&json!({})),
            "has `observedGeneration` 0, and needs at least 2".into(),
        ),
        (
            "preset: git-mirror-flush",
            json!({"data": {"pendingFlush": "true"}}),
            "has `pendingFlush` true, and needs false".into(),
        ),
        (
            "preset: git-mirror-flush",
            json!({"status": {"pendingFlush": false}}),
            "has no `githubInSync` yet".into(),
        ),
        (phase, run("running", ""), "is running".into()),
        (phase, run("failed", "the plan was cancelled"), "failed: the plan was cancelled".into()),
        (
            ready,
            condition_of("Ready", "False", "NotReady", "3 of 5"),
            "is not ready: Ready is False: NotReady: 3 of 5".into(),
        ),
        (count, json!({"status": {"passed": 3}}), "has `passed` 3, and needs at least 12".into()),
        (count, json!({"status": {"failed": 2}}), "failed: `failed` is 2".into()),
        (
            commit,
            workload(&behind),
            "does not show commit aaaaaaaaaaaa: it has no `example.com/commit`".into(),
        ),
        (
            variable,
            json!({"spec": {"env": [{"name": "COMMIT", "value": "bbb"}]}}),
            "does not show commit aaaaaaaaaaaa: `COMMIT` is bbb".into(),
        ),
    ] {
        let said = said(stage, &object);
        assert_eq!(said, expected, "{stage} {object}");
        assert!(!said.contains("$."), "{said}");
    }
}

#[test]
fn values_of_secrets_and_long_texts_are_not_told() {
    let stage = "kind: job, succeeded: [{path: '$.data.token', equals: eA}], failed: [{path: '$.data.broken', exists: true}]";
    let secret = |data: &Value| json!({"kind": "Secret", "data": data});
    for data in
        [json!({"token": "aHVudGVyMg"}), json!({"token": "aHVudGVyMg", "broken": "aHVudGVyMg"})]
    {
        let said = said(stage, &secret(&data));
        assert!(!said.contains("aHVudGVyMg"), "{said}");
    }
    let commit =
        "kind: job, succeeded: [{path: '$.a', exists: true}], source-commit: ['$.data.commit']";
    let said_of_commit = said(commit, &secret(&json!({"commit": "aHVudGVyMg"})));
    assert!(!said_of_commit.contains("aHVudGVyMg"), "{said_of_commit}");
    let long = condition_of("Failed", "True", &"r".repeat(5000), &"m".repeat(5000));
    assert!(said("preset: job", &long).chars().count() < 450);
    let wide = json!({"status": {"passed": {"a": "x".repeat(5000)}}});
    let stage = "kind: job, succeeded: [{path: '$.status.passed', at-least: 1}]";
    assert_eq!(said(stage, &wide), "has another `passed`");
}
