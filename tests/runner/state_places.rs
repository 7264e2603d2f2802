//! The location of a state with real Terraform, and that no state is written where it would be
//! lost.

use serde_json::json;

use butler_testing::world::{MODULE, RUN_ID, World};

const IN_CLONE: &str =
    "terraform {\n  backend \"local\" {\n    path = \"states/own.tfstate\"\n  }\n}\n";

#[tokio::test]
async fn state_inside_the_clone_is_refused_before_anything_is_created() {
    for operation in ["apply", "destroy"] {
        for (files, backend, path) in [
            (vec![("main.tf", MODULE)], json!(null), "terraform.tfstate"),
            (vec![("main.tf", MODULE), ("b.tf", IN_CLONE)], json!(null), "states/own.tfstate"),
            (
                vec![("main.tf", MODULE)],
                json!({"type": "local", "config": {"path": "a/../b.tfstate"}}),
                "a/../b.tfstate",
            ),
        ] {
            let world = World::new(&files).await;
            let end = world.run(world.config_in(operation, &backend)).await;
            assert_eq!(end.code, Some(1), "{}", end.stderr);
            let (message, advice) = world.last_error();
            assert_eq!(message, format!("the state, `{path}` in the clone, is lost at the end"));
            assert!(advice.contains("--allow-ephemeral-state"), "{advice}");
            assert!(!world.received().log_text().contains("Initializing"), "before init");
        }
    }
}

#[tokio::test]
async fn run_with_a_state_path_in_the_clone_is_refused_before_cloning() {
    let world = World::new(&[]).await;
    let mut config = world.config_in("apply", &json!({"type": "local", "config": {}}));
    config["source"]["gitRepo"] = json!("file:///nonexistent");
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, _) = world.last_error();
    assert_eq!(message, "the state, `terraform.tfstate` in the clone, is lost at the end");
}

#[tokio::test]
async fn workspace_variable_determines_the_path_of_the_state() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("TF_WORKSPACE", "blue");
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, _) = world.last_error();
    assert!(message.contains("`terraform.tfstate.d/blue/terraform.tfstate`"), "{message}");
}

#[tokio::test]
async fn state_outside_of_the_clone_is_accepted() {
    let world = World::new(&[]).await;
    let state = world.path("own.tfstate");
    let block = IN_CLONE.replace("states/own.tfstate", state.to_str().unwrap());
    world.commit(&[("main.tf", MODULE), ("backend.tf", &block)]);
    let end = world.run(world.config_in("apply", &json!(null))).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(state.is_file());
    assert!(!world.received().log_text().contains("is lost at the end"));
}

#[tokio::test]
async fn operations_without_state_and_allowed_loss_are_not_refused() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    for operation in ["plan", "validate", "drift-check", "refresh", "test"] {
        let end = world.run(world.config_in(operation, &json!(null))).await;
        assert_eq!(end.code, Some(0), "{operation}: {}", end.stderr);
        assert!(!world.received().log_text().contains("is lost at the end"));
    }
    world.set("BUTLER_ALLOW_EPHEMERAL_STATE", "true");
    let end = world.run(world.config_in("apply", &json!(null))).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let warning = "Warning: the state, `terraform.tfstate` in the clone, is lost at the end";
    assert!(world.received().log_text().contains(warning));
    assert_eq!(world.registry.run(RUN_ID).unwrap().received.outputs.len(), 1);
}

#[tokio::test]
async fn unknown_state_path_is_not_refused() {
    let broken = ("backend.tf", "terraform {\n  backend \"http\" {\n");
    let world = World::new(&[("main.tf", MODULE), broken]).await;
    let end = world.run(world.config_in("apply", &json!(null))).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.last_status()["error"]["phase"], "init", "Terraform explains its syntax");

    let mut world = World::new(&[("main.tf", MODULE), ("b.tf", IN_CLONE)]).await;
    let state = world.path("elsewhere.tfstate");
    world.set("TF_CLI_ARGS_init", format!("-backend-config=path={}", state.display()));
    let end = world.run(world.config_in("apply", &json!(null))).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(state.is_file());
}
