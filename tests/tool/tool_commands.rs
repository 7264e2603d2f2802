//! The commands of `tool` on a separate machine, with a release site on loopback.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use expect_test::expect;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use butler_testing::machine::Machine;
use butler_testing::release_site::{Fault, ReleaseSite};

#[test]
fn install_prints_the_path_and_sends_no_request_the_second_time() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let machine = Machine::with_site(&site);
    let said = machine.run(&["tool", "install", "1.9.8"]).expect_success();
    assert_eq!(said.printed_path(), machine.installation("terraform", "1.9.8").join("terraform"));
    let requests = site.requests().len();
    let again = machine
        .run(&["tool", "--product", "terraform", "install", "v1.9.8", "--json"])
        .expect_success();
    assert_eq!(again.json()["path"], said.stdout.trim_end());
    assert_eq!(again.json()["downloaded"], false);
    assert_eq!(site.requests().len(), requests);
}

#[test]
fn signature_by_an_unknown_key_is_refused_with_a_hint() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    site.inject_fault("SHA256SUMS.72D7468F.sig", Fault::ByAnother);
    let mut machine = Machine::with_site(&site);
    machine.set("BUTLER_LOG", "error");
    let said = machine.run(&["tool", "install", "1.9.8"]);
    let issuer = said.stderr.split('`').nth(3).unwrap();
    expect![[r"
        exit 1
        error: cannot trust terraform 1.9.8 from `<site>/terraform/1.9.8/terraform_1.9.8_SHA256SUMS`: the signature is by the unknown key `<stranger>`
        hint: if the site is yours, name its public key with --signing-key
    "]].assert_eq(&said.normalized().replace(issuer, "<stranger>"));
}

#[test]
fn world_writable_cache_directory_is_used_with_a_warning() {
    let site = ReleaseSite::start(&[("1.9.8", b"binary")]);
    let machine = Machine::with_site(&site);
    let version = machine.installation("terraform", "1.9.8");
    let cache = version.ancestors().nth(2).unwrap();
    std::fs::create_dir_all(cache).unwrap();
    // With the sticky bit, other users cannot replace what is in it.
    for (mode, warns) in [(0o777, true), (0o1777, false), (0o700, false)] {
        std::fs::set_permissions(cache, Permissions::from_mode(mode)).unwrap();
        let said = machine.run(&["tool", "install", "1.9.8"]).expect_success();
        let warning = "every user may write to the cache's directory";
        assert_eq!(said.stderr.contains(warning), warns, "{mode:o}: {said:?}");
        assert_eq!(said.stderr.contains(cache.to_str().unwrap()), warns, "{mode:o}: {said:?}");
    }
}

/// A tool that prints its inputs and ends with 7. With `wait` it waits for SIGTERM and ends with
/// 42.
const SPEAKING: &str = r#"#!/bin/sh
if [ "$1" = wait ]; then
  trap 'exit 42' TERM
  echo waiting
  while :; do read -r line || sleep 0.1; done
fi
read -r line
echo "$# arguments: $*; read: $line; token: $BUTLER_TOKEN; region: $AWS_REGION"
echo trouble >&2
exit 7
"#;

#[test]
fn exec_passes_arguments_streams_environment_and_exit_code() {
    let site = ReleaseSite::start(&[("1.9.8", SPEAKING.as_bytes())]);
    let mut machine = Machine::with_site(&site);
    machine.set("BUTLER_TOKEN", "brce_hunter2");
    machine.set("AWS_REGION", "eu-central-1");
    // `read` and `echo` are shell builtins.
    let mut child = machine
        .command(&["tool", "exec", "1.9", "--", "plan", "-var", "a=b c", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"yes\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "4 arguments: plan -var a=b c --json; read: yes; token: ; region: eu-central-1\n",
        "{said}"
    );
    assert_eq!(output.status.code(), Some(7));
    assert!(said.ends_with("trouble\n"), "{said}");
}

#[test]
fn exec_replaces_the_runner_process_so_signals_reach_the_tool() {
    let site = ReleaseSite::start(&[("1.9.8", SPEAKING.as_bytes())]);
    let mut machine = Machine::with_site(&site);
    machine.set("PATH", "/usr/bin:/bin");
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    let mut command = machine.command(&["tool", "exec", "--", "wait"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "waiting\n", "the default version is the one that runs");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(42));
}

#[test]
fn exec_never_starts_a_modified_executable_and_explains_a_missing_version() {
    let site = ReleaseSite::start(&[("1.9.8", SPEAKING.as_bytes())]);
    let machine = Machine::with_site(&site);
    let said = machine.run(&["tool", "exec", "--", "version"]);
    expect![[r"
        exit 1
        error: no version of terraform or opentofu is requested in `<machine>`
        hint: name a version; looked for `.terraform-version`, `.opentofu-version`, `.tool-versions`, `.tfswitchrc`, there and in its parent directories up to the repository root, and for `required_version`
    "]].assert_eq(said.normalized());
    let said = machine.run(&["tool", "exec", "1.9.8", "plan"]);
    expect![[r"
        exit 2
        error: unexpected argument `plan`
        hint: use `-- plan`
    "]]
    .assert_eq(said.normalized());
    machine.run(&["tool", "install", "1.9.8"]).expect_success();
    let path = machine.installation("terraform", "1.9.8").join("terraform");
    std::fs::write(&path, "#!/bin/sh\necho changed\n").unwrap();
    // The modified executable is replaced by a verified one.
    let said = machine.run(&["tool", "exec", "1.9.8", "--", "plan"]);
    assert_eq!(said.code, Some(7), "{said:?}");
    assert!(!said.stdout.contains("changed"), "{said:?}");
}
