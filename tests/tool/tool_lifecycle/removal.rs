//! Removing a version: processes that prevent it, and that returned paths do not disappear.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use butler_base::cancel::Stop;
use butler_runner::tool::{Origin, UninstallError, Uninstalled, ready, uninstall};
use expect_test::expect;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::*;
use butler_testing::world::{MODULE, RUN_ID, World};

/// A machine with 1.9.8 of Terraform, whose executable has this content.
fn installed(executable: &[u8]) -> (ReleaseSite, Machine, ToolOptions) {
    let site = ReleaseSite::start(&[("1.9.8", executable)]);
    let machine = Machine::with_site(&site);
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    let options = options(&machine, &site);
    (site, machine, options)
}

const AT_ONCE: [&str; 5] = ["tool", "uninstall", "1.9.8", "--drain-period", "0"];

#[test]
fn uninstall_removes_a_version_and_accepts_a_missing_one() {
    let (_site, machine, options) = installed(b"binary");
    let said = machine.run(&AT_ONCE);
    expect![[r"
        exit 0
        removed terraform 1.9.8, which was the default; set another one with `butler-runner tool use`
    "]]
    .assert_eq(said.normalized());
    assert_eq!(kept(&machine), [""; 0]);
    let again = machine.run(&AT_ONCE);
    expect![[r"
        exit 0
        terraform 1.9.8 is not installed
    "]]
    .assert_eq(again.normalized());
    let again = machine.run(&[AT_ONCE.as_slice(), &["--json"]].concat()).expect_success();
    let nothing = json!({
        "product": "terraform", "version": "1.9.8", "removed": false, "wasDefault": false, "bytes": 0
    });
    assert_eq!(again.json(), nothing);
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    let said = machine.run(&[
        "tool",
        "--product",
        "terraform",
        "uninstall",
        "1.9.8",
        "--drain-period",
        "0",
        "--json",
    ]);
    assert!(said.expect_success().json()["bytes"].as_u64().unwrap() > 6);
    assert_eq!(machine.run(&["tool", "which"]).code, Some(1), "there is no default any more");
    let (install, uninstall) = ("Install 1.9.8 Succeeded", "Uninstall 1.9.8 Succeeded");
    assert_eq!(history_of(&options), [install, uninstall, install, uninstall]);
    let empty = Machine::new();
    empty.run(&["tool", "--product", "tofu", "uninstall", "1.8.5"]).expect_success();
    assert!(!empty.path("cache").exists(), "nothing is made where nothing is");
}

/// A Terraform that waits in `plan` until there is a file `go` in `record`.
fn waiting_in_plan(record: &Path) -> String {
    format!(
        r#"#!/bin/sh
case "$1" in
version) echo '{{"terraform_version":"1.9.8","platform":"linux_amd64"}}' ;;
plan) : > '{0}/planning'; while [ ! -e '{0}/go' ]; do sleep 0.02; done; exit 1 ;;
show) echo '{{"format_version":"1.2"}}' ;;
esac
"#,
        record.display()
    )
}

#[tokio::test]
async fn version_used_by_a_run_is_not_removed() {
    let record = tempfile::tempdir().unwrap();
    let script = waiting_in_plan(record.path());
    let site = ReleaseSite::start(&[("1.9.8", script.as_bytes())]);
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.use_site(&site);
    world.use_bare_path();
    for name in ["sleep", "env"] {
        let program = butler_testing::environment::find_program(name).unwrap();
        std::os::unix::fs::symlink(program, world.path("bare-bin").join(name)).unwrap();
    }
    let mut config = world.config("plan");
    config["terraformVersion"] = json!("1.9.8");
    world.add_run(config);
    let run = world.execute().spawn().unwrap();
    let pid = run.id().unwrap();
    let planning = record.path().join("planning");
    butler_testing::world::eventually("a plan", || planning.exists()).await;

    let path = world.path("cache/terraform/1.9.8/terraform");
    for words in [["tool", "uninstall", "1.9.8"].as_slice(), &AT_ONCE] {
        let output = world.command(words).output().await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let by =
            format!("error: terraform 1.9.8 is in use by 1 run: pid {pid}, run {RUN_ID}, since 20");
        assert!(said.starts_with(&by), "{said}");
        assert!(said.ends_with("hint: retry when the version is not in use\n"), "{said}");
        assert!(is_executable(&path));
    }
    let pruned = world.command(&["tool", "prune", "--unused-for", "0s"]).output().await.unwrap();
    let said = String::from_utf8(pruned.stdout).unwrap();
    assert!(said.starts_with("kept terraform 1.9.8, in use by 1 run"), "{said}");
    assert!(is_executable(&path));

    std::fs::write(record.path().join("go"), "").unwrap();
    run.wait_with_output().await.unwrap();
    let output = world.command(&AT_ONCE).output().await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "removed terraform 1.9.8\n");
    assert!(!path.exists());
}

#[test]
fn version_with_a_running_executable_is_not_removed() {
    let (_site, machine, options) = installed(&sleeping());
    let path =
        machine.run(&["tool", "install", "1.9.8"]).expect_success().printed_path().to_owned();
    let sleeper = Ends::spawn(Command::new(&path).arg("1000"));
    let pid = sleeper.0.id();
    eventually("its executable", || !users_of(&options).is_empty());
    let said = machine.run(&AT_ONCE);
    drop(sleeper);
    expect![[r"
        exit 1
        error: terraform 1.9.8 is in use by 1 process: pid <pid>, not started by butler-runner, since <time>
        hint: retry when the version is not in use
    "]]
    .assert_eq(&shown(&said, pid));
    assert!(is_executable(&path));
    machine.run(&AT_ONCE).expect_success();
}

#[test]
fn run_started_in_the_drain_period_keeps_its_version() {
    let (_site, machine, options) = installed(b"binary");
    let words = ["tool", "uninstall", "1.9.8", "--drain-period", "5s"];
    let uninstall = spawn(&machine, &words);
    eventually("a mark", || working(&options).is_some_and(|it| it.drains_until.is_some()));
    let runtime = runtime();
    let tool = runtime.block_on(ready(&request("1.9.8"), &options, &|_| {})).unwrap();
    assert_eq!(tool.origin, Origin::Cache);
    let said = ended(&machine, uninstall);
    expect![[r"
        exit 1
        INFO terraform 1.9.8 is pending deletion: it is removed in 5s unless a process uses it by then
        error: terraform 1.9.8 is in use by 1 run: pid <pid>, run 7, since <time>
        hint: retry when the version is not in use
    "]]
    .assert_eq(&shown(&said, std::process::id()));
    assert!(is_executable(&tool.path));
    assert_eq!(working(&options), None, "the mark is gone");
    drop(tool);
    machine.run(&AT_ONCE).expect_success();
}

#[test]
fn signal_in_the_drain_period_keeps_the_version() {
    let (site, machine, options) = installed(b"binary");
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let child = spawn(&machine, &["tool", "uninstall", "1.9.8"]);
        eventually("a mark", || working(&options).is_some_and(|it| it.drains_until.is_some()));
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        let said = ended(&machine, child);
        assert_eq!(said.code, Some(code), "{said:?}");
        let message = format!("error: terraform 1.9.8 was not removed: stopped by {signal}\n");
        assert!(said.stderr.ends_with(&message), "{said:?}");
        assert_eq!(working(&options), None, "the mark is gone");
        let last = history_of(&options).pop().unwrap();
        assert!(
            last.starts_with("Uninstall 1.9.8 Failed: ") && last.contains("stopped by"),
            "{last}"
        );
    }
    let requests = site.requests().len();
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    assert_eq!(site.requests().len(), requests, "it is there");
}

#[test]
fn version_pending_deletion_is_not_removed_by_another_process() {
    let (_site, machine, options) = installed(b"binary");
    let first = Ends::spawn(&mut machine.command(&["tool", "uninstall", "1.9.8"]));
    eventually("a mark", || working(&options).is_some());
    let said = machine.run(&AT_ONCE);
    expect![[r"
        exit 1
        error: not waiting for process <pid> (butler-runner tool), which has been uninstalling terraform 1.9.8 since <time>
        hint: retry when that process has ended
    "]].assert_eq(&shown(&said, first.0.id()));
}

#[cfg(target_os = "linux")]
#[test]
fn run_started_during_the_rename_installs_the_version_again() {
    use super::kills::Files;
    use butler_testing::traced::Stopped;

    let (site, machine, options) = installed(b"binary");
    let files = Files(machine.path("cache/terraform"));
    let claimed =
        move || files.has_version() && files.says("uninstall") && files.is_exclusively_locked();
    let stopped = Stopped::at(&machine.command(&AT_ONCE), claimed);
    let pid = stopped.pid();
    assert!(machine.installation("terraform", "1.9.8").exists());
    // The version still exists, and must not be returned any more.
    let (say, said) = std::sync::mpsc::channel();
    let starting = std::thread::spawn({
        let options = options.clone();
        move || {
            let runtime = runtime();
            let progress = |line: &str| say.send(line.to_owned()).unwrap();
            runtime.block_on(ready(&request("1.9.8"), &options, &progress)).unwrap()
        }
    });
    let waiting = said.recv().unwrap();
    let by = format!("waiting for process {pid} (butler-runner tool), which has been uninstalling");
    assert!(waiting.starts_with(&by), "{waiting}");
    assert!(!starting.is_finished());
    assert_eq!(stopped.resume().status.code(), Some(0));
    let tool = starting.join().unwrap();
    assert_eq!((tool.origin, archives(&site)), (Origin::Downloaded, 2));
    assert!(is_executable(&tool.path));
}

#[cfg(target_os = "linux")]
#[test]
fn run_that_is_looking_up_a_version_keeps_it() {
    use super::kills::Files;
    use butler_testing::traced::Stopped;

    let (site, machine, _) = installed(b"binary");
    let files = Files(machine.path("cache/terraform"));
    let install = machine.command(&["tool", "install", "1.9.8"]);
    let stopped = Stopped::at(&install, move || files.says("use"));
    let pid = stopped.pid().as_raw().cast_unsigned();
    let said = machine.run(&AT_ONCE);
    expect![[r"
        exit 1
        error: terraform 1.9.8 is in use by 1 process: pid <pid>, butler-runner tool, since <time>
        hint: retry when the version is not in use
    "]]
    .assert_eq(&shown(&said, pid));
    assert_eq!(stopped.resume().status.code(), Some(0));
    assert_eq!(archives(&site), 1);
    machine.run(&AT_ONCE).expect_success();
}

/// In each round, users and a remover work at the same time, and then the remover alone: without that, users could leave
/// it no moment.
#[test]
fn returned_paths_never_disappear_during_concurrent_removal() {
    const USERS: usize = 4;
    const ROUNDS: usize = 25;
    let (site, machine, options) = installed(b"binary");
    let meet = Barrier::new(USERS + 1);
    let (using, tries) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // Results are asserted at the end, because a thread that ends early would leave the others at the barrier.
    let (kept, removals) = std::thread::scope(|scope| {
        let user = || {
            let runtime = runtime();
            // A client's connections belong to the runtime that created them.
            let options = self::options(&machine, &site);
            let mut kept = Vec::new();
            for _ in 0..ROUNDS {
                meet.wait();
                let tool = runtime.block_on(ready(&request("1.9.8"), &options, &|_| {}));
                kept.push(tool.map(|tool| {
                    // Until one removal has begun and ended: the first one may have begun before.
                    let last = tries.load(Ordering::SeqCst) + 2;
                    let mut is_there = is_executable(&tool.path);
                    while tries.load(Ordering::SeqCst) < last {
                        is_there &= is_executable(&tool.path);
                    }
                    is_there
                }));
                using.fetch_sub(1, Ordering::SeqCst);
                meet.wait();
            }
            kept
        };
        let users: Vec<_> = (0..USERS).map(|_| scope.spawn(user)).collect();
        let runtime = runtime();
        let remove = || {
            let request = request("1.9.8");
            let (none, stop) = (Duration::ZERO, Stop::new());
            runtime.block_on(uninstall(&request, &options, none, &stop, &|_| {}))
        };
        let mut removals = Vec::new();
        for _ in 0..ROUNDS {
            using.store(USERS, Ordering::SeqCst);
            meet.wait();
            while using.load(Ordering::SeqCst) > 0 {
                removals.push(remove());
                tries.fetch_add(1, Ordering::SeqCst);
            }
            meet.wait();
            removals.push(remove());
        }
        let kept: Vec<_> = users.into_iter().flat_map(|user| user.join().unwrap()).collect();
        (kept, removals)
    });
    for kept in kept {
        assert!(kept.unwrap(), "it was removed from under a user");
    }
    let (mut removed, mut refused) = (0, 0);
    for removal in removals {
        match removal {
            Ok(Uninstalled::Removed { .. }) => removed += 1,
            Ok(Uninstalled::NotInstalled) => {}
            Err(UninstallError::InUse { .. } | UninstallError::Tool(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(removed > 0 && refused > 0, "both have to happen: {removed}, {refused}");
    assert!(archives(&site) > 1);
}

/// A cache that is mounted read-only for a run, so that its user cannot write to it.
#[cfg(target_os = "linux")]
#[test]
fn user_with_a_read_only_cache_is_detected_but_not_named() {
    use butler_testing::world::unshare;

    let (_site, machine, options) = installed(&sleeping());
    let cache = machine.path("cache").display().to_string();
    let install = machine.command(&["tool", "install", "1.9.8"]);
    let mounted = |after: &str| {
        let script = format!(
            "mount --bind '{cache}' '{cache}' && mount -o remount,bind,ro '{cache}' && {after}"
        );
        let words = unshare(&["--mount", "/bin/sh", "-e", "-c", &script]);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(install.get_program()).args(install.get_args()).env_clear();
        command.envs(install.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", butler_testing::environment::search_path());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    };
    let said = machine.output_of(&mounted("exec \"$0\" \"$@\"").output().unwrap()).expect_success();
    assert_eq!(said.printed_path(), machine.installation("terraform", "1.9.8").join("terraform"));
    // Held as a run holds it, by a shell that has the file open for reading only.
    let used = machine.path("cache/terraform/.1.9.8.users/used").display().to_string();
    let holding = format!("exec 9< '{used}' && flock --shared 9 && echo held && read end");
    let mut holder = mounted(&holding).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut line).unwrap();
    let said = machine.run(&AT_ONCE);
    expect![[r"
        exit 1
        error: terraform 1.9.8 is in use by an unknown process: it has no write access to the cache
        hint: retry when the version is not in use
    "]]
    .assert_eq(said.normalized());
    drop(holder.stdin.take());
    holder.wait().unwrap();
    machine.run(&AT_ONCE).expect_success();
    assert_eq!(note_count(&options, None), 0);
}

#[test]
fn version_whose_path_was_requested_in_the_drain_period_is_kept() {
    let (_site, machine, options) = installed(b"binary");
    let uninstall = spawn(&machine, &["tool", "uninstall", "1.9.8", "--drain-period", "5s"]);
    eventually("a mark", || working(&options).is_some_and(|it| it.drains_until.is_some()));
    let path = machine.run(&["tool", "which", "1.9.8"]).expect_success().printed_path().to_owned();
    let said = ended(&machine, uninstall);
    expect![[r"
        exit 1
        INFO terraform 1.9.8 is pending deletion: it is removed in 5s unless a process uses it by then
        error: the path of terraform 1.9.8 was requested at <time>, so a process may be about to start it
        hint: retry later, or remove it immediately with --drain-period 0
    "]]
    .assert_eq(&shown(&said, u32::MAX));
    assert!(is_executable(&path), "who was told it can start it");
    machine.run(&AT_ONCE).expect_success();
}

#[test]
fn held_lock_of_the_default_version_is_reported_as_lock_contention() {
    let (_site, machine, _) = installed(b"binary");
    let product = machine.path("cache/terraform");
    std::fs::remove_file(product.join("default.json")).unwrap();
    let lock = std::fs::File::create(product.join(".default.lock")).unwrap();
    lock.lock().unwrap();
    let said = machine.run(&["tool", "install", "1.9.8", "--json"]).expect_success();
    assert_eq!(said.json()["default"], false);
    assert!(said.stderr.contains("WARN not made the default"), "{said:?}");
    let said = machine.run(&["tool", "use", "1.9.8"]);
    expect![[r"
        exit 1
        error: another process has held `<machine>/cache/terraform/.default.lock` for 5s
        hint: end the process that holds it (`fuser <machine>/cache/terraform/.default.lock`), and try again
    "]].assert_eq(said.normalized());
    drop(lock);
    machine.run(&["tool", "use", "1.9.8"]).expect_success();
}
