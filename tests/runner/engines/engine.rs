//! The engines that are tested, and worlds whose runs use one of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use semver::Version;
use serde_json::{Value, json};
use tempfile::TempDir;

use butler_testing::environment::{find_program, search_path};
use butler_testing::world::{RunEnd, World};

/// The variable that names executables.
const ENGINES: &str = "BUTLER_TEST_ENGINES";

/// An engine: a real one, or a program that replays the output of one.
pub(super) struct Engine {
    /// `terraform` or `tofu`.
    pub(super) program: &'static str,
    /// Its version.
    pub(super) version: Version,
    /// The first directory of PATH, with only this engine.
    directory: TempDir,
}

impl Engine {
    /// The executable at `path`.
    fn at(path: &Path) -> Self {
        // Without the variables of the machine, some of which make an engine print more.
        let ask = |arguments: &[&str]| {
            let output = Command::new(path).args(arguments).env_clear().output();
            output.unwrap_or_else(|error| panic!("{}: {error}", path.display())).stdout
        };
        let text = ask(&["version"]);
        let is_tofu = String::from_utf8_lossy(&text).starts_with("OpenTofu");
        let program = if is_tofu { "tofu" } else { "terraform" };
        let output = ask(&["version", "-json"]);
        let json: Value = serde_json::from_slice(&output).unwrap();
        let version = json["terraform_version"].as_str().unwrap().parse().unwrap();
        let engine = Self::named(program, version);
        std::os::unix::fs::symlink(path, engine.executable()).unwrap();
        engine
    }

    /// An engine whose executable does not exist yet.
    pub(super) fn named(program: &'static str, version: Version) -> Self {
        Self { program, version, directory: tempfile::tempdir().unwrap() }
    }

    /// The path of its executable.
    pub(super) fn executable(&self) -> PathBuf {
        self.directory.path().join(self.program)
    }

    /// Its name for people: `tofu 1.12.6`.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.program, self.version)
    }

    pub(super) fn is_opentofu(&self) -> bool {
        self.program == "tofu"
    }

    /// Whether it is at least this version of `OpenTofu`, or this one of Terraform.
    pub(super) fn has(&self, opentofu: (u64, u64), terraform: (u64, u64)) -> bool {
        let (major, minor) = if self.is_opentofu() { opentofu } else { terraform };
        self.version >= Version::new(major, minor, 0)
    }

    /// The version of this engine, as a configuration names it.
    pub(super) fn requested(&self) -> String {
        let prefix = if self.is_opentofu() { "opentofu-" } else { "" };
        format!("{prefix}{}", self.version)
    }

    /// A world with this engine on PATH.
    pub(super) async fn world(&self, files: &[(&str, &str)]) -> World {
        let mut world = World::new(files).await;
        let mut path = self.directory.path().as_os_str().to_owned();
        path.push(":");
        path.push(search_path());
        world.set("PATH", path);
        world
    }

    /// Runs `operation` in the world.
    pub(super) async fn run(&self, world: &World, operation: &str) -> RunEnd {
        self.run_with(world, operation, |_| ()).await
    }

    /// The same, with a configuration that `change` has changed.
    pub(super) async fn run_with(
        &self,
        world: &World,
        operation: &str,
        change: impl FnOnce(&mut Value),
    ) -> RunEnd {
        let mut config = world.config(operation);
        config["terraformVersion"] = json!(self.requested());
        change(&mut config);
        let end = world.run(config).await;
        let product = if self.is_opentofu() { "opentofu" } else { "terraform" };
        let tool = format!("{product} {}", self.version);
        assert_eq!(world.last_status()["tool"], tool, "{}", end.stderr);
        end
    }

    /// Asserts that a run has succeeded.
    pub(super) fn assert_succeeded(&self, world: &World, end: &RunEnd) {
        let (name, log) = (self.name(), world.received().log_text());
        assert_eq!(end.code, Some(0), "{name}: {}\n{log}", end.stderr);
    }
}

/// The engines that are tested.
pub(super) fn engines() -> Vec<Engine> {
    let named = std::env::var_os(ENGINES).filter(|named| !named.is_empty());
    let paths: Vec<PathBuf> = match named {
        Some(named) => std::env::split_paths(&named).collect(),
        None => ["terraform", "tofu"].into_iter().filter_map(find_program).collect(),
    };
    assert!(!paths.is_empty(), "there is no engine on PATH; {ENGINES} names executables");
    paths.iter().map(|path| Engine::at(path)).collect()
}

/// Prints the engines that the other tests use, for readers of the output of `make test-engines`.
#[test]
fn engines_are_named() {
    for engine in engines() {
        eprintln!("engine: {}", engine.name());
        assert!(engine.version >= Version::new(0, 13, 0), "{}", engine.name());
    }
}
