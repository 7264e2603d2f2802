//! Requests that do not have the form that is expected.

use axum::Json;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn;
use axum::routing::post;

use super::super::refusals::{MOST_BODY, errors_as_json, limit_bodies};
use super::*;

/// The answer to a request: its status, the header `Allow`, and its error.
async fn refused(router: &Router, request: Request<Body>) -> (StatusCode, String, Value) {
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let header = |name| {
        let value = answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        value.unwrap_or_default()
    };
    let (kind, allow) = (header("content-type"), header("allow"));
    assert_eq!(kind, "application/json", "{status}");
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let error = body["error"].clone();
    for name in ["code", "message"] {
        assert!(error[name].as_str().is_some_and(|text| !text.is_empty()), "{status} {body}");
    }
    assert_eq!(error.as_object().unwrap().len(), 3, "{body}");
    (status, allow, error)
}

#[tokio::test]
async fn each_error_has_code_message_and_hint() {
    let tested = tested().await;
    let run = tested.plan("b").await;
    let of_b = format!("/api/v1/runs?layer=a&after={run}");
    for (method, path, status, code, part) in [
        ("GET", "/api/v1/none", 404, "not-found", "there is no `/api/v1/none`"),
        ("GET", "/none", 404, "not-found", "there is no `/none`"),
        ("PATCH", "/api/v1/layers", 405, "method-not-allowed", "does not allow `PATCH`"),
        ("POST", "/healthz", 405, "method-not-allowed", "`/healthz` does not allow `POST`"),
        ("GET", "/api/v1/layers/a/plan", 405, "method-not-allowed", "does not allow `GET`"),
        ("GET", "/api/v1/runs?after=x", 400, "bad-request", "the server has no run `x`"),
        ("GET", "/api/v1/runs?layer=a&x=1", 400, "bad-request", "unknown field `x`"),
        ("GET", "/api/v1/runs?layer=a&limit=x", 400, "bad-request", "limit"),
        ("GET", "/api/v1/runs?layer=a&after=x", 400, "bad-request", "has no run `x`"),
        ("GET", &of_b, 400, "bad-request", "the layer `a` has no run"),
        ("GET", "/api/v1/runs/none/logs?after=x", 400, "bad-request", "invalid digit"),
        ("GET", "/api/v1/layers?limit=x", 400, "bad-request", "`limit` is a number"),
        ("GET", "/api/v1/layers/%FF", 400, "bad-request", "not valid"),
    ] {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {}", token(Role::Operator)));
        let request = request.body(Body::empty()).unwrap();
        let (found, allow, error) = refused(&tested.router, request).await;
        assert_eq!(found, status, "{method} {path}: {error}");
        assert_eq!(error["code"], code, "{method} {path}: {error}");
        assert!(error["message"].as_str().unwrap().contains(part), "{method} {path}: {error}");
        assert_eq!(allow.is_empty(), status != 405, "{method} {path}: {allow}");
    }
}

#[tokio::test]
async fn bodies_that_are_too_large_or_not_json_are_refused() {
    let router = Router::new()
        .route("/read", post(async |Json(_): Json<Vec<u8>>| {}))
        .route("/ignore", post(async || {}))
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(from_fn(limit_bodies))
        .layer(from_fn(errors_as_json));
    let large = " ".repeat(MOST_BODY + 1);
    for (path, kind, is_declared, body, status) in [
        ("/read", "application/json", true, "[1", 400),
        ("/read", "application/json", true, "{}", 422),
        ("/read", "text/plain", true, "[1]", 415),
        ("/read", "application/json", true, &large, 413),
        ("/read", "application/json", false, &large, 413),
        ("/ignore", "text/plain", true, &large, 413),
    ] {
        let mut request = Request::builder().method("POST").uri(path).header("content-type", kind);
        if is_declared {
            request = request.header("content-length", body.len());
        }
        let (found, _, error) =
            refused(&router, request.body(Body::from(body.to_owned())).unwrap()).await;
        assert_eq!(found, status, "{path} {kind}: {error}");
    }
    let fits = Request::builder().method("POST").uri("/read");
    let fits = fits.header("content-type", "application/json").body(Body::from("[1]")).unwrap();
    assert_eq!(router.oneshot(fits).await.unwrap().status(), StatusCode::OK);
}
