//! Concurrent installations: one download per version, and no unnecessary waits.

use expect_test::expect;

use super::*;
use butler_testing::release_site::Fault;

#[test]
fn ten_processes_installing_one_version_download_it_once() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let machine = Machine::with_site(&site);
    let options = options(&machine, &site);
    site.inject_fault(".zip", Fault::Held);
    let children: Vec<_> =
        (0..10).map(|_| spawn(&machine, &["tool", "install", "1.9.8", "--json"])).collect();
    eventually("a queue of nine", || queue_of(&options).pending == 9);
    let holder = queue_of(&options).in_progress.unwrap();
    assert_eq!(holder.version, request("1.9.8").version);
    assert!(children.iter().any(|child| child.id() == holder.pid));
    assert_eq!(note_count(&options, Some("use")), 10, "each process is a user");
    site.remove_faults();
    let mut downloads = 0;
    for child in children {
        let pid = child.id();
        let said = ended(&machine, child).expect_success();
        let told = format!(
            "waiting for process {} (butler-runner tool), which has been installing terraform 1.9.8 since {}",
            holder.pid, holder.since
        );
        assert_eq!(said.stderr.matches(&told).count(), usize::from(pid != holder.pid), "{said:#?}");
        downloads += usize::from(said.json()["downloaded"] == true);
    }
    assert_eq!((downloads, archives(&site)), (1, 1));
    assert_eq!(history_of(&options), ["Install 1.9.8 Succeeded"]);
    assert_eq!(queue_of(&options), Queue::default());
    assert_eq!(users_of(&options), []);
}

#[test]
fn installations_of_different_versions_do_not_wait_for_each_other() {
    let site = ReleaseSite::start(&[("1.7.5", b"7"), ("1.8.5", b"8"), ("1.9.8", b"9")]);
    let machine = Machine::with_site(&site);
    site.inject_fault(&format!("1.7.5_{}.zip", platform()), Fault::Held);
    let mut first = spawn(&machine, &["tool", "install", "1.7.5"]);
    eventually("a download", || archives(&site) == 1);
    let others = ["1.8.5", "1.9.8"].map(|version| spawn(&machine, &["tool", "install", version]));
    for child in others {
        ended(&machine, child).expect_success();
    }
    assert!(first.try_wait().unwrap().is_none(), "its archive is held");
    let options = options(&machine, &site);
    assert_eq!(queue_of(&options).in_progress.unwrap().pid, first.id());
    site.remove_faults();
    ended(&machine, first).expect_success();
    assert_eq!(kept(&machine), ["1.7.5", "1.8.5", "1.9.8"]);
}

/// The text without the time that was left for waiting.
fn without_limit(text: &str) -> String {
    let (before, after) = text.split_once("timed out after ").unwrap();
    let (_, after) = after.split_once(' ').unwrap();
    format!("{before}timed out after <limit> {after}")
}

#[test]
fn install_without_waiting_names_the_process_that_installs() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let machine = Machine::with_site(&site);
    site.inject_fault(".zip", Fault::Held);
    let first = spawn(&machine, &["tool", "install", "1.9.8"]);
    eventually("a download", || archives(&site) == 1);
    let said = machine.run(&["tool", "install", "1.9.8", "--wait=false"]);
    expect![[r"
        exit 1
        error: not waiting for process <pid> (butler-runner tool), which has been installing terraform 1.9.8 since <time>
        hint: retry when that process has ended
    "]].assert_eq(&shown(&said, first.id()));
    let said = machine.run(&["tool", "install", "1.9.8", "--wait", "--timeout", "2s"]);
    expect![[r"
        exit 1
        INFO waiting for process <pid> (butler-runner tool), which has been installing terraform 1.9.8 since <time>
        error: timed out after <limit> while waiting for process <pid> (butler-runner tool), which has been installing terraform 1.9.8 since <time>
        hint: end that process, or increase --tool-timeout
    "]].assert_eq(&without_limit(&shown(&said, first.id())));
    // The variable has the same effect.
    let mut command = machine.command(&["tool", "install", "1.9.8"]);
    let output = command.env("BUTLER_TOOL_TIMEOUT", "300ms").output().unwrap();
    assert!(machine.output_of(&output).stderr.contains("timed out after "));
    site.remove_faults();
    ended(&machine, first).expect_success();
    machine.run(&["tool", "install", "1.9.8", "--wait=false"]).expect_success();
    let options = options(&machine, &site);
    assert_eq!(history_of(&options), ["Install 1.9.8 Succeeded"], "who only waited did nothing");
}

#[test]
fn failed_install_keeps_the_cache_is_recorded_and_can_be_retried() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let machine = Machine::with_site(&site);
    let options = options(&machine, &site);
    let path =
        machine.run(&["tool", "install", "1.9.8"]).expect_success().printed_path().to_owned();
    // The executable was modified, so it must be installed again, which fails.
    std::fs::write(&path, "changed").unwrap();
    site.inject_fault(".zip", Fault::Changed);
    assert_eq!(machine.run(&["tool", "install", "1.9.8"]).code, Some(1));
    assert_eq!(std::fs::read(&path).unwrap(), b"changed");
    assert_eq!(kept(&machine), ["1.9.8"]);
    site.remove_faults();
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    assert_eq!(std::fs::read(&path).unwrap(), b"binary");
    let history = history_of(&options);
    assert_eq!(
        (history[0].as_str(), history[2].as_str()),
        ("Install 1.9.8 Succeeded", "Install 1.9.8 Succeeded")
    );
    assert!(
        history[1].contains("Install 1.9.8 Failed: ")
            && history[1].contains("is not the archive that was signed"),
        "{history:?}"
    );
}

#[test]
fn twenty_concurrent_failures_are_all_recorded() {
    let site = ReleaseSite::start(&[]);
    let machine = Machine::with_site(&site);
    let versions: Vec<_> = (0..20).map(|patch| format!("1.2.{patch}")).collect();
    let children: Vec<_> =
        versions.iter().map(|version| spawn(&machine, &["tool", "install", version])).collect();
    for child in children {
        assert_eq!(ended(&machine, child).code, Some(1));
    }
    let history = history_of(&options(&machine, &site));
    assert_eq!(history.len(), 20);
    for version in versions {
        let found = history.iter().any(|line| line.contains(&format!("{version} Failed")));
        assert!(found, "{version}: {history:#?}");
    }
}

#[test]
fn install_ended_by_a_signal_is_recorded() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let machine = Machine::with_site(&site);
    let options = options(&machine, &site);
    site.inject_fault(".zip", Fault::Hanging);
    let child = spawn(&machine, &["tool", "install", "1.9.8"]);
    eventually("a download", || archives(&site) == 1);
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    ended(&machine, child);
    let died = format!(
        "Install 1.9.8 Failed: process {pid} (butler-runner tool) exited before it was complete"
    );
    assert_eq!(history_of(&options), [died]);
}
