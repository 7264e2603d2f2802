//! The routes and the checks, over HTTP.

#![expect(clippy::unwrap_used, reason = "what fails in the set-up of a test fails the test")]

use std::io::{Error, Write};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use butler_base::http::{Redirects, client};
use butler_registry::memory::{MemoryRegistry, Server, serve};
use butler_registry::{
    BASE_PATH, BATCH_LIMIT, BODY_LIMIT, Found, Recorded, Registry, RegistryFailure, Report,
    TokenHash,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

const TOKEN: &str = "brce_1";

/// All requests of the API.
const REQUESTS: [&str; 9] = [
    "GET status",
    "GET config",
    "GET source",
    "GET plan-file",
    "PUT plan-file",
    "POST status",
    "POST logs",
    "POST plan",
    "POST outputs",
];

/// A body that each POST accepts.
fn valid_body() -> Value {
    json!({"status": "running", "logs": [], "plan_text": "none", "outputs": {}})
}

/// A registry with the run `1`, and the run `other` with another token.
async fn start() -> (Arc<MemoryRegistry>, Server) {
    let registry = Arc::new(MemoryRegistry::default());
    registry.add_run("1", TOKEN, json!({"runId": "1"}));
    registry.set_source("1", "archive");
    registry.set_plan_file("1", "plan");
    registry.add_run("other", "brce_other", json!({}));
    let server = serve(registry.clone()).await.unwrap();
    (registry, server)
}

/// `name` is the method and the endpoint, such as `GET status`. POST has a valid body.
fn request(server: &Server, run_id: &str, name: &str) -> RequestBuilder {
    let (method, endpoint) = name.split_once(' ').unwrap();
    let url = format!("{}/v1/ci/module-runs/{run_id}/{endpoint}", server.endpoint());
    let client = client(None, Redirects::Refuse).unwrap();
    let request = client.request(method.parse().unwrap(), url);
    match method {
        "POST" => request.json(&valid_body()),
        "PUT" => request.body("plan"),
        _ => request,
    }
}

/// The status and the code of the error.
async fn outcome(request: RequestBuilder) -> (u16, String) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap_or_default();
    (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
}

async fn post(server: &Server, name: &str, body: impl Into<reqwest::Body>) -> (u16, String) {
    outcome(request(server, "1", name).bearer_auth(TOKEN).body(body)).await
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn every_request_needs_the_token_of_its_run() {
    let (registry, server) = start().await;
    for name in REQUESTS {
        let plain = || request(&server, "1", name);
        let refused = [
            plain(),
            plain().bearer_auth(""),
            plain().bearer_auth("brce_2"),
            plain().bearer_auth("brce_other"),
            plain().bearer_auth("breg_1"),
            plain().header("authorization", format!("bearer {TOKEN}")),
            plain().basic_auth("x", Some(TOKEN)),
        ];
        for request in refused {
            assert_eq!(outcome(request).await, (401, "UNAUTHORIZED".to_owned()), "{name}");
        }
        let unknown = request(&server, "2", name).bearer_auth(TOKEN);
        assert_eq!(outcome(unknown).await, (404, "RUN_NOT_FOUND".to_owned()), "{name}");
        assert_eq!(outcome(plain().bearer_auth(TOKEN)).await, (200, String::new()), "{name}");
    }
    assert_eq!(registry.run("1").unwrap().received.request_names(), REQUESTS);
    assert!(registry.run("other").unwrap().received.requests.is_empty());
}

#[tokio::test]
async fn registry_token_is_refused_even_if_a_run_has_it() {
    let (registry, server) = start().await;
    registry.add_run("1", "breg_1", json!({}));
    let request = request(&server, "1", "GET status").bearer_auth("breg_1");
    assert_eq!(outcome(request).await.0, 401);
}

#[tokio::test]
async fn run_that_is_over_answers_only_get_status() {
    let (registry, server) = start().await;
    for status in ["cancelled", "timed_out", "discarded", "skipped"] {
        registry.set_status("1", status);
        for name in REQUESTS {
            let expected = if name == "GET status" { 200 } else { 409 };
            let (code, _) = outcome(request(&server, "1", name).bearer_auth(TOKEN)).await;
            assert_eq!(code, expected, "{status} {name}");
        }
    }
    assert!(registry.run("1").unwrap().received.statuses.is_empty());
}

/// A registry whose store cannot read, and whose run ends after it was found, or has reported its end.
struct Racing {
    reported: Option<&'static str>,
}

impl Registry for Racing {
    type Run = ();

    async fn find(&self, _: &str) -> Result<Option<Found<()>>, RegistryFailure> {
        let (token, reported) = (TokenHash::of(TOKEN), self.reported);
        Ok(Some(Found {
            run: (),
            token,
            is_over: reported.is_some(),
            reported: reported.map(str::to_owned),
        }))
    }

    async fn status(&self, (): &()) -> Result<String, RegistryFailure> {
        Err(Error::other("the table `runs` is locked").into())
    }

    async fn configuration(&self, (): &()) -> Result<Value, RegistryFailure> {
        Ok(json!({}))
    }

    async fn source(&self, (): &()) -> Result<Option<Body>, RegistryFailure> {
        Ok(None)
    }

    async fn plan_file(&self, (): &()) -> Result<Option<Body>, RegistryFailure> {
        Ok(None)
    }

    async fn save_plan_file(&self, (): &(), _: Body) -> Result<Option<Recorded>, RegistryFailure> {
        Ok(None)
    }

    async fn record(&self, (): &(), _: Report) -> Result<Recorded, RegistryFailure> {
        Ok(Recorded::Over)
    }
}

#[tokio::test]
async fn answers_of_a_store_become_responses() {
    let routes =
        Router::new().nest(BASE_PATH, butler_registry::router(Arc::new(Racing { reported: None })));
    let server = Server::start(routes).await.unwrap();
    let send = |name| request(&server, "1", name).bearer_auth(TOKEN).send();
    let failed = send("GET status").await.unwrap();
    assert_eq!(failed.status(), 500);
    let text = failed.text().await.unwrap();
    assert!(text.contains("INTERNAL") && !text.contains("table"), "{text}");
    for (name, expected) in [
        ("GET config", 200),
        ("GET source", 404),
        ("GET plan-file", 404),
        ("PUT plan-file", 404),
        ("GET other", 404),
        ("POST logs", 409),
        ("POST other", 404),
        ("PUT status", 404),
    ] {
        assert_eq!(send(name).await.unwrap().status(), expected, "{name}");
    }
}

#[tokio::test]
async fn repeated_final_status_gets_the_same_answer() {
    let racing = Racing { reported: Some("failed") };
    let routes = Router::new().nest(BASE_PATH, butler_registry::router(Arc::new(racing)));
    let server = Server::start(routes).await.unwrap();
    for (name, body, expected) in [
        ("POST status", json!({"status": "failed", "exit_code": 1}), 200),
        ("POST status", json!({"status": "succeeded"}), 409),
        ("POST status", json!({}), 400),
        ("POST logs", json!({"logs": []}), 409),
        ("GET config", json!({}), 409),
    ] {
        let (code, _) = post(&server, name, body.to_string()).await;
        assert_eq!(code, expected, "{name} {body}");
    }
}

#[tokio::test]
async fn plan_file_is_kept_with_the_run_and_has_a_limit() {
    let (registry, server) = start().await;
    let put = |body: Vec<u8>| request(&server, "1", "PUT plan-file").bearer_auth(TOKEN).body(body);
    let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(outcome(put(content.clone())).await.0, 200);
    assert_eq!(registry.run("1").unwrap().received.plan_files, [&content]);
    // A body without a length could have no end.
    let chunks = futures_util::stream::iter([Ok::<_, Error>("plan")]);
    let endless = put(Vec::new()).body(reqwest::Body::wrap_stream(chunks));
    assert_eq!(outcome(endless).await.0, 400);
    let address = server.endpoint().socket_addrs(|| None).unwrap();
    let head = format!(
        "PUT {BASE_PATH}/v1/ci/module-runs/1/plan-file HTTP/1.1\r\nhost: a\r\nauthorization: Bearer \
         {TOKEN}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        butler_registry::PLAN_FILE_LIMIT + 1
    );
    let asked = tokio::task::spawn_blocking(move || {
        let mut stream = std::net::TcpStream::connect(&*address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        std::io::read_to_string(stream).unwrap()
    });
    let answer = asked.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(registry.run("1").unwrap().received.plan_files.len(), 1);
}

#[tokio::test]
async fn secret_responses_are_not_cached() {
    let (_, server) = start().await;
    let get = async |name| -> Response {
        request(&server, "1", name).bearer_auth(TOKEN).send().await.unwrap()
    };
    let config = get("GET config").await;
    assert_eq!(config.headers()[CACHE_CONTROL], "no-store, no-cache");
    assert_eq!(config.json::<Value>().await.unwrap(), json!({"runId": "1"}));
    let source = get("GET source").await;
    assert_eq!(source.headers()[CACHE_CONTROL], "no-store, no-cache");
    assert_eq!(source.headers()[CONTENT_TYPE], "application/x-tar");
    assert_eq!(source.text().await.unwrap(), "archive");
}

#[tokio::test]
async fn report_that_cannot_be_stored_is_rejected() {
    let (registry, server) = start().await;
    let line = |sequence: u64, content: &str| json!({"sequence": sequence, "stream": "stdout", "content": content});
    let cases = [
        ("POST status", json!({})),
        ("POST status", json!({"status": ""})),
        ("POST status", json!({"status": "a\0b"})),
        ("POST status", json!({"status": "x".repeat(33)})),
        ("POST status", json!({"status": "failed", "exit_code": "1"})),
        ("POST status", json!({"status": "failed", "exit_code": 1.5})),
        ("POST status", json!({"status": "failed", "plan_summary": "\0"})),
        ("POST status", json!(["running"])),
        ("POST logs", json!({})),
        ("POST logs", json!({"logs": [line(0, "")]})),
        ("POST logs", json!({"logs": [line(1 << 31, "")]})),
        ("POST logs", json!({"logs": [line(1 << 32, "")]})),
        ("POST logs", json!({"logs": [line(1, "a\0b")]})),
        ("POST logs", json!({"logs": [{"sequence": 1, "stream": "stdin", "content": ""}]})),
        ("POST logs", json!({"logs": [{"sequence": 1, "stream": "stdout"}]})),
        ("POST logs", json!({"logs": vec![line(1, ""); BATCH_LIMIT + 1]})),
        ("POST plan", json!({})),
        ("POST plan", json!({"plan_json": null, "plan_text": null})),
        ("POST plan", json!({"plan_json": "", "plan_text": ""})),
        ("POST plan", json!({"plan_json": 1, "plan_text": "x"})),
        ("POST plan", json!({"plan_text": "\0"})),
        ("POST outputs", json!({})),
        ("POST outputs", json!({"outputs": []})),
    ];
    for (name, body) in cases {
        let (status, code) = post(&server, name, body.to_string()).await;
        assert_eq!((status, code.as_str()), (400, "BAD_REQUEST"), "{name} {body:.200}");
    }
    for name in ["POST status", "POST logs", "POST plan", "POST outputs"] {
        assert_eq!(post(&server, name, "{").await.0, 400, "{name}");
    }
    let run = registry.run("1").unwrap();
    assert_eq!(run.status, "queued");
    assert!(run.received.logs.is_empty() && run.received.plans.is_empty());
}

#[tokio::test]
async fn report_is_stored_with_all_of_its_fields() {
    let (registry, server) = start().await;
    let full = json!({
        "status": "failed", "exit_code": 1, "resources_to_add": 1, "plan_summary": "Error",
        "error": {"phase": "apply", "message": "no", "seen": true}, "tests": {"passed": 3},
    });
    let null = json!({"status": "x".repeat(32), "exit_code": null, "error": null});
    let logs = json!({"logs": [
        {"sequence": 1, "stream": "stdout", "content": "first"},
        {"sequence": i32::MAX, "stream": "stderr", "content": "last", "more": 1},
    ]});
    let plan = json!({"plan_json": {"a": [1, {"b": null}]}, "plan_text": "", "more": [1]});
    let text = json!({"plan_json": "{}"});
    let outputs = json!({"outputs": {"outputs": {"value": 1}}});
    for (name, body) in [
        ("POST status", &full),
        ("POST status", &null),
        ("POST logs", &logs),
        ("POST plan", &plan),
        ("POST plan", &text),
        ("POST outputs", &outputs),
    ] {
        assert_eq!(post(&server, name, body.to_string()).await.0, 200, "{name} {body}");
    }
    let received = registry.run("1").unwrap().received;
    assert_eq!(received.statuses, [full, json!({"status": "x".repeat(32)})]);
    assert_eq!(received.log_text(), "first\nlast\n");
    assert_eq!(received.plans, [plan, text]);
    assert_eq!(received.outputs, [outputs]);
}

#[tokio::test]
async fn batch_is_answered_with_the_number_of_its_lines() {
    let (_, server) = start().await;
    let line = json!({"sequence": 1, "stream": "stdout", "content": ""});
    let body = json!({"logs": vec![line; BATCH_LIMIT]}).to_string();
    let request = request(&server, "1", "POST logs").bearer_auth(TOKEN).body(body);
    let response: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(response, json!({"status": "ok", "count": BATCH_LIMIT}));
}

#[tokio::test]
async fn size_limit_counts_the_decompressed_body() {
    let (registry, server) = start().await;
    let body = |length: usize| {
        let empty = json!({"plan_text": ""}).to_string().len();
        json!({"plan_text": "x".repeat(length - empty)}).to_string().into_bytes()
    };
    let compressed = async |coding: &str, body: Vec<u8>| {
        let request = request(&server, "1", "POST plan").bearer_auth(TOKEN);
        outcome(request.header(CONTENT_ENCODING, coding).body(body)).await.0
    };
    assert_eq!(post(&server, "POST plan", body(BODY_LIMIT)).await.0, 200);
    assert_eq!(compressed("gzip", gzip(&body(BODY_LIMIT))).await, 200);
    assert_eq!(compressed("GZIP", gzip(&body(100))).await, 200);
    assert_eq!(compressed("identity", body(100)).await, 200);
    assert_eq!(registry.run("1").unwrap().received.plans.len(), 4);
    assert_eq!(compressed("gzip", gzip(&body(BODY_LIMIT + 1))).await, 413);
    assert_eq!(compressed("gzip", body(100)).await, 400);
    assert_eq!(compressed("br", body(100)).await, 400);
    let (status, code) = post(&server, "POST plan", body(BODY_LIMIT + 1)).await;
    assert_eq!((status, code.as_str()), (413, "PAYLOAD_TOO_LARGE"));
    assert_eq!(registry.run("1").unwrap().received.plans.len(), 4);
}
