//! The executable as a file: static, small, and without dependencies on its environment.

use std::process::Command;

use butler_testing::empty_root::EmptyRoot;
use butler_testing::static_runner;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn release_binary_is_one_static_file() {
    let output = Command::new("ldd").arg(static_runner()).output().unwrap();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    let is_static = said.contains("statically linked") || said.contains("not a dynamic executable");
    assert!(is_static, "{said}");
}

/// Every CI job downloads the binary.
#[cfg(target_arch = "x86_64")]
#[test]
fn release_binary_has_less_than_42_mb() {
    let size = std::fs::metadata(static_runner()).unwrap().len();
    assert!(size < 42_000_000, "{size} bytes; `cargo tree` and `nm --size-sort` say of what");
}

/// Without it, OpenSSL has no locks, and threads that use it at the same time corrupt the heap.
#[test]
fn openssl_of_the_release_binary_has_threads() {
    let binary = std::fs::read(static_runner()).unwrap();
    // OpenSSL contains the command that compiled it, as a C string.
    let mut strings = binary.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let is_command = |string: &str| {
        string.starts_with("compiler: ") && string.contains("-DOPENSSL_BUILDING_OPENSSL")
    };
    let command = strings.find(|string| is_command(string)).unwrap();
    assert!(command.contains("-DOPENSSL_THREADS"), "{command}");
}

#[test]
fn release_binary_runs_in_an_empty_root() {
    let root = EmptyRoot::new(&static_runner());
    let version = root.runner().arg("--version").output().unwrap();
    assert!(version.status.success(), "{version:?}");
    assert!(text(&version.stdout).starts_with("butler-runner "), "{version:?}");
    let error = root.runner().arg("execute").output().unwrap();
    assert_eq!(error.status.code(), Some(2), "{error:?}");
    assert!(text(&error.stderr).contains("--endpoint, BUTLER_ENDPOINT, BUTLER_URL"), "{error:?}");
}
