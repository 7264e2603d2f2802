//! Runs without memory, disk space, file descriptors or output streams still report how they ended.

use super::{execute_after_script, terminal_statuses};
use butler_testing::stand_in::StandIn;
use butler_testing::world::{MODULE, World};

/// A memory control group (version 1 or 2) with a limit of 96 MiB.
struct MemoryGroup(std::path::PathBuf);

impl MemoryGroup {
    /// `None` if this system does not allow the tests to create one.
    fn create() -> Option<Self> {
        let name = format!("butler-runner-test-{}", std::process::id());
        let limit = (96 * 1024 * 1024).to_string();
        for (mount, file) in
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
        {
            let directory = std::path::Path::new(mount).join(&name);
            if std::fs::create_dir(&directory).is_ok() {
                let group = Self(directory);
                // Without swap, the limit is reached soon. Not every kernel has this file.
                let _ = std::fs::write(group.0.join("memory.swap.max"), "0");
                if group.0.join(file).exists() && std::fs::write(group.0.join(file), &limit).is_ok()
                {
                    return Some(group);
                }
            }
        }
        None
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[tokio::test]
async fn oom_killed_tool_is_reported_as_out_of_memory() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let group = MemoryGroup::create();
    // Without a control group, the tool kills itself; then no counter of OOM kills increases.
    let (plan, reason) = if group.is_some() {
        (
            "exec tail /dev/zero",
            "`terraform plan` was killed by the OOM killer (memory limit 96 MiB)",
        )
    } else {
        ("kill -KILL $$", "`terraform plan` was killed by signal 9, probably by the OOM killer")
    };
    StandIn::doing(&mut world, &[("plan", plan)]);
    world.add_run(world.config("plan"));
    let enter = group.as_ref().map_or("true".to_owned(), |group| {
        format!("echo $$ > '{}/cgroup.procs'", group.0.display())
    });
    let end = world.end(&execute_after_script(&world, &enter).output().await.unwrap());
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let error = &world.last_status()["error"];
    assert_eq!(error["message"], reason, "{}", end.stderr);
    assert!(error["advice"].as_str().unwrap().contains("memory"), "{error}");
}

#[tokio::test]
async fn killed_tool_is_reported_with_its_signal() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    StandIn::doing(&mut world, &[("plan", "kill -KILL $$")]);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let reason = world.last_status()["error"]["message"].as_str().unwrap().to_owned();
    assert!(reason.contains("killed by signal 9, probably by the OOM killer"), "{reason}");
}

/// Prints more than the limit of a file.
const PRINT_2000_LINES: &str =
    r#"i=0; while [ $i -lt 2000 ]; do echo "line $i of many that fill a file"; i=$((i + 1)); done"#;

#[tokio::test]
async fn full_disk_does_not_lose_the_log_or_the_final_status() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("BUTLER_REPORT_DIR", world.path("report"));
    StandIn::doing(&mut world, &[("plan", PRINT_2000_LINES)]);
    world.add_run(world.config("plan"));
    // No file can grow beyond 16 KiB, so writes fail as on a full disk.
    let output = execute_after_script(&world, "ulimit -f 32").output().await.unwrap();
    let end = world.end(&output);
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "failed"], "{}", end.stderr);
    assert!(world.received().log_text().contains("line 1999 of many"), "{}", end.stderr);
}

#[tokio::test]
async fn exhausted_file_descriptors_do_not_prevent_the_final_status() {
    // Consecutive limits, so that each place in which descriptors can run out is reached.
    // All worlds first, because their creation keeps the registries of others from answering.
    let mut worlds = Vec::new();
    for limit in [8, 20].into_iter().chain(26..=42) {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        world.set("BUTLER_REGISTRY_TIMEOUT", "15s");
        StandIn::doing(&mut world, &[]);
        world.add_run(world.config("plan"));
        worlds.push((limit, world));
    }
    let runs = worlds.into_iter().map(async |(limit, world)| {
        let output =
            execute_after_script(&world, &format!("ulimit -n {limit}")).output().await.unwrap();
        let end = world.end(&output);
        let statuses = terminal_statuses(&world);
        let requests = world.received().requests.len();
        // The run fetches no configuration, or it sends one final status.
        let expected = usize::from(requests > 1);
        assert_eq!(statuses.len(), expected, "{limit}: {statuses:?} {requests}\n{}", end.stderr);
        statuses.first().cloned()
    });
    let ends = futures_util::future::join_all(runs).await;
    let failed = ends.iter().filter(|status| status.as_deref() == Some("failed")).count();
    assert!(failed >= 2, "{ends:?}: descriptors run out in the middle of some");
    assert_eq!(ends.last().unwrap().as_deref(), Some("succeeded"));
}

#[tokio::test]
async fn tool_that_cannot_be_started_fails_the_run() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    StandIn::doing(&mut world, &[("init", r#"chmod a-x "$0""#)]);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let error = &world.last_status()["error"];
    assert!(error["message"].as_str().unwrap().contains("cannot start"), "{error}");
    assert_eq!(world.statuses(), ["running", "failed"]);
}

#[tokio::test]
async fn closed_stdout_and_stderr_do_not_stop_the_run() {
    for first in ["exec >&-", "exec 2>&-", "exec >&- 2>&-", "exec <&- >&- 2>&-"] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        StandIn::doing(&mut world, &[("plan", PRINT_2000_LINES)]);
        world.add_run(world.config("plan"));
        let output = execute_after_script(&world, first).output().await.unwrap();
        let end = world.end(&output);
        assert_eq!(end.code, Some(0), "{first}: {}", end.stderr);
        assert_eq!(world.statuses(), ["running", "succeeded"], "{first}");
        assert!(world.received().log_text().contains("line 1999 of many"), "{first}");
    }
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    StandIn::doing(&mut world, &[("plan", PRINT_2000_LINES)]);
    world.add_run(world.config("plan"));
    let mut child = world.execute().spawn().unwrap();
    // The reader closes both streams.
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    assert_eq!(world.statuses(), ["running", "succeeded"]);
}
