//! The memory of the runner when it reports the final status, searched as an attacker with root
//! rights would. An ordinary user becomes root in a user namespace.
//!
//! The registry delays two requests of the runner. At the first status the configuration is in use,
//! which shows that the search works. At the final status the heap must not contain any of it.
//! Stacks are not searched because they are not zeroed. Values are searched in pieces because freed
//! memory is partly overwritten.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use aho_corasick::AhoCorasick;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use butler_base::cancel::Stop;
use butler_base::event::Stream;
use butler_base::http::{Redirects, clients};
use butler_base::process::{Command, Grace, Input, Output, Sink, supervise};
use butler_base::secret::Redactor;
use butler_protocol::configuration::parse_config;
use butler_protocol::references::SecretSources;
use butler_registry::BASE_PATH;
use butler_runner::registry::{Address, Client, Limits};
use butler_runner::settings::{Arguments, Environment, Settings, ToolSettings, setting};
use butler_runner::workspace::{parse_run_settings, resolve};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use butler_testing::authority::Authority;
use butler_testing::deployed;
use butler_testing::git_server::{GitServer, Repository, TlsListener};
use butler_testing::root::as_root_async;
use butler_testing::stand_in::{AtPlan, StandIn};
use butler_testing::world::{RUN_ID, RunEnd, TOKEN, World};

/// The length of a piece that counts as found.
const PIECE: usize = 16;

/// The alignment of glibc's heap arenas of other threads.
const ARENA: u64 = 64 * 1024 * 1024;

/// Limit for the time until the next status; only a runner that hangs needs longer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A module with a variable of each type; real Terraform prints the texts of `printed`.
const MODULE: &str = r#"
variable "text" {
  type      = string
  sensitive = true
}
variable "object" {
  type      = object({ password = string, keys = list(string) })
  sensitive = true
}
variable "lines" {
  type = string
}
variable "native" {
  type = map(string)
}
variable "upstream" {
  type = string
}
variable "mounted" {
  type = string
}
resource "terraform_data" "all" {
  input = [var.text, var.object, var.lines, var.native, var.upstream, var.mounted]
  provisioner "local-exec" {
    command = "env; echo \"$LINES_\""
    environment = { TEXT = nonsensitive(var.text), LINES_ = var.lines }
  }
}
output "all" {
  value     = terraform_data.all.output
  sensitive = true
}
"#;

/// A tool that prints all its inputs and writes them to its plan and outputs, with a backend that
/// is never used. `$fail` is the end of its plan script.
const TALKATIVE: &str = r#"#!/bin/sh
all() {
  for argument; do
    case "$argument" in
    -var-file=* | -backend-config=*) cat "${argument#-*=}" ;;
    esac
  done
}
case "$1" in
version) echo '{"terraform_version":"1.11.4","platform":"linux_amd64"}' ;;
init) all "$@" ;;
plan)
  for argument; do
    case "$argument" in
    -var-file=*.json) cat "${argument#-var-file=}" > "$record/variables" ;;
    esac
  done
  all "$@"
  env
  if [ "$FAIL" = yes ]; then
    echo "Error: cannot log in with $SECRET_KEY" >&2
    exit 1
  fi ;;
show)
  printf '{"format_version":"1.2","resource_changes":[],"planned_values":'
  cat "$record/variables"
  printf '}\n' ;;
apply) all "$@"; env ;;
output)
  printf '{"all":{"sensitive":true,"type":"string","value":'
  cat "$record/variables"
  printf '}}\n' ;;
esac
"#;

/// Values that exist nowhere else, each with its name.
struct Secrets(Vec<(&'static str, String)>);

impl Secrets {
    fn value(&mut self, what: &'static str) -> String {
        let value: String = std::iter::repeat_with(fastrand::alphanumeric).take(48).collect();
        self.0.push((what, value.clone()));
        value
    }

    /// Every piece of every value, plain and in base64, with the name of the value.
    fn pieces(&self) -> (AhoCorasick, Vec<&'static str>) {
        let mut pieces: Vec<(Vec<u8>, &'static str)> = Vec::new();
        for (what, value) in &self.0 {
            // The text before a value shifts its base64 encoding.
            let encoded = (0..3).map(|shift| {
                let shifted = [&b"xx"[..shift], value.as_bytes()].concat();
                STANDARD_NO_PAD.encode(shifted)[4..].to_owned()
            });
            for text in std::iter::once(value.clone()).chain(encoded) {
                let windows = text.as_bytes().windows(PIECE);
                pieces.extend(windows.map(|piece| (piece.to_vec(), *what)));
            }
        }
        let patterns = AhoCorasick::new(pieces.iter().map(|(piece, _)| piece)).unwrap();
        (patterns, pieces.into_iter().map(|(_, what)| what).collect())
    }
}

/// A piece of a secret in memory.
#[derive(Debug)]
struct Found {
    what: &'static str,
    #[expect(dead_code, reason = "shown when a test fails")]
    place: String,
}

/// The pieces of `secrets` in the writable memory of a process, except stacks.
fn search(pid: u32, secrets: &Secrets) -> std::io::Result<Vec<Found>> {
    let process = Path::new("/proc").join(pid.to_string());
    let memory = std::fs::File::open(process.join("mem"))?;
    let (patterns, names) = secrets.pieces();
    let mut found = Vec::new();
    let mut guard_end = 0;
    for mapping in std::fs::read_to_string(process.join("maps"))?.lines() {
        let mut fields = mapping.split_whitespace();
        let (range, rights) = (fields.next().unwrap(), fields.next().unwrap());
        let file = fields.nth(3).unwrap_or_default();
        let written = rights.contains('w') || !file.starts_with('/');
        let (start, end) = range.split_once('-').unwrap();
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
        if rights.starts_with("---") {
            guard_end = end;
        }
        // A thread's stack follows its guard pages. An arena can do so too, but with another
        // alignment.
        let is_stack = file == "[stack]" || start == guard_end && start % ARENA != 0;
        if !rights.starts_with('r') || !rights.ends_with('p') || !written || is_stack {
            continue;
        }
        let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
        // Kernel pages cannot be read, and pages may have been unmapped in the meantime.
        if memory.read_exact_at(&mut bytes, start).is_err() {
            continue;
        }
        for hit in patterns.find_iter(&bytes) {
            let around = hit.start().saturating_sub(64)..(hit.end() + 64).min(bytes.len());
            let depth = bytes.len() - hit.start();
            let place =
                format!("{depth} before the end of {mapping}: {}", bytes[around].escape_ascii());
            found.push(Found { what: names[hit.pattern()], place });
        }
    }
    Ok(found)
}

/// A status that the runner reports and that has no response yet.
struct HeldStatus {
    status: Value,
    release: oneshot::Sender<()>,
}

/// The world's registry behind a gate: each status waits there until the test releases it.
struct StatusGate {
    endpoint: String,
    held: mpsc::UnboundedReceiver<HeldStatus>,
    server: JoinHandle<()>,
}

impl StatusGate {
    async fn open(world: &World, authority: Option<&Authority>) -> Self {
        let (sender, held) = mpsc::unbounded_channel();
        let app = deployed::router(world.registry.clone()).layer(from_fn(
            move |request: Request, next: Next| wait(sender.clone(), request, next),
        ));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (scheme, server) = match authority.map(Authority::acceptor) {
            Some(acceptor) => ("https", serve(TlsListener { listener, acceptor }, app)),
            None => ("http", serve(listener, app)),
        };
        Self { endpoint: format!("{scheme}://{address}{BASE_PATH}"), held, server }
    }

    async fn next(&mut self) -> HeldStatus {
        let held = tokio::time::timeout(PATIENCE, self.held.recv()).await;
        held.expect("the runner reports its status").unwrap()
    }
}

impl Drop for StatusGate {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn serve<L>(listener: L, app: Router) -> JoinHandle<()>
where
    L: axum::serve::Listener,
    L::Addr: std::fmt::Debug,
{
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() })
}

async fn wait(
    sender: mpsc::UnboundedSender<HeldStatus>,
    request: Request,
    next: Next,
) -> axum::response::Response {
    let is_status = request.method() == "POST" && request.uri().path().ends_with("/status");
    if !is_status {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let (release, released) = oneshot::channel();
    let status = serde_json::from_slice(&body).unwrap();
    sender.send(HeldStatus { status, release }).unwrap();
    released.await.unwrap();
    next.run(Request::from_parts(head, Body::from(body))).await
}

/// A run whose configuration contains many secrets.
struct Case {
    world: World,
    secrets: Secrets,
    config: Value,
    // Serves the repository as long as the run needs it.
    _git: (GitServer, Repository),
}

impl Case {
    async fn new(operation: &str) -> Self {
        let mut world = World::new(&[]).await;
        let mut secrets = Secrets(Vec::new());
        let token = secrets.value("token for git");
        let repository = Repository::create(&[("main.tf", MODULE)]);
        let git = GitServer::with_login("runner", &token);
        let mounted = world.path("secrets/database");
        std::fs::create_dir_all(&mounted).unwrap();
        std::fs::write(mounted.join("password"), secrets.value("mounted secret")).unwrap();
        let registry = world.path("secrets/registry");
        std::fs::create_dir_all(&registry).unwrap();
        std::fs::write(registry.join("token"), secrets.value("token of the settings")).unwrap();
        world.set("BUTLER_SECRETS_DIR", world.path("secrets"));
        let lines = [secrets.value("first line"), secrets.value("second line")].join("\n");
        let mut config = world.config(operation);
        config["source"]["gitRepo"] = git.url(&repository).into();
        config["source"]["credentials"] =
            json!({"type": "token", "username": "runner", "token": token});
        config["variables"] = json!({
            "text": {"value": secrets.value("text"), "sensitive": true},
            "object": {
                "value": {
                    "password": secrets.value("member of an object"),
                    "keys": [secrets.value("element of a list")],
                },
                "sensitive": true,
            },
            "lines": {"value": format!("-----BEGIN-----\n{lines}\n-----END-----\n"), "sensitive": true},
            "native": {
                "value": format!("{{ password = \"{}\" }}", secrets.value("text in HCL")),
                "sensitive": true,
            },
            "upstream": {"value": "replaced", "sensitive": true},
            "mounted": {"sensitive": true, "source": "secret", "ref": "database", "key": "password"},
        });
        // Without it, all secrets would be in memory that the next use of a buffer overwrites by
        // chance.
        let room = "room ".repeat(1500);
        config["envVars"] = json!({
            "ROOM": {"value": room},
            "SECRET_KEY": {"value": secrets.value("environment"), "sensitive": true},
        });
        config["upstreamOutputs"] = json!({"upstream": secrets.value("upstream output")});
        let token = json!({"secretId": "registry", "key": "token"});
        config["terraformSettings"] =
            json!({"terraformrc": {"credentials": {"app.terraform.io": {"token": token}}}});
        Self { world, secrets, config, _git: (git, repository) }
    }

    /// Replaces Terraform by the tool that prints its inputs, with a backend that has credentials.
    fn use_printing_tool(mut self) -> Self {
        let (directory, record) = (self.world.path("bin"), self.world.path("record"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::create_dir(&record).unwrap();
        let script = TALKATIVE.replace("$record", record.to_str().unwrap());
        std::fs::write(directory.join("terraform"), script).unwrap();
        std::fs::set_permissions(
            directory.join("terraform"),
            std::fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        let mut path = directory.into_os_string();
        path.push(":/usr/local/bin:/usr/bin:/bin");
        self.world.variables.push(("PATH".into(), path));
        let login = self.secrets.value("login in a backend's URL");
        self.config["stateBackend"] = json!({"type": "http", "config": {
            "address": format!("https://runner:{login}@127.0.0.1:1/state"),
            "password": self.secrets.value("backend's password"),
        }});
        self
    }

    /// Executes the run, with the TLS of `authority` if given, and searches at each status. Returns
    /// the final status and how the runner ended.
    async fn execute_and_search(self, authority: Option<&Authority>) -> (Value, RunEnd) {
        let Self { world, secrets, config, _git } = self;
        world.add_run(config);
        let mut door = StatusGate::open(&world, authority).await;
        let mut command = world.command(&["execute"]);
        command
            .env("BUTLER_ENDPOINT", &door.endpoint)
            .env("BUTLER_RUN_ID", RUN_ID)
            .env("BUTLER_TOKEN", TOKEN);
        if let Some(authority) = authority {
            command.env("BUTLER_CA_BUNDLE", authority.bundle());
        }
        let child = command.spawn().unwrap();
        let pid = child.id().unwrap();

        let mut last = door.next().await;
        if last.status["status"] == "running" {
            let found = search(pid, &secrets).unwrap();
            for (what, _) in secrets.0.iter().filter(|(what, _)| *what != "mounted secret") {
                assert!(found.iter().any(|it| it.what == *what), "{what} is not found in use");
            }
            assert_environment_is_erased(pid);
            last.release.send(()).unwrap();
            last = door.next().await;
        }
        let found = search(pid, &secrets).unwrap();
        let shown: Vec<_> = found.iter().take(30).collect();
        assert!(found.is_empty(), "{} pieces left: {shown:#?}", found.len());
        // Secrets that are still needed are still in memory.
        let token = Secrets(vec![("token", TOKEN.to_owned())]);
        assert!(!search(pid, &token).unwrap().is_empty());
        last.release.send(()).unwrap();
        let output = child.wait_with_output().await.unwrap();
        (last.status, world.end(&output))
    }
}

/// The token is no longer in the environment that the runner was started with.
fn assert_environment_is_erased(pid: u32) {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let environment = environment.escape_ascii().to_string();
    assert!(environment.contains("BUTLER_TOKEN=\\x00"), "{environment}");
    assert!(environment.contains(&format!("BUTLER_RUN_ID={RUN_ID}\\x00")), "{environment}");
    assert!(!environment.contains(TOKEN), "{environment}");
}

#[tokio::test]
async fn memory_has_no_secret_of_the_configuration_at_the_final_status() {
    as_root_async(async {
        let case = Case::new("apply").await.use_printing_tool();
        let (status, end) = case.execute_and_search(None).await;
        assert_eq!(status["status"], "succeeded", "{}", end.stderr);
    })
    .await;
}

#[tokio::test]
async fn tls_buffers_have_no_secret_at_the_final_status() {
    as_root_async(async {
        let case = Case::new("apply").await;
        let (status, end) = case.execute_and_search(Some(&Authority::create())).await;
        assert_eq!(status["status"], "succeeded", "{}", end.stderr);
    })
    .await;
}

/// After this failure, no further allocation overwrites remains of the configuration.
#[tokio::test]
async fn memory_has_no_secret_of_a_refused_configuration() {
    as_root_async(async {
        let case = Case::new("explode").await;
        let (status, end) = case.execute_and_search(Some(&Authority::create())).await;
        assert_eq!(status["error"]["phase"], "config", "{}", end.stderr);
    })
    .await;
}

#[tokio::test]
async fn memory_has_no_secret_after_a_failure_that_quoted_it() {
    as_root_async(async {
        let mut case = Case::new("apply").await.use_printing_tool();
        case.world.set("FAIL", "yes");
        let (status, end) = case.execute_and_search(None).await;
        assert_eq!(status["status"], "failed", "{}", end.stderr);
        assert!(status["error"]["message"].as_str().unwrap().contains("cannot log in with ***"));
    })
    .await;
}

#[tokio::test]
async fn user_of_the_runner_reads_neither_its_memory_nor_a_core_dump() {
    let mut world = World::new(&[]).await;
    world.commit(&[("main.tf", "")]);
    let look = r#"grep --no-filename '^Max core' "/proc/$PPID/limits" /proc/self/limits > "$record/limits"
  stat --format=%u "/proc/$PPID/mem" > "$record/owner"
  for file in mem environ; do
    head --bytes 1 "/proc/$PPID/$file" 2>> "$record/denied" && echo "$file" >> "$record/read"
  done"#;
    let tool = StandIn::install(&mut world, AtPlan::Do(look));
    world.add_run(world.config("plan"));
    let output = world.execute_as_user().output().await.unwrap();
    let end = world.end(&output);
    let limits = tool.record("limits");
    let values: Vec<Vec<&str>> = limits
        .lines()
        .map(|line| line.trim_start_matches("Max core file size").split_whitespace().collect())
        .collect();
    // A limit below the size of a header writes no file; a handler that reads from a pipe must get
    // nothing either.
    assert_eq!(values, [["1", "1", "bytes"], ["1", "1", "bytes"]], "{}", end.stderr);
    // A process that cannot be dumped belongs to root in /proc.
    assert_eq!(tool.record("owner"), "0\n", "{}", end.stderr);
    let denied = tool.record("denied");
    assert_eq!(
        (denied.matches("Permission denied").count(), &*tool.record("read")),
        (2, ""),
        "{denied}"
    );
}

/// A writer that rejects every line.
struct RejectingWriter;

impl Sink for RejectingWriter {
    fn line(&self, _: Stream, _: &[u8]) {}

    fn partial(&self, _: Stream, _: &[u8]) -> usize {
        0
    }
}

#[tokio::test]
async fn types_with_secrets_do_not_implement_debug() {
    const NEEDLE: &str = "correct-horse-battery-staple";
    let config = json!({
        "operation": "plan",
        "source": {
            "gitRepo": format!("https://runner:{NEEDLE}@git.example.com/a"),
            "gitRef": "main",
            "credentials": {"type": "ssh-key", "privateKey": NEEDLE, "passphrase": NEEDLE},
        },
        "variables": {"a": {"value": NEEDLE, "sensitive": true}, "b": {"value": [NEEDLE]}},
        "envVars": {"A": {"value": NEEDLE}},
        "upstreamOutputs": {"c": NEEDLE},
        "stateBackend": {"type": "pg", "config": {"conn_str": NEEDLE}},
        "terraformSettings": {"backend": {"type": "pg", "config": {"connStr": NEEDLE}}},
    });
    let parsed = parse_config(config.to_string().as_bytes()).unwrap();
    let laid_down = parse_run_settings(parsed.terraform_settings.as_ref().unwrap()).unwrap();
    let inputs = resolve(&parsed.spec, &SecretSources::default()).unwrap();
    let mirror = format!("https://runner:{NEEDLE}@mirror.example.com");
    let arguments = Arguments::default()
        .with(&setting::ENDPOINT, "https://registry.example.com")
        .with(&setting::RUN_ID, RUN_ID)
        .with(&setting::CACHE_DIR, "/proc/nonexistent")
        .with(&setting::MIRROR, mirror);
    let environment = Environment::new(BTreeMap::default(), "/runner".into())
        .with("BUTLER_TOKEN", &format!("brce_{NEEDLE}"))
        .with("GITHUB_TOKEN", NEEDLE)
        .with("AWS_SECRET_ACCESS_KEY", NEEDLE);
    let settings = Settings::resolve(&arguments, &environment).unwrap();
    let tool = ToolSettings::resolve(&arguments, &environment).unwrap();
    let redactor = Redactor::new();
    redactor.register(settings.git.tokens.iter().map(|it| &it.token));
    let client = Client::new(
        clients(None, Redirects::Refuse).unwrap(),
        Address::new("https://registry.example.com".parse().unwrap(), RUN_ID.parse().unwrap()),
        NEEDLE.into(),
        Limits { attempt: PATIENCE, long: PATIENCE },
    );
    let command = Command {
        program: "/bin/cat".into(),
        environment: [("A".into(), NEEDLE.into())].into_iter().collect(),
        input: Input::Bytes(NEEDLE.as_bytes().to_vec()),
        output: Output::Memory(1024),
        ..Command::default()
    };
    let grace = Grace { normal: PATIENCE, urgent: PATIENCE };
    let exit = supervise(&command, &RejectingWriter, &Stop::new(), grace).await.unwrap();
    assert_eq!(exit.output, NEEDLE.as_bytes());
    let bytes = format!("{:?}", NEEDLE.as_bytes());
    for shown in [
        format!("{parsed:?} {inputs:?} {laid_down:?}"),
        format!("{arguments:?} {environment:?} {settings:?} {tool:?} {:?}", settings.git),
        format!("{:?}", settings.child_environment(&[])),
        format!("{redactor:?} {client:?}"),
        format!("{command:?} {exit:?}"),
    ] {
        let hidden = !shown.contains(NEEDLE) && !shown.contains(bytes.trim_matches(['[', ']']));
        assert!(hidden && shown.len() > 20, "{shown}");
    }
}
