//! Every fault of the registry at every request of a run: which reports are lost and which are kept.
#![expect(clippy::unwrap_used, reason = "the lint spares test functions, but not what they call")]

mod log_lines;
mod repeats;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use butler_base::event::LogLine;
use futures_util::future::join_all;
use serde_json::{Value, json};

use butler_testing::documented::assert_documented;
use butler_testing::proxy::{FaultAction, FaultTrigger, Proxy, ProxyFault};
use butler_testing::stand_in::{AtPlan, StandIn};
use butler_testing::world::{MODULE, RunEnd, World};

/// Every request of a run.
const REQUESTS: [&str; 7] = [
    "GET status",
    "GET config",
    "POST running",
    "POST logs",
    "POST plan",
    "POST outputs",
    "POST final",
];

/// A fault of the registry or of the network at one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    Failing,
    Limited,
    Reset,
    Hanging,
    Lost,
    Outage,
    Page,
    Portal,
    Refused,
    Gone,
}

const FAULTS: [Fault; 10] = [
    Fault::Failing,
    Fault::Limited,
    Fault::Reset,
    Fault::Hanging,
    Fault::Lost,
    Fault::Outage,
    Fault::Page,
    Fault::Portal,
    Fault::Refused,
    Fault::Gone,
];

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::Failing => "500 three times",
            Self::Limited => "429 with `Retry-After`",
            Self::Reset => "connection reset",
            Self::Hanging => "no answer within the time limit",
            Self::Lost => "answer lost after it was stored",
            Self::Outage => "registry away for 10 s",
            Self::Page => "200 with a web page, twice",
            Self::Portal => "200 with a web page, always",
            Self::Refused => "this request fails for good",
            Self::Gone => "registry gone for good",
        }
    }

    fn proxy_fault(self, request: &'static str) -> ProxyFault {
        let refused = r#"{"error":{"code":"RATE_LIMITED","message":"slow down"}}"#;
        let (html, page) = ("content-type: text/html\r\n", "<!doctype html><h1>Sign in</h1>");
        let (act, when) = match self {
            Self::Failing => (FaultAction::Respond(500, "", "{}"), FaultTrigger::First(3)),
            Self::Limited => {
                // Longer than the fault lasts, so a client that waits meets the fault once.
                (
                    FaultAction::Respond(429, "retry-after: 2\r\n", refused),
                    FaultTrigger::For(Duration::from_secs(1)),
                )
            }
            Self::Reset => (FaultAction::Reset, FaultTrigger::First(1)),
            Self::Hanging => (FaultAction::Hang, FaultTrigger::First(1)),
            Self::Lost => (FaultAction::Lose, FaultTrigger::First(1)),
            Self::Outage => (FaultAction::Close, FaultTrigger::For(Duration::from_secs(10))),
            Self::Page => (FaultAction::Respond(200, html, page), FaultTrigger::First(2)),
            Self::Portal => (FaultAction::Respond(200, html, page), FaultTrigger::Always),
            Self::Refused => (FaultAction::Close, FaultTrigger::Always),
            Self::Gone => (FaultAction::Close, FaultTrigger::For(Duration::MAX)),
        };
        ProxyFault { request, act, when }
    }
}

/// The effect of a fault on a run. `left` is the log file in the recovery directory, if there is one.
#[derive(Debug, Eq, PartialEq)]
struct Effect {
    lost: String,
    left: &'static str,
    finals: String,
    code: i32,
}

/// The expected effect of `fault` at `request` on an apply.
fn expected(request: &str, fault: Fault) -> Effect {
    let effect = |lost: &str, left, finals: &str, code| {
        let (lost, finals) = (lost.to_owned(), finals.to_owned());
        Effect { lost, left, finals, code }
    };
    let well = |lost| effect(lost, "nothing", "`succeeded`", 0);
    let failed = |lost| effect(lost, "nothing", "`failed`", 4);
    let gone = |lost| effect(lost, "nothing", "none", 4);
    let gone_with_log = |lost| effect(lost, "the log", "none", 4);
    match (fault, request) {
        (Fault::Lost, "POST running") => well("nothing; `running` is stored twice"),
        (Fault::Lost, "POST logs") => well("nothing; lines are stored twice, numbers and all"),
        (Fault::Lost, "POST final") => {
            effect("nothing", "nothing", "`succeeded`, twice the same", 0)
        }
        (Fault::Refused | Fault::Portal | Fault::Gone, "GET status") => {
            gone("the run, which did not begin")
        }
        (Fault::Portal, "GET config") => {
            effect("the run, which did not begin", "nothing", "`failed`", 1)
        }
        (Fault::Refused, "GET config") | (Fault::Refused | Fault::Portal, "POST running") => {
            failed("the run, which did not begin")
        }
        (Fault::Gone, "GET config" | "POST running") => {
            gone_with_log("the run, which did not begin; its log is kept")
        }
        (Fault::Refused | Fault::Portal, "POST logs") => {
            effect("nothing; its log is kept", "the log", "`succeeded`", 0)
        }
        (Fault::Gone, "POST logs") => {
            gone_with_log("the plan, the outputs, the status; its log is kept")
        }
        (Fault::Refused | Fault::Portal, "POST plan") => well("the plan"),
        (Fault::Gone, "POST plan") => gone("the plan, the outputs, the status"),
        (Fault::Refused | Fault::Portal, "POST outputs") => failed("the outputs"),
        (Fault::Gone, "POST outputs") => gone("the outputs, the status"),
        (Fault::Refused | Fault::Portal | Fault::Gone, "POST final") => gone("the status"),
        _ => well("nothing"),
    }
}

/// A world whose tool prints three lines and exits.
async fn quick_world() -> (World, StandIn) {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::install(&mut world, AtPlan::Through("echo one; echo two >&2; echo three"));
    world.set("BUTLER_LOG_INTERVAL", "100ms");
    (world, tool)
}

/// Executes the world's run of `operation` with `proxy` as its registry.
async fn run(world: &World, proxy: &Proxy, operation: &str) -> RunEnd {
    world.add_run(world.config(operation));
    let output = world.execute().env("BUTLER_ENDPOINT", proxy.endpoint()).output().await.unwrap();
    world.end(&output)
}

/// The files in the recovery directory.
fn kept_files(world: &World) -> Vec<PathBuf> {
    let recovery = std::fs::read_dir(world.path("cache/recovery")).into_iter().flatten();
    recovery.map(|entry| entry.unwrap().path()).collect()
}

/// The log lines that the registry received, by number. Asserts that they arrived in order and that
/// lines with the same number are equal.
fn log_lines(world: &World) -> BTreeMap<u32, LogLine> {
    let received = world.received().logs;
    let mut lines = BTreeMap::new();
    let mut last = 0;
    for line in received {
        assert!(line.sequence <= last + 1, "{} is missing", last + 1);
        last = last.max(line.sequence);
        if let Some(other) = lines.insert(line.sequence, line.clone()) {
            assert_eq!(other, line, "another line has this number");
        }
    }
    lines
}

/// Reads a file of undelivered log lines.
fn read_kept(path: &std::path::Path) -> Vec<LogLine> {
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The effect of `fault` at `request` on an apply. `World::end` asserts that no temporary file is left.
async fn measure_effect(
    (mut world, tool): (World, StandIn),
    request: &'static str,
    fault: Fault,
) -> Effect {
    match fault {
        Fault::Hanging => world.set("BUTLER_REQUEST_TIMEOUT", "5s"),
        Fault::Portal | Fault::Refused | Fault::Gone => {
            world.set("BUTLER_REGISTRY_TIMEOUT", "3s");
        }
        _ => {}
    }
    let proxy = Proxy::start(&world.endpoint(), fault.proxy_fault(request)).await;
    let end = run(&world, &proxy, "apply").await;
    let faulty = proxy.seen(request).iter().filter(|seen| seen.is_faulty).count();
    assert!(faulty > 0, "{request}: no fault");
    assert!(fault != Fault::Limited || faulty == 1, "{request}: too soon, {faulty} times");

    let received = world.received();
    let is_final = |status: &&Value| status["status"] != "running";
    let finals: Vec<_> = received.statuses.iter().filter(is_final).collect();
    assert!(finals.windows(2).all(|pair| pair[0] == pair[1]), "{finals:?}");
    let runnings = received.statuses.len() - finals.len();
    assert!(received.statuses[..runnings].iter().all(|status| status["status"] == "running"));
    let sent = log_lines(&world);
    let files = kept_files(&world);
    let mut lost = Vec::new();
    if tool.applied() {
        lost.extend(received.plans.is_empty().then_some("the plan"));
        lost.extend(received.outputs.is_empty().then_some("the outputs"));
        lost.extend(finals.is_empty().then_some("the status"));
    } else {
        lost.push("the run, which did not begin");
    }
    let mut notes = Vec::new();
    notes.extend((runnings == 2).then_some("`running` is stored twice"));
    notes.extend(
        (received.logs.len() > sent.len()).then_some("lines are stored twice, numbers and all"),
    );
    if let [file] = &files[..] {
        notes.push("its log is kept");
        assert_undelivered(&world, &end, &read_kept(file));
    } else if tool.applied() {
        let log: Vec<_> = sent.values().map(|line| line.content.as_str()).collect();
        assert!(["one", "two", "three"].iter().all(|line| log.contains(line)), "{log:?}");
    }
    if let (["the plan"], [status]) = (&lost[..], &finals[..]) {
        assert!(status["plan_summary"].as_str().unwrap().contains("the plan was not delivered"));
    }
    let lost = if lost.is_empty() { "nothing".to_owned() } else { lost.join(", ") };
    let finals = match &finals[..] {
        [] => "none".to_owned(),
        [status] => format!("`{}`", status["status"].as_str().unwrap()),
        [status, ..] => format!("`{}`, twice the same", status["status"].as_str().unwrap()),
    };
    Effect {
        lost: [&[lost][..], &notes.iter().map(ToString::to_string).collect::<Vec<_>>()]
            .concat()
            .join("; "),
        left: if files.is_empty() { "nothing" } else { "the log" },
        finals,
        code: end.code.unwrap_or_else(|| panic!("{}", end.stderr)),
    }
}

/// Asserts that the final status and the log of the runner report these undelivered lines.
fn assert_undelivered(world: &World, end: &RunEnd, lines: &[LogLine]) {
    let (first, last) = (lines.first().unwrap().sequence, lines.last().unwrap().sequence);
    assert!(lines.iter().map(|line| line.sequence).eq(first..=last));
    let [file] = &kept_files(world)[..] else { panic!("{:?}", kept_files(world)) };
    let told = format!("log lines ({first} to {last}) did not reach the registry; kept in");
    let told = format!("{} {told} `{}`", lines.len(), file.display());
    assert!(end.stderr.contains(&told), "{}", end.stderr);
    let status = world.received().statuses.pop().unwrap_or_default();
    if ["succeeded", "failed", "cancelled"].iter().any(|name| status["status"] == *name) {
        let expected =
            json!({"lines": lines.len(), "first": first, "last": last, "kept_in": file.to_str()});
        assert_eq!(status["undelivered_logs"], expected);
        assert!(status["plan_summary"].as_str().unwrap().contains(&told), "{status}");
    }
}

/// Injects `fault` at every request, each in its own run. The runs are concurrent.
async fn assert_effects(fault: Fault) {
    let mut effects = Vec::new();
    for request in REQUESTS {
        // All worlds are created before the first run: the creation blocks this thread, on which
        // the registries run as well.
        effects.push(measure_effect(quick_world().await, request, fault));
    }
    for (request, effect) in REQUESTS.into_iter().zip(join_all(effects).await) {
        assert_eq!(effect, expected(request, fault), "{request}");
    }
}

#[tokio::test]
async fn three_server_errors_lose_no_report() {
    assert_effects(Fault::Failing).await;
}

#[tokio::test]
async fn rate_limit_loses_no_report() {
    assert_effects(Fault::Limited).await;
}

#[tokio::test]
async fn connection_resets_lose_no_report() {
    assert_effects(Fault::Reset).await;
}

#[tokio::test]
async fn timeouts_lose_no_report() {
    assert_effects(Fault::Hanging).await;
}

#[tokio::test]
async fn lost_responses_do_not_renumber_log_lines() {
    assert_effects(Fault::Lost).await;
}

#[tokio::test]
async fn temporary_outage_loses_no_report() {
    assert_effects(Fault::Outage).await;
}

#[tokio::test]
async fn web_pages_instead_of_responses_lose_no_report() {
    assert_effects(Fault::Page).await;
}

#[tokio::test]
async fn sign_in_page_is_not_a_stored_report() {
    assert_effects(Fault::Portal).await;
}

#[tokio::test]
async fn permanent_failures_are_reported() {
    assert_effects(Fault::Refused).await;
}

#[tokio::test]
async fn undelivered_reports_are_kept_after_a_permanent_outage() {
    assert_effects(Fault::Gone).await;
}

#[test]
fn documentation_lists_the_tested_faults() {
    let row = |request, fault: Fault| {
        let Effect { lost, left, finals, code } = expected(request, fault);
        format!("| {request} | {} | {lost} | {left} | {finals} | {code} |", fault.name())
    };
    let rows: Vec<_> =
        REQUESTS.into_iter().flat_map(|request| FAULTS.map(|fault| row(request, fault))).collect();
    assert_documented("docs/faults.md", "requests", &rows);
}
