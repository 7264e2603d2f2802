//! Caches that another user created: read-only ones, those of root, and unreadable ones.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use expect_test::expect;

use super::*;
use butler_testing::root::as_root;

/// A user who is not root.
const NOBODY: u32 = 65534;

#[test]
fn unreadable_cache_is_an_error_and_not_an_empty_cache() {
    let machine = Machine::new();
    std::fs::create_dir(machine.path("cache")).unwrap();
    std::fs::write(machine.path("cache/terraform"), "").unwrap();
    for words in [
        ["tool", "verify"].as_slice(),
        &["tool", "list"],
        &["tool", "status"],
        &["tool", "prune"],
        &["tool", "prune", "--dry-run"],
    ] {
        let said = machine.run(words);
        assert_eq!(said.code, Some(1), "{words:?}: {said:?}");
        assert!(said.stderr.contains("error: cannot read `"), "{words:?}: {said:?}");
    }
    let said = machine.run(&["doctor"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let is_about_tools = |line: &&str| line.split_whitespace().take(2).eq(["FAILED", "tools"]);
    let found = said.stdout.lines().find(is_about_tools).unwrap();
    assert!(found.contains("cannot read `"), "{said:?}");
}

#[test]
fn cache_of_another_user_fails_verification() {
    as_root(|| {
        let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
        let machine = Machine::with_site(&site);
        machine.run(&["tool", "install", "1.9.8"]).expect_success();
        std::os::unix::fs::chown(machine.path("cache"), Some(12345), None).unwrap();
        for words in [["tool", "verify"], ["tool", "list"]] {
            let said = machine.run(&words);
            assert_eq!(said.code, Some(1), "{said:?}");
            assert!(said.stderr.contains("it belongs to another user"), "{said:?}");
        }
    });
}

/// A machine with the default cache directory and 1.9.8 in it.
fn machine_with_default_cache() -> (ReleaseSite, Machine) {
    let site = ReleaseSite::start(&[("1.8.5", b"other"), ("1.9.8", b"binary")]);
    let mut machine = Machine::with_site(&site);
    machine.set("BUTLER_CACHE_DIR", "");
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    (site, machine)
}

#[cfg(target_os = "linux")]
#[test]
fn tools_in_a_read_only_home_are_used() {
    let (_site, machine) = machine_with_default_cache();
    let home = read_only(&machine.path("home"));
    let run =
        |words: &[&str]| machine.output_of(&with_mounts(&machine, &home, words).output().unwrap());
    let said = run(&["tool", "install", "1.9.8"]);
    expect![[r"
        exit 0
        <machine>/home/.butler-runner/terraform/1.9.8/terraform
        WARN `<machine>/home/.butler-runner` is not writable: installed tools are used, but others cannot be installed; to install tools, set another directory with --cache-dir (BUTLER_CACHE_DIR)
    "]]
    .assert_eq(said.normalized());
    let said = run(&["tool", "install", "1.8.5"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("Read-only file system"), "{said:?}");
    assert!(said.stderr.contains("hint: ") && said.stderr.contains("--cache-dir"), "{said:?}");
    let doctor = run(&["doctor"]).stdout;
    let about = |start: &str, what: &str| {
        let found = doctor.lines().any(|line| line.starts_with(start) && line.contains(what));
        assert!(found, "{start} {what}: {doctor}");
    };
    about("warning  settings", "is not writable: installed tools are used");
    about("warning  cache", "cannot write to");
    about("ok       tools", "terraform 1.9.8 in the cache, unchanged");
    // Temporary files are written to another directory.
    let stand_in = format!("tmp/butler-runner-{}", nix::unistd::Uid::effective());
    assert!(machine.path(&stand_in).is_dir());
}

#[cfg(target_os = "linux")]
#[test]
fn read_only_home_without_tools_is_not_used_as_the_cache() {
    let (_site, machine) = machine_with_default_cache();
    std::fs::remove_dir_all(machine.path("home/.butler-runner/terraform")).unwrap();
    let home = read_only(&machine.path("home"));
    let install = with_mounts(&machine, &home, &["tool", "install", "1.8.5"]).output().unwrap();
    let said = machine.output_of(&install).expect_success();
    assert!(said.printed_path().starts_with(machine.path("tmp")), "{said:?}");
    assert!(!said.stderr.contains("is not writable"), "{said:?}");
}

#[test]
fn tools_in_a_home_owned_by_another_user_are_ignored_with_a_warning() {
    as_root(|| {
        let (_site, machine) = machine_with_default_cache();
        let cache = machine.path("home/.butler-runner");
        std::os::unix::fs::chown(&cache, Some(12345), None).unwrap();
        let home = read_only(&machine.path("home"));
        let list = with_mounts(&machine, &home, &["tool", "list"]).output().unwrap();
        let said = machine.output_of(&list).expect_success();
        expect![[r"
        exit 0
        nothing is installed
        WARN the tools in `<machine>/home/.butler-runner` are ignored: it belongs to another user
    "]]
        .assert_eq(said.normalized());
    });
}

/// Makes the machine's directories accessible for `nobody`.
fn make_accessible_to_nobody(machine: &Machine) {
    for path in [machine.path("."), machine.path("cache"), machine.path("cache/terraform")] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
}

#[test]
fn lock_held_by_a_user_other_than_the_owner_is_detected() {
    as_root(|| {
        let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
        let machine = Machine::with_site(&site);
        machine.run(&["tool", "install", "1.9.8"]).expect_success();
        // Files that are created after the cache was made readable must be readable as well.
        std::fs::remove_dir_all(machine.path("cache/terraform/.1.9.8.users")).unwrap();
        machine.run(&["tool", "which", "1.9.8"]).expect_success();
        make_accessible_to_nobody(&machine);
        let used = machine.path("cache/terraform/.1.9.8.users/used").display().to_string();
        let hold = "exec 9< \"$0\" && flock --shared 9 && echo held && read end";
        let mut holder = Command::new("/bin/sh");
        holder.args(["-c", hold, &used]).uid(NOBODY).gid(NOBODY);
        let mut holder = Ends::spawn(holder.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut line = [0; 5];
        std::io::Read::read_exact(holder.0.stdout.as_mut().unwrap(), &mut line).unwrap();
        let said = machine.run(&["tool", "uninstall", "1.9.8", "--drain-period", "0"]);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stderr.contains("in use by an unknown process"), "{said:?}");
    });
}

#[test]
fn user_who_cannot_mark_a_version_as_in_use_gets_a_warning() {
    as_root(|| {
        let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
        let machine = Machine::with_site(&site);
        machine.run(&["tool", "install", "1.9.8"]).expect_success();
        for name in ["1.9.8", "1.9.8/terraform", "1.9.8/install.json", ".1.9.8.users"] {
            let path = machine.path("cache/terraform").join(name);
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let used = machine.path("cache/terraform/.1.9.8.users/used");
        std::fs::set_permissions(&used, PermissionsExt::from_mode(0o600)).unwrap();
        make_accessible_to_nobody(&machine);
        // Other users may not have access to the build directory.
        let runner = machine.path("bin/butler-runner");
        let install = machine.command(&["tool", "install", "1.9.8"]);
        let copied = Command::new("cp").arg(install.get_program()).arg(&runner).status().unwrap();
        assert!(copied.success());
        let mut command = Command::new(&runner);
        command.args(install.get_args()).env_clear().uid(NOBODY).gid(NOBODY);
        command.envs(install.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env_remove("BUTLER_SIGNING_KEY").current_dir("/");
        let said = machine.output_of(&command.output().unwrap()).expect_success();
        let warnings = said.stderr.matches("cannot mark this version as in use").count();
        assert_eq!(warnings, 1, "{said:?}");
    });
}
