//! `TF_WORKSPACE`: workspaces that do not exist yet, in backends that have others already.

use serde_json::{Value, json};

use super::config;
use butler_testing::Postgres;
use butler_testing::http_backend::HttpBackend;
use butler_testing::object_store::ObjectStore;
use butler_testing::world::{RunEnd, World};

/// A module whose resource is named after its workspace.
const MODULE: &str = r#"
resource "terraform_data" "it" { input = terraform.workspace }
output "it" { value = terraform_data.it.output }
"#;

/// What the log says about a workspace that is created.
fn created(name: &str) -> String {
    format!("The workspace `{name}` does not exist in the backend yet: it is created")
}

/// A run in the workspace `name`, which the run or the environment of the runner selects.
async fn run_in(
    world: &World,
    backend: &Value,
    (operation, name): (&str, &str),
    by_run: bool,
) -> RunEnd {
    let mut config = config(world, operation, backend);
    let mut command = world.execute();
    if by_run {
        config["envVars"] = json!({"TF_WORKSPACE": {"value": name}});
    } else {
        command.env("TF_WORKSPACE", name);
    }
    world.add_run(config);
    world.end(&command.output().await.unwrap())
}

/// Applies in several workspaces one after the other, and then once more in each.
async fn assert_created_once(backend: &Value) {
    let world = World::new(&[("main.tf", MODULE)]).await;
    for (is_new, by_run) in [(true, true), (false, false)] {
        for name in ["blue", "green", "red"] {
            let end = run_in(&world, backend, ("apply", name), by_run).await;
            assert_eq!(end.code, Some(0), "{name}: {}\n{}", end.stderr, end.stdout);
            let received = world.received();
            assert_eq!(received.outputs[0]["outputs"]["it"]["value"], name);
            assert_eq!(world.last_status()["resources_to_add"], i32::from(is_new), "{name}");
            let log = received.log_text();
            let says = log.lines().filter(|line| *line == created(name)).count();
            assert_eq!(says, usize::from(is_new), "{name}: {log}");
            assert!(!log.contains("Error"), "{name}: {log}");
        }
    }
    // The default workspace has no resource of the others.
    let end = run_in(&world, backend, ("plan", "default"), true).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.last_status()["resources_to_add"], 1);
    assert!(!world.received().log_text().contains("does not exist in the backend yet"));
}

#[tokio::test]
async fn workspaces_of_a_local_backend_are_created() {
    let states = tempfile::tempdir().unwrap();
    let path = |name: &str| states.path().join(name);
    let settings = json!({"path": path("terraform.tfstate"), "workspace_dir": path("workspaces")});
    assert_created_once(&json!({"type": "local", "config": settings})).await;
}

#[tokio::test]
async fn workspaces_of_a_pg_backend_are_created() {
    let server = Postgres::start();
    let settings = json!({"conn_str": server.connection_string(), "schema_name": "network"});
    assert_created_once(&json!({"type": "pg", "config": settings})).await;
    let names = "SELECT name FROM network.states ORDER BY name";
    assert_eq!(server.query(names), ["blue", "green", "red"]);
}

#[tokio::test]
async fn workspaces_of_an_s3_backend_are_created() {
    let store = ObjectStore::start().await;
    assert_created_once(&json!({"type": "s3", "config": store.config()})).await;
}

#[tokio::test]
async fn backend_without_workspaces_is_reported() {
    let server = HttpBackend::start().await;
    let world = World::new(&[("main.tf", MODULE)]).await;
    let backend = json!({"type": "http", "config": server.config()});
    let end = run_in(&world, &backend, ("plan", "blue"), true).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, _) = world.last_error();
    assert!(message.contains("workspaces not supported"), "{message}");
    let end = run_in(&world, &backend, ("plan", "default"), true).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
}

#[tokio::test]
async fn other_errors_of_init_are_reported_once() {
    let world = World::new(&[("main.tf", MODULE), ("broken.tf", "terraform {")]).await;
    let states = tempfile::tempdir().unwrap();
    let settings = json!({"path": states.path().join("a"), "workspace_dir": states.path()});
    let backend = json!({"type": "local", "config": settings});
    let end = run_in(&world, &backend, ("plan", "blue"), true).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let log = world.received().log_text();
    assert_eq!(log.matches("on broken.tf line 1").count(), 1, "{log}");
}

#[tokio::test]
async fn selection_of_a_users_directory_is_kept() {
    let world = World::new(&[]).await;
    let module = world.path("module");
    std::fs::create_dir(&module).unwrap();
    let block = "terraform {\n  backend \"local\" {}\n}\n";
    std::fs::write(module.join("main.tf"), format!("{block}{MODULE}")).unwrap();
    for (name, is_new) in [("blue", true), ("green", true), ("green", false)] {
        let mut command = world.command(&["apply", "--yes"]);
        command.current_dir(&module).env("TF_WORKSPACE", name);
        let end = world.end(&command.output().await.unwrap());
        assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, end.stdout);
        let text = format!("{}{}", end.stdout, end.stderr);
        assert_eq!(text.contains(&created(name)), is_new, "{name}: {text}");
        assert!(module.join(format!("terraform.tfstate.d/{name}/terraform.tfstate")).exists());
    }
    let selected = std::fs::read_to_string(module.join(".terraform/environment"));
    assert_eq!(selected.unwrap_or_else(|_| "default".to_owned()), "default");
}
