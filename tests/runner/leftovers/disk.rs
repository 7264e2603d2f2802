//! The location of a run's secret files, and failures to write or wipe them.

use serde_json::json;

use super::{MountedFiles, SECRET, config};
use butler_testing::stand_in::{AtPlan, StandIn};
use butler_testing::world::{MODULE, World, with_mounts};

/// The directory of the variable files, from the arguments of `plan`.
fn variable_file(tool: &StandIn) -> String {
    let arguments = tool.record("arguments");
    let file = arguments.split(' ').find_map(|word| word.strip_prefix("-var-file="));
    file.expect("the plan had variables").trim().to_owned()
}

#[tokio::test]
async fn secret_files_are_on_tmpfs_if_available() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::install(&mut world, AtPlan::Fail);
    world.add_run(config(&world, "plan"));
    let mut job = world.execute();
    job.env_remove("BUTLER_TMPFS_DIR");
    // Enough room, on every machine.
    let mounts = "mount -t tmpfs -o size=32m none /dev/shm";
    let end = world.end(&with_mounts(&job, mounts).output().await.unwrap());
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let file = variable_file(&tool);
    assert!(file.starts_with("/dev/shm/butler-runner-run-"), "{file}");

    // Below the reserve that is left to other processes.
    world.add_run(config(&world, "plan"));
    let mounts = "mount -t tmpfs -o size=1m none /dev/shm";
    let end = world.end(&with_mounts(&job, mounts).output().await.unwrap());
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let file = variable_file(&tool);
    assert!(file.starts_with(world.path("tmp").to_str().unwrap()), "{file}");
}

#[tokio::test]
async fn secret_file_larger_than_the_tmpfs_is_written_to_the_work_directory() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::install(
        &mut world,
        AtPlan::Do(
            "cp $(echo \"$@\" | tr ' ' '\\n' | sed -n 's/-var-file=//p') \"$record/variables\"",
        ),
    );
    let mut config = config(&world, "plan");
    let large = SECRET.repeat(4096);
    config["variables"]["name"]["value"] = json!(large);
    world.add_run(config);
    let mounts = format!("mount -t tmpfs -o size=16k none '{}'", world.path("shm").display());
    let end = world.end(&with_mounts(&world.execute(), &mounts).output().await.unwrap());
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let file = variable_file(&tool);
    assert!(file.starts_with(world.path("tmp").to_str().unwrap()), "{file}");
    assert!(tool.record("variables").contains(&large));
    assert!(
        end.stderr.contains(
            "the memory file system is full; writing a secret file to the work directory"
        ),
        "{}",
        end.stderr
    );
}

#[tokio::test]
async fn full_work_directory_is_reported_with_a_hint() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let work = world.path("work");
    std::fs::create_dir(&work).unwrap();
    world.set("BUTLER_WORK_DIR", &work);
    world.add_run(config(&world, "plan"));
    // The file system has only the inode of its root.
    let mounts = format!("mount -t tmpfs -o nr_inodes=1 none '{}'", work.display());
    let output = with_mounts(&world.execute(), &mounts).output().await.unwrap();
    let end = world.end(&output);
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let error = world.last_status()["error"].clone();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(work.to_str().unwrap()), "{message}");
    assert!(message.contains("No space left on device"), "{message}");
    assert!(error["advice"].as_str().unwrap().contains("--work-dir"), "{error}");
}

#[tokio::test]
async fn failed_wipe_is_reported_and_completed_by_the_next_run() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    // A mount point cannot be removed; it disappears with the runner's namespace.
    let act = "mkdir .terraform/held; mount -t tmpfs none .terraform/held; \
               echo hunter22 > .terraform/held/file; echo hunter22 > .terraform/file";
    let tool = StandIn::install(&mut world, AtPlan::Do(act));
    world.add_run(config(&world, "plan"));
    let output = with_mounts(&world.execute(), "true").output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!tool.record("arguments").is_empty(), "the tool did run: {said}");
    let summary = world.last_status()["plan_summary"].as_str().unwrap_or_default().to_owned();
    let left = world.left_in("tmp");
    assert_eq!(left.len(), 1, "{left:?}");
    let held = left[0].join("data/held");
    let text = format!("secrets may remain on the disk: cannot remove `{}`", held.display());
    assert!(summary.contains(&text), "{text}\n{}", world.last_status());
    assert!(said.contains(&text), "{said}");
    for name in ["data/file", "source"] {
        assert!(!left[0].join(name).exists(), "what can be removed is: {name}");
    }
    assert_eq!(world.left_in("shm").len(), 0);

    world.set("PATH", butler_testing::environment::search_path());
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(end.stderr.contains(&format!("wiped {}", left[0].display())), "{}", end.stderr);
}

#[tokio::test]
async fn files_mounted_in_the_run_directory_survive_the_wipe() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let precious = MountedFiles::make(&world);
    // A provisioner can mount like this; the clone is on the same file system.
    let act = precious.mounts(&["mounted", ".terraform/mounted"], "file".as_ref());
    let act = format!("mkdir mounted .terraform/mounted; echo hunter22 > file; {act}; exit 1");
    StandIn::doing(&mut world, &[("plan", &act)]);
    world.add_run(config(&world, "plan"));
    let output = with_mounts(&world.execute(), "true").output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    precious.assert_untouched();
    let summary = world.last_status()["plan_summary"].as_str().unwrap_or_default().to_owned();
    assert!(summary.contains("something is mounted there"), "{summary}\n{said}");
    world.set("PATH", butler_testing::environment::search_path());
    assert_eq!(world.run(world.config("plan")).await.code, Some(0));
}

#[tokio::test]
async fn state_that_cannot_be_moved_to_recovery_is_not_wiped() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    // Files are not moved out of a mount.
    let act = "echo '{\"version\": 4}' > errored.tfstate; run=$(cd .terraform/..; cd ..; pwd -P); \
               echo hunter22 > .terraform/secret; mount --bind \"$run\" \"$run\"; exit 1";
    StandIn::doing(&mut world, &[("plan", act)]);
    std::fs::write(world.path("cache/recovery"), "a file").unwrap();
    world.add_run(config(&world, "plan"));
    let output = with_mounts(&world.execute(), "true").output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let left = world.left_in("tmp");
    assert_eq!(left.len(), 1, "{left:?}\n{said}");
    let state = left[0].join("source/errored.tfstate");
    assert_eq!(std::fs::read_to_string(&state).unwrap(), "{\"version\": 4}\n");
    assert!(said.trim_end().lines().last().unwrap().contains(state.to_str().unwrap()), "{said}");
    assert!(world.last_status()["plan_summary"].to_string().contains(state.to_str().unwrap()));
    assert!(!left[0].join("data/secret").exists());
    assert_eq!(world.left_in("shm").len(), 0);

    std::fs::remove_file(world.path("cache/recovery")).unwrap();
    let output = world.command(&["clean"]).output().await.unwrap();
    assert_eq!(world.end(&output).code, Some(0));
    let kept = world.left_in("cache/recovery");
    assert_eq!(std::fs::read_to_string(&kept[0]).unwrap(), "{\"version\": 4}\n");
}
