//! Root's rights for tests that change the owner of files or start processes as another user.

use std::process::{Command, Stdio};

use nix::unistd::Uid;

use super::world::unshare;

/// Runs `test` as root.
///
/// If the tests run as an ordinary user, the test starts itself again in a user namespace, in which
/// this user is root and has further users: the subordinate IDs of `/etc/subuid` and
/// `/etc/subgid`. A machine without them is a failure.
pub fn as_root<T: FnOnce()>(test: T) {
    if Uid::effective().is_root() {
        test();
    } else {
        run_again_as_root(std::any::type_name::<T>());
    }
}

/// The same for a test that is asynchronous.
pub async fn as_root_async<T: Future<Output = ()>>(test: T) {
    if Uid::effective().is_root() {
        test.await;
    } else {
        run_again_as_root(std::any::type_name::<T>());
    }
}

/// `type_name` is that of the test's body: `runner::module::test::{{closure}}`.
fn run_again_as_root(type_name: &str) {
    let (_, name) = type_name.split_once("::").unwrap();
    let (name, _) = name.split_once("::{{closure}}").unwrap();
    let this = std::env::current_exe().unwrap();
    // `/run` belongs to the root of the machine.
    let script = "mount -t tmpfs none /run && exec \"$0\" --exact \"$1\" --nocapture";
    let shell = ["/bin/sh", "-c", script, this.to_str().unwrap(), name];
    let words = unshare(&[&["--map-auto", "--mount"], &shell[..]].concat());
    let mut command = Command::new(words[0]);
    // Standard error stays that of this process, which may end first.
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    // An unknown name would be a success of 0 tests.
    let has_passed = output.status.success() && stdout.contains("1 passed");
    assert!(has_passed, "`{name}` as root in a user namespace: {stdout}");
}
