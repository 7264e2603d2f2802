//! The routes: authorization, and the response to each request.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};

use super::read::{self, BODY_LIMIT};
use super::refusal::Refusal;
use super::{Found, Recorded, Registry, Report, TokenHash};

/// Tokens of a registry's own users, which are not accepted here.
const REGISTRY_TOKEN: &str = "breg_";

/// The routes below `/v1/ci/module-runs/`, without [`BASE_PATH`](crate::BASE_PATH). Every response about
/// a run requires that run's token, whichever registry is behind it.
pub fn router<R: Registry>(registry: Arc<R>) -> Router {
    routes(registry).fallback(|| async { Refusal::not_found("no such path") })
}

/// The routes of [`router`] for a server that has others too.
pub fn routes<R: Registry>(registry: Arc<R>) -> Router {
    Router::new()
        .route(
            "/v1/ci/module-runs/{run_id}/{endpoint}",
            get(handle::<R>).post(handle::<R>).put(handle::<R>),
        )
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(registry)
}

async fn handle<R: Registry>(
    State(registry): State<Arc<R>>,
    Path((run_id, endpoint)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    let Found { run, is_over, reported, .. } =
        authorize(&*registry, &run_id, request.headers()).await?;
    let method = request.method().clone();
    if method == Method::GET && endpoint == "status" {
        return Ok(json_response(&json!({"status": registry.status(&run).await?})));
    }
    if method == Method::PUT && endpoint == "plan-file" && !is_over {
        read::check_plan_file(request.headers())?;
        return match registry.save_plan_file(&run, request.into_body()).await? {
            Some(Recorded::Recorded) => Ok(json_response(&json!({"status": "ok"}))),
            Some(Recorded::Over) => Err(Refusal::over()),
            None => Err(Refusal::not_found("the run saves no plan")),
        };
    }
    // A response before the end of the body can be lost: the client still writes when the connection
    // is closed.
    let body = read::body(request).await?;
    if is_over {
        if method == Method::POST
            && let Report::Status(report) = read::report(&endpoint, &body)?
            && reported.as_deref() == Some(report.status.as_str())
        {
            return Ok(json_response(&json!({"status": "ok"})));
        }
        return Err(Refusal::over());
    }
    match (method, endpoint.as_str()) {
        (Method::GET, "config") => Ok(secret(json_response(&registry.configuration(&run).await?))),
        (Method::GET, "source") => archive(registry.source(&run).await?, "the run has no archive"),
        (Method::GET, "plan-file") => {
            archive(registry.plan_file(&run).await?, "the run applies no saved plan")
        }
        (Method::POST, endpoint) => {
            let report = read::report(endpoint, &body)?;
            let response = match &report {
                Report::Logs(lines) => json!({"status": "ok", "count": lines.len()}),
                Report::Status(_) | Report::Plan(_) | Report::Outputs(_) | Report::Result(_) => {
                    json!({"status": "ok"})
                }
            };
            match registry.record(&run, report).await? {
                Recorded::Recorded => Ok(json_response(&response)),
                Recorded::Over => Err(Refusal::over()),
            }
        }
        _ => Err(Refusal::not_found("no such path")),
    }
}

/// Finds the run, and compares its token with that of the request.
async fn authorize<R: Registry>(
    registry: &R,
    run_id: &str,
    headers: &HeaderMap,
) -> Result<Found<R::Run>, Refusal> {
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
        .filter(|token| !token.starts_with(REGISTRY_TOKEN))
        .ok_or_else(|| Refusal::unauthorized("a callback token is required"))?;
    let found = registry.find(run_id).await?.ok_or_else(Refusal::no_such_run)?;
    if found.token == TokenHash::of(token) {
        Ok(found)
    } else {
        Err(Refusal::unauthorized("the token is not the run's"))
    }
}

fn json_response(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], Body::from(body.to_string())).into_response()
}

/// A tar archive, or why there is none.
fn archive(archive: Option<Body>, missing: &str) -> Result<Response, Refusal> {
    let archive = archive.ok_or_else(|| Refusal::not_found(missing))?;
    Ok(secret(([(header::CONTENT_TYPE, "application/x-tar")], archive).into_response()))
}

/// The same response, which no cache may store.
fn secret(response: Response) -> Response {
    let headers = [(header::CACHE_CONTROL, "no-store, no-cache"), (header::PRAGMA, "no-cache")];
    (headers, response).into_response()
}
