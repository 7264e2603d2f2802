//! The data that an OpenTelemetry collector gets of a run, in the protocol's own messages.
//!
//! The collector is a stand-in that stores the received bodies and parses them with the definitions
//! that OpenTelemetry publishes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use butler_registry::memory::Server;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use butler_testing::HeldPort;
use butler_testing::world::{MODULE, RUN_ID, TOKEN, World};

/// The data that a collector received.
#[derive(Default)]
struct CollectorState {
    traces: Vec<ExportTraceServiceRequest>,
    metrics: Vec<ExportMetricsServiceRequest>,
    bodies: Vec<u8>,
    keys: Vec<String>,
}

type Shelf = Arc<Mutex<CollectorState>>;

struct Collector {
    server: Server,
    taken: Shelf,
}

impl Collector {
    async fn start() -> Self {
        let taken = Shelf::default();
        let note = |taken: &mut CollectorState, headers: &HeaderMap, body: &Bytes| {
            taken.bodies.extend_from_slice(body);
            let key = headers.get("api-key").map(|key| key.to_str().unwrap().to_owned());
            taken.keys.extend(key);
        };
        let traces = move |State(shelf): State<Shelf>, headers: HeaderMap, body: Bytes| async move {
            let mut taken = shelf.lock().unwrap();
            note(&mut taken, &headers, &body);
            taken.traces.push(ExportTraceServiceRequest::decode(body).unwrap());
        };
        let metrics = move |State(shelf): State<Shelf>, headers: HeaderMap, body: Bytes| async move {
            let mut taken = shelf.lock().unwrap();
            note(&mut taken, &headers, &body);
            taken.metrics.push(ExportMetricsServiceRequest::decode(body).unwrap());
        };
        let router = Router::new()
            .route("/v1/traces", post(traces))
            .route("/v1/metrics", post(metrics))
            .with_state(taken.clone());
        Self { server: Server::start(router).await.unwrap(), taken }
    }

    fn endpoint(&self) -> String {
        let mut url = self.server.endpoint().clone();
        url.set_path("");
        url.to_string()
    }

    fn spans(&self) -> Vec<Span> {
        let taken = self.taken.lock().unwrap();
        let resources = taken.traces.iter().flat_map(|request| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// The names of all metrics.
    fn metrics(&self) -> Vec<String> {
        let taken = self.taken.lock().unwrap();
        let resources = taken.metrics.iter().flat_map(|request| &request.resource_metrics);
        let scopes = resources.flat_map(|resource| &resource.scope_metrics);
        let names = scopes.flat_map(|scope| &scope.metrics).map(|metric| metric.name.clone());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names.dedup();
        names
    }
}

fn attributes(of: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: Option<&Value>| match value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    let value = |it: &KeyValue| text(it.value.as_ref().and_then(|value| value.value.as_ref()));
    of.iter().map(|it| (it.key.clone(), value(it))).collect()
}

/// Prints its trace context.
const SHOWING: &str = r#"
resource "terraform_data" "shown" {
  provisioner "local-exec" {
    command = "echo it is $TRACEPARENT"
  }
}
"#;

/// Status codes of spans.
const OK: i32 = 1;
const ERROR: i32 = 2;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn run_is_one_trace_with_a_span_for_each_phase_and_request() {
    let collector = Collector::start().await;
    let module = format!("{MODULE}{SHOWING}");
    let mut world = World::new(&[("main.tf", &module)]).await;
    world.set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    world.set("OTEL_EXPORTER_OTLP_HEADERS", "api-key=correct-horse-battery");
    world.set("TRACEPARENT", PARENT);
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let spans = collector.spans();
    let run: Vec<_> = spans.iter().filter(|span| span.name == "run apply").collect();
    let [run] = run[..] else { panic!("{run:?}") };
    assert_eq!(hex::encode(&run.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex::encode(&run.parent_span_id), "b7ad6b7169203331");
    let said = attributes(&run.attributes);
    assert_eq!(said["butler.run.id"], RUN_ID);
    assert_eq!(said["butler.run.status"], "succeeded");
    assert_eq!(said["process.exit.code"], "0");
    assert!(spans.iter().all(|span| span.trace_id == run.trace_id));
    let named = |name: &str| spans.iter().find(|span| span.name == name);
    for phase in ["config", "source", "tool", "variables", "init", "plan", "apply", "report"] {
        let span = named(phase).unwrap_or_else(|| panic!("no span `{phase}`"));
        assert_eq!(span.parent_span_id, run.span_id, "{phase}");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    }
    for (request, parent) in [
        ("GET status", "config"),
        ("GET config", "config"),
        ("POST plan", "report"),
        ("POST outputs", "report"),
        ("POST logs", "report"),
    ] {
        let span = named(request).unwrap_or_else(|| panic!("no span `{request}`"));
        assert_eq!(span.parent_span_id, named(parent).unwrap().span_id, "{request}");
        assert_eq!(attributes(&span.attributes)["http.response.status_code"], "200");
    }
    // Programs of Terraform belong to the same trace.
    let traceparent = format!("00-{}-{}-01", hex::encode(&run.trace_id), hex::encode(&run.span_id));
    assert!(world.reports_and_output(&end).contains(&format!("it is {traceparent}")));
    assert_eq!(
        collector.metrics(),
        [
            "butler.log.undelivered",
            "butler.request.sent",
            "butler.run.duration",
            "butler.run.phase.duration",
            "http.client.request.duration"
        ]
    );
    let document = include_str!("../../docs/telemetry.md");
    for name in collector.metrics() {
        assert!(document.contains(&format!("| `{name}` | ")), "{name} is not documented");
    }
    for name in spans.iter().flat_map(|span| attributes(&span.attributes).into_keys()) {
        assert!(document.contains(&format!("`{name}`")), "{name} is not documented");
    }
    let taken = collector.taken.lock().unwrap();
    assert!(taken.keys.iter().all(|key| key == "correct-horse-battery") && !taken.keys.is_empty());
    let bodies = String::from_utf8_lossy(&taken.bodies).into_owned();
    assert!(!bodies.contains(TOKEN) && !bodies.contains("hello world"));
}

#[tokio::test]
async fn failed_runs_and_refused_requests_are_error_spans() {
    let collector = Collector::start().await;
    let mut world =
        World::new(&[("main.tf", "resource \"terraform_data\" \"x\" {\n  oops = 1\n}")]).await;
    world.set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    world.faults.lock().unwrap().push(butler_testing::world::Fault {
        method: "GET",
        endpoint: "config",
        status: 503,
        times: 1,
    });
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let spans = collector.spans();
    let status = |name: &str| -> Vec<i32> {
        let named = spans.iter().filter(|span| span.name == name);
        named.map(|span| span.status.as_ref().map_or(0, |status| status.code)).collect()
    };
    assert_eq!(status("run plan"), [ERROR]);
    assert_eq!(status("GET config"), [ERROR, 0]);
    assert_ne!(status("GET status"), [OK]);
    assert!(collector.metrics().contains(&"butler.request.failed".to_owned()));
}

#[tokio::test]
async fn failing_collector_does_not_affect_the_run() {
    let refusing = Router::new().fallback(|| async { (StatusCode::FORBIDDEN, "no") });
    let refusing = Server::start(refusing).await.unwrap();
    let held = HeldPort::new();
    let gone = format!("127.0.0.1:{}", held.port());
    let refused = refusing.endpoint().to_string();
    let host = format!("127.0.0.1:{}", refusing.endpoint().port().unwrap());
    for (endpoint, said) in [
        (refused, [&host, "answered 403 Forbidden", "check OTEL_EXPORTER_OTLP_HEADERS"]),
        (
            format!("http://{gone}/?key=hunter22"),
            [&gone, "Connection refused", "check OTEL_EXPORTER_OTLP_ENDPOINT"],
        ),
    ] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        world.set("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
        let end = world.run(world.config("plan")).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        assert_eq!(world.statuses(), ["running", "succeeded"]);
        let warning =
            end.stderr.lines().find(|line| line.contains("cannot export all telemetry")).unwrap();
        for said in said {
            assert!(warning.contains(said), "{said}: {warning}");
        }
        assert!(!warning.contains("hunter22"), "{warning}");
    }
}

#[tokio::test]
async fn credentials_of_the_collector_are_masked() {
    let collector = Collector::start().await;
    let showing = r#"
resource "terraform_data" "shown" {
  provisioner "local-exec" {
    command = "env | grep OTLP; echo they are correct horse, staple-1, YmF0dGVyeTpzdGFwbGU= and hunter%2022"
  }
}
"#;
    let mut world = World::new(&[("main.tf", showing)]).await;
    world.set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    let written = "x-honeycomb-team=correct%20horse,Authorization=Bearer%20staple-1";
    world.set("OTEL_EXPORTER_OTLP_HEADERS", written);
    world.set("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Basic YmF0dGVyeTpzdGFwbGU=");
    world.set("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-key = hunter%2022 ");
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let log = world.received().log_text();
    assert!(log.contains("OTEL_EXPORTER_OTLP_HEADERS=***"), "{log}");
    assert!(log.contains("they are ***, ***, *** and ***"), "{log}");
    for secret in ["correct", "staple-1", "YmF0", "hunter"] {
        assert!(!log.contains(secret) && !end.stdout.contains(secret), "{log}");
    }
}

#[tokio::test]
async fn run_without_a_collector_sends_no_trace_context() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("TRACEPARENT", PARENT);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(!end.stderr.contains("collector"), "{}", end.stderr);
}
