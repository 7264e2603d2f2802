//! A machine without a run: a home, a cache and a PATH for the commands of `butler-runner` in one
//! test.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::hang;
use super::programs::runner_path;
use super::release_site::ReleaseSite;

/// A machine. Its directories are removed with it.
pub struct Machine {
    directory: TempDir,
    variables: BTreeMap<String, OsString>,
    /// Placeholders for text that differs from run to run.
    names: Vec<(String, &'static str)>,
}

/// The output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    shown: String,
}

impl Machine {
    /// A machine without tools.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        hang::watch(directory.path());
        for name in ["bin", "home", "tmp"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let mut machine = Self { directory, variables: BTreeMap::new(), names: Vec::new() };
        for (variable, name) in
            [("PATH", "bin"), ("HOME", "home"), ("TMPDIR", "tmp"), ("BUTLER_CACHE_DIR", "cache")]
        {
            machine.set(variable, machine.path(name));
        }
        let place = machine.directory.path().display().to_string();
        machine.names.push((place, "<machine>"));
        machine
    }

    /// A machine that installs from `site` and trusts its key.
    pub fn with_site(site: &ReleaseSite) -> Self {
        let mut machine = Self::new();
        machine.set("BUTLER_MIRROR", site.url().as_str());
        machine.set("BUTLER_SIGNING_KEY", site.key_file());
        machine.replace_in_output(site.url().as_str().trim_end_matches('/'), "<site>");
        machine
    }

    /// Sets a variable for all later commands.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.insert(name.to_owned(), value.into());
    }

    /// Shows `name` in place of `text` in the output of commands.
    pub fn replace_in_output(&mut self, text: impl Into<String>, name: &'static str) {
        self.names.push((text.into(), name));
    }

    /// A path on the machine; `bin` is on PATH, `home` is HOME, `tmp` TMPDIR, `cache` the cache.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The directory of `version` of the product.
    pub fn installation(&self, product: &str, version: &str) -> PathBuf {
        self.path("cache").join(product).join(version)
    }

    /// Another program in the same environment, not started yet.
    pub fn shell(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.variables).current_dir(self.directory.path());
        command
    }

    /// `butler-runner WORDS`, not started yet.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(runner_path());
        command.args(words).env_clear().envs(&self.variables).current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `butler-runner WORDS` to its end.
    pub fn run(&self, words: &[&str]) -> CommandOutput {
        self.output_of(&self.command(words).output().unwrap())
    }

    /// The output of a command that the test has started itself.
    pub fn output_of(&self, output: &Output) -> CommandOutput {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let shown = format!(
            "{}\n{stdout}{}",
            output.status.to_string().replace("exit status:", "exit"),
            without_time(&stderr)
        );
        let shown = self.names.iter().fold(shown, |shown, (text, name)| shown.replace(text, name));
        CommandOutput { code: output.status.code(), stdout, stderr, shown }
    }
}

impl CommandOutput {
    /// Exit code, standard output and standard error, without text that differs from run to run.
    pub fn normalized(&self) -> &str {
        &self.shown
    }

    /// The JSON output of a command.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Itself, if the exit code is 0.
    pub fn expect_success(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// The path that the command printed.
    pub fn printed_path(&self) -> &Path {
        Path::new(self.stdout.trim_end())
    }
}

/// Log lines start with the time.
fn without_time(log: &str) -> String {
    log.lines().fold(String::new(), |mut shown, line| {
        let rest =
            line.split_once(' ').filter(|(time, _)| time.ends_with('Z') && time.contains('T'));
        shown.push_str(rest.map_or(line, |(_, rest)| rest.trim_start()));
        shown.push('\n');
        shown
    })
}
