//! `serve`, with real repositories, Terraform and processes.

mod after_plan;
mod alerts;
mod applies;
mod artifacts;
mod breaker;
mod cancel;
mod checkout;
mod concurrency;
mod configuration;
mod day;
mod drift;
mod dry_run;
mod events;
mod faults;
mod files;
mod followers;
mod force_push;
mod full_disk;
mod handed_on;
mod import;
mod includes;
mod interrupted;
mod isolation;
mod kills;
mod kubernetes;
mod limits;
mod metrics;
mod module_credentials;
mod notifications;
mod output;
mod pages;
mod plan_files;
mod port;
mod postgres;
mod rare_changes;
mod renames;
mod replaced;
mod resources;
mod restarts;
mod servers;
mod ssh;
mod starting;
mod state_locks;
mod stopping;
mod store;
mod submodules;
mod temporary;
mod tls;
mod tour;
mod unreliable;
mod upstreams;
mod users;
mod versions;
mod visit;
mod waits;
mod webhooks;
mod windows;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use butler_base::platform::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use butler_testing::git_server::{GitServer, Repository};
use butler_testing::runner;
use butler_testing::world::{eventually, unshare, wrapped};
use butler_testing::{HeldPort, hang};

/// A layer whose plan adds one resource.
const LAYER: &str = "resource \"terraform_data\" \"one\" {\n  input = \"a\"\n}\n";

/// How many lines of the server's log a failed test prints.
const LAST_LINES: usize = 60;

/// How long a command may take that asks the server, also if it waits for a run.
const ANSWER: Duration = Duration::from_mins(1);

/// A repository with three layers, of which two use one module.
fn repository() -> Repository {
    let uses_module = "module \"shared\" {\n  source = \"../../modules/shared\"\n}\n";
    Repository::create(&[
        ("envs/app/main.tf", uses_module),
        ("envs/db/main.tf", uses_module),
        ("envs/dns/main.tf", LAYER),
        ("envs/docs/README.md", "none"),
        ("modules/shared/main.tf", LAYER),
    ])
}

/// A data directory, and the server that uses it.
struct Installation {
    directory: tempfile::TempDir,
    server: Option<Running>,
    /// The ports of the server that has ended: the next one needs them.
    held: Vec<HeldPort>,
    /// The certificates that commands trust, if the server speaks TLS.
    ca_bundle: Option<PathBuf>,
}

struct Running {
    process: Child,
    address: String,
}

impl Installation {
    fn new() -> Self {
        Self::in_directory(tempfile::tempdir().unwrap())
    }

    fn in_directory(directory: tempfile::TempDir) -> Self {
        hang::watch(directory.path());
        std::fs::create_dir(directory.path().join("tmp")).unwrap();
        Self { directory, server: None, held: Vec::new(), ca_bundle: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// What is in the directory for temporary files.
    fn temporary(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("tmp")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Writes the configuration of the server.
    fn configure(&self, yaml: &str) {
        std::fs::write(self.path("butler.yaml"), yaml).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command: Command = runner().into();
        command.args(arguments).arg("--data").arg(self.data()).current_dir(self.directory.path());
        command.env("TMPDIR", self.path("tmp")).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// The arguments of a quick start.
    fn quick_start(repository: &Repository) -> Vec<String> {
        let words = ["--repo", &repository.url(), "--path", "envs/*", "--ref", "main"];
        words.map(str::to_owned).to_vec()
    }

    /// One pass.
    async fn once(&self, arguments: &[String]) -> Output {
        let mut command = self.command(&["serve", "--once"]);
        command.args(arguments).output().await.unwrap()
    }

    /// Starts the server, and waits until it is ready.
    async fn serve(&mut self, arguments: &[String]) {
        self.serve_behind(&[], arguments).await;
    }

    /// Starts the server with its command line behind `words`, for example those of `unshare`.
    async fn serve_behind(&mut self, words: &[&str], arguments: &[String]) {
        let starting = self.start_behind(words, arguments);
        self.until_ready(starting).await;
    }

    /// Starts the server with its command line behind `words`, and does not wait for it.
    fn start_behind(&self, words: &[&str], arguments: &[String]) -> Child {
        let mut log = std::fs::OpenOptions::new();
        let log = log.create(true).append(true).open(self.path("server.log")).unwrap();
        let mut command = self.command(&["serve"]);
        command.args(arguments);
        if !arguments.iter().any(|argument| argument == "--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        if !words.is_empty() {
            command = wrapped(&command, words);
            command.current_dir(self.directory.path());
        }
        command.stdout(Stdio::piped()).stderr(log).spawn().unwrap()
    }

    /// Waits until the server is ready.
    async fn until_ready(&mut self, mut process: Child) {
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let ready = lines.next_line().await.unwrap();
        let log = self.server_log();
        let ready = ready.unwrap_or_else(|| panic!("the server has ended: {log}"));
        let address = ready.strip_prefix("listening on ").unwrap().trim_end_matches('/');
        self.server = Some(Running { process, address: address.to_owned() });
        self.held.clear();
    }

    /// The log of the server.
    fn server_log(&self) -> String {
        std::fs::read_to_string(self.path("server.log")).unwrap()
    }

    /// Keeps the ports of the server that has ended from other programs.
    fn hold_ports(&mut self) {
        let recorded = ["api", "attempts"].map(|it| self.data().join(format!("{it}.port")));
        let ports =
            recorded.iter().filter_map(|it| std::fs::read_to_string(it).ok()?.trim().parse().ok());
        self.held = ports.filter_map(|port| HeldPort::at(port).ok()).collect();
    }

    /// Kills the server, as a power cut does.
    async fn kill(&mut self) {
        self.server.take().unwrap().process.kill().await.unwrap();
        self.hold_ports();
    }

    /// The id of the process that was started.
    fn pid(&self) -> Pid {
        let id = self.server.as_ref().unwrap().process.id().unwrap();
        Pid::from_raw(i32::try_from(id).unwrap())
    }

    /// Asks the server to end. Returns its exit code.
    async fn terminate(&mut self) -> Option<i32> {
        butler_base::platform::ask_to_end(self.pid());
        self.ended().await
    }

    /// Waits for the end of the server. Returns its exit code.
    async fn ended(&mut self) -> Option<i32> {
        let mut server = self.server.take().unwrap();
        let status = server.process.wait().await.unwrap();
        self.hold_ports();
        status.code()
    }

    /// Asks the server with the command line.
    fn ask(&self, arguments: &[&str]) -> Output {
        let address = &self.server.as_ref().unwrap().address;
        let mut command = runner();
        command.args(arguments).args(["--server", address]).arg("--data").arg(self.data());
        if let Some(bundle) = &self.ca_bundle {
            command.arg("--ca-bundle").arg(bundle);
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        let (answer, answered) = mpsc::channel();
        let waits = std::thread::spawn(move || answer.send(child.wait_with_output().unwrap()));
        let output = answered.recv_timeout(ANSWER).unwrap_or_else(|_| {
            butler_base::platform::kill_child(pid).unwrap();
            let printed = answered.recv().unwrap();
            let log = std::fs::read_to_string(self.path("server.log")).unwrap();
            panic!("{arguments:?} did not end: {printed:?}; the server: {log}");
        });
        waits.join().unwrap().unwrap();
        output
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.ask(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A document of the API.
    fn get(&self, path: &str) -> Value {
        let token = std::fs::read_to_string(self.data().join("admin.token")).unwrap();
        let url = format!("{}/api/v1{path}", self.server.as_ref().unwrap().address);
        butler_testing::api::get(&url, token.trim(), self.ca_bundle.as_deref())
    }

    /// All runs of a layer, the newest first.
    fn runs(&self, layer: &str) -> Vec<Value> {
        let (mut runs, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("/runs?layer={layer}{after}"));
            runs.extend_from_slice(page["items"].as_array().unwrap());
            let Some(next) = page["next"].as_str() else { return runs };
            after = format!("&after={next}");
        }
    }

    fn layer(&self, name: &str) -> Value {
        self.get(&format!("/layers/{name}"))
    }

    /// Waits until all attempts have ended, and only their reports are left.
    async fn until_tidy(&self) {
        eventually("tidy directories", || {
            running(&self.data()).is_empty()
                && self.temporary().is_empty()
                && left_by_runs(&self.data()).is_empty()
                && attempts(&self.data()).into_iter().all(|attempt| {
                    ["token", "home", "temporary"].iter().all(|name| !attempt.join(name).exists())
                })
        })
        .await;
    }

    /// The problems of the configuration and its repositories, from the list of layers.
    fn problems(&self) -> Vec<String> {
        let listed = self.get("/layers");
        let problems = listed["problems"].as_array().unwrap().iter();
        problems.map(|problem| problem.as_str().unwrap().to_owned()).collect()
    }

    /// Waits until the layer is shown without a lease. A layer is shown as it was decided about last, which can be
    /// before the end of its run.
    async fn until_free(&self, layer: &str) {
        eventually("a free state", || self.layer(layer)["lease"].is_null()).await;
    }

    /// Waits until the only problem contains these texts.
    async fn until_problem(&self, texts: &[&str]) {
        self.until_problems(1, texts).await;
    }

    /// Waits until there are this many problems, and each of them contains these texts.
    async fn until_problems(&self, count: usize, texts: &[&str]) {
        eventually(&format!("{count} problems {texts:?}"), || {
            let found = self.problems();
            let is_said = |problem: &String| texts.iter().all(|text| problem.contains(text));
            found.len() == count && found.iter().all(is_said)
        })
        .await;
    }

    /// Waits until the newest run of a layer is in this phase, and the layer has this many runs.
    async fn until(&self, layer: &str, phase: &str, runs: usize) {
        let what = format!("{layer}: {runs} runs, the last one {phase}");
        eventually(&what, || {
            let known = self.runs(layer);
            known.len() == runs && known[0]["phase"] == phase
        })
        .await;
    }
}

impl Installation {
    /// Prints whether the server has ended, and the end of its log, to show why a test has failed.
    #[expect(clippy::print_stderr, reason = "nextest prints it if the test has failed")]
    fn print_server(&mut self) {
        let log = std::fs::read_to_string(self.path("server.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        let ended = self.server.as_mut().map(|server| server.process.try_wait());
        eprintln!("the server: {ended:?}; the end of its log:\n{}", last.join("\n"));
    }
}

impl Drop for Installation {
    /// Attempts outlive the server, but not the test.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print_server();
        }
        // It would start further ones.
        self.server = None;
        if !self.data().join("attempts").exists() {
            return;
        }
        for pid in running(&self.data()) {
            // It can have ended meanwhile.
            let _ = butler_base::platform::kill_child(butler_base::platform::Pid::from_raw(pid));
        }
    }
}

/// The processes of the attempts that run, also of those that have not recorded themselves yet.
fn running(data: &Path) -> Vec<i32> {
    // Its directory, because numbers of processes are used again, even for attempts of other servers.
    let words = format!("\0internal-attempt\0{}/", data.join("attempts").display());
    let is_attempt = |pid: &i32| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.contains(&words)
    };
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(is_attempt).collect()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// The files below a directory, without those of caches.
fn attempts(data: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data.join("attempts")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// What runs have left in the directories of their layers.
fn left_by_runs(data: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten();
    let layers = entries(&data.join("work"));
    layers.flat_map(|layer| entries(&layer.unwrap().path())).map(|it| it.unwrap().path()).collect()
}

#[tokio::test]
async fn one_pass_plans_each_directory_and_the_next_one_only_what_a_commit_changes() {
    let (installation, repository) = (Installation::new(), repository());
    let arguments = Installation::quick_start(&repository);
    let first = installation.once(&arguments).await;
    assert!(first.status.success(), "{}", text(&first));
    let table = String::from_utf8(first.stdout).unwrap();
    for layer in ["envs.app", "envs.db", "envs.dns"] {
        let row = table.lines().find(|line| line.starts_with(layer)).unwrap();
        assert!(row.contains("1 to add, 0 to change, 0 to destroy"), "{table}");
    }
    assert!(!table.contains("envs.docs"), "{table}");
    assert_eq!(attempts(&installation.data()).len(), 3);

    // A file that no layer depends on.
    repository.commit("Explain", &[("docs/README.md", "none")]);
    assert!(installation.once(&arguments).await.status.success());
    assert_eq!(attempts(&installation.data()).len(), 3);

    // The module of two layers.
    repository.commit("Change", &[("modules/shared/more.tf", "output \"o\" { value = 1 }\n")]);
    assert!(installation.once(&arguments).await.status.success());
    let left = attempts(&installation.data());
    assert_eq!(left.len(), 5);
    // Nothing but reports is left of attempts.
    for attempt in left {
        for name in ["token", "home", "temporary"] {
            assert!(!attempt.join(name).exists(), "{}", attempt.join(name).display());
        }
    }
    assert_eq!(left_by_runs(&installation.data()), Vec::<PathBuf>::new());
    assert_eq!(installation.temporary(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn failed_plan_is_told_and_ends_the_pass_with_1() {
    let installation = Installation::new();
    let repository = Repository::create(&[("envs/a/main.tf", "resource \"x\" {}\n")]);
    // Without `--ref`: the default branch.
    let arguments = &Installation::quick_start(&repository)[..4];
    let pass = installation.once(arguments).await;
    assert_eq!(pass.status.code(), Some(1), "{}", text(&pass));
    let table = String::from_utf8(pass.stdout).unwrap();
    assert!(table.contains("Failed"), "{table}");
    assert!(table.contains("it is not retried: push a fix"), "{table}");
}

#[tokio::test]
async fn commit_is_planned_after_sync() {
    let (mut installation, repository) = (Installation::new(), repository());
    let served = GitServer::with_login("ana", "s3cret");
    std::fs::write(installation.path("password"), "s3cret\n").unwrap();
    let password = installation.path("password");
    installation.configure(&format!(
        "repositories:
  infra:
    url: {}
    credentials: {{username: ana, password-file: {}}}
layers:
  all: {{repository: infra, ref: main, paths: ['envs/*']}}
",
        served.url(&repository),
        password.display(),
    ));
    installation.serve(&[]).await;
    installation.until("all.envs.dns", "Succeeded", 1).await;
    installation.until("all.envs.app", "Succeeded", 1).await;

    let commit =
        repository.commit("Change", &[("envs/dns/more.tf", LAYER.replace("one", "two").as_str())]);
    assert!(installation.ask(&["layer", "sync", "all.envs.dns"]).status.success());
    installation.until("all.envs.dns", "Succeeded", 2).await;
    let run = &installation.runs("all.envs.dns")[0];
    assert_eq!((&run["commit"], &run["counts"]["add"]), (&commit.into(), &2.into()));
    assert_eq!(installation.runs("all.envs.app").len(), 1);
    let id = run["id"].as_str().unwrap();
    let log = text(&installation.ask(&["run", "logs", id]));
    assert!(log.contains("Plan: 2 to add, 0 to change, 0 to destroy."), "{log}");
    let plan = text(&installation.ask(&["run", "show", id, "--plan"]));
    assert!(plan.contains("terraform_data.two will be created"), "{plan}");

    // What a person asks for, and a pause.
    assert!(installation.ask(&["layer", "plan", "all.envs.dns"]).status.success());
    installation.until("all.envs.dns", "Succeeded", 3).await;
    assert!(installation.ask(&["layer", "pause", "all.envs.dns"]).status.success());
    eventually("a pause", || installation.layer("all.envs.dns")["phase"] == "Skipped").await;
    let refused = installation.ask(&["layer", "plan", "all.envs.dns"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("paused by administrator"), "{}", text(&refused));
    assert_eq!(installation.terminate().await, Some(0));
    let log = std::fs::read_to_string(installation.path("server.log")).unwrap();
    assert!(!log.contains("s3cret"), "{log}");
}

#[tokio::test]
async fn variables_secrets_and_backends_of_the_configuration_reach_the_plan() {
    let installation = Installation::new();
    let module = "variable \"region\" { type = string }
variable \"password\" {
  type      = string
  sensitive = true
}
resource \"terraform_data\" \"one\" {
  input = \"${var.region}-${sha256(var.password)}\"
}
output \"workspace\" { value = terraform.workspace }
";
    let repository = Repository::create(&[("module/main.tf", module)]);
    std::fs::write(installation.path("secret"), "hunter22\n").unwrap();
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers:
  one:
    repository: infra
    ref: main
    path: module
    variables: {{region: eu-west-1}}
    secrets: {{password: {{file: {}}}}}
    backend: {{type: local}}
",
        repository.url(),
        installation.path("secret").display(),
    ));
    let pass = installation.once(&[]).await;
    assert!(pass.status.success(), "{}", text(&pass));
    let directory = attempts(&installation.data()).remove(0);
    let plan = std::fs::read_to_string(directory.join("plan.txt")).unwrap();
    assert!(plan.contains("terraform_data.one will be created"), "{plan}");
    // Neither the secret nor its file's name is stored.
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        let content = if path.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        let content = String::from_utf8_lossy(&content);
        assert!(!content.contains("hunter22"), "{}", path.display());
    }
}

#[tokio::test]
async fn changed_configuration_is_read_again_and_a_wrong_one_leaves_the_last_in_force() {
    let (mut installation, repository) = (Installation::new(), repository());
    let url = repository.url();
    let with = |layers: &str| {
        let first = "  dns: {repository: infra, path: envs/dns}";
        let defaults = "defaults: {strategy: plan-only}";
        format!("repositories: {{infra: {{url: '{url}'}}}}\n{defaults}\nlayers:\n{first}\n{layers}")
    };
    installation.configure(&with(""));
    installation.serve(&[]).await;
    installation.until("dns", "Succeeded", 1).await;
    let data = installation.data();
    let isolation = format!("isolation: {{read: ['{}']}}", data.join("mirrors").display());
    let place = "butler.yaml:5:63: ";
    for (wrong, expected) in [("tol: 1", "did you mean `tool`?"), (&isolation, place)] {
        let layer = format!("  app: {{repository: infra, path: envs/app, {wrong}}}\n");
        installation.configure(&with(&layer));
        eventually(expected, || {
            let problems = installation.json(&["layer", "list"])["problems"].clone();
            problems[0].as_str().is_some_and(|problem| problem.contains(expected))
        })
        .await;
        assert_eq!(installation.layer("dns")["phase"], "Succeeded");
    }
    let pass = installation.once(&[]).await;
    assert_eq!(pass.status.code(), Some(2));
    let expected = format!("{place}`{}` is in the data directory", data.join("mirrors").display());
    assert!(text(&pass).contains(&expected), "{}", text(&pass));
    installation.configure(&with("  app: {repository: infra, path: envs/app}\n"));
    eventually("the new layer", || {
        installation.json(&["layer", "list"])["items"].as_array().unwrap().len() == 2
    })
    .await;
    installation.until("app", "Succeeded", 1).await;
    assert_eq!(installation.json(&["layer", "list"])["problems"], serde_json::json!([]));
    assert_eq!(installation.runs("dns").len(), 1);
}
