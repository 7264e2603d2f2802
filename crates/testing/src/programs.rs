//! The programs that this build of the tests has made.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::project::project_path;

/// The executable of the runner.
///
/// Cargo builds programs and examples before the tests of a package, beside the directory of the tests' own
/// executables.
pub fn runner_path() -> PathBuf {
    built("butler-runner")
}

/// A file in the directory of this build's programs.
pub(crate) fn built(name: impl AsRef<Path>) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join(name);
    assert!(path.is_file(), "Cargo builds `{}` before these tests", path.display());
    path
}

/// The runner of this test build, in an environment without any of its settings.
pub fn runner() -> Command {
    without_settings(&runner_path())
}

/// A program in an environment without any settings of the runner.
pub(crate) fn without_settings(program: &Path) -> Command {
    let mut command = Command::new(program);
    let inherited = ["HOME", "PATH", "TMPDIR"];
    let variables = std::env::vars_os().filter(|(name, _)| inherited.iter().any(|it| name == *it));
    command.env_clear().envs(variables);
    command
}

/// The static release binary: `BUTLER_TEST_STATIC_BINARY`, or the one below `target/`.
pub fn static_runner() -> PathBuf {
    let named = std::env::var_os("BUTLER_TEST_STATIC_BINARY").map(PathBuf::from);
    let below_target = || {
        let targets = std::fs::read_dir(project_path("target")).ok()?;
        targets
            .filter_map(|target| Some(target.ok()?.path().join("release/butler-runner")))
            .find(|path| path.is_file())
    };
    named.or_else(below_target).filter(|path| path.is_file()).expect(
        "there is no static binary: `make build` makes it, `make test-release` makes and names it",
    )
}
