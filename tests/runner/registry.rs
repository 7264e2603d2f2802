//! Responses that do not come from the registry's API.

use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{Html, IntoResponse, Redirect, Response};
use butler_base::error::Advice;
use butler_base::http::{self, Redirects};
use butler_registry::memory::{self, MemoryRegistry, Server};
use butler_runner::registry::{Address, Callback, Client, Limits, Patience, RegistryError};
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::net::TcpListener;

use butler_testing::authority::Authority;
use butler_testing::proxy::{FaultAction, FaultTrigger, Proxy, ProxyFault};
use butler_testing::world::{MODULE, RUN_ID, RunEnd, TOKEN, World};

/// Runs the world's runner with this endpoint.
async fn run_at(world: &World, endpoint: &str) -> RunEnd {
    let output = world
        .command(&["execute"])
        .env("BUTLER_ENDPOINT", endpoint)
        .env("BUTLER_RUN_ID", RUN_ID)
        .env("BUTLER_TOKEN", TOKEN)
        .env("BUTLER_REGISTRY_TIMEOUT", "20s")
        .output()
        .await
        .unwrap();
    world.end(&output)
}

#[tokio::test]
async fn redirect_is_an_error_that_names_its_target() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    world.add_run(world.config("validate"));
    let real = world.endpoint();
    let redirecting = Router::new().fallback(move |request: Request| {
        let path = request.uri().path().trim_start_matches("/api/registry/").to_owned();
        let target = format!("{}/{path}", real.trim_end_matches('/'));
        async move { Redirect::permanent(&target) }
    });
    let server = Server::start(redirecting).await.unwrap();
    let end = run_at(&world, server.endpoint().as_str()).await;
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    let origin = world.endpoint().replace("/api/registry", "");
    assert!(
        end.stderr.contains(&format!("redirects to {origin}: set --endpoint")),
        "{}",
        end.stderr
    );
    assert_eq!(world.received().request_names(), [""; 0], "nobody followed");
}

#[tokio::test]
async fn report_redirected_to_a_sign_in_page_is_not_delivered() {
    let sign_in = Router::new().fallback(|request: Request| async move {
        if request.method() == Method::POST {
            (StatusCode::FOUND, [(header::LOCATION, "/login")]).into_response()
        } else {
            Html("<h1>Sign in</h1>").into_response()
        }
    });
    let server = Server::start(sign_in).await.unwrap();
    let error = post(&server).await.expect_err("a sign-in page keeps no report");
    assert!(error.advice().unwrap().contains("sign-in page"), "{error}");
}

/// A client for the run on this server.
fn client(server: &Server) -> Client {
    Client::new(
        http::clients(None, Redirects::Refuse).unwrap(),
        Address::new(server.endpoint(), RUN_ID.parse().unwrap()),
        TOKEN.into(),
        Limits { attempt: Duration::from_secs(10), long: Duration::from_secs(10) },
    )
}

/// Posts a status to this server with the full retry time.
async fn post(server: &Server) -> Result<(), RegistryError> {
    let client = client(server);
    let callbacks = client.callbacks().unwrap();
    client.post(Callback::Status, &callbacks, "{}".into(), Patience::Long).await
}

/// A server with these response statuses in order, which counts the requests to all paths.
async fn answering(
    answers: &'static [u16],
    headers: Vec<(&'static str, String)>,
) -> (Server, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let answer = Router::new().fallback(move || {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        let status = StatusCode::from_u16(answers[number.min(answers.len() - 1)]).unwrap();
        let headers = headers.clone();
        async move {
            let mut answer = Response::new(Body::from(r#"{"status":"ok"}"#));
            *answer.status_mut() = status;
            for (name, value) in headers {
                answer.headers_mut().insert(name, value.parse().unwrap());
            }
            answer
        }
    });
    (Server::start(answer).await.unwrap(), asked)
}

#[tokio::test]
async fn each_response_status_to_a_report_is_final_or_retried() {
    const STORED: [&[u16]; 4] = [&[200], &[201], &[202], &[204]];
    const REFUSED: [&[u16]; 8] = [&[400], &[401], &[403], &[404], &[405], &[409], &[413], &[422]];
    const LATER: [&[u16]; 6] =
        [&[408, 200], &[429, 200], &[500, 200], &[502, 200], &[503, 200], &[504, 200]];
    let outcome = |answers: &'static [u16]| async move {
        let (server, asked) = answering(answers, Vec::new()).await;
        let posted = post(&server).await;
        assert_eq!(matches!(posted, Err(RegistryError::RunOver)), answers == [409]);
        (answers, posted.is_ok(), asked.load(Ordering::SeqCst))
    };
    let all = STORED.map(|answers| (answers, true, 1)).into_iter();
    let all = all.chain(REFUSED.map(|answers| (answers, false, 1)));
    let all: Vec<_> = all.chain(LATER.map(|answers| (answers, true, 2))).collect();
    let outcomes = all.iter().map(|(answers, _, _)| outcome(answers));
    assert_eq!(futures_util::future::join_all(outcomes).await, all);
}

/// Responds to each request with the status, headers and body.
async fn always(status: u16, headers: &'static [(&str, &str)], body: &[u8]) -> Server {
    let body = Bytes::copy_from_slice(body);
    let answer = Router::new().fallback(move || async move {
        let mut answer = Response::new(Body::from(body));
        *answer.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in headers {
            answer.headers_mut().insert(*name, value.parse().unwrap());
        }
        answer
    });
    Server::start(answer).await.unwrap()
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// The same response with a compressed body, which the client did not request.
async fn compressed(answer: Response) -> Response {
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    ([(header::CONTENT_ENCODING, "gzip")], gzip(&body)).into_response()
}

#[tokio::test]
async fn report_counts_as_delivered_only_after_a_response_of_the_api() {
    const HTML: &[(&str, &str)] = &[("content-type", "text/html; charset=utf-8")];
    const JSON: &[(&str, &str)] = &[("content-type", "application/json; charset=utf-8")];
    const GZIP: &[(&str, &str)] =
        &[("content-type", "application/json"), ("content-encoding", "gzip")];
    const BROTLI: &[(&str, &str)] = &[("content-encoding", "br")];
    let compressed = gzip(br#"{"status":"ok"}"#);
    let cases = [
        (200, JSON, br#"{"status":"ok"}"#.as_slice(), true),
        (201, &[], br#"{"status":"ok","count":3}"#, true),
        (200, GZIP, &compressed, true),
        (200, &[], b"", true),
        (204, &[], b"", true),
        (200, JSON, b"", true),
        (200, HTML, b"", false),
        (202, &[], b"", false),
        (200, HTML, b"<h1>Sign in</h1>", false),
        (200, JSON, b"<h1>Sign in</h1>", false),
        (200, &[], b"Welcome", false),
        (200, HTML, b"1", false),
        (200, JSON, br#"{"status":"#, false),
        (200, GZIP, br#"{"status":"ok"}"#, false),
        (200, BROTLI, br#"{"status":"ok"}"#, false),
    ];
    let outcomes = cases.map(|(status, headers, body, is_delivered)| async move {
        let server = always(status, headers, body).await;
        let posted = post(&server).await;
        let shown = String::from_utf8_lossy(body);
        assert_eq!(posted.is_ok(), is_delivered, "{status} {headers:?} {shown}: {posted:?}");
        if let Err(error) = posted {
            assert!(error.advice().unwrap().contains("sign-in page"), "{error}");
        }
    });
    futures_util::future::join_all(outcomes).await;
}

#[tokio::test]
async fn compressed_configuration_is_accepted() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let registry = Arc::new(MemoryRegistry::default());
    registry.add_run(RUN_ID, TOKEN, world.config("validate"));
    let compressing = memory::router(registry.clone()).layer(map_response(compressed));
    let server = Server::start(compressing).await.unwrap();
    let end = run_at(&world, server.endpoint().as_str()).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(registry.run(RUN_ID).unwrap().status, "succeeded");
}

#[tokio::test]
async fn redirects_are_not_followed_within_or_outside_of_the_registry() {
    const REDIRECTS: [&[u16]; 4] = [&[301], &[302], &[307], &[308]];
    let (elsewhere, asked_elsewhere) = answering(&[200], Vec::new()).await;
    let away = elsewhere.endpoint().to_string();
    for answers in REDIRECTS {
        for (target, advice) in [
            (away.as_str(), "set --endpoint (BUTLER_ENDPOINT) to that"),
            // A sign-in page, a missing slash and a moved API; the client does not guess.
            ("/login?next=x", "redirects to `/login`: check that --endpoint"),
        ] {
            let (server, asked) = answering(answers, vec![("location", target.to_owned())]).await;
            let error = post(&server).await.unwrap_err();
            assert!(error.advice().unwrap().contains(advice), "{:?}", error.advice());
            assert_eq!(asked.load(Ordering::SeqCst), 1, "{answers:?} {target}");
            let error = client(&server).status(Patience::Long).await.unwrap_err();
            assert!(error.advice().unwrap().contains(advice), "{:?}", error.advice());
            assert_eq!(asked.load(Ordering::SeqCst), 2, "{answers:?} {target}");
        }
    }
    assert_eq!(asked_elsewhere.load(Ordering::SeqCst), 0, "nothing is sent to another origin");
}

#[tokio::test]
async fn web_page_instead_of_the_api_is_not_retried_for_long() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let page = Router::new().fallback(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Html("<h1>Welcome</h1>") }
    });
    let server = Server::start(page).await.unwrap();
    let end = run_at(&world, server.endpoint().as_str()).await;
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    assert!(end.stderr.contains("not its web page"), "{}", end.stderr);
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn server_error_for_an_unusual_run_id_prints_a_hint_after_the_first_attempt() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    for (run_id, hints) in [("my-run", 1), (RUN_ID, 0)] {
        let registry = Arc::new(MemoryRegistry::default());
        let mut config = world.config("validate");
        config["runId"] = run_id.into();
        config["callbacks"].take();
        registry.add_run(run_id, TOKEN, config);
        let server = memory::serve(registry).await.unwrap();
        let trouble = ProxyFault {
            request: "GET status",
            act: FaultAction::Respond(500, "", "{}"),
            when: FaultTrigger::First(2),
        };
        let proxy = Proxy::start(server.endpoint().as_str(), trouble).await;
        let output = world
            .command(&["execute"])
            .env("BUTLER_ENDPOINT", proxy.endpoint())
            .env("BUTLER_RUN_ID", run_id)
            .env("BUTLER_TOKEN", TOKEN)
            .output()
            .await
            .unwrap();
        let end = world.end(&output);
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let hint = "check --run-id (BUTLER_RUN_ID): `my-run` is not a UUID";
        assert_eq!(end.stderr.matches(hint).count(), hints, "{}", end.stderr);
        assert_eq!(end.stderr.matches("trying again").count(), 1, "{}", end.stderr);
    }
}

#[tokio::test]
async fn untrusted_certificate_of_the_registry_is_not_retried() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let acceptor = Authority::create().acceptor();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let server = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let ssl = openssl::ssl::Ssl::new(acceptor.context()).unwrap();
            let mut stream = tokio_openssl::SslStream::new(ssl, stream).unwrap();
            // The client closes the connection when it sees the certificate.
            let _ = std::pin::Pin::new(&mut stream).accept().await;
        }
    });
    let end = run_at(&world, &format!("https://{address}/api")).await;
    server.abort();
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    assert!(end.stderr.contains("--ca-bundle"), "{}", end.stderr);
    assert_eq!(connections.load(Ordering::SeqCst), 1, "{}", end.stderr);
}
