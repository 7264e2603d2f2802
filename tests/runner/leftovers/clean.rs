//! The subcommand `clean`, and a Terraform that outlives its runner.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::{Case, MountedFiles, config};
use butler_testing::stand_in::StandIn;
use butler_testing::world::{MODULE, RUN_ID, RunEnd, World, eventually, with_mounts};

/// An apply that waits for the file `go` in `$TMPDIR/..` while it creates its resource.
const WAITING: &str = r#"
resource "terraform_data" "waits" {
  provisioner "local-exec" {
    command = ": > $TMPDIR/../creating; while [ ! -e $TMPDIR/../go ]; do sleep 0.02; done"
  }
}
"#;

async fn clean(world: &World, arguments: &[&str]) -> RunEnd {
    let output = world.command(&[&["clean"], arguments].concat()).output().await.unwrap();
    RunEnd {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The output of `clean` for `paths`.
fn lines(paths: &[PathBuf], before: &str, after: &str) -> Vec<String> {
    paths.iter().map(|path| format!("{before} {}{after}", path.display())).collect()
}

#[tokio::test]
async fn clean_wipes_leftovers_of_a_dead_runner_and_its_dry_run_lists_them() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let (runner, tool) = super::waiting_in(&mut world, "plan", "").await;
    let living = clean(&world, &[]).await;
    assert_eq!((living.code, &*living.stdout), (Some(0), ""), "{}", living.stderr);
    let left = Case::named("plan").kill(&world, runner).await;
    tool.resume();
    eventually("an end of all processes", || world.processes().is_empty()).await;

    let mut expected = lines(&left, "would wipe", &format!(", left over from run {RUN_ID}"));
    expected.sort_unstable();
    for _ in 0..2 {
        let shown = clean(&world, &["--dry-run"]).await;
        let mut said: Vec<_> = shown.stdout.lines().collect();
        said.sort_unstable();
        assert_eq!((shown.code, said), (Some(0), expected.iter().map(|it| &**it).collect()));
    }
    let cleaned = clean(&world, &[]).await;
    for line in lines(&left, "wiped", &format!(", left over from run {RUN_ID}")) {
        assert!(cleaned.stdout.contains(&line), "{line}\n{}", cleaned.stdout);
    }
    assert_eq!(cleaned.code, Some(0));
    assert_eq!(left.iter().filter(|path| path.exists()).count(), 0);
    let again = clean(&world, &[]).await;
    assert_eq!((again.code, &*again.stdout), (Some(0), ""));
}

#[tokio::test]
async fn two_concurrent_cleans_wipe_each_leftover_once() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let (runner, tool) = super::waiting_in(&mut world, "plan", "").await;
    let left = Case::named("plan").kill(&world, runner).await;
    tool.resume();
    eventually("an end of all processes", || world.processes().is_empty()).await;
    let cleaned = futures_util::future::join_all((0..6).map(|_| clean(&world, &[]))).await;
    let said: Vec<_> = cleaned.iter().flat_map(|end| end.stdout.lines()).collect();
    assert!(cleaned.iter().all(|end| end.code == Some(0)), "{cleaned:?}");
    assert_eq!(said.len(), left.len(), "{said:?}");
    assert_eq!(left.iter().filter(|path| path.exists()).count(), 0);
}

#[tokio::test]
async fn clean_ignores_directories_that_no_run_created() {
    let world = World::new(&[]).await;
    // A fallback home in the cache, a directory of the user, and a symbolic link to it.
    let own =
        ["butler-runner-0", "butler-runner-run-mine"].map(|name| world.path("tmp").join(name));
    for path in &own {
        std::fs::create_dir(path).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        std::fs::write(path.join("precious"), "").unwrap();
    }
    symlink(&own[1], world.path("shm/butler-runner-run-link")).unwrap();
    let end = clean(&world, &[]).await;
    assert_eq!((end.code, &*end.stdout), (Some(0), ""), "{}", end.stderr);
    assert!(own.iter().all(|path| path.join("precious").exists()));
}

#[tokio::test]
async fn leftovers_are_kept_while_an_orphaned_terraform_uses_them() {
    let mut world = World::new(&[("main.tf", WAITING)]).await;
    world.set("PATH", butler_testing::environment::search_path());
    world.add_run(config(&world, "apply"));
    let runner = world.execute().spawn().unwrap();
    let creating = world.path("creating");
    eventually("a resource that is being created", || creating.exists()).await;
    let left = Case::named("apply, which goes on").kill(&world, runner).await;
    let said = clean(&world, &[]).await;
    for line in lines(&left, "left", " alone: the runner of") {
        assert!(said.stdout.contains(&line), "{line}\n{}", said.stdout);
    }
    assert!(left.iter().all(|path| path.exists()));
    std::fs::write(world.path("go"), "").unwrap();
    eventually("an end of all processes", || world.processes().is_empty()).await;
    let output = world.command(&["clean"]).output().await.unwrap();
    assert_eq!(world.end(&output).code, Some(0));
}

#[tokio::test]
async fn clean_does_not_wipe_a_state_that_it_cannot_move_to_recovery() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let act = "echo '{\"version\": 4}' > errored.tfstate";
    let tool = StandIn::install_waiting(&mut world, "apply", act);
    world.add_run(config(&world, "apply"));
    let runner = world.execute().spawn().unwrap();
    tool.wait_until_running().await;
    let left = Case::named("apply, which could not store its state").kill(&world, runner).await;
    tool.resume();
    eventually("an end of all processes", || world.processes().is_empty()).await;
    // Neither directory can hold a file: a file is in place of the first, and the second is
    // read-only.
    std::fs::write(world.path("cache/recovery"), "a file").unwrap();
    let tmp = world.path("tmp");
    let mounts = format!(
        "mount --bind '{0}' '{0}'; for run in '{0}'/*; do mount --bind \"$run\" \"$run\"; done; \
         mount -o remount,bind,ro '{0}'",
        tmp.display()
    );
    let output = with_mounts(&world.command(&["clean"]), &mounts).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot be moved from there"), "{said}");
    let state = left[0].join("source/errored.tfstate");
    assert_eq!(std::fs::read_to_string(state).unwrap(), "{\"version\": 4}\n");
    // If there is room, the state is kept, and the other files are wiped.
    std::fs::remove_file(world.path("cache/recovery")).unwrap();
    let output = world.command(&["clean"]).output().await.unwrap();
    let end = world.end(&output);
    assert!(end.stdout.contains("terraform state push"), "{}", end.stdout);
}

#[tokio::test]
async fn dry_run_of_clean_creates_no_directory() {
    let world = World::new(&[]).await;
    let mut job = world.command(&["clean", "--dry-run"]);
    job.env_remove("BUTLER_CACHE_DIR").env("HOME", "/proc/nonexistent");
    let output = job.output().await.unwrap();
    let end = world.end(&output);
    assert_eq!((end.code, &*end.stdout), (Some(0), ""), "{}", end.stderr);
}

#[tokio::test]
async fn clean_does_not_enter_mounts_in_a_leftover() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let act = "mkdir mounted .terraform/mounted; echo hunter22 > .terraform/mounted.file";
    let (runner, tool) = super::waiting_in(&mut world, "plan", act).await;
    let left = Case::named("plan").kill(&world, runner).await;
    tool.resume();
    eventually("an end of all processes", || world.processes().is_empty()).await;
    let precious = MountedFiles::make(&world);
    let points = ["source/mounted", "data/mounted"].map(|name| left[0].join(name));
    let file = left[0].join("data/mounted.file");
    let mounts = precious.mounts(&points, &file);
    let output = with_mounts(&world.command(&["clean"]), &mounts).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("something is mounted there"), "{said}");
    precious.assert_untouched();
    assert!(!left[0].join("module").exists(), "what can be removed is");
    // Without the mounts, all of it is wiped.
    let output = world.command(&["clean"]).output().await.unwrap();
    assert_eq!(world.end(&output).code, Some(0));
    precious.assert_untouched();
}

#[tokio::test]
async fn leftovers_of_a_run_on_another_host_are_kept() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let (runner, tool) = super::waiting_in(&mut world, "plan", "").await;
    let left = Case::named("plan").kill(&world, runner).await;
    tool.resume();
    eventually("an end of all processes", || world.processes().is_empty()).await;
    let secrets = left[1].join("owner.lock");
    let said = std::fs::read_to_string(&secrets).unwrap();
    let (_, owner) = said.split_once('\n').unwrap();
    std::fs::write(&secrets, format!("another-boot another-host\n{owner}")).unwrap();
    // The run's directory is not visible from this host.
    let hidden = world.path("hidden");
    std::fs::rename(&left[0], &hidden).unwrap();
    let end = clean(&world, &[]).await;
    let line = format!(
        "left {} alone: it is of run {RUN_ID} on the host another-host, and whether that still runs cannot be seen from here\n",
        left[1].display()
    );
    assert_eq!((end.code, &*end.stdout), (Some(0), &*line), "{}", end.stderr);
    assert!(left[1].exists());
    // Once the directory is visible, its locks decide.
    std::fs::rename(&hidden, &left[0]).unwrap();
    let output = world.command(&["clean"]).output().await.unwrap();
    assert_eq!(world.end(&output).code, Some(0));
}

#[tokio::test]
async fn only_leftovers_of_this_host_are_wiped_if_locks_may_be_local_to_each_host() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let (runner, tool) = super::waiting_in(&mut world, "plan", "").await;
    let left = Case::named("plan").kill(&world, runner).await;
    tool.resume();
    eventually("an end of all processes", || world.processes().is_empty()).await;
    // A file system that is not local.
    let (tmp, moved) = (world.path("tmp"), world.path("moved"));
    std::fs::rename(&left[0], &moved).unwrap();
    let (tmp, moved) = (tmp.display(), moved.display());
    let mounts = format!("mount -t ramfs none '{tmp}'; cp -a '{moved}' '{}'", left[0].display());
    let elsewhere = r#"; printf 'boot-2 node-2\nrun 7' > "$run/owner.lock""#;
    for (of, said) in [
        (elsewhere, "alone: it is of run 7 on the host node-2, and whether"),
        ("", &format!("left over from run {RUN_ID}")),
    ] {
        let mounts = format!("run='{}'; {mounts}{of}", left[0].display());
        let output = with_mounts(&world.command(&["clean"]), &mounts).output().await.unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{shown}");
        let line = shown.lines().find(|line| line.contains(left[0].to_str().unwrap()));
        assert!(line.is_some_and(|line| line.contains(said)), "{said}\n{shown}");
    }
}
