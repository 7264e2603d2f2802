//! A Terraform whose runner is killed, or was stopped before, comes to its end: real Terraform, whose
//! resources print many lines after that.

use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::process::Child;

use butler_testing::root::as_root_async;
use butler_testing::world::{World, eventually};

/// The state of the runner before it is killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reader {
    /// It reads until then.
    Reads,
    /// It is stopped, so that a pipe would be full.
    IsStopped,
}

/// More than any pipe holds, in lines of 100 bytes.
const MANY: u32 = 20_000;

/// Creates a resource that prints a line, waits for `go`, and prints `lines` lines; and then a second one.
fn module(world: &World, lines: u32) -> String {
    let (begun, go) = (world.path("open/begun"), world.path("open/go"));
    let line = "x".repeat(100);
    format!(
        r#"
resource "terraform_data" "first" {{
  provisioner "local-exec" {{
    command = <<-EOT
      echo begun; : > '{}'; while [ ! -e '{}' ]; do sleep 0.02; done
      i=0; while [ $i -lt {lines} ]; do echo {line}; i=$((i+1)); done
    EOT
  }}
}}
resource "terraform_data" "second" {{ input = terraform_data.first.id }}
"#,
        begun.display(),
        go.display(),
    )
}

/// The resources in the state that are not tainted.
fn created(world: &World) -> Vec<String> {
    let state = std::fs::read(world.path("states/terraform.tfstate")).unwrap_or_default();
    let Ok(state) = serde_json::from_slice::<Value>(&state) else { return Vec::new() };
    let resources = state["resources"].as_array().into_iter().flatten();
    let whole = resources.filter(|it| it["instances"][0].get("status").is_none());
    whole.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

/// Executes an apply in `isolation`, kills the runner while the first resource is created, and asserts
/// that all resources are in the state afterwards.
async fn assert_state_is_complete(isolation: &str, reader: Reader, lines: u32) {
    let mut world = World::new(&[]).await;
    for name in ["open", "states", "runs"] {
        std::fs::create_dir(world.path(name)).unwrap();
    }
    // A user of the run can enter all of it.
    let mode = |name: &str, mode| {
        std::fs::set_permissions(world.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o711);
    mode("open", 0o777);
    mode("states", 0o777);
    world.commit(&[("main.tf", &module(&world, lines))]);
    world.set("BUTLER_WORK_DIR", world.path("runs"));
    world.set("BUTLER_ISOLATION_WRITE", world.path("open"));
    let path = world.path("states/terraform.tfstate");
    world.add_run(world.config_in("apply", &json!({"type": "local", "config": {"path": path}})));
    let mut runner = world.execute().args(["--isolation", isolation]).spawn().unwrap();
    let begun = world.path("open/begun");
    eventually("a resource that is being created", || begun.exists()).await;
    if reader == Reader::IsStopped {
        signal(&runner, Signal::SIGSTOP);
        std::fs::write(world.path("open/go"), "").unwrap();
        // It goes on although no one reads.
        eventually("an end of the apply", || created(&world).len() == 2).await;
    }
    runner.kill().await.unwrap();
    std::fs::write(world.path("open/go"), "").unwrap();
    let what = format!("a complete state: {isolation}, {reader:?}, {lines} lines");
    eventually(&what, || created(&world) == ["first", "second"]).await;
    // It leaves the directory alone while Terraform ends.
    while !world.left_in("runs").is_empty() {
        let output = world.command(&["clean"]).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn signal(runner: &Child, signal: Signal) {
    kill(Pid::from_raw(runner.id().unwrap().cast_signed()), signal).unwrap();
}

#[tokio::test]
async fn apply_of_a_killed_runner_stores_what_it_creates() {
    for isolation in ["none", "landlock"] {
        for (reader, lines) in
            [(Reader::Reads, 3), (Reader::Reads, MANY), (Reader::IsStopped, MANY)]
        {
            assert_state_is_complete(isolation, reader, lines).await;
        }
    }
}

#[tokio::test]
async fn apply_of_a_killed_runner_stores_what_it_creates_as_a_user_of_its_own() {
    as_root_async(async {
        for reader in [Reader::Reads, Reader::IsStopped] {
            assert_state_is_complete("user", reader, MANY).await;
        }
    })
    .await;
}

#[tokio::test]
async fn lines_that_were_printed_while_the_runner_was_stopped_are_not_lost() {
    let mut world = World::new(&[]).await;
    std::fs::create_dir(world.path("open")).unwrap();
    world.commit(&[("main.tf", &module(&world, MANY))]);
    world.add_run(world.config("apply"));
    world.set("BUTLER_ISOLATION", "none");
    let state = world.path("terraform.tfstate");
    let runner = world.execute().spawn().unwrap();
    let begun = world.path("open/begun");
    eventually("a resource that is being created", || begun.exists()).await;
    signal(&runner, Signal::SIGSTOP);
    std::fs::write(world.path("open/go"), "").unwrap();
    let complete = || std::fs::read_to_string(&state).is_ok_and(|it| it.contains("\"second\""));
    eventually("an end of the apply", complete).await;
    signal(&runner, Signal::SIGCONT);
    let end = world.end(&runner.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let log = world.received().log_text();
    assert_eq!(log.matches("(local-exec): xxx").count(), MANY as usize);
    assert!(log.contains("Apply complete! Resources: 2 added"), "{log}");
}
