//! Log lines arrive completely and in order despite faults, or the runner keeps them.

use std::collections::BTreeMap;

use butler_base::event::LogLine;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{assert_undelivered, kept_files, log_lines, quick_world, read_kept, run};
use butler_testing::proxy::{FaultAction, FaultTrigger, Proxy, ProxyFault};
use butler_testing::stand_in::{AtPlan, StandIn};
use butler_testing::world::{MODULE, World};

/// A world whose tool prints many lines, and their number.
async fn chatty_world() -> (World, usize) {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let print =
        r#"awk 'BEGIN { for (i = 1; i <= 200000; i++) print "resource[" i "]: Creating" }'"#;
    StandIn::install(&mut world, AtPlan::Through(print));
    world.set("BUTLER_LOG_INTERVAL", "100ms");
    (world, 200_000)
}

/// Asserts that `lines` has all lines of a chatty world's tool, in order.
fn assert_printed(lines: &BTreeMap<u32, LogLine>, count: usize) {
    let printed = lines.values().filter(|line| line.content.starts_with("resource["));
    let numbers =
        printed.map(|line| line.content[9..].split(']').next().unwrap().parse::<usize>().unwrap());
    assert!(numbers.eq(1..=count), "not all of them, or not in order");
}

#[tokio::test]
async fn many_lines_arrive_once_if_every_third_request_is_refused() {
    let (world, count) = chatty_world().await;
    let trouble = ProxyFault {
        request: "POST logs",
        act: FaultAction::Respond(500, "", "{}"),
        when: FaultTrigger::EveryThird,
    };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "plan").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(proxy.seen("POST logs").iter().filter(|seen| seen.is_faulty).count() >= 3);
    let lines = log_lines(&world);
    assert_eq!(world.received().logs.len(), lines.len(), "a line came twice");
    assert_printed(&lines, count);
}

#[tokio::test]
async fn many_lines_arrive_if_every_third_response_is_lost() {
    let (world, count) = chatty_world().await;
    let trouble =
        ProxyFault { request: "POST logs", act: FaultAction::Lose, when: FaultTrigger::EveryThird };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "plan").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(proxy.seen("POST logs").iter().filter(|seen| seen.is_faulty).count() >= 3);
    let lines = log_lines(&world);
    assert!(world.received().logs.len() > lines.len(), "no answer was lost");
    assert_printed(&lines, count);
}

#[tokio::test]
async fn refused_log_is_kept() {
    for answer in [400, 413] {
        let (world, tool) = quick_world().await;
        let act = FaultAction::Respond(answer, "", "{}");
        let trouble = ProxyFault { request: "POST logs", act, when: FaultTrigger::Always };
        let proxy = Proxy::start(&world.endpoint(), trouble).await;
        let end = run(&world, &proxy, "apply").await;
        assert_eq!(end.code, Some(0), "the run goes on: {}", end.stderr);
        assert!(tool.applied());
        assert_eq!(world.statuses(), ["running", "succeeded"]);
        assert_eq!(end.stderr.matches("the registry refuses log lines").count(), 1);
        let lines = read_kept(&kept_files(&world)[0]);
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
    let trouble =
        ProxyFault { request: "POST logs", act: FaultAction::Hang, when: FaultTrigger::Always };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    world.add_run(world.config("plan"));
    let child = world.execute().env("BUTLER_ENDPOINT", proxy.endpoint()).spawn().unwrap();
    tool.wait_until_running().await;
    kill(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()), Signal::SIGTERM).unwrap();
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "failed"]);
    let lines = read_kept(&kept_files(&world)[0]);
    assert_undelivered(&world, &end, &lines);
    assert!(lines.iter().any(|line| line.content == "stopping"), "{lines:?}");
}

#[tokio::test]
async fn reports_of_a_run_ended_by_the_registry_are_not_kept() {
    let (world, _tool) = quick_world().await;
    let act = FaultAction::Respond(409, "", "{}");
    let trouble = ProxyFault { request: "POST logs", act, when: FaultTrigger::Always };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "apply").await;
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    assert!(kept_files(&world).is_empty(), "{:?}", kept_files(&world));
    assert_eq!(world.statuses(), ["running"]);
}

#[tokio::test]
async fn outage_during_apply_does_not_affect_terraform() {
    let mut world = World::new(&[]).await;
    let applied = world.path("applied");
    // The registry is available again only after the apply has completed its changes.
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
    let trouble = ProxyFault {
        request: "POST logs",
        act: FaultAction::Close,
        when: FaultTrigger::Until(applied),
    };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "apply").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let faulty = proxy.seen("POST logs").iter().filter(|seen| seen.is_faulty).count();
    assert!(faulty > 0);
    let sent = log_lines(&world);
    assert_eq!(world.received().logs.len(), sent.len(), "a line came twice");
    let numbers = sent
        .values()
        .filter_map(|line| line.content.split("number ").nth(1)?.trim().parse::<u32>().ok());
    assert!(numbers.eq(1..=300), "{sent:?}");
    let batches = proxy.seen("POST logs").len() - faulty;
    assert!(batches <= 15, "waiting lines are sent in large batches, not in {batches}");
    assert_eq!(world.statuses(), ["running", "succeeded"]);
    assert_eq!(world.received().outputs.len(), 1);
}
