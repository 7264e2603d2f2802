//! Repeated requests: idempotency keys, the order of statuses, and connections that the registry closed.

use std::collections::BTreeSet;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{REQUESTS, log_lines, quick_world, run};
use butler_testing::proxy::{Event, FaultAction, FaultTrigger, Proxy, ProxyFault, RecordedRequest};

#[tokio::test]
async fn closed_idle_connections_are_not_failures() {
    for act in [FaultAction::Close, FaultAction::Reset] {
        let (world, _tool) = quick_world().await;
        // Every request on a reused connection fails, as if the registry had just closed an idle
        // connection.
        let trouble = ProxyFault { request: "", act, when: FaultTrigger::Reused };
        let proxy = Proxy::start(&world.endpoint(), trouble).await;
        let end = run(&world, &proxy, "apply").await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let requests = proxy.events();
        let is_troubled = |event: &&Event| {
            matches!(event, Event::Request(RecordedRequest { is_faulty: true, .. }))
        };
        assert!(requests.iter().filter(is_troubled).count() > 0, "no connection was used twice");
        for error_text in ["trying again", "kept for later", "WARN", "ERROR"] {
            assert!(!end.stderr.contains(error_text), "{error_text}: {}", end.stderr);
        }
        assert_eq!(world.received().logs.len(), log_lines(&world).len());
    }
}

/// Key and body of the requests with this name, without repetitions.
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
        world.set("BUTLER_LOG_INTERVAL", "1h");
        let act = FaultAction::Respond(answer, "", "{}");
        let trouble = ProxyFault { request: "POST logs", act, when: FaultTrigger::First(1) };
        let proxy = Proxy::start(&world.endpoint(), trouble).await;
        let end = run(&world, &proxy, "apply").await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        assert!(proxy.seen("POST logs").len() >= requests);
        let posts: Vec<_> = REQUESTS[2..].iter().flat_map(|name| distinct(&proxy, name)).collect();
        let keys: BTreeSet<_> = posts.iter().map(|(key, _)| key).collect();
        let bodies: BTreeSet<_> = posts.iter().map(|(_, body)| body).collect();
        assert_eq!(keys.len(), posts.len(), "two requests have one key");
        assert_eq!(bodies.len(), posts.len(), "one request has two keys");
    }
}

#[tokio::test]
async fn final_status_is_repeated_byte_for_byte() {
    let (world, _tool) = quick_world().await;
    let trouble =
        ProxyFault { request: "POST final", act: FaultAction::Lose, when: FaultTrigger::First(3) };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "apply").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(proxy.seen("POST final").len(), 4);
    assert_eq!(distinct(&proxy, "POST final").len(), 1);
}

/// Asserts that the runner closed every unanswered `running` request before it sent the final
/// status, and sent none after it.
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
    world.set("BUTLER_REQUEST_TIMEOUT", "3s");
    world.set("BUTLER_REGISTRY_TIMEOUT", "10s");
    let trouble =
        ProxyFault { request: "POST running", act: FaultAction::Hang, when: FaultTrigger::Always };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "apply").await;
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    assert_eq!(world.statuses(), ["failed"]);
    assert_running_is_over(&proxy);
}

#[tokio::test]
async fn pending_running_status_is_abandoned_after_a_signal() {
    let (world, _tool) = quick_world().await;
    let trouble =
        ProxyFault { request: "POST running", act: FaultAction::Hang, when: FaultTrigger::Always };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    world.add_run(world.config("apply"));
    let child = world.execute().env("BUTLER_ENDPOINT", proxy.endpoint()).spawn().unwrap();
    proxy.until_seen("POST running").await;
    kill(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()), Signal::SIGTERM).unwrap();
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert_eq!(world.statuses(), ["failed"]);
    assert_running_is_over(&proxy);
}

#[tokio::test]
async fn late_running_status_does_not_replace_the_final_status() {
    let (mut world, _tool) = quick_world().await;
    world.set("BUTLER_REQUEST_TIMEOUT", "2s");
    let trouble = ProxyFault {
        request: "POST running",
        act: FaultAction::Late,
        when: FaultTrigger::First(1),
    };
    let proxy = Proxy::start(&world.endpoint(), trouble).await;
    let end = run(&world, &proxy, "apply").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "succeeded", "running", "succeeded"]);
    assert_eq!(distinct(&proxy, "POST final").len(), 1);
    assert!(end.stderr.contains("stored `running` late"), "{}", end.stderr);
}
