//! Processes that commands leave behind: the runner kills those of its own commands and no others.

use nix::sys::signal::{Signal, kill};

use super::execute_after_script;
use butler_testing::processes::{Process, in_directory};
use butler_testing::stand_in::StandIn;
use butler_testing::world::{MODULE, World, unshare, wrapped};

/// A script that starts three daemons, each of which writes its process id to `$record/daemons`.
const DAEMONS: &str = r#"
  setsid sh -c 'echo $$ >> "$0/daemons"; exec sleep 1000' "$record" >/dev/null 2>&1 &
  nohup sh -c 'echo $$ >> "$0/daemons"; exec sleep 1000' "$record" >/dev/null 2>&1 &
  env -i PATH="$PATH" setsid sh -c 'echo $$ >> "$0/daemons"; exec sleep 1000' "$record" >/dev/null 2>&1 &
  while [ "$(wc -l < "$record/daemons" 2>/dev/null || echo 0)" -lt 3 ]; do sleep 0.01; done"#;

/// The processes of the world that sleep for this time. A daemon has an empty environment, but it is in the world.
fn sleeping(world: &World, seconds: &str) -> Vec<Process> {
    let mut found = in_directory(world.directory.path());
    found.retain(|process| process.command.trim_end() == format!("sleep {seconds}"));
    found
}

/// Kills the processes of the world that sleep for this time. Returns how many there were.
fn kill_sleeping(world: &World, seconds: &str) -> usize {
    let found = sleeping(world, seconds);
    found.iter().filter(|process| kill(process.pid, Signal::SIGKILL).is_ok()).count()
}

fn assert_processes_ended(world: &World, daemons: &str, stderr: &str) {
    assert_eq!(daemons.lines().count(), 3, "{stderr}");
    let left = in_directory(world.directory.path());
    assert!(left.is_empty(), "{left:?} live\n{stderr}");
}

#[tokio::test]
async fn daemon_outside_the_process_group_ends_with_its_command() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let after = r#"for pid in $(cat "$record/daemons"); do
    kill -0 "$pid" 2>/dev/null && echo "$pid" >> "$record/alive"
  done; echo '{"format_version":"1.2"}'"#;
    let tool = StandIn::doing(&mut world, &[("plan", DAEMONS), ("show", after)]);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(tool.record("alive"), "", "they were gone before the next command");
    assert_processes_ended(&world, &tool.record("daemons"), &end.stderr);
}

#[tokio::test]
async fn process_left_by_a_provisioner_is_killed() {
    let world = World::new(&[]).await;
    let record = world.path("record");
    std::fs::create_dir(&record).unwrap();
    let script = format!("record='{}'\n{DAEMONS}", record.display());
    std::fs::write(world.path("daemons.sh"), script).unwrap();
    let module = format!(
        r#"
resource "terraform_data" "daemons" {{
  provisioner "local-exec" {{
    command = "sh '{}'"
  }}
}}
"#,
        world.path("daemons.sh").display()
    );
    world.commit(&[("main.tf", &module)]);
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let daemons = std::fs::read_to_string(record.join("daemons")).unwrap();
    assert_processes_ended(&world, &daemons, &end.stderr);
}

#[tokio::test]
async fn processes_that_no_command_started_are_not_killed() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::doing(&mut world, &[("plan", DAEMONS)]);
    world.add_run(world.config("plan"));
    // A shell becomes the runner and leaves it a child, and a grandchild that loses its parent.
    let servers = r"sleep 2000 >/dev/null 2>&1 &
      (setsid sleep 2001 >/dev/null 2>&1 & sleep 0.3) &";
    let output = execute_after_script(&world, servers).output().await.unwrap();
    for server in ["2000", "2001"] {
        assert_eq!(kill_sleeping(&world, server), 1, "a server was ended: {output:?}");
    }
    assert_eq!(tool.record("daemons").lines().count(), 3, "{output:?}");
    // The runner cannot recognize the daemon that was started with an empty environment.
    let lost = kill_sleeping(&world, "1000");
    assert!(lost <= 1, "{lost} daemons were left: {output:?}");
    let end = world.end(&output);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
}

/// The runner as process 1 of its own process namespace. An ordinary user needs a user namespace.
fn execute_as_process_1(world: &World) -> tokio::process::Command {
    wrapped(&world.execute(), &unshare(&["--pid", "--fork", "--kill-child", "--mount-proc"]))
}

#[tokio::test]
async fn runner_as_process_1_kills_orphaned_processes_and_reaps_zombies() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    // The inner shell exits immediately, so its child becomes a child of process 1. The command
    // waits until that child is reaped; it would wait forever for a zombie.
    let plan = r#"sh -c 'setsid sh -c "echo \$\$ > \"\$0/short\"" "$0" >/dev/null 2>&1 &' "$record"
  while ! [ -s "$record/short" ]; do sleep 0.01; done
  while kill -0 "$(cat "$record/short")" 2>/dev/null; do sleep 0.01; done
  sh -c 'setsid sh -c "exec sleep 1000" >/dev/null 2>&1 &'"#;
    let after = r#"pgrep -x sleep > "$record/alive"; echo '{"format_version":"1.2"}'"#;
    let tool = StandIn::doing(&mut world, &[("plan", plan), ("show", after)]);
    world.add_run(world.config("plan"));
    let end = world.end(&execute_as_process_1(&world).output().await.unwrap());
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(tool.record("alive"), "", "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "succeeded"]);
}

#[tokio::test]
async fn process_left_by_a_provisioner_of_a_local_run_is_not_killed() {
    let world = World::new(&[]).await;
    let module = world.path("module");
    std::fs::create_dir(&module).unwrap();
    let file = world.path("pid");
    let start = format!(
        "setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000' >/dev/null 2>&1 </dev/null & \
         while [ ! -e {0} ]; do sleep 0.01; done",
        file.display()
    );
    std::fs::write(
        module.join("main.tf"),
        format!(
            "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = {start:?}\n  }}\n}}\n"
        ),
    )
    .unwrap();
    let arguments =
        ["execute", "--local", "--operation", "apply", "--module-dir", module.to_str().unwrap()];
    let output = world.command(&arguments).output().await.unwrap();
    let killed = kill_sleeping(&world, "1000");
    let end = world.end(&output);
    assert_eq!((end.code, killed), (Some(0), 1), "{}", end.stderr);
}
