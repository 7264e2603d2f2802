//! Whoever signals a job, and how: Terraform gets one interrupt, never two, and keeps its state.

use std::path::Path;
use std::process::Output;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use butler_testing::processes::tree;
use butler_testing::world::{World, eventually};

/// One resource that is created, and then one whose provisioner records its start and does not end
/// by itself. It ignores SIGTERM, as provisioners may do.
pub(crate) fn held_module(started: &Path) -> String {
    format!(
        r#"
resource "terraform_data" "made" {{
  input = "made"
}}
resource "terraform_data" "held" {{
  depends_on = [terraform_data.made]
  provisioner "local-exec" {{
    command = "trap '' TERM; env > '{0}.part' && mv '{0}.part' '{0}'; for i in 1 2 3 4 5 6; do sleep 1; done"
  }}
}}
"#,
        started.display()
    )
}

/// Asserts that Terraform was interrupted once and stored the created resource.
pub(crate) fn assert_stopped_gracefully(world: &World, shown: &str) {
    let log = world.received().log_text();
    assert_eq!(log.matches("Interrupt received").count(), 1, "{shown}\n{log}");
    assert!(!log.contains("Two interrupts"), "{shown}\n{log}");
    assert!(!world.path(".terraform.tfstate.lock.info").exists());
    let state = std::fs::read_to_string(world.path("terraform.tfstate")).unwrap();
    for name in [r#""name": "made""#, r#""name": "held""#] {
        assert!(state.contains(name), "{name} is in the state: {state}\n{shown}\n{log}");
    }
}

/// Starts an apply in its own process group, calls `act` during the apply, and returns how it
/// ended.
async fn interrupted(variables: &[(&str, &str)], act: impl FnOnce(&World, Pid)) -> Output {
    let world = World::new(&[]).await;
    let started = world.path("started");
    world.commit(&[("main.tf", &held_module(&started))]);
    world.add_run(world.config("apply"));
    let mut command = world.execute();
    command.envs(variables.iter().copied()).process_group(0);
    let child = command.spawn().unwrap();
    let pid = Pid::from_raw(child.id().unwrap().cast_signed());
    eventually("a provisioner", || started.exists()).await;
    act(&world, pid);
    let output = child.wait_with_output().await.unwrap();
    let end = world.end(&output);
    assert_stopped_gracefully(&world, &end.stderr);
    assert_eq!(world.last_status()["error"]["class"], "stopped", "{}", end.stderr);
    output
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const SENT: &str = "sending SIGTERM";

#[tokio::test]
async fn terraform_that_received_the_signal_of_the_process_group_gets_no_second_one() {
    // GitLab signals from the highest pid to the lowest; others may use another order.
    for highest_first in [true, false] {
        let output = interrupted(&[("GITLAB_CI", "true")], |_, runner| {
            let mut pids = tree(runner);
            pids.sort();
            if highest_first {
                pids.reverse();
            }
            assert!(pids.len() > 2, "{pids:?}");
            for pid in pids {
                let _ = kill(pid, Signal::SIGTERM);
            }
        })
        .await;
        assert_eq!(output.status.code(), Some(143), "{}", stderr(&output));
        assert!(!stderr(&output).contains(SENT), "{}", stderr(&output));
    }
}

#[tokio::test]
async fn signal_to_the_runner_or_its_group_is_forwarded_once() {
    // Ctrl-C signals the foreground process group; Terraform is in another one.
    let group = interrupted(&[], |_, runner| killpg(runner, Signal::SIGINT).unwrap()).await;
    assert_eq!(group.status.code(), Some(130), "{}", stderr(&group));
    let alone = interrupted(&[], |_, runner| kill(runner, Signal::SIGTERM).unwrap()).await;
    assert_eq!(alone.status.code(), Some(143), "{}", stderr(&alone));
    for output in [group, alone] {
        assert_eq!(stderr(&output).matches(SENT).count(), 1, "{}", stderr(&output));
    }
}
