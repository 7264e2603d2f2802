//! What a registry that fails in every way does to a run: nothing is lost, and nothing said twice.
#![expect(clippy::unwrap_used, reason = "the lint spares test functions, but not what they call")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use butler_runner::event::LogLine;
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
    Gone,
}

const FAULTS: [Fault; 7] = [
    Fault::Failing,
    Fault::Limited,
    Fault::Reset,
    Fault::Hanging,
    Fault::Lost,
    Fault::Outage,
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
            Self::Gone => "this request fails for good",
        }
    }

    fn trouble(self, request: &'static str) -> Trouble {
        let refused = r#"{"error":{"code":"RATE_LIMITED","message":"slow down"}}"#;
        let (act, when) = match self {
            Self::Failing => (Act::Answer(500, "", "{}"), When::First(3)),
            Self::Limited => (Act::Answer(429, "retry-after: 1\r\n", refused), When::First(1)),
            Self::Reset => (Act::Reset, When::First(1)),
            Self::Hanging => (Act::Hang, When::First(1)),
            Self::Lost => (Act::Lose, When::First(1)),
            Self::Outage => (Act::Close, When::For(Duration::from_secs(10))),
            Self::Gone => (Act::Close, When::Always),
        };
        Trouble { request, act, when }
    }
}

/// What a fault does to a run.
#[derive(Debug, Eq, PartialEq)]
struct Effect {
    lost: &'static str,
    left: &'static str,
    finals: &'static str,
    code: i32,
}

/// What `fault` at `request` must do to an apply.
fn expected(request: &str, fault: Fault) -> Effect {
    let well = Effect { lost: "nothing", left: "nothing", finals: "`succeeded`", code: 0 };
    let failed = Effect { finals: "`failed`", code: 4, ..well };
    match (fault, request) {
        (Fault::Lost, "POST running") => {
            Effect { lost: "nothing; `running` is stored twice", ..well }
        }
        (Fault::Lost, "POST logs") => {
            Effect { lost: "nothing; lines are stored twice, with the same numbers", ..well }
        }
        (Fault::Lost, "POST final") => Effect { finals: "`succeeded`, twice the same", ..well },
        (Fault::Gone, "GET status") => {
            Effect { lost: "the run, which did not begin", finals: "none", ..failed }
        }
        (Fault::Gone, "GET config" | "POST running") => {
            Effect { lost: "the run, which did not begin", ..failed }
        }
        (Fault::Gone, "POST logs") => Effect {
            lost: "nothing; the log is in a file that the status names",
            left: "that file, in the recovery directory",
            ..well
        },
        (Fault::Gone, "POST plan") => Effect { lost: "the plan, as the status says", ..well },
        (Fault::Gone, "POST outputs") => Effect { lost: "the outputs", ..failed },
        (Fault::Gone, "POST final") => Effect { lost: "the status", finals: "none", ..failed },
        _ => well,
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
async fn effect(request: &'static str, fault: Fault) -> Effect {
    let (mut world, tool) = quick_world().await;
    match fault {
        Fault::Hanging => world.set("BUTLER_REQUEST_TIMEOUT", "2s"),
        Fault::Gone => world.set("BUTLER_REGISTRY_TIMEOUT", "3s"),
        _ => {}
    }
    let proxy = Proxy::start(&world.endpoint(), fault.trouble(request)).await;
    let end = run(&world, &proxy, "apply").await;
    assert!(proxy.seen(request).iter().any(|seen| seen.troubled), "{request}: no fault");

    let received = world.received();
    let is_final = |status: &&Value| status["status"] != "running";
    let finals: Vec<_> = received.statuses.iter().filter(is_final).collect();
    assert!(finals.windows(2).all(|pair| pair[0] == pair[1]), "{finals:?}");
    let runnings = received.statuses.len() - finals.len();
    assert!(received.statuses[..runnings].iter().all(|status| status["status"] == "running"));
    let sent = lines(&world);
    let files = kept(&world);
    let begun = tool.applied();
    let lost = if !begun {
        "the run, which did not begin"
    } else if let [file] = &files[..] {
        assert_undelivered(&world, &end, &read_kept(file));
        "nothing; the log is in a file that the status names"
    } else {
        let log: String = sent.values().map(|line| format!("{}\n", line.content)).collect();
        assert!(log.contains("one") && log.contains("two") && log.contains("three"), "{log}");
        let said = finals.iter().all(|status| status.to_string().contains("plan was not deliver"));
        match (received.plans.is_empty(), received.outputs.is_empty(), finals.is_empty()) {
            (true, false, false) if said => "the plan, as the status says",
            (false, true, false) => "the outputs",
            (false, false, true) => "the status",
            (false, false, false) if runnings == 2 => "nothing; `running` is stored twice",
            (false, false, false) if received.logs.len() > sent.len() => {
                "nothing; lines are stored twice, with the same numbers"
            }
            (false, false, false) => "nothing",
            other => panic!("{request}, {fault:?}: {other:?}"),
        }
    };
    let finals = match finals
        .iter()
        .map(|status| status["status"].as_str().unwrap())
        .collect::<Vec<_>>()[..]
    {
        [] => "none",
        ["succeeded"] => "`succeeded`",
        ["failed"] => "`failed`",
        ["succeeded", "succeeded"] => "`succeeded`, twice the same",
        ref other => panic!("{request}, {fault:?}: {other:?}"),
    };
    let left = if files.is_empty() { "nothing" } else { "that file, in the recovery directory" };
    let code = end.code.unwrap_or_else(|| panic!("{}", end.stderr));
    Effect { lost, left, finals, code }
}

/// Asserts that the final status and the runner's own log tell of these undelivered lines.
fn assert_undelivered(world: &World, end: &End, lines: &[LogLine]) {
    let (first, last) = (lines.first().unwrap().sequence, lines.last().unwrap().sequence);
    assert!(lines.iter().map(|line| line.sequence).eq(first..=last));
    let status = world.last_status();
    let [file] = &kept(world)[..] else { panic!("{:?}", kept(world)) };
    let expected =
        json!({"lines": lines.len(), "first": first, "last": last, "kept_in": file.to_str()});
    assert_eq!(status["undelivered_logs"], expected);
    let told = format!("log lines ({first} to {last}) did not reach the registry; kept in");
    let told = format!("{} {told} `{}`", lines.len(), file.display());
    assert!(status["plan_summary"].as_str().unwrap().contains(&told), "{status}");
    assert!(end.stderr.contains(&told), "{}", end.stderr);
}

/// Has `fault` happen to every request, each in a run of its own, all at the same time.
async fn assert_effects(fault: Fault) {
    let effects = join_all(REQUESTS.map(|request| effect(request, fault))).await;
    for (request, effect) in REQUESTS.into_iter().zip(effects) {
        assert_eq!(effect, expected(request, fault), "{request}");
    }
}

#[tokio::test]
async fn three_failures_lose_nothing() {
    assert_effects(Fault::Failing).await;
}

#[tokio::test]
async fn a_registry_that_limits_the_rate_loses_nothing() {
    assert_effects(Fault::Limited).await;
}

#[tokio::test]
async fn connections_that_are_reset_lose_nothing() {
    assert_effects(Fault::Reset).await;
}

#[tokio::test]
async fn requests_without_an_answer_lose_nothing() {
    assert_effects(Fault::Hanging).await;
}

#[tokio::test]
async fn answers_that_are_lost_renumber_nothing() {
    assert_effects(Fault::Lost).await;
}

#[tokio::test]
async fn a_registry_that_is_away_for_a_while_gets_everything() {
    assert_effects(Fault::Outage).await;
}

#[tokio::test]
async fn what_fails_for_good_is_told() {
    assert_effects(Fault::Gone).await;
}

#[test]
fn the_documentation_lists_what_is_tested() {
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
    let print = r#"awk 'BEGIN { for (i = 1; i <= 200000; i++) print "resource[" i "]: Still creating... [10s elapsed]" }'"#;
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
async fn many_lines_arrive_once_where_every_third_request_is_refused() {
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
async fn many_lines_arrive_where_every_third_answer_is_lost() {
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
async fn idle_connections_that_the_registry_closes_are_no_failure() {
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
async fn a_key_says_what_is_sent_again() {
    for (act, requests) in [(Act::Lose, 2), (Act::Answer(413, "", "{}"), 3)] {
        let (mut world, _tool) = quick_world().await;
        // All lines in one batch, at the end.
        world.set("BUTLER_LOG_INTERVAL", "2s");
        let trouble = Trouble { request: "POST logs", act, when: When::First(1) };
        let proxy = Proxy::start(&world.endpoint(), trouble).await;
        let end = run(&world, &proxy, "apply").await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        assert!(proxy.seen("POST logs").len() >= requests);
        let posts: Vec<_> = REQUESTS[2..].iter().flat_map(|name| distinct(&proxy, name)).collect();
        let mut keys: Vec<_> = posts.iter().map(|(key, _)| key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), posts.len(), "as many keys as there are different things");
    }
}

#[tokio::test]
async fn a_final_status_is_sent_again_byte_for_byte() {
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
async fn a_running_that_gets_no_answer_is_given_up_before_the_final_status() {
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
async fn a_running_that_a_signal_meets_is_given_up_before_the_final_status() {
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
async fn a_log_that_is_refused_is_kept() {
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
async fn lines_that_are_left_after_a_signal_are_kept_and_the_status_goes_out() {
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
async fn nothing_is_kept_of_a_run_that_the_registry_has_ended() {
    let (world, _tool) = quick_world().await;
    let act = Act::Answer(409, "", "{}");
    let trouble = Trouble { request: "POST logs", act, when: When::Always };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "apply").await;
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    assert_eq!(kept(&world), [PathBuf::new(); 0]);
    assert_eq!(world.statuses(), ["running"]);
}

#[tokio::test]
async fn a_registry_that_is_away_during_the_apply_does_not_disturb_terraform() {
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
