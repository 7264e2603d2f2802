//! Leftovers of a killed runner, and how the next run handles them.

mod clean;
mod disk;
mod killed;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::Child;

use butler_testing::documented::assert_documented;
use butler_testing::environment::search_path;
use butler_testing::release_site::{Fault, ReleaseSite, platform};
use butler_testing::stand_in::StandIn;
use butler_testing::terraform::machine_terraform;
use butler_testing::world::{MODULE, RUN_ID, World, eventually, files_with};

/// A value of the run that may be in the run's own directories only.
const SECRET: &str = "hunter22-very-hidden";

/// The point at which the runner is killed.
struct Case {
    killed: &'static str,
    stays: Leftovers,
    next: NextRun,
}

/// The leftovers of a kill.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Leftovers {
    Nothing,
    RunDirectory,
    Both,
}

/// The action of the next run on the leftovers. The next run itself always succeeds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum NextRun {
    Runs,
    Wipes,
    KeepsStateAndWipes,
    LeavesAlone,
}

const CASES: [Case; 9] = [
    Case { killed: "fetching the configuration", stays: Leftovers::Nothing, next: NextRun::Runs },
    Case { killed: "cloning", stays: Leftovers::Both, next: NextRun::Wipes },
    Case { killed: "in the middle of a download", stays: Leftovers::Both, next: NextRun::Wipes },
    Case { killed: "init", stays: Leftovers::Both, next: NextRun::Wipes },
    Case { killed: "plan", stays: Leftovers::Both, next: NextRun::Wipes },
    Case {
        killed: "apply, which could not store its state",
        stays: Leftovers::Both,
        next: NextRun::KeepsStateAndWipes,
    },
    Case { killed: "apply, which goes on", stays: Leftovers::Both, next: NextRun::LeavesAlone },
    Case { killed: "uploading at the end", stays: Leftovers::RunDirectory, next: NextRun::Wipes },
    Case {
        killed: "in the middle of the wipe",
        stays: Leftovers::RunDirectory,
        next: NextRun::Wipes,
    },
];

impl Case {
    fn named(killed: &str) -> &'static Self {
        CASES.iter().find(|case| case.killed == killed).expect("the case is in the table")
    }

    fn row(&self) -> String {
        let stays = match self.stays {
            Leftovers::Nothing => "nothing",
            Leftovers::RunDirectory => "the run's directory (0700)",
            Leftovers::Both => "the run's directory and that of its secrets (0700)",
        };
        let next = match self.next {
            NextRun::Runs => "succeeds",
            NextRun::Wipes => "wipes it, says so, and succeeds",
            NextRun::KeepsStateAndWipes => {
                "moves `errored.tfstate` to the recovery directory, names the command for it, wipes the rest, and succeeds"
            }
            NextRun::LeavesAlone => {
                "leaves it alone, says so, and succeeds; one after Terraform's end wipes it"
            }
        };
        format!("| {} | {stays} | {next} |", self.killed)
    }

    /// Kills the runner, asserts that the leftovers match the table, and returns them.
    async fn kill(&self, world: &World, mut runner: Child) -> Vec<PathBuf> {
        runner.kill().await.unwrap();
        let left: Vec<_> = ["tmp", "shm"].into_iter().flat_map(|it| world.left_in(it)).collect();
        let expected: &[&str] = match self.stays {
            Leftovers::Nothing => &[],
            Leftovers::RunDirectory => &["tmp"],
            Leftovers::Both => &["tmp", "shm"],
        };
        let places: Vec<_> = left.iter().map(|path| path.parent().unwrap().to_owned()).collect();
        assert_eq!(places, expected.iter().map(|it| world.path(it)).collect::<Vec<_>>());
        for path in &left {
            let found = std::fs::symlink_metadata(path).unwrap();
            assert!(found.is_dir() && found.mode() & 0o777 == 0o700, "{}", path.display());
        }
        for place in ["home", "cache"] {
            let found = files_with(&world.path(place), SECRET);
            assert!(found.is_empty(), "{found:?}");
        }
        left
    }

    /// Executes the next run and asserts that its action on `left` matches the table. Returns its
    /// output.
    async fn next_run(&self, world: &mut World, left: &[PathBuf]) -> String {
        let in_use = self.next == NextRun::LeavesAlone;
        if !in_use {
            // Processes that were just asked to end may need a moment.
            eventually("an end of all processes", || world.processes().is_empty()).await;
        }
        world.set("PATH", search_path());
        world.faults.lock().unwrap().clear();
        world.add_run(world.config("plan"));
        let output = world.execute().output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(world.statuses(), ["running", "succeeded"]);
        for path in left {
            let line = match self.next {
                NextRun::LeavesAlone => {
                    let why = "is dead, but its tool still runs";
                    format!("left {} alone: the runner of run {RUN_ID} {why}", path.display())
                }
                _ => format!("wiped {}, left over from run {RUN_ID}", path.display()),
            };
            assert!(said.contains(&line), "{line}\n{said}");
            assert_eq!(path.exists(), in_use, "{}", path.display());
        }
        if !in_use {
            world.end(&output);
        }
        assert_eq!(said.contains("terraform state push"), self.next == NextRun::KeepsStateAndWipes);
        said
    }
}

/// A directory and a file of another user, mounted in the directory to be wiped.
struct MountedFiles {
    directory: PathBuf,
}

impl MountedFiles {
    fn make(world: &World) -> Self {
        let directory = world.path("precious");
        std::fs::create_dir_all(directory.join("inner")).unwrap();
        std::fs::write(directory.join("inner/file"), "precious").unwrap();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o500)).unwrap();
        Self { directory }
    }

    /// A shell script that mounts the directory at each of `points`, and its file at `file`.
    fn mounts(&self, points: &[impl AsRef<Path>], file: &Path) -> String {
        let directory = self.directory.display();
        let mount =
            |from: &str, to: &Path| format!("mount --bind '{directory}{from}' '{}'", to.display());
        let mut script: Vec<_> = points.iter().map(|point| mount("", point.as_ref())).collect();
        script.push(mount("/inner/file", file));
        script.join("; ")
    }

    fn assert_untouched(&self) {
        let content = std::fs::read_to_string(self.directory.join("inner/file")).unwrap();
        assert_eq!(content, "precious");
        let mode = std::fs::metadata(&self.directory).unwrap().mode();
        assert_eq!(mode & 0o777, 0o500);
    }
}

impl Drop for MountedFiles {
    fn drop(&mut self) {
        // So that the world can be removed.
        let _ = std::fs::set_permissions(&self.directory, std::fs::Permissions::from_mode(0o700));
    }
}

/// A configuration with a secret.
fn config(world: &World, operation: &str) -> Value {
    let mut config = world.config(operation);
    config["variables"] = json!({"name": {"value": SECRET, "sensitive": true}});
    config
}

/// Starts a run of `plan` with a stand-in that executes `act` and then waits in `command`.
async fn waiting_in(world: &mut World, command: &str, act: &str) -> (Child, StandIn) {
    let tool = StandIn::install_waiting(world, command, act);
    world.add_run(config(world, "plan"));
    let runner = world.execute().spawn().unwrap();
    tool.wait_until_running().await;
    (runner, tool)
}

#[tokio::test]
async fn next_run_wipes_leftovers_of_a_kill_while_fetching_the_configuration() {
    let case = Case::named("fetching the configuration");
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.add_run(config(&world, "plan"));
    world.hang("GET", "config");
    let runner = world.execute().spawn().unwrap();
    world.wait_for_hanging_request().await;
    let left = case.kill(&world, runner).await;
    case.next_run(&mut world, &left).await;
}

#[tokio::test]
async fn next_run_wipes_leftovers_of_a_kill_while_cloning() {
    let case = Case::named("cloning");
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(&world, "plan");
    config["source"]["gitRepo"] =
        json!(format!("http://{}/repository.git", server.local_addr().unwrap()));
    world.add_run(config);
    let runner = world.execute().spawn().unwrap();
    // The server never responds.
    let _connection = server.accept().await.unwrap();
    let left = case.kill(&world, runner).await;
    case.next_run(&mut world, &left).await;
}

#[tokio::test]
async fn next_run_wipes_leftovers_of_a_kill_while_downloading_the_tool() {
    let case = Case::named("in the middle of a download");
    let (program, version) = machine_terraform();
    let site = ReleaseSite::start(&[(&version, &std::fs::read(program).unwrap())]);
    site.inject_fault(".zip", Fault::Hanging);
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.use_site(&site);
    let mut config = config(&world, "plan");
    config["terraformVersion"] = json!(version);
    world.use_bare_path();
    world.add_run(config);
    let runner = world.execute().spawn().unwrap();
    site.wait_for_request(".zip").await;
    let left = case.kill(&world, runner).await;
    site.remove_faults();
    // The other run has Terraform on its PATH; this one must install it again.
    case.next_run(&mut world, &left).await;
    let installed = world.command(&["tool", "install", &version]).output().await.unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let archives = site.requests().iter().filter(|it| it.ends_with(&*archive_end())).count();
    assert_eq!(archives, 2);
}

fn archive_end() -> String {
    format!("_{}.zip", platform())
}

#[tokio::test]
async fn next_run_wipes_leftovers_of_a_kill_during_init_after_secrets_are_written() {
    let case = Case::named("init");
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let (runner, tool) = waiting_in(&mut world, "init", "").await;
    let left = case.kill(&world, runner).await;
    tool.resume();
    let files = files_with(&world.path("shm"), SECRET);
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(std::fs::metadata(&files[0]).unwrap().mode() & 0o777, 0o600);
    let files = files_with(&world.path("tmp"), SECRET);
    assert!(files.is_empty(), "{files:?}");
    case.next_run(&mut world, &left).await;
}

#[tokio::test]
async fn next_run_wipes_leftovers_of_a_kill_during_plan() {
    let case = Case::named("plan");
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let (runner, tool) = waiting_in(&mut world, "plan", "").await;
    let left = case.kill(&world, runner).await;
    tool.resume();
    case.next_run(&mut world, &left).await;
}

#[tokio::test]
async fn next_run_recovers_the_state_of_a_kill_during_apply() {
    let case = Case::named("apply, which could not store its state");
    let mut world = World::new(&[("network/main.tf", MODULE), ("main.tf", MODULE)]).await;
    let tool = StandIn::install_waiting(
        &mut world,
        "apply",
        "echo '{\"version\": 4}' > errored.tfstate; chmod 644 errored.tfstate",
    );
    let mut config = config(&world, "apply");
    config["source"]["workingDirectory"] = json!("network");
    world.add_run(config);
    let runner = world.execute().spawn().unwrap();
    tool.wait_until_running().await;
    let left = case.kill(&world, runner).await;
    tool.resume();
    let said = case.next_run(&mut world, &left).await;
    let kept: Vec<_> = world.left_in("cache/recovery");
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(std::fs::read_to_string(&kept[0]).unwrap(), "{\"version\": 4}\n");
    assert_eq!(std::fs::metadata(&kept[0]).unwrap().mode() & 0o777, 0o600);
    let command = format!("`terraform state push {}`", kept[0].display());
    assert!(said.contains(&command), "{said}");
}

#[tokio::test]
async fn next_run_keeps_leftovers_while_the_apply_of_a_killed_runner_continues() {
    let case = Case::named("apply, which goes on");
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::install_waiting(&mut world, "apply", "");
    world.add_run(config(&world, "apply"));
    let runner = world.execute().spawn().unwrap();
    tool.wait_until_running().await;
    let left = case.kill(&world, runner).await;
    case.next_run(&mut world, &left).await;
    tool.resume();
    Case { next: NextRun::Wipes, ..*case }.next_run(&mut world, &left).await;
}

#[tokio::test]
async fn next_run_wipes_leftovers_of_a_kill_during_the_last_upload() {
    let case = Case::named("uploading at the end");
    for endpoint in ["logs", "plan"] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(config(&world, "plan"));
        world.hang("POST", endpoint);
        let runner = world.execute().spawn().unwrap();
        world.wait_for_hanging_request().await;
        // Files that no report needs are wiped in the meantime.
        while !world.left_in("shm").is_empty() {
            tokio::task::yield_now().await;
        }
        let left = case.kill(&world, runner).await;
        case.next_run(&mut world, &left).await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn next_run_completes_a_wipe_after_a_kill() {
    let case = Case::named("in the middle of the wipe");
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let act = "echo hunter22 > .terraform/held; echo \"$PWD\" > \"$record/module\"";
    let tool = StandIn::install_waiting(&mut world, "plan", act);
    world.add_run(config(&world, "plan"));
    let runner = world.execute().spawn().unwrap();
    tool.wait_until_running().await;
    let held = Path::new(tool.record("module").trim()).join(".terraform/held");
    let lease = lease::Lease::take(&held);
    tool.resume();
    // From here on, every process that opens the file for writing waits for the lease.
    eventually("a wipe", || lease.is_wanted()).await;
    let left = case.kill(&world, runner).await;
    drop(lease);
    case.next_run(&mut world, &left).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn signal_during_the_wipe_does_not_prevent_the_final_status() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let act = "echo hunter22 > .terraform/held; echo \"$PWD\" > \"$record/module\"";
    let tool = StandIn::install_waiting(&mut world, "plan", act);
    world.set("BUTLER_GRACE_PERIOD", "0s");
    world.add_run(config(&world, "plan"));
    let runner = world.execute().spawn().unwrap();
    let pid = nix::unistd::Pid::from_raw(runner.id().unwrap().cast_signed());
    tool.wait_until_running().await;
    let held = Path::new(tool.record("module").trim()).join(".terraform/held");
    let lease = lease::Lease::take(&held);
    tool.resume();
    eventually("a wipe", || lease.is_wanted()).await;
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let output = runner.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // It had failed before the signal.
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(world.statuses(), ["running", "failed"]);
    let status = world.last_status();
    let summary = status["plan_summary"].as_str().unwrap_or_default();
    assert!(summary.contains("files were not all wiped in the time after a signal"), "{status}");
    assert!(said.contains("files were not all wiped in the time after a signal"), "{said}");
    assert_eq!(world.left_in("shm").len(), 0, "they go first");
    drop(lease);
    let output = world.command(&["clean"]).output().await.unwrap();
    assert_eq!(world.end(&output).code, Some(0));
}

/// A lease on a file: a process that opens it for writing waits until the lease is released
/// (fcntl(2)).
#[cfg(target_os = "linux")]
mod lease {
    #![expect(unsafe_code, reason = "leases have no safe interface")]

    use std::os::fd::AsRawFd;

    use nix::libc;

    pub(super) struct Lease(std::fs::File);

    impl Lease {
        pub(super) fn take(path: &std::path::Path) -> Self {
            let file = std::fs::File::open(path).unwrap();
            // SAFETY: plain calls on an open descriptor. The ignored signal announces a lease break
            // and would otherwise kill the test.
            let taken = unsafe {
                libc::signal(libc::SIGIO, libc::SIG_IGN);
                libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK)
            };
            assert_eq!(taken, 0, "{}", std::io::Error::last_os_error());
            Self(file)
        }

        pub(super) fn is_wanted(&self) -> bool {
            // SAFETY: a plain call on an open descriptor.
            unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_GETLEASE) != libc::F_RDLCK }
        }
    }
}

#[test]
fn documentation_lists_the_tested_kills() {
    let rows: Vec<_> = CASES.iter().map(Case::row).collect();
    assert_documented("docs/faults.md", "kills", &rows);
}
