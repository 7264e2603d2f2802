//! Secrets that only the state knows are masked from the first line on.

use serde_json::{Value, json};

use butler_testing::http_backend::HttpBackend;
use butler_testing::world::World;

const SECRET: &str = "hunter22-of-the-state";

/// Stores a value that is marked as sensitive.
const MARKED: &str = r#"
resource "terraform_data" "p" {
  input = sensitive("hunter22-of-the-state")
}
"#;

/// Prints the stored value before the plan is complete. Its mark is only in the state.
const PRINTING: &str = r#"
resource "terraform_data" "p" {
  input = "other"
  lifecycle {
    ignore_changes = [input]
  }
}
check "prints" {
  assert {
    condition     = terraform_data.p.output == ""
    error_message = "The value is ${terraform_data.p.output}."
  }
}
"#;

fn assert_masked(world: &World, what: &str) {
    let log = world.received().log_text();
    assert!(log.contains("The value is ***."), "{what}: {log}");
    let plans = world.received().plans.iter().map(Value::to_string).collect::<String>();
    assert!(!log.contains(SECRET) && !plans.contains(SECRET), "{what}: {log}\n{plans}");
}

#[tokio::test]
async fn value_that_only_the_state_marks_is_masked_in_every_operation() {
    let world = World::new(&[("main.tf", MARKED)]).await;
    assert_eq!(world.run(world.config("apply")).await.code, Some(0));
    world.commit(&[("main.tf", PRINTING)]);
    for operation in ["drift-check", "plan", "refresh", "apply"] {
        let end = world.run(world.config(operation)).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        assert_masked(&world, operation);
        assert!(!format!("{}{}", end.stdout, end.stderr).contains(SECRET), "{operation}");
    }
}

#[tokio::test]
async fn state_in_a_remote_backend_and_in_a_workspace_is_read() {
    let backend = HttpBackend::start().await;
    let world = World::new(&[("main.tf", MARKED)]).await;
    let config = |operation: &str| {
        world.config_in(operation, &json!({"type": "http", "config": backend.config()}))
    };
    assert_eq!(world.run(config("apply")).await.code, Some(0));
    world.commit(&[("main.tf", PRINTING)]);
    let end = world.run(config("drift-check")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_masked(&world, "http");

    let world = World::new(&[("main.tf", MARKED)]).await;
    let config = |operation: &str| {
        let mut config = world.config(operation);
        config["envVars"] = json!({"TF_WORKSPACE": {"value": "blue"}});
        config["stateBackend"]["config"]["workspace_dir"] = json!(world.path("states"));
        config
    };
    assert_eq!(world.run(config("apply")).await.code, Some(0));
    world.commit(&[("main.tf", PRINTING)]);
    let end = world.run(config("drift-check")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_masked(&world, "workspace");
}

#[tokio::test]
async fn outputs_of_another_state_are_masked_although_nothing_marks_them_here() {
    let read = |path: &str| {
        format!(
            "data \"terraform_remote_state\" \"up\" {{\n  backend = \"local\"\n  config = {{ path = {path} }}\n}}\n\
             resource \"terraform_data\" \"copy\" {{\n  input = data.terraform_remote_state.up.outputs.login\n}}\n\
             output \"region\" {{\n  value = data.terraform_remote_state.up.outputs.region\n}}\n"
        )
    };
    let world = World::new(&[("main.tf", "")]).await;
    let upstream = json!({"version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "up",
        "outputs": {"login": {"value": SECRET, "type": "string", "sensitive": true},
            "region": {"value": "eu-central-1", "type": "string"}}, "resources": []});
    std::fs::write(world.path("up.tfstate"), upstream.to_string()).unwrap();
    let path = world.path("up.tfstate").display().to_string();
    world.commit(&[("main.tf", &read(&format!("\"{path}\"")))]);
    // The plan of a new module prints the value, and the second run knows it from its own state too.
    for operation in ["plan", "apply", "drift-check"] {
        let end = world.run(world.config(operation)).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let log = world.received().log_text();
        let all = world.reports_and_output(&end);
        assert!(!log.contains(SECRET) && !all.contains(SECRET), "{operation}: {all}");
        assert!(all.contains("eu-central-1"), "{operation}: {all}");
    }
    // The module's files do not name the place any more, but its state does.
    world.commit(&[
        ("main.tf", &read("join(\"\", [var.path])")),
        ("vars.tf", "variable \"path\" {}\n"),
    ]);
    let mut config = world.config("drift-check");
    config["variables"] = json!({"path": {"value": path}});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(!world.reports_and_output(&end).contains(SECRET));
}
