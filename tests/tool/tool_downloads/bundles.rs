//! Bundles: created, extended, interrupted, and installed without network.

use super::*;

#[test]
fn bundle_can_be_installed_without_network() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary"), ("opentofu-1.8.5", b"tofu")]);
    let machine = Machine::with_site(&site);
    for output in ["carried.tar", "carried"] {
        let words = ["tool", "bundle", "1.9.8", "opentofu-1.8.5", "--json", "--output", output];
        let said = machine.run(&words).expect_success();
        assert_eq!(said.json()["output"], machine.path(output).display().to_string());
        assert_eq!(said.json()["platforms"], serde_json::json!([platform()]));

        let url = url::Url::from_file_path(machine.path(output)).unwrap();
        let mut there = Machine::new();
        there.set("BUTLER_SIGNING_KEY", site.key_file());
        there.set("HTTP_PROXY", "http://127.0.0.1:1");
        installed(there.run(&[&INSTALL[..], &["--url", url.as_str()]].concat()), &there);
        let words = ["tool", "install", "opentofu-1.8.5", "--mirror", url.as_str()];
        assert_eq!(
            std::fs::read(there.run(&words).expect_success().printed_path()).unwrap(),
            b"tofu"
        );
        let said = there.run(&["tool", "install", "1.9.9", "--url", url.as_str()]);
        assert!(said.stderr.contains("terraform 1.9.9 was not found"), "{said:?}");
    }
}

#[test]
fn bundle_can_be_extended_without_repeated_downloads() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary"), ("1.9.9", b"another")]);
    let machine = Machine::with_site(&site);
    machine.run(&["tool", "bundle", "1.9.8", "--output", "carried"]).expect_success();
    machine.run(&["tool", "bundle", "1.9.8", "1.9.9", "--output", "carried"]).expect_success();
    let of = |version: &str| site.seen(&format!("terraform_{version}_{}.zip", platform())).len();
    assert_eq!((of("1.9.8"), of("1.9.9")), (1, 1));
    let index = std::fs::read(machine.path("carried/terraform/index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let versions: Vec<_> = index["versions"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(versions, ["1.9.8", "1.9.9"]);
    let build = &index["versions"]["1.9.8"]["builds"][0];
    assert_eq!(build["filename"], format!("terraform_1.9.8_{}.zip", platform()));
}

#[test]
fn bundle_is_reproducible() {
    let site = ReleaseSite::start(&[
        ("1.9.8", b"binary"),
        ("1.10.0", b"another"),
        ("opentofu-1.8.5", b"tofu"),
    ]);
    let machine = Machine::with_site(&site);
    let tar = |words: &[&str], name: &str| {
        machine.run(&[&["tool", "bundle", "--output", name], words].concat()).expect_success();
        std::fs::read(machine.path(name)).unwrap()
    };
    let one = tar(&["1.9.8", "opentofu-1.8.5", "1.10.0"], "one.tar");
    assert!(one == tar(&["opentofu-1.8.5", "1.10.0", "1.9.8", "1.9.8"], "other.tar"));
    let mut one = tar::Archive::new(one.as_slice());
    let names = one.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned());
    let names: Vec<_> = names.collect();
    assert!(names.is_sorted(), "{names:?}");
}

/// Temporary and leftover files in the machine's directory.
fn temporary_files(machine: &Machine) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(machine.path("")).unwrap().map(|entry| entry.unwrap().path());
    let is_hidden =
        |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with('.');
    entries.filter(is_hidden).collect()
}

#[tokio::test]
async fn interrupted_bundle_leaves_no_files_and_leftovers_of_a_killed_one_are_removed_later() {
    use nix::sys::signal::{Signal, kill};
    let site = ReleaseSite::start(&[("1.9.8", b"binary"), ("1.9.9", b"another")]);
    let held = &*format!("terraform_1.9.9_{}.zip", platform());
    site.inject_fault(held, Fault::Held);
    let machine = Machine::with_site(&site);
    for (count, signal) in
        [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL].into_iter().enumerate()
    {
        let mut child = machine.command(&["tool", "bundle", "1.9.9"]).spawn().unwrap();
        site.wait_for_request_count(held, count + 1).await;
        assert_eq!(temporary_files(&machine).len(), 1);
        kill(nix::unistd::Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
        let status = child.wait().unwrap();
        if signal == Signal::SIGKILL {
            assert_eq!(temporary_files(&machine).len(), 1);
        } else {
            assert_eq!(status.code(), Some(128 + signal as i32));
            assert!(temporary_files(&machine).is_empty());
        }
    }
    // The next process removes leftovers, but not the files of a running process.
    let child = machine.command(&["tool", "bundle", "1.9.9"]).spawn().unwrap();
    site.wait_for_request_count(held, 4).await;
    assert_eq!(temporary_files(&machine).len(), 1);
    machine.run(&["tool", "bundle", "1.9.8", "--output", "other.tar"]).expect_success();
    assert_eq!(temporary_files(&machine).len(), 1);
    site.remove_faults();
    machine.output_of(&child.wait_with_output().unwrap()).expect_success();
    assert!(temporary_files(&machine).is_empty());
    assert!(machine.path("bundle.tar").exists());
}

#[tokio::test]
async fn concurrent_bundles_in_one_directory_are_all_complete() {
    use std::io::BufRead;
    let site = ReleaseSite::start(&[("1.9.8", b"binary"), ("1.9.9", b"another")]);
    let held = &*format!("terraform_1.9.9_{}.zip", platform());
    site.inject_fault(held, Fault::Held);
    let machine = Machine::with_site(&site);
    let first = machine.command(&["tool", "bundle", "1.9.9", "--output", "carried"]).spawn();
    site.wait_for_request(held).await;
    let second = machine.command(&["tool", "bundle", "1.9.8", "--output", "carried"]).spawn();
    let mut second = second.unwrap();
    let mut lines = std::io::BufReader::new(second.stderr.take().unwrap()).lines();
    let waits = lines.any(|line| line.unwrap().contains("waiting for another process that writes"));
    assert!(waits);
    site.remove_faults();
    machine.output_of(&first.unwrap().wait_with_output().unwrap()).expect_success();
    assert!(lines.all(|line| line.is_ok()) && second.wait().unwrap().success());
    let list = std::fs::read(machine.path("carried/terraform/index.json")).unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
    let versions: Vec<_> = list["versions"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(versions, ["1.9.8", "1.9.9"]);
}

#[test]
fn malformed_version_list_in_a_bundle_is_not_replaced() {
    let site = site();
    let mut machine = quiet(&site);
    machine.replace_in_output(platform(), "<platform>");
    let list = machine.path("carried/terraform/index.json");
    std::fs::create_dir_all(list.parent().unwrap()).unwrap();
    for text in ["{\"versions\": []}", "{"] {
        std::fs::write(&list, text).unwrap();
        let said = machine.run(&["tool", "bundle", "1.9.8", "--output", "carried"]);
        assert_eq!(said.code, Some(1), "{said:?}");
        let message = "carried/terraform/index.json` is not the list of versions of a bundle";
        assert!(said.stderr.contains(message), "{said:?}");
        assert_eq!(std::fs::read_to_string(&list).unwrap(), text);
    }
    assert!(site.requests().is_empty());
}

#[test]
fn compressed_bundle_is_rejected_on_write_and_read() {
    let site = site();
    let machine = quiet(&site);
    for name in ["b.tar.gz", "b.tgz", "b.zip"] {
        let said = machine.run(&["tool", "bundle", "1.9.8", "--output", name]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains("a tar that is not compressed"), "{said:?}");
        assert!(!machine.path(name).exists());
    }
    std::fs::write(machine.path("b.tar.gz"), b"\x1f\x8b\x08\0\0\0").unwrap();
    let url = url::Url::from_file_path(machine.path("b.tar.gz")).unwrap();
    for flag in ["--mirror", "--url"] {
        let said = machine.run(&[&INSTALL[..], &[flag, url.as_str()]].concat());
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stderr.contains("only uncompressed tar archives are supported"), "{said:?}");
    }
}

#[test]
fn bundle_verifies_downloads_like_an_installation() {
    let site = site();
    site.inject_fault(".zip", Fault::Changed);
    let mut machine = Machine::with_site(&site);
    let said = machine.run(&["tool", "bundle", "1.9.8"]);
    assert!(said.stderr.contains("is not the archive that was signed"), "{said:?}");
    assert!(!machine.path("bundle.tar").exists());
    site.remove_faults();
    let said = machine.run(&["tool", "bundle", "1.9.8", "--platform", "plan9_mips"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let said = machine.run(&["tool", "bundle", "1.9.8", "--platform", "windows_386"]);
    assert!(said.stderr.contains("does not name `terraform_1.9.8_windows_386.zip`"), "{said:?}");
    machine.set("BUTLER_SIGNING_KEY", "");
    let said = machine.run(&["tool", "bundle", "1.9.8"]);
    assert!(said.stderr.contains("unknown key"), "{said:?}");
    assert!(!machine.path("bundle.tar").exists());
}
