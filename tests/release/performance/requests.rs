//! The requests and connections of a run to its registry.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::serve::ListenerExt;
use butler_registry::BASE_PATH;
use tokio::net::TcpListener;

use super::{print_lines, released};
use butler_testing::deployed;
use butler_testing::stand_in::StandIn;
use butler_testing::world::{MODULE, World, eventually, sequence};

/// The requests of a run.
struct SentRequests {
    /// Requests in order.
    names: Vec<String>,
    /// The number of connections.
    connections: usize,
}

/// The world's registry behind a counter.
struct RequestCounter {
    endpoint: String,
    sent: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl RequestCounter {
    async fn before(world: &World) -> Self {
        let (sent, connections) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicUsize>::default());
        let (log, counter) = (sent.clone(), connections.clone());
        let app = deployed::router(world.registry.clone())
            .layer(from_fn(move |request, next| record(log.clone(), request, next)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}{BASE_PATH}", listener.local_addr().unwrap());
        let listener = listener.tap_io(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { endpoint, sent, connections }
    }

    /// Executes the world's run.
    async fn run(&self, world: &World, operation: &str) -> SentRequests {
        world.add_run(world.config(operation));
        let mut command = released(world, &[]);
        command.env("BUTLER_ENDPOINT", &self.endpoint);
        let mut command = tokio::process::Command::from(command);
        let output = command.kill_on_drop(true).output().await.unwrap();
        let end = world.end(&output);
        assert_eq!(end.code, Some(0), "{operation}: {}", end.stderr);
        SentRequests {
            names: std::mem::take(&mut *self.sent.lock().unwrap()),
            connections: self.connections.swap(0, Ordering::Relaxed),
        }
    }
}

async fn record(sent: Arc<Mutex<Vec<String>>>, request: Request, next: Next) -> Response {
    let endpoint = request.uri().path().rsplit('/').next().unwrap();
    sent.lock().unwrap().push(format!("{} {endpoint}", request.method()));
    next.run(request).await
}

#[tokio::test]
async fn small_run_sends_few_requests_over_few_connections() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let meter = RequestCounter::before(&world).await;
    for (operation, reports) in [
        ("validate", &[][..]),
        ("plan", &["POST plan"]),
        ("apply", &["POST plan", "POST outputs"]),
        ("destroy", &["POST plan"]),
    ] {
        let sent = meter.run(&world, operation).await;
        assert_eq!(sent.names, sequence(reports), "{operation}");
        // One connection is kept open. Requests whose buffers contain secrets use their own
        // connections: the configuration, the plan and the outputs.
        assert_eq!(sent.connections, 2 + reports.len(), "{operation}");
    }
}

#[tokio::test]
async fn log_requests_carry_ten_thousand_lines_each() {
    const LINES: u32 = 25_000;
    let mut world = World::new(&[("main.tf", "")]).await;
    StandIn::doing(&mut world, &[("apply", &print_lines(LINES, ""))]);
    let meter = RequestCounter::before(&world).await;
    let sent = meter.run(&world, "apply").await;
    let expected = sequence(&["POST logs", "POST logs", "POST plan", "POST outputs"]);
    assert_eq!(sent.names, expected);
}

#[tokio::test]
async fn run_without_output_sends_no_log() {
    let mut world = World::new(&[("main.tf", "")]).await;
    let silent = ": > \"$record/planning\"; while [ ! -e \"$record/go\" ]; do sleep 0.01; done";
    let tool = StandIn::doing(&mut world, &[("plan", silent)]);
    world.set("BUTLER_LOG_INTERVAL", "10ms");
    world.set("BUTLER_CANCEL_INTERVAL", "10ms");
    world.add_run(world.config("plan"));
    let run = tokio::spawn(world.execute().output());
    tool.wait_until_running().await;
    let count =
        |name: &str| world.received().request_names().iter().filter(|it| *it == name).count();
    // The registry is also polled in each interval of the log.
    let intervals = async |count_of: usize| {
        let end = count("GET status") + count_of;
        eventually("an interval's end", || count("GET status") >= end).await;
    };
    intervals(20).await;
    let before = count("POST logs");
    intervals(50).await;
    assert_eq!(count("POST logs"), before);
    tool.resume();
    let output = run.await.unwrap().unwrap();
    assert_eq!(world.end(&output).code, Some(0));
}
