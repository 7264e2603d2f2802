//! Plans, applies, destroys, drift, validation and tests.

use serde_json::json;

use super::engine::engines;
use butler_testing::files_provider::FilesProvider;

const MODULE: &str = r#"
variable "name" { default = "a" }
resource "terraform_data" "one" { input = var.name }
resource "terraform_data" "two" { input = "two" }
output "it" { value = terraform_data.one.output }
"#;

#[tokio::test]
async fn plan_is_applied_and_destroyed() {
    for engine in engines() {
        let name = engine.name();
        let world = engine.world(&[("main.tf", MODULE)]).await;
        for (operation, [add, change, destroy], text) in [
            ("plan", [2, 0, 0], "Plan: 2 to add, 0 to change, 0 to destroy."),
            ("apply", [2, 0, 0], "2 added, 0 changed, 0 destroyed"),
            ("plan", [0, 0, 0], "No changes."),
            ("drift-check", [0, 0, 0], "No drift."),
            ("refresh", [0, 0, 0], "No drift."),
            ("destroy", [0, 0, 2], "0 added, 0 changed, 2 destroyed"),
            ("destroy", [0, 0, 0], "0 added, 0 changed, 0 destroyed"),
        ] {
            let end = engine.run(&world, operation).await;
            engine.assert_succeeded(&world, &end);
            let (status, log) = (world.last_status(), world.received().log_text());
            let counts = ["add", "change", "destroy"]
                .map(|action| status[format!("resources_to_{action}")].clone());
            assert_eq!(
                counts,
                [add, change, destroy].map(|it| json!(it)),
                "{name} {operation}: {status}"
            );
            assert!(log.contains(text), "{name} {operation}: {log}");
            if operation == "apply" {
                let outputs = world.received().outputs.pop().unwrap();
                assert_eq!(outputs["outputs"]["it"]["value"], "a", "{name}");
            }
        }
    }
}

#[tokio::test]
async fn saved_plan_is_applied_as_it_was_made() {
    for engine in engines() {
        let name = engine.name();
        let world = engine.world(&[("main.tf", MODULE)]).await;
        let (module, plan) = (world.path("repository"), world.path("saved.plan"));
        let [module, plan] = [&module, &plan].map(|path| path.to_str().unwrap());
        let run = async |arguments: &[&str]| {
            let output = world.command(arguments).output().await.unwrap();
            world.end(&output)
        };
        let version = engine.requested();
        let planned =
            run(&["plan", "--tf-version", &version, "--var", "name=b", "--out", plan, module])
                .await;
        assert_eq!(planned.code, Some(0), "{name}: {}", planned.stderr);
        let refused = run(&["apply", "--yes", "--var", "name=c", plan, module]).await;
        assert_ne!(refused.code, Some(0), "{name}: {}", refused.stdout);
        let applied = run(&["apply", "--yes", plan, module]).await;
        assert_eq!(applied.code, Some(0), "{name}: {}", applied.stderr);
        let shown = format!("{}{}", applied.stdout, applied.stderr);
        assert!(shown.contains("2 added, 0 changed, 0 destroyed"), "{name}: {shown}");
        let again = run(&["apply", "--yes", plan, module]).await;
        assert_ne!(again.code, Some(0), "{name}: a plan is applied once");
    }
}

#[tokio::test]
async fn change_outside_is_drift_and_is_repaired() {
    let provider = FilesProvider::unpack();
    for engine in engines() {
        let name = engine.name();
        let mut world = engine.world(&[]).await;
        world.set("TF_CLI_CONFIG_FILE", provider.configuration());
        let [first, second] = ["first", "second"].map(|file| world.path(file));
        let module = FilesProvider::module(&[(&first, "1"), (&second, "2")]);
        world.commit(&[("main.tf", &module)]);
        let end = engine.run(&world, "apply").await;
        engine.assert_succeeded(&world, &end);
        std::fs::write(&first, "changed").unwrap();
        std::fs::remove_file(&second).unwrap();
        let end = engine.run(&world, "drift-check").await;
        engine.assert_succeeded(&world, &end);
        let log = world.received().log_text();
        for found in ["files_file.f0 (changed)", "files_file.f1 (deleted)"] {
            assert!(log.contains(found), "{name}: {log}");
        }
        let end = engine.run(&world, "apply").await;
        engine.assert_succeeded(&world, &end);
        let status = world.last_status();
        assert_eq!(
            (&status["resources_to_add"], &status["resources_to_change"]),
            (&json!(1), &json!(1)),
            "{name}"
        );
        assert_eq!(std::fs::read_to_string(first).unwrap(), "1", "{name}");
    }
}

#[tokio::test]
async fn validation_names_what_is_wrong() {
    for engine in engines() {
        let name = engine.name();
        let world = engine.world(&[("main.tf", MODULE)]).await;
        let end = engine.run(&world, "validate").await;
        engine.assert_succeeded(&world, &end);
        world.commit(&[(
            "wrong.tf",
            "output \"x\" {\n  value = terraform_data.missing.output\n}\n",
        )]);
        let end = engine.run(&world, "validate").await;
        assert_ne!(end.code, Some(0), "{name}");
        let status = world.last_status();
        assert_eq!(status["error"]["class"], "syntax", "{name}: {status}");
        let log = world.received().log_text();
        for part in ["Reference to undeclared resource", "wrong.tf line 2"] {
            assert!(log.contains(part), "{name}: {log}");
        }
    }
}

#[tokio::test]
async fn tests_are_counted() {
    const TESTS: &str = r#"
run "right" {
  assert {
    condition     = output.it == "a"
    error_message = "it is not a"
  }
}
run "wrong" {
  assert {
    condition     = output.it == "b"
    error_message = "it is not b"
  }
}
"#;
    for engine in engines().into_iter().filter(|engine| engine.has((1, 6), (1, 6))) {
        let name = engine.name();
        let world = engine.world(&[("main.tf", MODULE), ("tests/it.tftest.hcl", TESTS)]).await;
        let end = engine.run(&world, "test").await;
        assert_ne!(end.code, Some(0), "{name}");
        let (message, _) = world.last_error();
        assert!(message.contains("1 passed, 1 failed"), "{name}: {message}");
        let log = world.received().log_text();
        assert!(log.contains("it is not b"), "{name}: {log}");
    }
}

#[tokio::test]
async fn workspaces_have_states_of_their_own() {
    for engine in engines() {
        let name = engine.name();
        let world = engine.world(&[("main.tf", MODULE)]).await;
        for (workspace, added) in [("blue", 2), ("green", 2), ("blue", 0)] {
            let end = engine
                .run_with(&world, "apply", |config| {
                    config["envVars"] = json!({"TF_WORKSPACE": {"value": workspace}});
                    config["stateBackend"]["config"]["workspace_dir"] = json!(world.path("states"));
                })
                .await;
            engine.assert_succeeded(&world, &end);
            assert_eq!(world.last_status()["resources_to_add"], added, "{name} {workspace}");
        }
    }
}
