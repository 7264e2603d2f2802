//! Plans that one run of a registry makes and another one applies.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::commands::wrap_terraform;
use butler_testing::world::{RUN_ID, RunEnd, World, eventually};

/// A module whose plan depends on a variable, and whose apply reads a file that the plan has made.
const MODULE: &str = r#"
variable "size" { default = "small" }
resource "terraform_data" "it" {
  input = var.size
  provisioner "local-exec" { command = "cat build/a.zip" }
}
output "size" { value = terraform_data.it.output }
"#;

/// A world in which each plan also writes `build/a.zip`, as the data source `archive_file` does.
async fn world() -> World {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let create = "if [ \"$1\" = plan ]; then mkdir -p build && echo content > build/a.zip; fi";
    wrap_terraform(&mut world, &format!("{create}\nexec \"$real\" \"$@\""));
    world
}

fn config(world: &World, operation: &str) -> Value {
    let mut config = world.config(operation);
    config["workDirectory"] = json!(world.path("work/a"));
    config
}

/// Makes a plan, and returns what the registry was sent.
async fn plan(world: &World, purpose: &str) -> Vec<u8> {
    let mut plan = config(world, "plan");
    plan["variables"] = json!({"size": {"value": "large"}});
    plan["planPurpose"] = json!(purpose);
    plan["callbacks"]["planFileUrl"] = json!(format!("/v1/ci/module-runs/{RUN_ID}/plan-file"));
    let end = world.run(plan).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let received = world.received();
    // The registry has the plan before it knows that the run has succeeded.
    let names = received.request_names();
    assert_eq!(names.last().unwrap(), "POST status", "{names:?}");
    assert_eq!(received.plan_files.len(), 1, "{names:?}");
    assert!(world.left_in("work").is_empty());
    received.plan_files[0].to_vec()
}

/// The configuration that applies `file`.
fn apply(world: &World, operation: &str, file: &[u8]) -> Value {
    let mut config = config(world, operation);
    let url = format!("/v1/ci/module-runs/{RUN_ID}/plan-file");
    config["planFile"] = json!({"url": url, "sha256": hex::encode(Sha256::digest(file))});
    config
}

/// Executes a run to which the registry sends `file`.
async fn run(world: &World, config: Value, file: Vec<u8>) -> RunEnd {
    world.add_run(config);
    world.registry.set_plan_file(RUN_ID, file);
    let output = world.execute().output().await.unwrap();
    world.end(&output)
}

/// The reason of the failed run. Nothing was applied.
fn refusal(world: &World, end: &RunEnd) -> String {
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(!world.path("terraform.tfstate").exists());
    let received = world.received();
    received.statuses.last().unwrap()["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn plan_that_changes_nothing_is_not_sent() {
    let nothing = "locals {\n  a = 1\n}\n";
    let output = "output \"a\" {\n  value = 1\n}\n";
    for (module, purpose, is_sent) in
        [(nothing, "apply", false), (nothing, "destroy", true), (output, "apply", true)]
    {
        let world = World::new(&[("main.tf", module)]).await;
        let mut plan = config(&world, "plan");
        plan["planPurpose"] = json!(purpose);
        plan["callbacks"]["planFileUrl"] = json!(format!("/v1/ci/module-runs/{RUN_ID}/plan-file"));
        let end = world.run(plan).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let received = world.received();
        assert_eq!(received.plan_files.len(), usize::from(is_sent), "{module} {purpose}");
        assert_eq!(received.plans.len(), 1, "the plan itself is reported");
        let changes = &received.statuses.last().unwrap()["plan_changes"];
        assert_eq!(*changes, module == output, "{module} {purpose}");
    }
}

#[tokio::test]
async fn plan_of_one_run_is_applied_by_another_one() {
    let world = world().await;
    let file = plan(&world, "apply").await;
    // The variable has its default here: only the plan counts.
    let end = run(&world, apply(&world, "apply", &file), file).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let received = world.received();
    assert_eq!(received.outputs[0]["outputs"]["size"]["value"], "large");
    assert!(received.log_text().contains("content"), "{}", received.log_text());

    let file = plan(&world, "destroy").await;
    // A destroy plan is not applied by mistake.
    let end = run(&world, apply(&world, "apply", &file), file.clone()).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let received = world.received();
    let reason = received.statuses.last().unwrap()["error"]["message"].as_str().unwrap();
    assert!(reason.contains("is a plan for `destroy`, and the run is `apply`"), "{reason}");
    let end = run(&world, apply(&world, "destroy", &file), file).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.received().statuses.last().unwrap()["resources_to_destroy"], 1);
    assert!(world.left_in("work").is_empty());
}

/// A program that is a newer version, and does nothing else.
const NEWER: &str = "#!/bin/sh
case \"$*\" in
*-json*) echo '{\"terraform_version\": \"1.99.0\"}' ;;
version) echo 'Terraform v1.99.0' ;;
*) echo 'the newer version was started' >&2; exit 1 ;;
esac
";

#[tokio::test]
async fn plan_is_applied_with_its_own_version_if_a_newer_one_was_installed() {
    let world = world().await;
    let file = plan(&world, "apply").await;
    // The real one is further back on PATH.
    let write = "printf '%s' \"$2\" >\"$1\"";
    let program = world.path("bin/terraform");
    let mut shell = std::process::Command::new("sh");
    let written = shell.args(["-c", write, "sh"]).arg(&program).arg(NEWER).status();
    assert!(written.unwrap().success());
    let end = run(&world, apply(&world, "apply", &file), file.clone()).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);

    // The plan is stale for a run that names another version.
    let mut named = apply(&world, "apply", &file);
    named["terraformVersion"] = json!("1.99.0");
    let end = run(&world, named, file).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let error = world.last_status()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("not with terraform 1.99.0"), "{error}");
    assert_eq!(error["class"], "stale-plan", "{error}");
}

#[tokio::test]
async fn plan_with_another_digest_is_not_applied() {
    let world = world().await;
    let file = plan(&world, "apply").await;
    let mut other = file.clone();
    let middle = other.len() / 2;
    other[middle] ^= 1;
    let end = run(&world, apply(&world, "apply", &file), other).await;
    let reason = refusal(&world, &end);
    assert!(reason.contains("has another digest than the configuration names"), "{reason}");
}

#[tokio::test]
async fn plan_is_not_applied_at_another_path() {
    let world = world().await;
    let file = plan(&world, "apply").await;
    let mut config = apply(&world, "apply", &file);
    config["workDirectory"] = json!(world.path("work/b"));
    let end = run(&world, config, file).await;
    let reason = refusal(&world, &end);
    assert!(reason.contains(&world.path("work/a/source").display().to_string()), "{reason}");
}

#[tokio::test]
async fn plan_that_the_state_has_overtaken_is_not_applied() {
    let world = world().await;
    let file = plan(&world, "apply").await;
    let end = world.run(config(&world, "apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let end = run(&world, apply(&world, "apply", &file), file).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let log = world.received().log_text();
    assert!(log.contains("Saved plan is stale"), "{log}");
}

#[tokio::test]
async fn apply_of_a_run_that_ended_meanwhile_does_not_begin() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    // The run asks for its status at the start, and once more before the apply.
    world.set("BUTLER_CANCEL_INTERVAL", "1h");
    let (hold, waiting) = (world.path("hold"), world.path("waiting"));
    let script = format!(
        "if [ \"$1\" = plan ]; then mkdir -p build && echo content > build/a.zip; fi
if [ \"$1\" = init ] && [ -e '{0}' ]; then
  touch '{1}'
  while [ -e '{0}' ]; do sleep 0.01; done
fi
exec \"$real\" \"$@\"",
        hold.display(),
        waiting.display()
    );
    wrap_terraform(&mut world, &script);
    let file = plan(&world, "apply").await;
    std::fs::write(&hold, "").unwrap();
    world.add_run(apply(&world, "apply", &file));
    world.registry.set_plan_file(RUN_ID, file);
    let runs = world.execute().output();
    let ends = async {
        eventually("init", || waiting.exists()).await;
        world.registry.set_status(RUN_ID, "cancelled");
        std::fs::remove_file(&hold).unwrap();
    };
    let (output, ()) = tokio::join!(runs, ends);
    let end = world.end(&output.unwrap());
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    assert!(!world.path("terraform.tfstate").exists());
}

#[tokio::test]
async fn plan_that_the_registry_does_not_take_fails_the_run() {
    let world = world().await;
    world.fault("PUT", "plan-file", 403);
    let mut plan = config(&world, "plan");
    plan["callbacks"]["planFileUrl"] = json!(format!("/v1/ci/module-runs/{RUN_ID}/plan-file"));
    let end = world.run(plan).await;
    assert_ne!(end.code, Some(0), "{}", end.stderr);
    let received = world.received();
    let reason = &received.statuses.last().unwrap()["error"]["message"];
    assert!(reason.as_str().unwrap().contains("refused to take the saved plan"), "{reason}");
}
