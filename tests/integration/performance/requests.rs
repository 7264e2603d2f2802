//! What a run sends to its registry: how often, how much, and over how many connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::serve::ListenerExt;
use butler_runner::devregistry::{BASE_PATH, router};
use tokio::net::TcpListener;

use super::{print_lines, released};
use crate::support::stand_in::StandIn;
use crate::support::world::{MODULE, World, eventually, sequence};

/// How many bytes may be more or less, beside a hundredth: times, durations, and paths in the
/// directory of the test.
const MARGIN: usize = 200;

/// What a run has sent.
struct Sent {
    /// Its requests, in order.
    names: Vec<String>,
    /// How much was in them.
    bytes: usize,
    /// Over how many connections they came.
    connections: usize,
}

/// The world's registry behind a meter.
struct Meter {
    endpoint: String,
    sent: Arc<Mutex<Vec<(String, usize)>>>,
    connections: Arc<AtomicUsize>,
}

impl Meter {
    async fn before(world: &World) -> Self {
        let (sent, connections) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicUsize>::default());
        let (log, counter) = (sent.clone(), connections.clone());
        let app = router(world.registry.clone())
            .layer(from_fn(move |request, next| measure(log.clone(), request, next)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}{BASE_PATH}", listener.local_addr().unwrap());
        let listener = listener.tap_io(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { endpoint, sent, connections }
    }

    /// Carries out the world's run.
    async fn run(&self, world: &World, operation: &str) -> Sent {
        world.add_run(world.config(operation));
        let mut command = released(world, &[]);
        command.env("BUTLER_ENDPOINT", &self.endpoint);
        let mut command = tokio::process::Command::from(command);
        let output = command.kill_on_drop(true).output().await.unwrap();
        let end = world.end(&output);
        assert_eq!(end.code, Some(0), "{operation}: {}", end.stderr);
        let (names, sizes): (_, Vec<_>) = self.sent.lock().unwrap().drain(..).unzip();
        Sent {
            names,
            bytes: sizes.into_iter().sum(),
            connections: self.connections.swap(0, Ordering::Relaxed),
        }
    }
}

async fn measure(sent: Arc<Mutex<Vec<(String, usize)>>>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let endpoint = head.uri.path().rsplit('/').next().unwrap();
    sent.lock().unwrap().push((format!("{} {endpoint}", head.method), body.len()));
    next.run(Request::from_parts(head, Body::from(body))).await
}

#[tokio::test]
async fn a_small_run_costs_few_requests_bytes_and_connections() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let meter = Meter::before(&world).await;
    for (operation, reports, bytes) in [
        ("validate", &[][..], 960),
        ("plan", &["POST plan"], 4_770),
        ("apply", &["POST plan", "POST outputs"], 5_500),
        ("destroy", &["POST plan", "POST outputs"], 5_770),
    ] {
        let sent = meter.run(&world, operation).await;
        assert_eq!(sent.names, sequence(reports), "{operation}");
        assert_about(sent.bytes, bytes, operation);
        // One that is kept, and one for each request whose buffers would keep secrets: the
        // configuration and what was planned and put out.
        assert_eq!(sent.connections, 2 + reports.len(), "{operation}");
    }
}

#[tokio::test]
async fn lines_are_sent_ten_thousand_at_once_with_few_bytes_around_them() {
    const LINES: u32 = 25_000;
    let mut world = World::new(&[("main.tf", "")]).await;
    StandIn::doing(&mut world, &[("apply", &print_lines(LINES, ""))]);
    let meter = Meter::before(&world).await;
    let sent = meter.run(&world, "apply").await;
    let expected = sequence(&["POST logs", "POST logs", "POST plan", "POST outputs"]);
    assert_eq!(sent.names, expected);
    assert_about(sent.bytes, LINES as usize * (99 + 54), "lines");
}

fn assert_about(bytes: usize, expected: usize, what: &str) {
    let most = MARGIN + expected / 100;
    assert!(bytes.abs_diff(expected) <= most, "{what}: {bytes} bytes, and not about {expected}");
}

#[tokio::test]
async fn a_run_that_prints_nothing_sends_no_log() {
    let mut world = World::new(&[("main.tf", "")]).await;
    let silent = ": > \"$record/planning\"; while [ ! -e \"$record/go\" ]; do sleep 0.01; done";
    let tool = StandIn::doing(&mut world, &[("plan", silent)]);
    world.set("BUTLER_LOG_INTERVAL", "10ms");
    world.set("BUTLER_CANCEL_INTERVAL", "10ms");
    world.add_run(world.config("plan"));
    let run = tokio::spawn(world.execute().output());
    tool.planning().await;
    let count =
        |name: &str| world.received().request_names().iter().filter(|it| *it == name).count();
    // The registry is asked every interval in which there could be a log, too.
    let intervals = async |count_of: usize| {
        let end = count("GET status") + count_of;
        eventually("an interval's end", || count("GET status") >= end).await;
    };
    intervals(20).await;
    let before = count("POST logs");
    intervals(50).await;
    assert_eq!(count("POST logs"), before);
    tool.go_on();
    let output = run.await.unwrap().unwrap();
    assert_eq!(world.end(&output).code, Some(0));
}
