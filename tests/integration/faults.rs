//! What a registry that fails in every way does to a run: nothing is lost, and nothing said twice.
#![expect(clippy::unwrap_used, reason = "the lint spares test functions, but not what they call")]

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use butler_base::event::LogLine;
use futures_util::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::documented::assert_documented;
use crate::support::proxy::{Act, Event, Proxy, Seen, Trouble, When};
use crate::support::stand_in::{AtPlan, StandIn};
use crate::support::world::{End, MODULE, World};

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

/// What can happen to one.
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

    fn trouble(self, request: &'static str) -> Trouble {
        let refused = r#"{"error":{"code":"RATE_LIMITED","message":"slow down"}}"#;
        let (html, page) = ("content-type: text/html\r\n", "<!doctype html><h1>Sign in</h1>");
        let (act, when) = match self {
            Self::Failing => (Act::Answer(500, "", "{}"), When::First(3)),
            Self::Limited => {
                // Longer than the fault lasts: who honours it meets the fault once.
                (Act::Answer(429, "retry-after: 2\r\n", refused), When::For(Duration::from_secs(1)))
            }
            Self::Reset => (Act::Reset, When::First(1)),
            Self::Hanging => (Act::Hang, When::First(1)),
            Self::Lost => (Act::Lose, When::First(1)),
            Self::Outage => (Act::Close, When::For(Duration::from_secs(10))),
            Self::Page => (Act::Answer(200, html, page), When::First(2)),
            Self::Portal => (Act::Answer(200, html, page), When::Always),
            Self::Refused => (Act::Close, When::Always),
            Self::Gone => (Act::Close, When::For(Duration::MAX)),
        };
        Trouble { request, act, when }
    }
}

/// What a fault does to a run. The log that is left is a file in the recovery directory.
#[derive(Debug, Eq, PartialEq)]
struct Effect {
    lost: String,
    left: &'static str,
    finals: String,
    code: i32,
}

/// What `fault` at `request` must do to an apply.
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

/// A world whose tool goes through at once.
async fn quick_world() -> (World, StandIn) {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::install(&mut world, AtPlan::Through("echo one; echo two >&2; echo three"));
    world.set("BUTLER_LOG_INTERVAL", "100ms");
    (world, tool)
}

/// Carries out the world's run of `operation` over `proxy`.
async fn run(world: &World, proxy: &Proxy, operation: &str) -> End {
    world.add_run(world.config(operation));
    let output = world.execute().env("BUTLER_ENDPOINT", proxy.endpoint()).output().await.unwrap();
    world.end(&output)
}

/// The files in the recovery directory.
fn kept(world: &World) -> Vec<PathBuf> {
    let recovery = std::fs::read_dir(world.path("cache/recovery")).into_iter().flatten();
    recovery.map(|entry| entry.unwrap().path()).collect()
}

/// The lines of the log that the registry has, by number; asserts that they came in order and that
/// whatever has the same number is the same line.
fn lines(world: &World) -> BTreeMap<u32, LogLine> {
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

/// The lines of a file of undelivered ones.
fn read_kept(path: &std::path::Path) -> Vec<LogLine> {
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What `fault` at `request` did to an apply. `World::end` asserts that nothing is left of it in the
/// directory for temporary files.
async fn effect(
    (mut world, tool): (World, StandIn),
    request: &'static str,
    fault: Fault,
) -> Effect {
    match fault {
        Fault::Hanging => world.set("BUTLER_REQUEST_TIMEOUT", "3s"),
        Fault::Portal | Fault::Refused | Fault::Gone => {
            world.set("BUTLER_REGISTRY_TIMEOUT", "3s");
        }
        _ => {}
    }
    let proxy = Proxy::start(&world.endpoint(), fault.trouble(request)).await;
    let end = run(&world, &proxy, "apply").await;
    let troubled = proxy.seen(request).iter().filter(|seen| seen.troubled).count();
    assert!(troubled > 0, "{request}: no fault");
    assert!(fault != Fault::Limited || troubled == 1, "{request}: too soon, {troubled} times");

    let received = world.received();
    let is_final = |status: &&Value| status["status"] != "running";
    let finals: Vec<_> = received.statuses.iter().filter(is_final).collect();
    assert!(finals.windows(2).all(|pair| pair[0] == pair[1]), "{finals:?}");
    let runnings = received.statuses.len() - finals.len();
    assert!(received.statuses[..runnings].iter().all(|status| status["status"] == "running"));
    let sent = lines(&world);
    let files = kept(&world);
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

/// Asserts that the final status and the runner's own log tell of these undelivered lines.
fn assert_undelivered(world: &World, end: &End, lines: &[LogLine]) {
    let (first, last) = (lines.first().unwrap().sequence, lines.last().unwrap().sequence);
    assert!(lines.iter().map(|line| line.sequence).eq(first..=last));
    let [file] = &kept(world)[..] else { panic!("{:?}", kept(world)) };
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

/// Has `fault` happen to every request, each in a run of its own, all at the same time.
async fn assert_effects(fault: Fault) {
    let mut effects = Vec::new();
    for request in REQUESTS {
        // All worlds are made before the first run begins: making one holds up this thread, which
        // is also the registries'.
        effects.push(effect(quick_world().await, request, fault));
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

/// A world whose tool prints many lines, and that many.
async fn chatty_world() -> (World, usize) {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let print =
        r#"awk 'BEGIN { for (i = 1; i <= 200000; i++) print "resource[" i "]: Creating" }'"#;
    StandIn::install(&mut world, AtPlan::Through(print));
    world.set("BUTLER_LOG_INTERVAL", "100ms");
    (world, 200_000)
}

/// Asserts that the lines of a chatty world's tool are all among these, in their order.
fn assert_printed(lines: &BTreeMap<u32, LogLine>, count: usize) {
    let printed = lines.values().filter(|line| line.content.starts_with("resource["));
    let numbers =
        printed.map(|line| line.content[9..].split(']').next().unwrap().parse::<usize>().unwrap());
    assert!(numbers.eq(1..=count), "not all of them, or not in order");
}

#[tokio::test]
async fn many_lines_arrive_once_if_every_third_request_is_refused() {
    let (world, count) = chatty_world().await;
    let trouble =
        Trouble { request: "POST logs", act: Act::Answer(500, "", "{}"), when: When::EveryThird };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "plan").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(proxy.seen("POST logs").iter().filter(|seen| seen.troubled).count() >= 3);
    let lines = lines(&world);
    assert_eq!(world.received().logs.len(), lines.len(), "a line came twice");
    assert_printed(&lines, count);
}

#[tokio::test]
async fn many_lines_arrive_if_every_third_response_is_lost() {
    let (world, count) = chatty_world().await;
    let trouble = Trouble { request: "POST logs", act: Act::Lose, when: When::EveryThird };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "plan").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(proxy.seen("POST logs").iter().filter(|seen| seen.troubled).count() >= 3);
    let lines = lines(&world);
    assert!(world.received().logs.len() > lines.len(), "no answer was lost");
    assert_printed(&lines, count);
}

#[tokio::test]
async fn closed_idle_connections_are_not_failures() {
    for act in [Act::Close, Act::Reset] {
        let (world, _tool) = quick_world().await;
        // Every request on a connection that was used before is cut off, as in the moment in which
        // the registry closes an idle one.
        let trouble = Trouble { request: "", act, when: When::Reused };
        let proxy = Proxy::start(&world.endpoint(), trouble).await;
        let end = run(&world, &proxy, "apply").await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let requests = proxy.events();
        let is_troubled =
            |event: &&Event| matches!(event, Event::Request(Seen { troubled: true, .. }));
        assert!(requests.iter().filter(is_troubled).count() > 0, "no connection was used twice");
        for complaint in ["trying again", "kept for later", "WARN", "ERROR"] {
            assert!(!end.stderr.contains(complaint), "{complaint}: {}", end.stderr);
        }
        assert_eq!(world.received().logs.len(), lines(&world).len());
    }
}

/// The requests of this name, as key and body, without what was sent again.
fn distinct(proxy: &Proxy, name: &str) -> Vec<(String, Vec<u8>)> {
    let mut distinct: Vec<_> =
        proxy.seen(name).into_iter().map(|seen| (seen.key.unwrap(), seen.body)).collect();
    distinct.sort();
    distinct.dedup();
    distinct
}

#[tokio::test]
async fn idempotency_key_identifies_repeated_requests() {
    for (answer, requests) in [(500, 2), (413, 3)] {
        let (mut world, _tool) = quick_world().await;
        // All lines in one batch, at the end.
        world.set("BUTLER_LOG_INTERVAL", "2s");
        let act = Act::Answer(answer, "", "{}");
        let trouble = Trouble { request: "POST logs", act, when: When::First(1) };
        let proxy = Proxy::start(&world.endpoint(), trouble).await;
        let end = run(&world, &proxy, "apply").await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        assert!(proxy.seen("POST logs").len() >= requests);
        let posts: Vec<_> = REQUESTS[2..].iter().flat_map(|name| distinct(&proxy, name)).collect();
        let keys: BTreeSet<_> = posts.iter().map(|(key, _)| key).collect();
        let bodies: BTreeSet<_> = posts.iter().map(|(_, body)| body).collect();
        assert_eq!(keys.len(), posts.len(), "two things have one key");
        assert_eq!(bodies.len(), posts.len(), "one thing has two keys");
    }
}

#[tokio::test]
async fn final_status_is_repeated_byte_for_byte() {
    let (world, _tool) = quick_world().await;
    let trouble = Trouble { request: "POST final", act: Act::Lose, when: When::First(3) };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "apply").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(proxy.seen("POST final").len(), 4);
    assert_eq!(distinct(&proxy, "POST final").len(), 1);
}

/// Asserts that every `running` without an answer was hung up before the final status was sent,
/// and that none was sent after it.
fn assert_running_is_over(proxy: &Proxy) {
    let events = proxy.events();
    let is = |event: &Event, wanted: &str| match event {
        Event::Request(seen) => seen.name == wanted,
        Event::HungUp(name) => format!("hung up {name}") == wanted,
    };
    let last = |wanted: &str| events.iter().rposition(|event| is(event, wanted)).unwrap();
    let count = |wanted: &str| events.iter().filter(|event| is(event, wanted)).count();
    let first_final = events.iter().position(|event| is(event, "POST final")).unwrap();
    assert_eq!(count("POST running"), count("hung up POST running"));
    assert!(last("hung up POST running") < first_final);
    assert!(last("POST running") < first_final);
}

#[tokio::test]
async fn unanswered_running_status_is_abandoned_before_the_final_status() {
    let (mut world, _tool) = quick_world().await;
    world.set("BUTLER_REQUEST_TIMEOUT", "1s");
    world.set("BUTLER_REGISTRY_TIMEOUT", "4s");
    let trouble = Trouble { request: "POST running", act: Act::Hang, when: When::Always };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "apply").await;
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    assert_eq!(world.statuses(), ["failed"]);
    assert_running_is_over(&proxy);
}

#[tokio::test]
async fn pending_running_status_is_abandoned_after_a_signal() {
    let (world, _tool) = quick_world().await;
    let trouble = Trouble { request: "POST running", act: Act::Hang, when: When::Always };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    world.add_run(world.config("apply"));
    let child = world.execute().env("BUTLER_ENDPOINT", proxy.endpoint()).spawn().unwrap();
    proxy.until_seen("POST running").await;
    kill(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()), Signal::SIGTERM).unwrap();
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert_eq!(world.statuses(), ["cancelled"]);
    assert_running_is_over(&proxy);
}

#[tokio::test]
async fn late_running_status_does_not_replace_the_final_status() {
    let (mut world, _tool) = quick_world().await;
    world.set("BUTLER_REQUEST_TIMEOUT", "2s");
    let trouble = Trouble { request: "POST running", act: Act::Late, when: When::First(1) };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "apply").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "succeeded", "running", "succeeded"]);
    assert_eq!(distinct(&proxy, "POST final").len(), 1);
    assert!(end.stderr.contains("stored `running` late"), "{}", end.stderr);
}

#[tokio::test]
async fn refused_log_is_kept() {
    for answer in [400, 413] {
        let (world, tool) = quick_world().await;
        let act = Act::Answer(answer, "", "{}");
        let trouble = Trouble { request: "POST logs", act, when: When::Always };
        let proxy = Proxy::start(&world.endpoint(), trouble).await;
        let end = run(&world, &proxy, "apply").await;
        assert_eq!(end.code, Some(0), "the run goes on: {}", end.stderr);
        assert!(tool.applied());
        assert_eq!(world.statuses(), ["running", "succeeded"]);
        assert_eq!(end.stderr.matches("the registry refuses log lines").count(), 1);
        let lines = read_kept(&kept(&world)[0]);
        assert_undelivered(&world, &end, &lines);
        assert_eq!(lines[0].sequence, 1);
        assert!(
            ["one", "two", "three"]
                .map(|text| { lines.iter().filter(|line| line.content == text).count() == 1 })
                == [true; 3]
        );
    }
}

#[tokio::test]
async fn unsent_lines_are_kept_after_a_signal_and_the_status_is_sent() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::install(&mut world, AtPlan::Wait);
    world.set("BUTLER_LOG_INTERVAL", "100ms");
    let trouble = Trouble { request: "POST logs", act: Act::Hang, when: When::Always };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    world.add_run(world.config("plan"));
    let child = world.execute().env("BUTLER_ENDPOINT", proxy.endpoint()).spawn().unwrap();
    tool.planning().await;
    kill(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()), Signal::SIGTERM).unwrap();
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "cancelled"]);
    let lines = read_kept(&kept(&world)[0]);
    assert_undelivered(&world, &end, &lines);
    assert!(lines.iter().any(|line| line.content == "stopping"), "{lines:?}");
}

#[tokio::test]
async fn reports_of_a_run_ended_by_the_registry_are_not_kept() {
    let (world, _tool) = quick_world().await;
    let act = Act::Answer(409, "", "{}");
    let trouble = Trouble { request: "POST logs", act, when: When::Always };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "apply").await;
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    assert!(kept(&world).is_empty(), "{:?}", kept(&world));
    assert_eq!(world.statuses(), ["running"]);
}

#[tokio::test]
async fn outage_during_apply_does_not_affect_terraform() {
    let mut world = World::new(&[]).await;
    let applied = world.path("applied");
    // The registry comes back when the apply has done its work, and not before.
    let module = format!(
        r#"
resource "terraform_data" "first" {{
  provisioner "local-exec" {{
    command = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo number $i; done"
  }}
}}
resource "terraform_data" "second" {{
  depends_on = [terraform_data.first]
  provisioner "local-exec" {{
    command = ": > '{}'"
  }}
}}
output "greeting" {{ value = "hello" }}
"#,
        applied.display()
    );
    world.commit(&[("main.tf", &module)]);
    world.set("BUTLER_LOG_INTERVAL", "100ms");
    world.set("BUTLER_CANCEL_INTERVAL", "100ms");
    let trouble = Trouble { request: "POST logs", act: Act::Close, when: When::Until(applied) };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "apply").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let troubled = proxy.seen("POST logs").iter().filter(|seen| seen.troubled).count();
    assert!(troubled > 0);
    let sent = lines(&world);
    assert_eq!(world.received().logs.len(), sent.len(), "a line came twice");
    let numbers = sent
        .values()
        .filter_map(|line| line.content.split("number ").nth(1)?.trim().parse::<u32>().ok());
    assert!(numbers.eq(1..=300), "{sent:?}");
    let batches = proxy.seen("POST logs").len() - troubled;
    assert!(batches <= 5, "what waited is sent in large batches, not in {batches}");
    assert_eq!(world.statuses(), ["running", "succeeded"]);
    assert_eq!(world.received().outputs.len(), 1);
}
