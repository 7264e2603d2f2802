//! Every stop in every phase: one final status, no file and no process left, and the state unlocked.
//!
//! Each pair of a phase and of a cause has a world of its own. A registry, a git server or a release
//! site that does not respond, or the tool, holds the run in its phase.

mod gate;
mod orphans;
mod resources;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use self::gate::{Gate, SilentServer};
use butler_testing::documented::assert_documented;
use butler_testing::stand_in::StandIn;
use butler_testing::world::{MODULE, RUN_ID, RunEnd, World, eventually};

/// The phase in which the run is stopped.
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

    /// Whether Terraform has finished in this phase, so that a signal does not change the result.
    const fn is_after_the_last_command(self) -> bool {
        matches!(self, Self::Logs | Self::FinalStatus)
    }

    /// The request to which the registry does not respond in this phase: method, endpoint, and which of them.
    const fn held(self) -> Option<(&'static str, &'static str, usize)> {
        match self {
            Self::Config => Some(("GET", "config", 1)),
            Self::Logs => Some(("POST", "logs", 1)),
            Self::FinalStatus => Some(("POST", "status", 2)),
            _ => None,
        }
    }
}

/// What stops the run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum StopCause {
    Signal(Signal),
    TwoSignals,
    Cancel,
    Conflict,
}

impl StopCause {
    const ALL: [Self; 7] = [
        Self::Signal(Signal::SIGINT),
        Self::Signal(Signal::SIGTERM),
        Self::Signal(Signal::SIGHUP),
        Self::Signal(Signal::SIGQUIT),
        Self::TwoSignals,
        Self::Cancel,
        Self::Conflict,
    ];

    /// The name in the documentation, which has one row for all signals.
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

/// The expected terminal statuses and exit codes, and the exit code as the documentation writes it.
fn expected_outcome(
    phase: Phase,
    cause: StopCause,
) -> (&'static [&'static str], Vec<i32>, &'static str) {
    match cause {
        StopCause::Cancel | StopCause::Conflict => (&[], vec![3], "3"),
        _ if phase.is_after_the_last_command() => {
            (&["succeeded"], vec![0], "0, as the work was done")
        }
        StopCause::Signal(signal) => (&["failed"], vec![128 + signal as i32], "128+n"),
        StopCause::TwoSignals => (&["failed"], vec![143, 130], "128+n"),
    }
}

/// A module whose apply reports its start and does not end.
fn module_with_endless_apply(world: &World) -> String {
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

/// Asserts that the registry has all lines of the tool, in order and numbered without gaps.
fn assert_complete_log(world: &World, end: &RunEnd, name: &str) {
    let received = world.received();
    let numbers: Vec<_> = received.logs.iter().map(|line| line.sequence).collect();
    assert_eq!(numbers, (1..=u32::try_from(numbers.len()).unwrap()).collect::<Vec<_>>(), "{name}");
    let mut log = received.logs.iter().map(|line| line.content.as_str());
    for line in end.stdout.lines() {
        assert!(log.any(|content| content == line), "{name}: `{line}` is lost\n{}", end.stderr);
    }
}

/// Stops a run in `phase` by `cause` and asserts the outcome.
async fn stop_run_in_phase(phase: Phase, cause: StopCause) {
    let name = format!("{cause:?} while {}", phase.name());
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let often = "50ms";
    world.set("BUTLER_CANCEL_INTERVAL", if cause == StopCause::Cancel { often } else { "1h" });
    if cause == StopCause::Conflict && !phase.is_after_the_last_command() {
        world.set("BUTLER_LOG_INTERVAL", often);
    }
    let silent = SilentServer::start().await;
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
            let module = module_with_endless_apply(&world);
            world.commit(&[("main.tf", &module)]);
        }
        Phase::Config | Phase::Logs | Phase::FinalStatus => {
            StandIn::doing(&mut world, &[]);
        }
    }
    // Between its first and last requests, the run is told of a conflict only by responses to log lines.
    let by_logs = cause == StopCause::Conflict && phase.held().is_none();
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
            (_, Some(tool)) => tool.wait_until_running().await,
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
        StopCause::Signal(signal) => kill(pid, signal).unwrap(),
        StopCause::TwoSignals => {
            kill(pid, Signal::SIGTERM).unwrap();
            kill(pid, Signal::SIGINT).unwrap();
        }
        StopCause::Cancel => world.registry.set_status(RUN_ID, "cancelled"),
        StopCause::Conflict => {
            let endpoint = match phase {
                Phase::Config => "config",
                Phase::FinalStatus => "status",
                _ => "logs",
            };
            gate.conflict.send_replace(Some(endpoint));
        }
    }
    // The signal, and not a late configuration, must end the wait for the configuration.
    if phase != Phase::Config || cause == StopCause::Conflict {
        gate.open.send_replace(true);
    }
    let output = child.wait_with_output().await.unwrap();
    // Asserts that no file and no process is left.
    let end = world.end(&output);

    let (statuses, codes, _) = expected_outcome(phase, cause);
    let context = || format!("{name}: {:?}\n{}", world.statuses(), end.stderr);
    assert!(codes.contains(&end.code.unwrap_or(-1)), "{:?} {}", end.code, context());
    let ended: Vec<_> = world.statuses().into_iter().filter(|name| name != "running").collect();
    assert_eq!(ended, statuses, "{}", context());
    if cause.is_signal() {
        assert_complete_log(&world, &end, &name);
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

async fn stop_by_every_cause(phase: Phase) {
    futures_util::future::join_all(StopCause::ALL.map(|cause| stop_run_in_phase(phase, cause)))
        .await;
}

#[tokio::test]
async fn every_stop_ends_a_run_while_the_configuration_is_fetched() {
    stop_by_every_cause(Phase::Config).await;
}

#[tokio::test]
async fn every_stop_ends_a_run_while_the_source_is_cloned() {
    stop_by_every_cause(Phase::Clone).await;
}

#[tokio::test]
async fn every_stop_ends_a_run_while_the_tool_is_installed() {
    stop_by_every_cause(Phase::Install).await;
}

#[tokio::test]
async fn every_stop_ends_a_run_during_init() {
    stop_by_every_cause(Phase::Init).await;
}

#[tokio::test]
async fn every_stop_ends_a_run_during_plan() {
    stop_by_every_cause(Phase::Plan).await;
}

#[tokio::test]
async fn every_stop_ends_a_run_during_apply_and_releases_the_state_lock() {
    stop_by_every_cause(Phase::Apply).await;
}

#[tokio::test]
async fn every_stop_keeps_the_last_log_lines() {
    stop_by_every_cause(Phase::Logs).await;
}

#[tokio::test]
async fn every_stop_keeps_the_final_status() {
    stop_by_every_cause(Phase::FinalStatus).await;
}

#[test]
fn documentation_lists_the_tested_stops() {
    let mut rows = Vec::new();
    for phase in Phase::ALL {
        for cause in StopCause::ALL {
            let (statuses, _, code) = expected_outcome(phase, cause);
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

/// The runner, executed by a shell after `script`, as in the script of a job.
fn execute_after_script(world: &World, script: &str) -> tokio::process::Command {
    world.execute_in_shell(&format!("{script}\nexec \"$0\" \"$@\""))
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
        // The gate never opens: the runner abandons the held request and still sends the others.
        let end = world.end(&child.wait_with_output().await.unwrap());
        assert_eq!(end.code, Some(0), "{held:?}: {}", end.stderr);
        assert_eq!(terminal_statuses(&world), expected.0, "{held:?}: {}", end.stderr);
        assert!(end.stderr.contains(expected.1), "{held:?}: {}", end.stderr);
    }
}
