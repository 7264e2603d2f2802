//! Applies whose state does not reach the backend: completed changes are reported as completed, and the state that the
//! tool has left is pushed or named with a command that works.

use std::path::PathBuf;

use serde_json::{Value, json};

use butler_testing::http_backend::HttpBackend;
use butler_testing::stand_in::StandIn;
use butler_testing::world::{MODULE, RunEnd, World, eventually};

/// The address and the outcome of each change of an incomplete apply.
fn outcomes(result: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let changes = result["incomplete"]["changes"].as_array().unwrap();
    changes.iter().map(|it| (text(&it["address"]), text(&it["outcome"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, outcome)| ((*name).to_owned(), (*outcome).to_owned())).collect()
}

/// Applies a module in a directory of the user.
async fn apply_in_place(world: &World, module: &str) -> (RunEnd, Value, PathBuf) {
    let directory = world.path("module");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("main.tf"), module).unwrap();
    let mut command = world.command(&["execute", "--local", "--operation", "apply"]);
    command.arg("--module-dir").arg(&directory);
    command.arg("--report-dir").arg(world.path("reports"));
    command.arg("--summary").arg(world.path("summary.md"));
    let end = world.end(&command.output().await.unwrap());
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    (end, result(world), directory)
}

fn result(world: &World) -> Value {
    let text = std::fs::read_to_string(world.path("reports/result.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn http(server: &HttpBackend) -> Value {
    json!({"type": "http", "config": server.config()})
}

#[tokio::test]
async fn change_whose_state_is_refused_is_reported_as_made() {
    let server = HttpBackend::start().await;
    server.refuse(&["OperationTypeApply"]);
    let world = World::new(&[]).await;
    let module = format!("{MODULE}{}", server.block());
    let (_, result, _) = apply_in_place(&world, &module).await;
    assert_eq!(outcomes(&result), pairs(&[("terraform_data.hello", "not-in-state")]));
    assert_eq!((&result["counts"]["add"], &result["resources_after"]), (&json!(1), &json!(1)));
    assert_eq!(result["incomplete"]["not_in_state"], 1);
    let message = result["error"]["message"].as_str().unwrap();
    let named = "created, but not in the stored state: terraform_data.hello; the state could not be stored and is in `";
    assert!(message.contains(named), "{message}");
    let summary = std::fs::read_to_string(world.path("summary.md")).unwrap();
    let row = "| ⚠️ | created, but not in the stored state | `terraform_data.hello` | the next apply would make it again |";
    assert!(summary.contains(row), "{summary}");
}

#[tokio::test]
async fn change_whose_state_the_runner_cannot_push_is_reported_as_made() {
    let server = HttpBackend::start().await;
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("BUTLER_REPORT_DIR", world.path("reports"));
    server.refuse(&["OperationTypeApply", "state-push"]);
    let end = world.run(world.config_in("apply", &http(&server))).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(outcomes(&result(&world)), pairs(&[("terraform_data.hello", "not-in-state")]));
    let status = world.last_status();
    assert_eq!(
        (&status["resources_to_add"], &status["resource_count_after"]),
        (&json!(1), &json!(1))
    );
    // A state that the runner has pushed is complete.
    server.refuse(&["OperationTypeApply"]);
    let end = world.run(world.config_in("apply", &http(&server))).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let result = result(&world);
    assert_eq!((&result["incomplete"], &result["counts"]["add"]), (&Value::Null, &json!(1)));
}

#[tokio::test]
async fn change_of_a_tool_that_was_killed_before_it_stored_its_state_is_reported_as_made() {
    let server = HttpBackend::start().await;
    let world = World::new(&[]).await;
    let module = format!(
        "{}resource \"terraform_data\" \"made\" {{}}\nresource \"terraform_data\" \"slow\" {{\n  \
         depends_on = [terraform_data.made]\n  provisioner \"local-exec\" {{\n    \
         command = \"kill -KILL $PPID; exec sleep 600\"\n  }}\n}}\n\
         resource \"terraform_data\" \"never\" {{\n  input = terraform_data.slow.id\n}}\n",
        server.block()
    );
    let (_, result, _) = apply_in_place(&world, &module).await;
    assert_eq!(server.state(), None);
    let expected = pairs(&[
        ("terraform_data.made", "not-in-state"),
        ("terraform_data.never", "not-started"),
        ("terraform_data.slow", "interrupted"),
    ]);
    assert_eq!(outcomes(&result), expected);
    assert_eq!((&result["counts"]["add"], &result["resources_after"]), (&json!(1), &Value::Null));
    let message = result["error"]["message"].as_str().unwrap();
    let named = "created, but not in the stored state: terraform_data.made";
    assert!(message.contains(named), "{message}");
    let advice = result["error"]["advice"].as_str().unwrap();
    assert!(advice.contains("import what was created"), "{advice}");
}

#[tokio::test]
async fn reason_says_where_a_state_is_that_the_tool_could_not_write_to_a_file() {
    let server = HttpBackend::start().await;
    server.refuse(&["OperationTypeApply"]);
    let world = World::new(&[]).await;
    std::fs::create_dir_all(world.path("module/errored.tfstate")).unwrap();
    let module = format!("{MODULE}{}", server.block());
    let (_, result, _) = apply_in_place(&world, &module).await;
    assert_eq!(outcomes(&result), pairs(&[("terraform_data.hello", "not-in-state")]));
    let message = result["error"]["message"].as_str().unwrap();
    assert!(message.contains("the only copy is in the log of this run"), "{message}");
    assert!(!message.contains("state push"), "{message}");
    let log = std::fs::read_to_string(world.path("reports/log.txt")).unwrap();
    assert!(log.contains("\"lineage\""), "{log}");
}

#[tokio::test]
async fn empty_file_is_not_named_as_the_state() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let act = ": > errored.tfstate; echo 'Error: Failed to save state' >&2; \
               echo 'Error: Failed to create local state file' >&2; exit 1";
    StandIn::doing(&mut world, &[("plan", "exit 0"), ("apply", act)]);
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(!end.stderr.contains("state push"), "{}", end.stderr);
    assert!(end.stderr.contains("the only copy is in the log of this run"), "{}", end.stderr);
    assert!(!world.path("cache/recovery").exists());
}

/// A module with encryption, as `OpenTofu` reads it. Only a stand-in runs it here.
const ENCRYPTED: &str = "terraform {\n  backend \"http\" {}\n  encryption {\n    state {\n      \
                         method = method.aes_gcm.m\n    }\n  }\n}\n";

/// A state that `OpenTofu` has encrypted.
const STATE: &str =
    r#"{"serial":1,"lineage":"a","meta":{},"encrypted_data":"eA==","encryption_version":"v0"}"#;

/// A stand-in that leaves an encrypted state, and decrypts it only in a directory with the encryption and without a
/// backend. `push` is its script for `state push FILE`.
fn encrypting(world: &mut World, push: &str) -> StandIn {
    let apply = format!(
        "printf '%s' '{STATE}' > errored.tfstate; echo 'Error: Failed to save state' >&2; exit 1"
    );
    let state = format!(
        "if [ \"$2\" = pull ]; then\n    grep -q encryption main.tf && ! grep -q backend main.tf || exit 1\n    \
         [ -z \"$TF_WORKSPACE\" ] && grep -q encrypted_data terraform.tfstate || exit 1\n    \
         echo 'There are some problems'; echo '{{\"version\": 4, \"decrypted\": true}}'; exit 0\n  fi\n  \
         for file; do :; done; cp \"$file\" \"$record/pushed\"; {push}"
    );
    StandIn::doing(world, &[("plan", "exit 0"), ("apply", &apply), ("state", &state)])
}

#[tokio::test]
async fn encrypted_state_is_decrypted_and_pushed() {
    let mut world = World::new(&[("main.tf", ENCRYPTED)]).await;
    let tool = encrypting(&mut world, "exit 0");
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(tool.record("pushed"), "{\"version\": 4, \"decrypted\": true}\n", "{}", end.stderr);
    assert!(end.stderr.contains("was then pushed by the runner"), "{}", end.stderr);
    assert!(!world.path("cache/recovery").exists());
}

#[tokio::test]
async fn kept_encrypted_state_can_be_decrypted_with_the_command_that_is_printed() {
    let mut world = World::new(&[("main.tf", ENCRYPTED)]).await;
    encrypting(&mut world, "exit 1");
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let kept = world.left_in("cache/recovery");
    let [kept] = kept.as_slice() else { panic!("{kept:?}") };
    let command = format!("tofu -chdir={} state pull | terraform state push -`", kept.display());
    let last = end.stderr.trim_end().lines().last().unwrap();
    assert!(last.contains(&command), "{last}");
    assert_eq!(std::fs::read_to_string(kept.join("terraform.tfstate")).unwrap(), STATE);
    let text = std::fs::read_to_string(kept.join("main.tf")).unwrap();
    assert!(text.contains("encryption") && !text.contains("backend"), "{text}");
}

#[tokio::test]
async fn next_run_keeps_the_encrypted_state_of_a_killed_run_decryptable() {
    let mut world = World::new(&[("main.tf", ENCRYPTED)]).await;
    let act = format!("printf '%s' '{STATE}' > errored.tfstate");
    let tool = StandIn::install_waiting(&mut world, "apply", &act);
    world.add_run(world.config("apply"));
    let mut runner = world.execute().spawn().unwrap();
    tool.wait_until_running().await;
    runner.kill().await.unwrap();
    tool.resume();
    eventually("an end of all processes", || world.processes().is_empty()).await;
    let end = world.end(&world.command(&["clean"]).output().await.unwrap());
    assert_eq!(end.code, Some(0), "{}", end.stdout);
    let kept = world.left_in("cache/recovery");
    let [kept]: &[PathBuf] = kept.as_slice() else { panic!("{kept:?}") };
    let command = format!("tofu -chdir={} state pull | tofu state push -`", kept.display());
    assert!(end.stdout.contains(&command), "{}", end.stdout);
    assert!(kept.join("main.tf").is_file());
}

#[tokio::test]
async fn validate_hides_an_encrypted_state_beside_the_module() {
    let mut world = World::new(&[("main.tf", MODULE), ("terraform.tfstate", STATE)]).await;
    let init = "mkdir -p \"terraform.tfstate.d/$TF_WORKSPACE\"; echo \"$TF_WORKSPACE\" > \"$record/workspace\"; \
                ls > \"$record/before\"";
    let validate = "ls > \"$record/after\"; echo '{\"valid\": true, \"diagnostics\": []}'";
    let tool = StandIn::doing(&mut world, &[("init", init), ("validate", validate)]);
    let end = world.run(world.config("validate")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_ne!(tool.record("workspace").trim(), "");
    assert!(tool.record("before").contains("terraform.tfstate.d"));
    assert!(!tool.record("after").contains("terraform.tfstate.d"), "{}", tool.record("after"));
}
