//! A module on disk and the real Terraform in it, in a minimal environment.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::environment::{find_program, search_path};

/// A module directory for one test, with a directory around it for other files.
pub struct TestModule {
    base: TempDir,
}

impl TestModule {
    /// Writes `files` (name and text) into a new module directory.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let base = tempfile::tempdir().unwrap();
        for name in ["module", "home"] {
            std::fs::create_dir(base.path().join(name)).unwrap();
        }
        let module = Self { base };
        for (name, text) in files {
            std::fs::write(module.directory().join(name), text).unwrap();
        }
        module
    }

    /// The module's directory.
    pub fn directory(&self) -> std::path::PathBuf {
        self.base.path().join("module")
    }

    /// The directory around it.
    pub fn base(&self) -> &Path {
        self.base.path()
    }

    /// A command that runs Terraform in the module.
    pub fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let program = find_program("terraform").expect("terraform is on PATH");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.directory())
            .env_clear()
            .env("PATH", search_path())
            .env("HOME", self.base.path().join("home"))
            .env("CHECKPOINT_DISABLE", "1")
            .env("TF_INPUT", "0")
            .env("TF_IN_AUTOMATION", "1")
            .env("TF_CLI_ARGS", "-no-color")
            .stdin(Stdio::null());
        command
    }

    /// Runs Terraform to its end.
    pub fn terraform(&self, arguments: &[impl AsRef<OsStr>]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs Terraform and returns its standard output.
    ///
    /// # Panics
    /// When it fails.
    pub fn succeed(&self, arguments: &[impl AsRef<OsStr>]) -> String {
        let output = self.terraform(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs Terraform and returns its standard error as one line, so that wrapped words can be
    /// found.
    ///
    /// # Panics
    /// When it succeeds.
    pub fn fail(&self, arguments: &[impl AsRef<OsStr>]) -> String {
        let output = self.terraform(arguments);
        assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }
}

/// The machine's own Terraform, and its version.
pub fn machine_terraform() -> (std::path::PathBuf, String) {
    let program = find_program("terraform").expect("terraform is on PATH");
    let mut command = Command::new(&program);
    let output =
        command.args(["version", "-json"]).env("CHECKPOINT_DISABLE", "1").output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    (program, answer["terraform_version"].as_str().unwrap().to_owned())
}

/// `-flag=path`.
pub fn flag(name: &str, path: &Path) -> String {
    format!("-{name}={}", path.display())
}
