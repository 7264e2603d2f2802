//! Every signal at every phase: one final status, nothing left, the state unlocked.
//!
//! One world for each pair of a phase and of what ends the run in it. The phase is held where it is:
//! by a registry, a git server or a release site that does not answer, or by the tool.

use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use butler_runner::devregistry::{Server, router};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::support::documented::assert_documented;
use crate::support::stand_in::StandIn;
use crate::support::world::{End, MODULE, RUN_ID, World, eventually, unshare, wrapped};

/// Where the run is when it is ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Config,
    Clone,
    Install,
    Init,
    Plan,
    Apply,
    Logs,
    FinalStatus,
}

impl Phase {
    const ALL: [Self; 8] = [
        Self::Config,
        Self::Clone,
        Self::Install,
        Self::Init,
        Self::Plan,
        Self::Apply,
        Self::Logs,
        Self::FinalStatus,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Config => "fetching the configuration",
            Self::Clone => "cloning",
            Self::Install => "installing the tool",
            Self::Init => "`init`",
            Self::Plan => "`plan`",
            Self::Apply => "`apply`",
            Self::Logs => "sending the last log lines",
            Self::FinalStatus => "sending the final status",
        }
    }

    /// Whether the work is done by then, so that a signal changes nothing about its result.
    const fn is_after_the_work(self) -> bool {
        matches!(self, Self::Logs | Self::FinalStatus)
    }

    /// The request that the registry does not answer in this phase: method, endpoint, which of them.
    const fn held(self) -> Option<(&'static str, &'static str, usize)> {
        match self {
            Self::Config => Some(("GET", "config", 1)),
            Self::Logs => Some(("POST", "logs", 1)),
            Self::FinalStatus => Some(("POST", "status", 2)),
            _ => None,
        }
    }
}

/// What ends the run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cause {
    Signal(Signal),
    TwoSignals,
    Cancel,
    Conflict,
}

impl Cause {
    const ALL: [Self; 7] = [
        Self::Signal(Signal::SIGINT),
        Self::Signal(Signal::SIGTERM),
        Self::Signal(Signal::SIGHUP),
        Self::Signal(Signal::SIGQUIT),
        Self::TwoSignals,
        Self::Cancel,
        Self::Conflict,
    ];

    /// How the documentation calls it: the signals are alike.
    const fn name(self) -> &'static str {
        match self {
            Self::Signal(_) => "SIGINT, SIGTERM, SIGHUP or SIGQUIT",
            Self::TwoSignals => "two signals",
            Self::Cancel => "the registry says cancelled",
            Self::Conflict => "the registry answers 409",
        }
    }

    const fn is_signal(self) -> bool {
        matches!(self, Self::Signal(_) | Self::TwoSignals)
    }
}

/// What has to come of it: terminal statuses and exit codes, and how the table calls these.
fn expected(phase: Phase, cause: Cause) -> (&'static [&'static str], Vec<i32>, &'static str) {
    match cause {
        Cause::Cancel | Cause::Conflict => (&[], vec![3], "3"),
        _ if phase.is_after_the_work() => (&["succeeded"], vec![0], "0, as the work was done"),
        Cause::Signal(signal) => (&["cancelled"], vec![128 + signal as i32], "128+n"),
        Cause::TwoSignals => (&["cancelled"], vec![143, 130], "128+n"),
    }
}

/// A layer before the registry that holds one request back, and then may answer with 409.
struct Gate {
    held: Option<(&'static str, &'static str, usize)>,
    seen: AtomicUsize,
    reached: watch::Sender<bool>,
    open: watch::Sender<bool>,
    /// The endpoint that answers with 409 from now on.
    conflict: watch::Sender<Option<&'static str>>,
}

impl Gate {
    fn new(held: Option<(&'static str, &'static str, usize)>) -> Arc<Self> {
        Arc::new(Self {
            held,
            seen: AtomicUsize::new(0),
            reached: watch::Sender::new(false),
            open: watch::Sender::new(false),
            conflict: watch::Sender::new(None),
        })
    }

    /// Serves the world's registry behind this gate.
    async fn serve(self: &Arc<Self>, world: &World) -> Server {
        let gate = self.clone();
        let layer = axum::middleware::from_fn(move |request: Request, next: Next| {
            let gate = gate.clone();
            async move { gate.pass(request, next).await }
        });
        Server::start(router(world.registry.clone()).layer(layer)).await.unwrap()
    }

    async fn pass(&self, request: Request, next: Next) -> Response {
        let endpoint = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        if let Some((method, held, number)) = self.held
            && request.method().as_str() == method
            && endpoint == held
            && self.seen.fetch_add(1, Ordering::SeqCst) + 1 == number
        {
            self.reached.send_replace(true);
            self.open.subscribe().wait_for(|open| *open).await.unwrap();
        }
        if *self.conflict.borrow() == Some(endpoint.as_str()) && endpoint_is_reported(&request) {
            let body = json!({"error": {"message": "the run is over", "code": "APPROVAL_DENIED"}});
            return (axum::http::StatusCode::CONFLICT, body.to_string()).into_response();
        }
        next.run(request).await
    }

    async fn reached(&self) {
        self.reached.subscribe().wait_for(|reached| *reached).await.unwrap();
    }
}

/// GET status is never answered with 409.
fn endpoint_is_reported(request: &Request) -> bool {
    request.method() == axum::http::Method::POST || request.uri().path().ends_with("/config")
}

/// A server that takes connections and never says a word.
struct Silent {
    listener: TcpListener,
}

impl Silent {
    async fn start() -> Self {
        Self { listener: TcpListener::bind(("127.0.0.1", 0)).await.unwrap() }
    }

    fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }
}

/// A module whose apply says that it has begun and does not end.
fn endless(world: &World) -> String {
    let started = world.path("started");
    format!(
        r#"
resource "terraform_data" "endless" {{
  provisioner "local-exec" {{
    command = "echo applying; : > '{}'; exec sleep 1000"
  }}
}}
"#,
        started.display()
    )
}

fn pid_of(child: &tokio::process::Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap())
}

/// The lines that the tool printed are in the registry's log, in order, and the numbers are whole.
fn assert_nothing_lost(world: &World, end: &End, name: &str) {
    let received = world.received();
    let numbers: Vec<_> = received.logs.iter().map(|line| line.sequence).collect();
    assert_eq!(numbers, (1..=u32::try_from(numbers.len()).unwrap()).collect::<Vec<_>>(), "{name}");
    let mut log = received.logs.iter().map(|line| line.content.as_str());
    for line in end.stdout.lines() {
        assert!(log.any(|content| content == line), "{name}: `{line}` is lost\n{}", end.stderr);
    }
}

/// Carries one pair out and asserts what comes of it.
async fn carry_out(phase: Phase, cause: Cause) {
    let name = format!("{cause:?} while {}", phase.name());
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let often = "50ms";
    world.set("BUTLER_CANCEL_INTERVAL", if cause == Cause::Cancel { often } else { "1h" });
    if cause == Cause::Conflict && !phase.is_after_the_work() {
        world.set("BUTLER_LOG_INTERVAL", often);
    }
    let silent = Silent::start().await;
    let mut config = world.config(if phase == Phase::Apply { "apply" } else { "plan" });
    let mut tool = None;
    match phase {
        Phase::Clone => config["source"]["gitRepo"] = json!(format!("{}/a.git", silent.url())),
        Phase::Install => {
            config["terraformVersion"] = json!("1.0.11");
            world.set("BUTLER_MIRROR", silent.url());
        }
        Phase::Init => tool = Some(StandIn::waiting_at(&mut world, "init")),
        Phase::Plan => tool = Some(StandIn::waiting_at(&mut world, "plan")),
        Phase::Apply => {
            let module = endless(&world);
            world.commit(&[("main.tf", &module)]);
        }
        Phase::Config | Phase::Logs | Phase::FinalStatus => {
            StandIn::doing(&mut world, &[]);
        }
    }
    // Between its beginning and its end the run hears of it with its log lines.
    let by_logs = cause == Cause::Conflict && phase.held().is_none();
    let gate = Gate::new(if by_logs { Some(("POST", "logs", 1)) } else { phase.held() });
    let server = gate.serve(&world).await;
    world.add_run(config);
    let mut command = world.execute();
    let mut child = command.env("BUTLER_ENDPOINT", server.endpoint().as_str()).spawn().unwrap();

    let mut connection = None;
    let at_phase = async {
        match (phase, &tool) {
            (Phase::Clone | Phase::Install, _) => {
                connection = Some(silent.listener.accept().await.unwrap());
            }
            (Phase::Apply, _) => {
                eventually("a provisioner", || world.path("started").exists()).await;
            }
            (_, Some(tool)) => tool.planning().await,
            _ => gate.reached().await,
        }
    };
    tokio::select! {
        () = at_phase => {}
        status = child.wait() => {
            let output = child.wait_with_output().await.unwrap();
            panic!("{name}: ended with {status:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    let pid = pid_of(&child);
    match cause {
        Cause::Signal(signal) => kill(pid, signal).unwrap(),
        Cause::TwoSignals => {
            kill(pid, Signal::SIGTERM).unwrap();
            kill(pid, Signal::SIGINT).unwrap();
        }
        Cause::Cancel => world.registry.set_status(RUN_ID, "cancelled"),
        Cause::Conflict => {
            let endpoint = match phase {
                Phase::Config => "config",
                Phase::FinalStatus => "status",
                _ => "logs",
            };
            gate.conflict.send_replace(Some(endpoint));
        }
    }
    // A configuration that comes after a signal must not be what ends the wait for it.
    if phase != Phase::Config || cause == Cause::Conflict {
        gate.open.send_replace(true);
    }
    let output = child.wait_with_output().await.unwrap();
    // Asserts that no file and no process is left.
    let end = world.end(&output);

    let (statuses, codes, _) = expected(phase, cause);
    let context = || format!("{name}: {:?}\n{}", world.statuses(), end.stderr);
    assert!(codes.contains(&end.code.unwrap_or(-1)), "{:?} {}", end.code, context());
    let ended: Vec<_> = world.statuses().into_iter().filter(|name| name != "running").collect();
    assert_eq!(ended, statuses, "{}", context());
    if cause.is_signal() {
        assert_nothing_lost(&world, &end, &name);
    }
    if let Some(tool) = &tool {
        assert_eq!(tool.record("signals"), "TERM\n", "{name}");
        assert!(end.stdout.contains("stopping"), "{}", context());
    }
    assert!(!world.path(".terraform.tfstate.lock.info").exists(), "{name}: the state is locked");
    if phase == Phase::Apply {
        assert!(end.stdout.contains("applying"), "{}", context());
    }
}

async fn every_cause(phase: Phase) {
    futures_util::future::join_all(Cause::ALL.map(|cause| carry_out(phase, cause))).await;
}

#[tokio::test]
async fn every_stop_ends_a_run_while_the_configuration_is_fetched() {
    every_cause(Phase::Config).await;
}

#[tokio::test]
async fn every_stop_ends_a_run_while_the_source_is_cloned() {
    every_cause(Phase::Clone).await;
}

#[tokio::test]
async fn every_stop_ends_a_run_while_the_tool_is_installed() {
    every_cause(Phase::Install).await;
}

#[tokio::test]
async fn every_stop_ends_a_run_during_init() {
    every_cause(Phase::Init).await;
}

#[tokio::test]
async fn every_stop_ends_a_run_during_plan() {
    every_cause(Phase::Plan).await;
}

#[tokio::test]
async fn every_stop_ends_a_run_during_apply_and_releases_the_state_lock() {
    every_cause(Phase::Apply).await;
}

#[tokio::test]
async fn every_stop_keeps_the_last_log_lines() {
    every_cause(Phase::Logs).await;
}

#[tokio::test]
async fn every_stop_keeps_the_final_status() {
    every_cause(Phase::FinalStatus).await;
}

#[test]
fn documentation_lists_the_tested_stops() {
    let mut rows = Vec::new();
    for phase in Phase::ALL {
        for cause in Cause::ALL {
            let (statuses, _, code) = expected(phase, cause);
            let statuses = match statuses {
                [] => "none".to_owned(),
                [one] => format!("one: `{one}`"),
                more => more.len().to_string(),
            };
            let lost =
                if cause.is_signal() { "nothing" } else { "what the registry takes no more" };
            rows.push(format!(
                "| {} | {} | {lost} | nothing | free | {statuses} | {code} |",
                phase.name(),
                cause.name()
            ));
        }
    }
    rows.dedup();
    assert_documented("docs/faults.md", "signals", &rows);
}

/// Starts the runner behind a shell that does `first`, as a job's script may.
fn behind_a_shell(world: &World, first: &str) -> tokio::process::Command {
    world.execute_in_shell(&format!("{first}\nexec \"$0\" \"$@\""))
}

fn terminal_statuses(world: &World) -> Vec<String> {
    world.statuses().into_iter().filter(|status| status != "running").collect()
}

#[tokio::test]
async fn signal_is_reported_in_time_if_the_registry_is_silent() {
    for (held, expected) in [
        (("POST", "logs", 1), (["succeeded"], "did not reach the registry")),
        (("POST", "status", 2), (["succeeded"], "")),
    ] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        StandIn::doing(&mut world, &[]);
        world.add_run(world.config("plan"));
        let gate = Gate::new(Some(held));
        let server = gate.serve(&world).await;
        let mut command = world.execute();
        let child = command.env("BUTLER_ENDPOINT", server.endpoint().as_str()).spawn().unwrap();
        gate.reached().await;
        kill(pid_of(&child), Signal::SIGTERM).unwrap();
        // It never opens: what is held is given up, and the rest is still delivered.
        let end = world.end(&child.wait_with_output().await.unwrap());
        assert_eq!(end.code, Some(0), "{held:?}: {}", end.stderr);
        assert_eq!(terminal_statuses(&world), expected.0, "{held:?}: {}", end.stderr);
        assert!(end.stderr.contains(expected.1), "{held:?}: {}", end.stderr);
    }
}

/// What a script starts that should outlive it; each writes its pid down.
const DAEMONS: &str = r#"
  setsid sh -c 'echo $$ >> "$0/daemons"; exec sleep 1000' "$record" >/dev/null 2>&1 &
  nohup sh -c 'echo $$ >> "$0/daemons"; exec sleep 1000' "$record" >/dev/null 2>&1 &
  env -i PATH="$PATH" setsid sh -c 'echo $$ >> "$0/daemons"; exec sleep 1000' "$record" >/dev/null 2>&1 &
  while [ "$(wc -l < "$record/daemons" 2>/dev/null || echo 0)" -lt 3 ]; do sleep 0.01; done"#;

fn assert_gone(daemons: &str, stderr: &str) {
    assert_eq!(daemons.lines().count(), 3, "{stderr}");
    for pid in daemons.lines() {
        let pid = Pid::from_raw(pid.parse().unwrap());
        assert_eq!(kill(pid, None), Err(nix::errno::Errno::ESRCH), "{pid} lives\n{stderr}");
    }
}

#[tokio::test]
async fn daemon_outside_the_process_group_ends_with_its_command() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let after = r#"for pid in $(cat "$record/daemons"); do
    kill -0 "$pid" 2>/dev/null && echo "$pid" >> "$record/alive"
  done; echo '{"format_version":"1.2"}'"#;
    let tool = StandIn::doing(&mut world, &[("plan", DAEMONS), ("show", after)]);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(tool.record("alive"), "", "they were gone before the next command");
    assert_gone(&tool.record("daemons"), &end.stderr);
}

#[tokio::test]
async fn process_left_by_a_provisioner_is_killed() {
    let world = World::new(&[]).await;
    let record = world.path("record");
    std::fs::create_dir(&record).unwrap();
    let script = format!("record='{}'\n{DAEMONS}", record.display());
    std::fs::write(world.path("daemons.sh"), script).unwrap();
    let module = format!(
        r#"
resource "terraform_data" "daemons" {{
  provisioner "local-exec" {{
    command = "sh '{}'"
  }}
}}
"#,
        world.path("daemons.sh").display()
    );
    world.commit(&[("main.tf", &module)]);
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_gone(&std::fs::read_to_string(record.join("daemons")).unwrap(), &end.stderr);
}

#[tokio::test]
async fn processes_that_no_command_started_are_not_killed() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::doing(&mut world, &[("plan", DAEMONS)]);
    world.add_run(world.config("plan"));
    // A shell becomes the runner and leaves it a child, and a grandchild that loses its parent.
    let servers = r#"sleep 1000 >/dev/null 2>&1 & echo $! > "$TMPDIR/../servers"
      (setsid sleep 1001 >/dev/null 2>&1 & echo $! >> "$TMPDIR/../servers"; sleep 0.3) &"#;
    let output = behind_a_shell(&world, servers).output().await.unwrap();
    let servers = std::fs::read_to_string(world.path("servers")).unwrap();
    for server in servers.lines() {
        let server = Pid::from_raw(server.parse().unwrap());
        assert_eq!(kill(server, Signal::SIGKILL), Ok(()), "a server was ended: {output:?}");
    }
    let daemons = tool.record("daemons");
    // The one without the mark cannot be told from a stranger here.
    let lost: Vec<_> = daemons
        .lines()
        .map(|pid| Pid::from_raw(pid.parse().unwrap()))
        .filter(|pid| kill(*pid, Signal::SIGKILL).is_ok())
        .collect();
    assert!(lost.len() <= 1, "{lost:?} of {daemons}");
    let end = world.end(&output);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
}

/// The runner as process 1 of a container of its own; who is not root becomes it in a namespace.
fn as_first_process(world: &World) -> tokio::process::Command {
    wrapped(&world.execute(), &unshare(&["--pid", "--fork", "--kill-child", "--mount-proc"]))
}

#[tokio::test]
async fn runner_as_process_1_kills_orphaned_processes_and_reaps_zombies() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    // The shell between ends at once, so that what it started ends as a child of process 1; the
    // command waits until that was reaped, and would wait for ever for a zombie.
    let plan = r#"sh -c 'setsid sh -c "echo \$\$ > \"\$0/short\"" "$0" >/dev/null 2>&1 &' "$record"
  while ! [ -s "$record/short" ]; do sleep 0.01; done
  while kill -0 "$(cat "$record/short")" 2>/dev/null; do sleep 0.01; done
  sh -c 'setsid sh -c "exec sleep 1000" >/dev/null 2>&1 &'"#;
    let after = r#"pgrep -x sleep > "$record/alive"; echo '{"format_version":"1.2"}'"#;
    let tool = StandIn::doing(&mut world, &[("plan", plan), ("show", after)]);
    world.add_run(world.config("plan"));
    let end = world.end(&as_first_process(&world).output().await.unwrap());
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(tool.record("alive"), "", "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "succeeded"]);
}

/// A memory control group of version 1 or 2 with a limit, where this system lets us make one.
struct MemoryGroup(std::path::PathBuf);

impl MemoryGroup {
    fn create() -> Option<Self> {
        let name = format!("butler-runner-test-{}", std::process::id());
        let limit = (96 * 1024 * 1024).to_string();
        for (mount, file) in
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
        {
            let directory = std::path::Path::new(mount).join(&name);
            if std::fs::create_dir(&directory).is_ok() {
                let group = Self(directory);
                // Without swap, so that the limit is met soon; not every kernel has the file.
                let _ = std::fs::write(group.0.join("memory.swap.max"), "0");
                if group.0.join(file).exists() && std::fs::write(group.0.join(file), &limit).is_ok()
                {
                    return Some(group);
                }
            }
        }
        None
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[tokio::test]
async fn oom_killed_tool_is_reported_as_out_of_memory() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let group = MemoryGroup::create();
    // Where no group can be made, the kernel's part is played: there is no counter that rises.
    let (plan, reason) = if group.is_some() {
        (
            "exec tail /dev/zero",
            "`terraform plan` was killed by the OOM killer (memory limit 96 MiB)",
        )
    } else {
        ("kill -KILL $$", "`terraform plan` was killed by signal 9, probably by the OOM killer")
    };
    StandIn::doing(&mut world, &[("plan", plan)]);
    world.add_run(world.config("plan"));
    let enter = group.as_ref().map_or("true".to_owned(), |group| {
        format!("echo $$ > '{}/cgroup.procs'", group.0.display())
    });
    let end = world.end(&behind_a_shell(&world, &enter).output().await.unwrap());
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let error = &world.last_status()["error"];
    assert_eq!(error["message"], reason, "{}", end.stderr);
    assert!(error["advice"].as_str().unwrap().contains("memory"), "{error}");
}

#[tokio::test]
async fn killed_tool_is_reported_with_its_signal() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    StandIn::doing(&mut world, &[("plan", "kill -KILL $$")]);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let reason = world.last_status()["error"]["message"].as_str().unwrap().to_owned();
    assert!(reason.contains("killed by signal 9, probably by the OOM killer"), "{reason}");
}

/// Prints more than the limit of a file lets through.
const MUCH: &str =
    r#"i=0; while [ $i -lt 2000 ]; do echo "line $i of many that fill a file"; i=$((i + 1)); done"#;

#[tokio::test]
async fn full_disk_does_not_lose_the_log_or_the_final_status() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("BUTLER_REPORT_DIR", world.path("report"));
    StandIn::doing(&mut world, &[("plan", MUCH)]);
    world.add_run(world.config("plan"));
    // No file gets larger than 16 KiB, for nobody: a write ends there as on a full disk.
    let output = behind_a_shell(&world, "ulimit -f 32").output().await.unwrap();
    let end = world.end(&output);
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "failed"], "{}", end.stderr);
    assert!(world.received().log_text().contains("line 1999 of many"), "{}", end.stderr);
}

#[tokio::test]
async fn exhausted_file_descriptors_do_not_prevent_the_final_status() {
    // One after the other, so that each place where they can run out is met.
    let runs = [8, 20].into_iter().chain(26..=42).map(async |limit| {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        world.set("BUTLER_REGISTRY_TIMEOUT", "5s");
        StandIn::doing(&mut world, &[]);
        world.add_run(world.config("plan"));
        let output = behind_a_shell(&world, &format!("ulimit -n {limit}")).output().await.unwrap();
        let end = world.end(&output);
        let statuses = terminal_statuses(&world);
        let requests = world.received().requests.len();
        // Either it cannot even ask what to do, or there is one final status.
        let expected = usize::from(requests > 1);
        assert_eq!(statuses.len(), expected, "{limit}: {statuses:?} {requests}\n{}", end.stderr);
        statuses.first().cloned()
    });
    let ends = futures_util::future::join_all(runs).await;
    let failed = ends.iter().filter(|status| status.as_deref() == Some("failed")).count();
    assert!(failed >= 2, "{ends:?}: descriptors run out in the middle of some");
    assert_eq!(ends.last().unwrap().as_deref(), Some("succeeded"));
}

#[tokio::test]
async fn tool_that_cannot_be_started_fails_the_run() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    StandIn::doing(&mut world, &[("init", r#"chmod a-x "$0""#)]);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let error = &world.last_status()["error"];
    assert!(error["message"].as_str().unwrap().contains("cannot start"), "{error}");
    assert_eq!(world.statuses(), ["running", "failed"]);
}

#[tokio::test]
async fn closed_stdout_and_stderr_do_not_stop_the_run() {
    for first in ["exec >&-", "exec 2>&-", "exec >&- 2>&-", "exec <&- >&- 2>&-"] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        StandIn::doing(&mut world, &[("plan", MUCH)]);
        world.add_run(world.config("plan"));
        let output: Output = behind_a_shell(&world, first).output().await.unwrap();
        let end = world.end(&output);
        assert_eq!(end.code, Some(0), "{first}: {}", end.stderr);
        assert_eq!(world.statuses(), ["running", "succeeded"], "{first}");
        assert!(world.received().log_text().contains("line 1999 of many"), "{first}");
    }
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    StandIn::doing(&mut world, &[("plan", MUCH)]);
    world.add_run(world.config("plan"));
    let mut child = world.execute().spawn().unwrap();
    // Whoever read them has gone.
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    assert_eq!(world.statuses(), ["running", "succeeded"]);
}

#[tokio::test]
async fn process_left_by_a_provisioner_of_a_local_run_is_not_killed() {
    let world = World::new(&[]).await;
    let module = world.path("module");
    std::fs::create_dir(&module).unwrap();
    let file = world.path("pid");
    let start = format!(
        "setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000' >/dev/null 2>&1 </dev/null & \
         while [ ! -e {0} ]; do sleep 0.01; done",
        file.display()
    );
    std::fs::write(
        module.join("main.tf"),
        format!(
            "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = {start:?}\n  }}\n}}\n"
        ),
    )
    .unwrap();
    let arguments =
        ["execute", "--local", "--operation", "apply", "--module-dir", module.to_str().unwrap()];
    let output = world.command(&arguments).output().await.unwrap();
    let pid: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    let ended = kill(Pid::from_raw(pid), Signal::SIGKILL);
    let end = world.end(&output);
    assert_eq!((end.code, ended), (Some(0), Ok(())), "{}", end.stderr);
}
