use serde_json::{Value, json};

use super::*;
use crate::commit::Commit;
use crate::condition::{Owner, Reading};

const CHAIN: &str = r#"
controller:
  namespace: ci
  retry: {first: 10s, longest: 5m}
followers:
  - id: web
    source: {repository: "https://git.example.com/shop/web.git", branch: main}
    config-refs: [deploy/web.yaml]
    adapter:
      kubernetes:
        stages:
          - name: build
            preset: job
            create:
              apiVersion: batch/v1
              kind: Job
              metadata: {name: "${name}"}
              spec: {template: {spec: {restartPolicy: Never}}}
          - name: ready
            preset: deployment
            observe: {api-version: apps/v1, kind: Deployment, namespace: web, name: web}
            source-commit: ["$.metadata.annotations['example.com/commit']"]
            timeout: 10m
  - id: network
    source: {repository: infrastructure, branch: main}
    budget: 5m
    adapter: {terraform: {layer: network}}
"#;

fn messages(text: &str) -> String {
    let errors = Registry::parse(text).unwrap_err();
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The chain with one text replaced.
fn changed(from: &str, to: &str) -> String {
    assert!(CHAIN.contains(from), "{from}");
    messages(&CHAIN.replacen(from, to, 1))
}

#[test]
fn registry_has_followers_with_defaults() {
    let registry = Registry::parse(CHAIN).unwrap();
    assert_eq!(registry.controller.namespace, "ci");
    let [web, network] = &registry.followers[..] else { panic!("{registry:?}") };
    assert_eq!(web.budget.limit.as_secs(), 120);
    assert_eq!(web.budget.origin, BudgetOrigin::Default);
    assert_eq!(network.budget.origin, BudgetOrigin::Follower);
    assert_eq!(web.stages[0].kind, StageKind::Job);
    assert_eq!(web.stages[1].kind, StageKind::Runtime);
    assert_eq!(web.stages[1].timeout.as_secs(), 600);
    assert!(web.stages.iter().all(|stage| stage.is_required));
    assert!(network.stages[0].creates());
}

#[test]
fn scalars_of_templates_and_texts_are_those_that_are_written() {
    let text = CHAIN
        .replace(
            "restartPolicy: Never",
            "restartPolicy: Never, version: 1.10, mode: 0644, zone: no, count: 3, on: true",
        )
        .replace("branch: main}\n    config", "branch: 010}\n    config");
    let registry = Registry::parse(&text).unwrap();
    assert_eq!(registry.followers[0].source.branch, "010");
    let template = format!("{:?}", registry.followers[0].stages[0].work);
    for written in
        ["String(\"1.10\")", "String(\"0644\")", "String(\"no\")", "Number(3)", "Bool(true)"]
    {
        assert!(template.contains(written), "{written}: {template}");
    }
    let message = changed("branch: main}\n    config", "branch: ~}\n    config");
    assert!(message.contains("at line 7, column"), "{message}");
}

#[test]
fn unknown_keys_are_refused_at_every_level() {
    for (from, to) in [
        ("  namespace: ci", "  name-space: ci"),
        ("first: 10s", "fist: 10s"),
        ("branch: main}", "branch: main, tag: x}"),
        ("preset: job", "presets: job"),
        ("timeout: 10m", "timeout: 10m\n            succeeded: [{path: \"$.a\", equal: 1}]"),
        ("layer: network", "layers: network"),
        ("        stages:", "        parallel: true\n        stages:"),
        ("    config-refs:", "    confg-refs:"),
        ("namespace: web,", "namespaces: web,"),
        ("terraform:", "pulumi:"),
        ("preset: job", "preset: jobs"),
    ] {
        let message = changed(from, to);
        assert!(message.starts_with("cannot parse the registry of followers at line"), "{message}");
        assert!(message.contains("unknown"), "{message}");
    }
}

#[test]
fn errors_name_the_follower_and_the_stage_and_what_to_write() {
    for (from, to, expected) in [
        ("id: web", "id: Web", "`id` must have"),
        ("id: network", "id: web", "given twice"),
        ("branch: main}\n    config", "branch: \"\"}\n    config", "`source.branch`"),
        ("name: ready", "name: build", "stage `build` of the follower `web`: the name is given"),
        ("preset: job", "kind: job", "`succeeded` is missing"),
        ("preset: job", "preset: job\n            failed: []", "at least one check"),
        ("\"${name}\"", "fixed", "`metadata.name`"),
        ("$.metadata.annotations", "metadata.annotations", "cannot parse the JSON path"),
        ("longest: 5m", "longest: 5s", "`retry.longest`"),
        ("layer: network", "layer: \"\"", "must not be empty"),
        (
            "preset: job",
            "preset: job\n            succeeded: [{path: \"$.a\"}]",
            "exactly one of `equals`",
        ),
        (
            "preset: job",
            "preset: job\n            observe: {api-version: v1, kind: Pod, name: x}",
            "either `create` or `observe`",
        ),
    ] {
        let message = changed(from, to);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn chain_without_a_required_stage_is_refused() {
    let text = CHAIN
        .replacen("preset: job", "preset: job\n            required: false", 1)
        .replacen("preset: deployment", "preset: deployment\n            required: false", 1);
    assert!(messages(&text).contains("at least one stage must be required"));
}

/// The readings of an object by a preset.
fn read(preset: &str, object: &Value) -> Reading {
    let text = format!(
        "followers:\n- id: a\n  source: {{repository: r, branch: b}}\n  adapter:\n    kubernetes:\n      \
         stages:\n      - {{name: s, preset: {preset}, observe: {{api-version: v1, kind: K, name: n}}}}"
    );
    let registry = Registry::parse(&text).unwrap();
    let commit = Commit::parse(&"a".repeat(40)).unwrap();
    registry.followers[0].stages[0].closeout.read(object, &commit, Owner::OtherController)
}

fn is_unfinished(reading: &Reading) -> bool {
    matches!(reading, Reading::Unfinished { .. })
}

fn has_failed(reading: &Reading) -> bool {
    matches!(reading, Reading::Failed { .. })
}

#[test]
fn jobs_and_pipeline_runs_are_read_from_their_conditions() {
    let with = |kind: &str, status: &str| json!({"status": {"conditions": [{"type": "Other", "status": "True"}, {"type": kind, "status": status}]}});
    assert_eq!(read("job", &with("Complete", "True")), Reading::Complete);
    assert!(has_failed(&read("job", &with("Failed", "True"))));
    assert!(is_unfinished(&read("job", &with("Complete", "False"))));
    assert!(is_unfinished(&read("job", &json!({}))));
    for preset in ["pipeline-run", "task-run"] {
        assert_eq!(read(preset, &with("Succeeded", "True")), Reading::Complete);
        assert!(has_failed(&read(preset, &with("Succeeded", "False"))));
        assert!(is_unfinished(&read(preset, &with("Succeeded", "Unknown"))));
    }
}

#[test]
fn argo_application_is_complete_if_it_is_synced_and_healthy() {
    let with = |sync: &str, health: &str| json!({"status": {"sync": {"status": sync, "revision": "abc"}, "health": {"status": health}}});
    assert_eq!(read("argo", &with("Synced", "Healthy")), Reading::Complete);
    assert!(has_failed(&read("argo", &with("Synced", "Degraded"))));
    assert!(is_unfinished(&read("argo", &with("OutOfSync", "Healthy"))));
    assert!(is_unfinished(&read("argo", &with("Synced", "Progressing"))));
}

#[test]
fn workload_is_complete_if_its_newest_generation_is_ready() {
    let with = |observed: u32, updated: u32, ready: u32, all: u32| {
        json!({
            "metadata": {"generation": 2}, "spec": {"replicas": 3},
            "status": {"observedGeneration": observed, "updatedReplicas": updated, "replicas": all,
                       "availableReplicas": ready, "readyReplicas": ready},
        })
    };
    for preset in ["deployment", "stateful-set"] {
        assert_eq!(read(preset, &with(2, 3, 3, 3)), Reading::Complete);
        assert!(is_unfinished(&read(preset, &with(1, 3, 3, 3))));
        assert!(is_unfinished(&read(preset, &with(2, 2, 3, 3))));
        assert!(is_unfinished(&read(preset, &with(2, 3, 2, 3))));
        let none = json!({"metadata": {"generation": 2}, "spec": {"replicas": 0},
                          "status": {"observedGeneration": 2}});
        assert_eq!(read(preset, &none), Reading::Complete);
    }
    assert!(is_unfinished(&read("deployment", &with(2, 3, 3, 4))));
    let mut stuck = with(2, 1, 1, 3);
    stuck["status"]["conditions"] = json!([{"type": "Progressing", "status": "False"}]);
    assert!(has_failed(&read("deployment", &stuck)));
    stuck["status"]["observedGeneration"] = json!(1);
    assert!(is_unfinished(&read("deployment", &stuck)));
}

#[test]
fn git_mirror_is_flushed_if_nothing_is_pending_and_the_host_is_in_sync() {
    for root in ["status", "data"] {
        let with = |pending: Value, in_sync: Value| json!({root: {"pendingFlush": pending, "githubInSync": in_sync}});
        assert_eq!(read("git-mirror-flush", &with(json!(false), json!(true))), Reading::Complete);
        assert_eq!(
            read("git-mirror-flush", &with(json!("false"), json!("true"))),
            Reading::Complete
        );
        assert!(is_unfinished(&read("git-mirror-flush", &with(json!(true), json!(true)))));
        assert!(is_unfinished(&read("git-mirror-flush", &with(json!(false), json!(false)))));
    }
    assert!(is_unfinished(&read("git-mirror-flush", &json!({}))));
}
