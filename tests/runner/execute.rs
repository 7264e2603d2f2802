//! Whole runs with the real Terraform: their requests and reports, in order.

use serde_json::{Value, json};

use butler_testing::files_provider::FilesProvider;
use butler_testing::world::{Fault, MODULE, RUN_ID, World, merge, sequence};

#[tokio::test]
async fn plan_reports_json_text_and_counts() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let commit = world.commit(&[("README.md", "hello")]);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let received = world.received();
    assert_eq!(received.request_names(), sequence(&["POST plan"]));
    let plan = &received.plans[0];
    assert_eq!(plan["plan_json"]["resource_changes"][0]["address"], "terraform_data.hello");
    assert!(plan["plan_text"].as_str().unwrap().contains("# terraform_data.hello will be created"));
    assert_eq!(received.statuses[0], json!({"status": "running"}));
    let last = &received.statuses[1];
    assert_eq!(last["status"], "succeeded");
    assert_eq!(last["exit_code"], 0);
    assert_eq!(last["resources_to_add"], 1);
    assert_eq!(last["resources_to_change"], 0);
    assert_eq!(last["resources_to_destroy"], 0);
    assert_eq!(last["plan_summary"], "Plan: 1 to add, 0 to change, 0 to destroy.");
    assert_eq!(last["source_commit"], commit.as_str());
    let numbers: Vec<_> = received.logs.iter().map(|line| line.sequence).collect();
    assert_eq!(numbers, (1..=u32::try_from(numbers.len()).unwrap()).collect::<Vec<_>>());
    assert!(received.log_text().contains(&commit), "the commit is logged");
    assert!(end.stdout.contains("Plan: 1 to add, 0 to change, 0 to destroy."), "{}", end.stdout);
}

#[tokio::test]
async fn apply_and_destroy_report_the_completed_changes() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let received = world.received();
    assert_eq!(received.request_names(), sequence(&["POST plan", "POST outputs"]));
    assert_eq!(received.outputs[0]["outputs"]["greeting"]["value"], "hello world");
    let last = &received.statuses[1];
    assert_eq!((&last["resources_to_add"], &last["resource_count_after"]), (&json!(1), &json!(1)));

    // What depends on the module needs its outputs for its own destroy.
    for (name, value, reports) in [
        ("UNRELATED", "true", &["POST plan"][..]),
        ("BUTLER_REPORT_OUTPUTS_AFTER_DESTROY", "true", &["POST plan", "POST outputs"]),
    ] {
        assert_eq!(world.run(world.config("apply")).await.code, Some(0));
        world.add_run(world.config("destroy"));
        let output = world.execute().env(name, value).output().await.unwrap();
        let end = world.end(&output);
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let received = world.received();
        assert_eq!(received.request_names(), sequence(reports), "{name}");
        let outputs = received.outputs.first();
        assert!(outputs.is_none_or(|it| *it == json!({"outputs": {}})), "{outputs:?}");
        let last = &received.statuses[1];
        assert_eq!(
            (&last["resources_to_destroy"], &last["resource_count_after"]),
            (&json!(1), &json!(0))
        );
    }
}

#[tokio::test]
async fn validate_does_not_use_the_state_and_reports_file_and_line() {
    let broken = r#"output "x" { value = var.missing }"#;
    let world = World::new(&[("main.tf", broken)]).await;
    let mut config = world.config("validate");
    // No server is at this address: a validate that initialized the backend would fail.
    config["stateBackend"] =
        json!({"type": "pg", "config": {"conn_str": "postgres://u:passw0rd@127.0.0.1:1/x"}});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let received = world.received();
    assert_eq!(received.request_names(), sequence(&[]));
    let log = received.log_text();
    assert!(log.contains("Error: Reference to undeclared input variable"), "{log}");
    assert!(log.contains("on main.tf line 1, in output \"x\":"), "{log}");
    let last = &received.statuses[1];
    assert_eq!(last["status"], "failed");
    assert_eq!(last.get("resources_to_add"), None, "a validation has no counts");

    let world = World::new(&[("main.tf", MODULE)]).await;
    let end = world.run(world.config("validate")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.received().statuses[1]["plan_summary"], "The configuration is valid.");
}

#[tokio::test]
async fn result_of_validate_and_test_is_printed_once() {
    let broken = "output \"x\" {\n  value = var.missing\n}\n";
    let failing = "run \"bad\" {\n  command = plan\n  assert {\n    condition     = var.name == \"other\"\n    error_message = \"Not other.\"\n  }\n}\n";
    for (operation, files, code, sentence) in [
        ("validate", [("main.tf", MODULE), ("x.tf", "")], 0, "The configuration is valid"),
        (
            "validate",
            [("main.tf", broken), ("x.tf", "")],
            1,
            "the configuration is not valid: 1 error",
        ),
        (
            "test",
            [("main.tf", MODULE), ("x.tftest.hcl", failing)],
            1,
            "0 passed, 1 failed, 0 skipped",
        ),
    ] {
        let world = World::new(&files).await;
        let end = world.run(world.config(operation)).await;
        assert_eq!(end.code, Some(code), "{}", end.stderr);
        let log = world.received().log_text();
        assert_eq!(log.matches(sentence).count(), 1, "{sentence}: {log}");
        let summary = world.last_status()["plan_summary"].as_str().unwrap().to_owned();
        assert_eq!(summary.matches(sentence).count(), 1, "{sentence}: {summary}");
        assert_eq!(end.stderr.matches(sentence).count(), 1, "{sentence}: {}", end.stderr);
        assert_eq!(end.stdout.matches(sentence).count(), 0, "{sentence}: {}", end.stdout);
    }
}

#[tokio::test]
async fn test_reports_passed_failed_and_skipped() {
    let tests = r#"
run "good" {
  command = plan
  assert {
    condition     = terraform_data.hello.input == "hello world"
    error_message = "no"
  }
}
run "bad" {
  command = plan
  assert {
    condition     = terraform_data.hello.input == "something else"
    error_message = "it is not"
  }
}
"#;
    let world = World::new(&[("main.tf", MODULE), ("main.tftest.hcl", tests)]).await;
    let end = world.run(world.config("test")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let received = world.received();
    assert_eq!(received.request_names(), sequence(&[]));
    assert_eq!(received.statuses[1]["tests"], json!({"passed": 1, "failed": 1, "skipped": 0}));
    assert!(received.log_text().contains("Failure! 1 passed, 1 failed."));
}

#[tokio::test]
async fn drift_is_detected_and_refresh_updates_the_state() {
    let provider = FilesProvider::unpack();
    let directory = tempfile::tempdir().unwrap();
    let [changed, removed, kept] = ["a", "b", "c"].map(|name| directory.path().join(name));
    let files = [(&*changed, "one"), (&*removed, "one"), (&*kept, "one")];
    let mut world = World::new(&[("main.tf", &FilesProvider::module(&files))]).await;
    world.set("TF_CLI_CONFIG_FILE", provider.configuration());
    assert_eq!(world.run(world.config("apply")).await.code, Some(0));
    let run = async |operation: &str| {
        let end = world.run(world.config(operation)).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let received = world.received();
        let reports: &[&str] =
            if operation == "refresh" { &["POST plan", "POST outputs"] } else { &["POST plan"] };
        assert_eq!(received.request_names(), sequence(reports), "{operation}");
        received.statuses[1].clone()
    };
    let none = run("drift-check").await;
    assert_eq!(
        (&none["plan_summary"], &none["plan_changes"]),
        (&json!("No drift."), &json!(false))
    );

    std::fs::write(&changed, "two").unwrap();
    std::fs::remove_file(&removed).unwrap();
    // A check changes nothing: the second one finds the same.
    for _ in 0..2 {
        let drift = run("drift-check").await;
        assert_eq!(drift["plan_changes"], true);
        let found = "Drift: 2 changed outside of Terraform: files_file.f0 (changed), files_file.f1 \
                     (deleted)";
        assert_eq!(drift["plan_summary"], found);
    }
    run("refresh").await;
    assert_eq!(run("drift-check").await["plan_summary"], "No drift.");
    assert_eq!(std::fs::read_to_string(&changed).unwrap(), "two");
    assert!(kept.exists() && !removed.exists());
}

#[tokio::test]
async fn unknown_and_empty_operations_fail_the_run() {
    for operation in ["explode", ""] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        let end = world.run(world.config(operation)).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let received = world.received();
        assert_eq!(
            received.request_names(),
            ["GET status", "GET config", "POST logs", "POST status"]
        );
        assert_eq!(world.statuses(), ["failed"]);
        let reason = received.statuses[0]["error"]["message"].as_str().unwrap();
        assert!(received.log_text().contains(reason), "the log ends with the reason");
    }
}

#[tokio::test]
async fn failure_of_each_phase_sends_one_final_status_with_its_reason() {
    let provisioner = r#"
resource "terraform_data" "first" {
  input = "x"
}
resource "terraform_data" "second" {
  input = terraform_data.first.output
  provisioner "local-exec" {
    command = "exit 7"
  }
}
"#;
    let cases: [(&str, &str, Value, &[&str], &str); 5] = [
        ("source", MODULE, json!({"source": {"gitRef": "no-such-branch"}}), &[], "no-such-branch"),
        ("tool", MODULE, json!({"terraformVersion": "0.0.1"}), &[], "0.0.1"),
        (
            "init",
            "terraform { required_version = \"> 99\" }",
            json!({"terraformVersion": "1.11.4"}),
            &[],
            "init",
        ),
        ("plan", "output \"x\" { value = file(\"missing\") }", json!({}), &[], "plan"),
        ("apply", provisioner, json!({}), &["POST plan"], "local-exec"),
    ];
    for (phase, module, changes, reports, word) in cases {
        let mut world = World::new(&[("main.tf", module)]).await;
        // No server has releases at this address.
        world.variables.push(("BUTLER_MIRROR".into(), "http://127.0.0.1:1".into()));
        let mut config = world.config("apply");
        merge(&mut config, &changes);
        let end = world.run(config).await;
        assert_eq!(end.code, Some(1), "{phase}: {}", end.stderr);
        let received = world.received();
        assert_eq!(received.request_names(), sequence(reports), "{phase}");
        assert_eq!(world.statuses(), ["running", "failed"], "{phase}");
        let last = &received.statuses[1];
        assert_eq!(last["error"]["phase"], phase);
        let reason = last["error"]["message"].as_str().unwrap();
        assert!(reason.contains(word), "{phase}: {reason}");
        assert!(received.log_text().contains(reason), "{phase}: the log ends with the reason");
        assert!(end.stderr.contains(reason), "{phase}: stderr has the reason");
        if phase == "apply" {
            // The second exists as well, but is tainted: its provisioner failed after its creation.
            assert_eq!(
                (&last["resources_to_add"], &last["resource_count_after"]),
                (&json!(1), &json!(2))
            );
        }
    }
}

#[tokio::test]
async fn refused_configuration_is_reported_and_exits_with_4() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    world.faults.lock().unwrap().push(Fault {
        method: "GET",
        endpoint: "config",
        status: 401,
        times: 1,
    });
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    assert_eq!(world.received().request_names(), ["GET status", "POST logs", "POST status"]);
    assert_eq!(world.statuses(), ["failed"]);
}

#[tokio::test]
async fn finished_run_is_not_executed_again() {
    for (status, code) in [
        ("cancelled", 3),
        ("timed_out", 3),
        ("discarded", 3),
        ("skipped", 3),
        ("succeeded", 4),
        ("failed", 4),
        ("planned", 4),
    ] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("plan"));
        world.registry.set_status(RUN_ID, status);
        let output = world.execute().output().await.unwrap();
        assert_eq!(world.end(&output).code, Some(code), "{status}");
        assert_eq!(world.received().request_names(), ["GET status"], "{status}");
    }
}

#[tokio::test]
async fn unreachable_registry_exits_with_4() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.variables.push(("BUTLER_REGISTRY_TIMEOUT".into(), "1s".into()));
    // No server is at this address.
    let output =
        world.execute().env("BUTLER_ENDPOINT", "http://127.0.0.1:1/api").output().await.unwrap();
    let end = world.end(&output);
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    assert!(end.stderr.contains("BUTLER_ENDPOINT"), "what to do is said: {}", end.stderr);
}

#[tokio::test]
async fn registry_outage_within_the_retry_time_loses_no_report() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    // The pause before a retry of a log batch follows the interval.
    world.variables.push(("BUTLER_LOG_INTERVAL".into(), "1s".into()));
    for endpoint in ["status", "config"] {
        world.faults.lock().unwrap().push(Fault { method: "GET", endpoint, status: 503, times: 2 });
    }
    for endpoint in ["status", "logs", "plan"] {
        world.faults.lock().unwrap().push(Fault {
            method: "POST",
            endpoint,
            status: 500,
            times: 1,
        });
    }
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    // The reports in the registry are those of an ordinary run.
    let mut names = world.received().request_names();
    names.dedup();
    assert_eq!(names, sequence(&["POST plan"]));
    let numbers: Vec<_> = world.received().logs.iter().map(|line| line.sequence).collect();
    assert_eq!(numbers, (1..=u32::try_from(numbers.len()).unwrap()).collect::<Vec<_>>());
}

#[tokio::test]
async fn restarted_job_continues_the_run() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    world.add_run(world.config("plan"));
    world.registry.set_status(RUN_ID, "running");
    let output = world.execute().output().await.unwrap();
    assert_eq!(world.end(&output).code, Some(0));
    assert_eq!(world.statuses(), ["running", "succeeded"]);
}

#[tokio::test]
async fn undelivered_final_status_exits_with_4() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    // 400 is not retried; the first POST status, `running`, succeeds.
    world.add_run(world.config("validate"));
    let mut command = world.execute();
    let faults = world.faults.clone();
    let registry = world.registry.clone();
    let watch = async move {
        loop {
            let begun = registry.run(RUN_ID).unwrap().received.statuses.len() == 1;
            if begun {
                faults.lock().unwrap().push(Fault {
                    method: "POST",
                    endpoint: "status",
                    status: 400,
                    times: 100,
                });
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let (output, ()) = tokio::join!(command.output(), watch);
    let end = world.end(&output.unwrap());
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running"]);
}

#[tokio::test]
async fn secrets_that_are_ordinary_words_do_not_corrupt_status_or_plan() {
    let module = r#"
variable "words" {
  type      = list(string)
  sensitive = true
}
resource "terraform_data" "hello" {
  input = var.words[0]
}
"#;
    let world = World::new(&[("main.tf", module)]).await;
    let mut config = world.config("plan");
    config["variables"]["words"] = json!({"value": ["succeeded", "plan", "root", "terraform_data", 84_213_377], "sensitive": true});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let received = world.received();
    assert_eq!(received.statuses[1]["status"], "succeeded");
    assert!(received.statuses[1]["plan_summary"].is_string(), "{}", received.statuses[1]);
    let plan = &received.plans[0]["plan_json"];
    assert!(plan["planned_values"]["root_module"].is_object(), "{plan}");
    assert_eq!(plan["resource_changes"][0]["change"]["after"]["input"], "***");
    assert!(!plan.to_string().contains("84213377"), "{plan}");
}

#[tokio::test]
async fn blocked_standard_error_does_not_stop_the_run() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let mut config = world.config("apply");
    config["envVars"] = json!({"TF_LOG": {"value": "trace"}});
    world.add_run(config);
    // Both pipes stay full; the run must still complete.
    let mut child = world.execute().env("BUTLER_LOG", "trace").spawn().unwrap();
    // The time limit of the test runner detects a blocked run.
    let status = child.wait().await;
    assert_eq!(status.unwrap().code(), Some(0));
    assert_eq!(world.statuses(), ["running", "succeeded"]);
}

#[tokio::test]
async fn git_tokens_of_the_runner_are_masked() {
    let module = r#"
resource "terraform_data" "leak" {
  provisioner "local-exec" {
    command = "echo token is $GITHUB_TOKEN"
  }
}
"#;
    let mut world = World::new(&[("main.tf", module)]).await;
    world.variables.push(("GITHUB_TOKEN".into(), "ghs_0123456789abcdef".into()));
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(end.stdout.contains("token is ***"), "{}", end.stdout);
    assert!(!world.received().log_text().contains("ghs_0123456789abcdef"));
}

#[tokio::test]
async fn undelivered_plan_is_a_failure() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    world.fault("POST", "plan", 400);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "failed"]);
    let world = World::new(&[("main.tf", MODULE)]).await;
    world.fault("POST", "plan", 400);
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "what was applied was applied: {}", end.stderr);
    assert!(world.last_status()["plan_summary"].as_str().unwrap().contains("was not delivered"));
}

#[tokio::test]
async fn unwritable_report_directory_does_not_prevent_reports_to_the_registry() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let report = world.path("report");
    // Directories are in place of the report files.
    for name in ["status.json", "plan.json", "plan.txt", "log.txt"] {
        std::fs::create_dir_all(report.join(name).join("x")).unwrap();
    }
    world.variables.push(("BUTLER_REPORT_DIR".into(), report.into()));
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.received().request_names(), sequence(&["POST plan"]));
    assert!(end.stderr.contains("status.json"), "{}", end.stderr);
}
