//! Runs whose configuration names the path of their directory.

use std::path::Path;

use serde_json::{Value, json};

use butler_testing::stand_in::StandIn;
use butler_testing::world::{MODULE, World, eventually};

/// A module that says where it is.
const PLACE: &str = "output \"place\" { value = abspath(path.module) }\n";

fn config(world: &World, operation: &str, directory: &Path) -> Value {
    let mut config = world.config(operation);
    config["workDirectory"] = json!(directory);
    config
}

#[tokio::test]
async fn module_is_at_the_named_path_in_each_run_and_the_directory_is_removed() {
    let world = World::new(&[("main.tf", PLACE)]).await;
    // Its parent does not exist either.
    let directory = world.path("work/a");
    for _ in 0..2 {
        let end = world.run(config(&world, "apply", &directory)).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let received = world.received();
        let place = &received.outputs[0]["outputs"]["place"];
        assert_eq!(place["value"], json!(directory.join("source")), "{place}");
        assert!(!directory.exists());
    }
    assert!(world.left_in("tmp").is_empty());
}

#[tokio::test]
async fn directory_of_a_killed_run_is_wiped_and_used_again() {
    let mut world = World::new(&[("main.tf", PLACE)]).await;
    let directory = world.path("work/a");
    let path = std::mem::take(&mut world.variables);
    world.variables.clone_from(&path);
    let tool = StandIn::install_waiting(&mut world, "plan", "");
    world.add_run(config(&world, "plan", &directory));
    let mut runner = world.execute().spawn().unwrap();
    tool.wait_until_running().await;
    runner.kill().await.unwrap();
    tool.resume();
    let left = directory.join("left");
    std::fs::write(&left, "secret").unwrap();
    eventually("an end of all processes", || world.processes().is_empty()).await;
    world.variables = path;
    let end = world.run(config(&world, "apply", &directory)).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(end.stderr.contains("left over"), "{}", end.stderr);
    assert!(!directory.exists());
}

#[tokio::test]
async fn directory_that_is_not_of_a_run_is_left_alone() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let directory = world.path("precious");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("file"), "precious").unwrap();
    let end = world.run(config(&world, "plan", &directory)).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let expected = format!(
        "cannot use `{}`: another run uses it, or it is not the directory of a run",
        directory.display()
    );
    let received = world.received();
    let error = &received.statuses.last().unwrap()["error"];
    assert!(error["message"].as_str().unwrap().contains(&expected), "{error}");
    // A server tries again: the wipe of an earlier run can still be under way.
    assert_eq!(error["class"], "platform", "{error}");
    assert_eq!(std::fs::read_to_string(directory.join("file")).unwrap(), "precious");
}
