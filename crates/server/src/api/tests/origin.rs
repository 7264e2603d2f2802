//! Changes that pages of other sites ask for.

use super::*;

#[tokio::test]
async fn page_of_another_origin_changes_nothing() {
    let direct = tested().await;
    let hosts = Hosts {
        names: vec!["butler.example.com".to_owned()],
        public_url: Some("https://butler.example.com/prefix/".parse().unwrap()),
        ..Hosts::new([127, 0, 0, 1].into())
    };
    let proxied = tested_with(hosts).await;
    let hosts = Hosts { is_tls: true, ..Hosts::new([127, 0, 0, 1].into()) };
    let encrypted = tested_with(hosts).await;
    let (own, post) = ("http://localhost:7373", Method::POST);
    for (tested, method, host, origin, is_allowed) in [
        (&direct, &post, "localhost:7373", Some(own), true),
        (&direct, &post, "localhost:7373", None, true),
        (&direct, &Method::GET, "localhost:7373", Some("http://evil.test"), true),
        (&direct, &Method::HEAD, "localhost:7373", Some("http://evil.test"), true),
        (&direct, &post, "localhost", Some("http://localhost:80"), true),
        (&direct, &post, "localhost:7373", Some("http://evil.test"), false),
        (&direct, &post, "localhost:7373", Some("http://localhost:7374"), false),
        (&direct, &post, "localhost:7373", Some("http://127.0.0.1:7373"), false),
        (&direct, &post, "localhost:7373", Some("https://localhost:7373"), false),
        (&direct, &post, "localhost:7373", Some("null"), false),
        (&direct, &post, "localhost:7373", Some(""), false),
        (&direct, &post, "localhost:7373", Some("http://localhost:7373.evil.test"), false),
        (&direct, &post, "localhost:7373", Some("file:///"), false),
        (&encrypted, &post, "localhost:7373", Some("https://localhost:7373"), true),
        (&encrypted, &post, "localhost:7373", Some(own), false),
        (&proxied, &post, "butler.example.com", Some("https://butler.example.com"), true),
        (&proxied, &post, "localhost:7373", Some("https://butler.example.com"), true),
        (&proxied, &post, "butler.example.com", Some("http://butler.example.com"), false),
        (&proxied, &post, "localhost:7373", Some(own), false),
    ] {
        let path = if *method == post { "/api/v1/layers/a/plan" } else { "/api/v1/layers/a" };
        let mut request = Request::builder().method(method.clone()).uri(path).header("host", host);
        request = request.header("authorization", format!("Bearer {}", token(Role::Operator)));
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let request = request.body(Body::empty()).unwrap();
        let answer = tested.router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        assert_eq!(status.is_success(), is_allowed, "{method} {host} {origin:?}: {status}");
        if !is_allowed {
            assert_eq!(status, StatusCode::FORBIDDEN, "{method} {host} {origin:?}");
            let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["error"]["code"], "forbidden");
            assert!(body["error"]["hint"].as_str().unwrap().contains("--public-url"), "{body}");
        }
    }
}

#[tokio::test]
async fn request_with_two_hosts_is_refused() {
    let tested = tested().await;
    for (hosts, status) in [
        (&["localhost"][..], StatusCode::OK),
        (&["localhost", "localhost"], StatusCode::BAD_REQUEST),
        (&["localhost", "evil.test"], StatusCode::BAD_REQUEST),
        (&["evil.test", "localhost"], StatusCode::BAD_REQUEST),
    ] {
        for path in ["/healthz", "/api/v1/layers", "/"] {
            let token = format!("Bearer {}", token(Role::Viewer));
            let mut request = Request::builder().uri(path).header("authorization", token);
            for host in hosts {
                request = request.header("host", *host);
            }
            let request = request.body(Body::empty()).unwrap();
            let answer = tested.router.clone().oneshot(request).await.unwrap();
            let is_refused = answer.status() == StatusCode::BAD_REQUEST;
            assert_eq!(is_refused, status == StatusCode::BAD_REQUEST, "{path} {hosts:?}");
        }
    }
}
