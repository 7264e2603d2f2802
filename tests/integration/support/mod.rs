//! Servers, repositories and runs for tests, each on a free port and in its own directory.

#[cfg(target_os = "linux")]
pub(crate) mod accounted;
pub(crate) mod api_server;
pub(crate) mod authority;
pub(crate) mod azure;
pub(crate) mod browser;
pub(crate) mod canned;
pub(crate) mod ci_server;
pub(crate) mod cloud_storage;
pub(crate) mod deployed;
pub(crate) mod documented;
pub(crate) mod empty_root;
pub(crate) mod environment;
pub(crate) mod file_s3;
pub(crate) mod files_provider;
pub(crate) mod forward_proxy;
pub(crate) mod git_server;
pub(crate) mod github_actions;
pub(crate) mod google_storage;
pub(crate) mod gpg;
pub(crate) mod http_backend;
pub(crate) mod kubernetes;
pub(crate) mod linters;
pub(crate) mod machine;
pub(crate) mod object_store;
pub(crate) mod processes;
pub(crate) mod project;
pub(crate) mod provider_mirror;
pub(crate) mod proxy;
pub(crate) mod release_site;
pub(crate) mod root;
pub(crate) mod ssh_server;
pub(crate) mod stand_in;
pub(crate) mod terminal;
pub(crate) mod terraform;
pub(crate) mod terraform_registry;
#[cfg(target_os = "linux")]
pub(crate) mod threads;
pub(crate) mod traced;
pub(crate) mod vendors;
pub(crate) mod world;

use std::path::PathBuf;
use std::process::Command;

/// The runner of this test build, in an environment without any of its settings.
pub(crate) fn runner() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_butler-runner"));
    let inherited = ["HOME", "PATH", "TMPDIR"];
    #[expect(clippy::disallowed_methods, reason = "the settings of the runner under test")]
    let variables = std::env::vars_os().filter(|(name, _)| inherited.iter().any(|it| name == *it));
    command.env_clear().envs(variables);
    command
}

/// The static release binary: `BUTLER_TEST_STATIC_BINARY`, or the one below `target/`.
pub(crate) fn static_runner() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "set by the Makefile for the tests")]
    let named = std::env::var_os("BUTLER_TEST_STATIC_BINARY").map(PathBuf::from);
    let below_target = || {
        let targets = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/target")).ok()?;
        targets
            .filter_map(|target| Some(target.ok()?.path().join("release/butler-runner")))
            .find(|path| path.is_file())
    };
    named
        .or_else(below_target)
        .filter(|path| path.is_file())
        .expect("there is no static binary: `make build` makes it, `make test` makes and names it")
}
