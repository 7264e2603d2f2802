//! Each backend with a recipe in `docs/backends.md`, in whole runs with the real Terraform.

mod cloud;
mod locks;
mod recipes;
mod s3;
mod schemas;
mod workspaces;

use serde_json::{Value, json};

use butler_testing::world::{World, files_with, merge};

/// A module that prints the backend settings that Terraform stores.
const MODULE: &str = r#"
resource "terraform_data" "value" {
  input = "kept"
  provisioner "local-exec" {
    command = "cat .terraform/terraform.tfstate"
  }
}
output "value" {
  value = terraform_data.value.output
}
"#;

/// The recipe for this type in `docs/backends.md`, with `changes` to its settings.
fn recipe(kind: &str, changes: &Value) -> Value {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/backends.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (_, section) = text.split_once(&format!("\n## {kind}\n")).expect("there is a recipe");
    let (_, json) = section.split_once("```json\n").unwrap();
    let (json, _) = json.split_once("```").unwrap();
    let mut backend: Value = serde_json::from_str(json).unwrap();
    assert_eq!(backend["type"], kind);
    merge(&mut backend["config"], changes);
    backend
}

fn config(world: &World, operation: &str, backend: &Value) -> Value {
    let mut config = world.config(operation);
    config["stateBackend"] = backend.clone();
    config
}

/// Applies [`MODULE`] with this backend. Asserts that the next run finds the state, and that no run
/// shows and no file contains any of `secrets`, though the module prints them.
async fn assert_kept(world: &World, backend: &Value, secrets: &[&str]) {
    for (operation, result) in
        [("apply", "1 added, 0 changed, 0 destroyed"), ("plan", "No changes.")]
    {
        let end = world.run(config(world, operation, backend)).await;
        assert_eq!(end.code, Some(0), "{operation}: {}\n{}", end.stderr, end.stdout);
        let log = world.received().log_text();
        assert!(log.contains(result), "{operation}: {log}");
        let kind = format!("\"type\": {}", backend["type"]);
        assert_eq!(log.contains(&kind), operation == "apply", "the module prints: {log}");
        let shown = world.reports_and_output(&end);
        for secret in secrets {
            assert!(!shown.contains(secret), "{secret} in {shown}");
            let files = files_with(world.directory.path(), secret);
            assert!(files.is_empty(), "{secret} in {files:?}");
        }
    }
}

/// The error and the advice of the last run.
fn failure(world: &World) -> (String, String) {
    let error = world.last_status()["error"].clone();
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (text("message"), text("advice"))
}

/// A variable of a run, marked as sensitive.
fn sensitive(value: &str) -> Value {
    json!({"value": value, "sensitive": true})
}
