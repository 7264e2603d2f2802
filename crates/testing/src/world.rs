//! One test's own world: a directory, a development registry with faults in front of it, a git
//! repository, and the runner as a real process in an environment that is built on purpose.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use butler_registry::BASE_PATH;
use butler_registry::memory::{MemoryRegistry, Received, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::deployed;
use super::environment::find_program;
use super::programs::{runner, runner_path, without_settings};
use super::release_site::ReleaseSite;
use super::{hang, processes};

/// The token of every run.
pub const TOKEN: &str = "brce_0123456789abcdef";

/// The id of the one run of a world.
pub const RUN_ID: &str = "550e8400-e29b-41d4-a716-446655440000";

/// The status of a [`Fault`] without a response: the request hangs.
pub const HANG: u16 = 0;

/// The user and group `nobody`, with the id of most systems.
const NOBODY: u32 = 65534;

/// A module without providers, whose plan has one resource and one output.
pub const MODULE: &str = r#"
variable "name" {
  type    = string
  default = "world"
}
resource "terraform_data" "hello" {
  input = "hello ${var.name}"
}
output "greeting" {
  value = terraform_data.hello.output
}
"#;

/// A response that replaces the registry's own: method, endpoint, and status.
#[derive(Clone, Debug)]
pub struct Fault {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The last segment of the path.
    pub endpoint: &'static str,
    /// The HTTP status of the response.
    pub status: u16,
    /// How often. Afterwards the registry responds itself.
    pub times: usize,
}

/// The directory, registry and repository of one test. Everything that it started ends with it.
pub struct World {
    /// The directory of everything in the world.
    pub directory: TempDir,
    /// The registry itself.
    pub registry: Arc<MemoryRegistry>,
    server: Server,
    /// The responses that replace those of the registry.
    pub faults: Arc<Mutex<Vec<Fault>>>,
    /// Variables of the runner's environment.
    pub variables: Vec<(OsString, OsString)>,
}

impl World {
    /// A world whose repository holds `files`.
    pub async fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        hang::watch(directory.path());
        for name in ["tmp", "shm", "home", "cache", "repository"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let registry = Arc::new(MemoryRegistry::default());
        let faults: Arc<Mutex<Vec<Fault>>> = Arc::default();
        let injected = faults.clone();
        let layered = deployed::router(registry.clone()).layer(axum::middleware::from_fn(
            move |request: Request, next: Next| inject(injected.clone(), request, next),
        ));
        let server = Server::start(layered).await.unwrap();
        let world = Self { directory, registry, server, faults, variables: Vec::new() };
        world.commit(files);
        world
    }

    /// Responds to all such requests with `status` instead of the registry.
    pub fn fault(&self, method: &'static str, endpoint: &'static str, status: u16) {
        self.faults.lock().unwrap().push(Fault { method, endpoint, status, times: usize::MAX });
    }

    /// Makes the next such request hang.
    pub fn hang(&self, method: &'static str, endpoint: &'static str) {
        self.faults.lock().unwrap().push(Fault { method, endpoint, status: HANG, times: 1 });
    }

    /// Waits until a request hangs.
    pub async fn wait_for_hanging_request(&self) {
        let hangs = |fault: &Fault| fault.status == HANG && fault.times == 0;
        eventually("a request that hangs", || self.faults.lock().unwrap().iter().any(hangs)).await;
    }

    /// A path in the world's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The endpoint of the world's registry.
    pub fn endpoint(&self) -> String {
        self.server.endpoint().to_string()
    }

    /// Writes `files` into the repository and commits them to `main`. Returns the commit's id.
    pub fn commit(&self, files: &[(&str, &str)]) -> String {
        let repository = self.path("repository");
        for (name, content) in files {
            let file = repository.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        }
        let git = |arguments: &[&str]| {
            let output = std::process::Command::new("git")
                .args([
                    "-c",
                    "user.name=Test",
                    "-c",
                    "user.email=test@localhost",
                    "-c",
                    "init.defaultBranch=main",
                ])
                .args(arguments)
                .current_dir(&repository)
                .env("HOME", self.path("home"))
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        if !repository.join(".git").exists() {
            // Without the sample hooks: fourteen files fewer in each world.
            git(&["init", "--quiet", "--template="]);
        }
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--allow-empty", "--message", "change"]);
        git(&["rev-parse", "HEAD"])
    }

    /// The configuration of a run of `operation` on the world's repository, with its state kept in
    /// the world's directory.
    pub fn config(&self, operation: &str) -> Value {
        let callback = |name: &str| format!("/v1/ci/module-runs/{RUN_ID}/{name}");
        json!({
            "runId": RUN_ID,
            "operation": operation,
            "source": {
                "type": "git",
                "gitRepo": format!("file://{}", self.path("repository").display()),
                "gitRef": "main",
            },
            "stateBackend": {"type": "local", "config": {"path": self.path("terraform.tfstate")}},
            "callbacks": {
                "statusUrl": callback("status"),
                "logsUrl": callback("logs"),
                "planUrl": callback("plan"),
                "outputsUrl": callback("outputs"),
            },
        })
    }

    /// The same configuration, with its state in `backend`.
    pub fn config_in(&self, operation: &str, backend: &Value) -> Value {
        let mut config = self.config(operation);
        config["stateBackend"] = backend.clone();
        config
    }

    /// Adds the run to the registry.
    pub fn add_run(&self, config: Value) {
        self.registry.add_run(RUN_ID, TOKEN, config);
    }

    /// What the registry has received for the run.
    pub fn received(&self) -> Received {
        self.registry.run(RUN_ID).unwrap().received
    }

    /// The statuses that were reported, in order.
    pub fn statuses(&self) -> Vec<String> {
        let name = |status: &Value| status["status"].as_str().unwrap().to_owned();
        self.received().statuses.iter().map(name).collect()
    }

    /// The status that was reported last.
    pub fn last_status(&self) -> Value {
        self.received().statuses.last().cloned().unwrap()
    }

    /// The message and the advice of the last status.
    pub fn last_error(&self) -> (String, String) {
        let error = self.last_status()["error"].clone();
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (text("message"), text("advice"))
    }

    /// Sets a variable of the runner's environment.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.push((name.into(), value.into()));
    }

    /// Has the runner download from `site`, and trust its key.
    pub fn use_site(&mut self, site: &ReleaseSite) {
        self.set("BUTLER_MIRROR", site.url().as_str());
        self.set("BUTLER_SIGNING_KEY", site.key_file());
    }

    /// Gives the runner a PATH of one directory that contains only git and a shell. Returns the
    /// directory.
    pub fn use_bare_path(&mut self) -> PathBuf {
        let directory = self.path("bare-bin");
        std::fs::create_dir(&directory).unwrap();
        for name in ["git", "sh"] {
            let program = find_program(name).expect("the tests need git and a shell");
            std::os::unix::fs::symlink(program, directory.join(name)).unwrap();
        }
        self.set("PATH", &directory);
        directory
    }

    /// All reports except outputs, which contain secrets by design, and everything that the runner
    /// printed.
    pub fn reports_and_output(&self, end: &RunEnd) -> String {
        let Received { statuses, logs, plans, .. } = self.received();
        let json: String = statuses
            .iter()
            .chain(&plans)
            .flat_map(|body| [body.to_string(), "\n".into()])
            .collect();
        let log: String = logs.iter().flat_map(|line| [line.content.as_str(), "\n"]).collect();
        [&json, &log, &end.stdout, &end.stderr].map(String::as_str).concat()
    }

    /// The runner with `arguments`, in an environment with only the variables of a job.
    pub fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let copy = self.path("butler-runner");
        let runner = if copy.exists() { without_settings(&copy) } else { runner() };
        let mut command = tokio::process::Command::from(runner);
        command
            .args(arguments)
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("BUTLER_CACHE_DIR", self.path("cache"))
            .env("BUTLER_TMPFS_DIR", self.path("shm"))
            .env("BUTLER_LOG_INTERVAL", "1h")
            .env("BUTLER_CANCEL_INTERVAL", "1h")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// The runner with the settings of the world's run.
    pub fn execute(&self) -> tokio::process::Command {
        let mut command = self.command(&["execute"]);
        command
            .env("BUTLER_ENDPOINT", self.endpoint())
            .env("BUTLER_RUN_ID", RUN_ID)
            .env("BUTLER_TOKEN", TOKEN);
        command
    }

    /// The same, started by a shell with `script`, in which `"$0" "$@"` is the runner.
    pub fn execute_in_shell(&self, script: &str) -> tokio::process::Command {
        wrapped(&self.execute(), &["/bin/sh", "-c", script])
    }

    /// Copies the runner into the world, where other users can execute it: they may have no access to the build
    /// directory. The world's commands use the copy.
    pub fn copy_runner(&self) {
        // Another process copies the file. If this process had it open for writing, a child that
        // another test starts at the same time could inherit the descriptor, and the file could not
        // be executed.
        let files = [runner_path(), self.path("butler-runner")];
        assert!(std::process::Command::new("cp").args(files).status().unwrap().success());
    }

    /// The same as an ordinary user: root gives the world to `nobody`.
    pub fn execute_as_user(&self) -> tokio::process::Command {
        if !nix::unistd::Uid::effective().is_root() {
            return self.execute();
        }
        self.copy_runner();
        change_owner_to_nobody(self.directory.path());
        let mut command = self.execute();
        command.uid(NOBODY).gid(NOBODY);
        command
    }

    /// Executes a run with this configuration and asserts that it left no file and no process.
    pub async fn run(&self, config: Value) -> RunEnd {
        self.add_run(config);
        let output = self.execute().output().await.unwrap();
        self.end(&output)
    }

    /// How a run ended. Asserts that it left no file and no process.
    pub fn end(&self, output: &Output) -> RunEnd {
        let end = RunEnd {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        let left: Vec<_> = ["tmp", "shm"].into_iter().flat_map(|name| self.left_in(name)).collect();
        assert!(left.is_empty(), "left behind: {left:?}\n{}", end.stderr);
        // The kernel may need a moment for killed processes.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let mut processes = self.processes();
        while !processes.is_empty() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(20));
            processes = self.processes();
        }
        assert!(processes.is_empty(), "still running: {processes:?}\n{}", end.stderr);
        end
    }

    /// The entries of a directory of the world, sorted by name.
    pub fn left_in(&self, name: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path(name)).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    /// Command lines of the running processes that were started in this world.
    pub fn processes(&self) -> Vec<String> {
        let found = processes::with_environment(&self.path("tmp"));
        found.into_iter().map(|process| process.command).collect()
    }
}

/// The job's command appended to `words`, with only its own environment.
pub fn wrapped(job: &tokio::process::Command, words: &[&str]) -> tokio::process::Command {
    let job = job.as_std();
    let mut command = tokio::process::Command::new(words[0]);
    command
        .args(&words[1..])
        .arg(job.get_program())
        .args(job.get_args())
        .env_clear()
        .envs(job.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// The command line of `unshare` with `options`. An ordinary user becomes root in a user namespace.
pub fn unshare<'words>(options: &[&'words str]) -> Vec<&'words str> {
    let root = nix::unistd::Uid::effective().is_root();
    let user: &[_] = if root { &[] } else { &["--user", "--map-root-user"] };
    [&["unshare"], user, options].concat()
}

/// The job's command in its own mount namespace, after the shell script `mounts`.
pub fn with_mounts(job: &tokio::process::Command, mounts: &str) -> tokio::process::Command {
    let script = format!("{mounts}\nexec \"$0\" \"$@\"");
    wrapped(job, &unshare(&["--mount", "/bin/sh", "-e", "-c", &script]))
}

/// Waits until `condition` holds. `what` names it in the panic message.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let held = async {
        while !condition() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let bound = std::time::Duration::from_mins(1);
    tokio::time::timeout(bound, held).await.unwrap_or_else(|_| panic!("there never was {what}"));
}

/// The files below a directory that contain this text.
pub fn files_with(directory: &Path, text: &str) -> Vec<PathBuf> {
    assert!(directory.is_dir(), "{}", directory.display());
    let mut found = Vec::new();
    // What a program removes meanwhile does not have it.
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files_with(&path, text));
        } else if std::fs::read(&path)
            .is_ok_and(|content| memchr::memmem::find(&content, text.as_bytes()).is_some())
        {
            found.push(path);
        }
    }
    found
}

/// Changes the owner of `path` and everything in it to `nobody`.
fn change_owner_to_nobody(path: &Path) {
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).unwrap() {
            change_owner_to_nobody(&entry.unwrap().path());
        }
    }
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// The requests of a run that reports a plan, outputs, both or neither.
pub fn sequence(reports: &[&str]) -> Vec<String> {
    let begin = ["GET status", "GET config", "POST status", "POST logs"];
    begin.iter().chain(reports).chain(&["POST status"]).map(|name| (*name).to_owned()).collect()
}

/// Merges `changes` into `target`, member by member.
pub fn merge(target: &mut Value, changes: &Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (name, change) in changes {
                merge(target.entry(name.clone()).or_insert(Value::Null), change);
            }
        }
        (target, change) => *target = change.clone(),
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct RunEnd {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

async fn inject(faults: Arc<Mutex<Vec<Fault>>>, request: Request, next: Next) -> Response {
    let endpoint = request
        .uri()
        .path()
        .strip_prefix(BASE_PATH)
        .and_then(|path| path.rsplit('/').next())
        .unwrap_or("");
    let status = {
        let mut faults = faults.lock().unwrap();
        let fault = faults.iter_mut().find(|fault| {
            fault.method == request.method().as_str()
                && fault.endpoint == endpoint
                && fault.times > 0
        });
        fault.map(|fault| {
            fault.times -= 1;
            fault.status
        })
    };
    match status {
        None => next.run(request).await,
        Some(HANG) => std::future::pending().await,
        Some(status) => {
            let body = json!({"error": {"message": "injected", "code": "INJECTED"}}).to_string();
            let status = axum::http::StatusCode::from_u16(status).unwrap();
            // A client that closes the connection before the request was read may lose the
            // response.
            let _ = axum::body::to_bytes(request.into_body(), usize::MAX).await;
            (status, Body::from(body)).into_response()
        }
    }
}
