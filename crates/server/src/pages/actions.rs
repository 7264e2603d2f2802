//! Forms: each one is a change of the API at the same path.

use axum::Extension;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Method, Request, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, post};
use serde_json::{Map, Value};
use tower::ServiceExt as _;

use super::address::with_query;
use super::form::Form;
use super::layout::Notice;
use super::{address, layer, overview, run};
use crate::api::{ApiError, Browser, Role, Route, Shared, routes};
use crate::store::Store;

/// The largest answer of a change, in bytes.
const MOST: usize = 1 << 20;

/// How the fields of a form are handed on.
#[derive(Clone, Copy)]
struct Fields {
    in_body: bool,
    in_query: bool,
}

/// The path, the role and the handler of each form.
pub(super) fn all<S: Store + 'static>(
    state: &Shared<S>,
) -> Vec<(&'static str, Role, MethodRouter<Shared<S>>)> {
    let changes = routes::<S>().into_iter().filter(|route| route.method == Method::POST);
    changes.map(|route| (route.path, route.role, form(state, route))).collect()
}

fn form<S: Store + 'static>(state: &Shared<S>, route: Route<S>) -> MethodRouter<Shared<S>> {
    let (in_body, in_query) = (route.shape.body.is_some(), route.shape.query.is_some());
    let fields = Fields { in_body, in_query };
    let inner = Router::new().route(route.path, route.handler).with_state(state.clone());
    post(
        async move |State(state): State<Shared<S>>,
                    Extension(browser): Extension<Browser>,
                    Extension(form): Extension<Form>,
                    uri: Uri| {
            let answer = match request(uri.path(), &browser, &form, fields) {
                Ok(request) => call(inner, request).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) => after(state.hosts.base(), uri.path(), &answer),
                Err(error) => explain(state, browser, uri.path(), &error).await,
            }
        },
    )
}

/// The request of the API that a form asks for.
fn request(
    path: &str,
    browser: &Browser,
    form: &Form,
    fields: Fields,
) -> Result<Request<Body>, ApiError> {
    let pairs: Vec<(&str, &str)> = form.fields().collect();
    let address = if fields.in_query { with_query(path, &pairs) } else { path.to_owned() };
    let body = if fields.in_body {
        let members = pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        Body::from(Value::Object(members.collect::<Map<_, _>>()).to_string())
    } else {
        Body::empty()
    };
    let mut request = Request::post(address).header(header::CONTENT_TYPE, "application/json");
    if let Some(key) = form.get("key").filter(|key| !key.is_empty()) {
        request = request.header("idempotency-key", key);
    }
    let request = request.extension(browser.user.clone()).body(body);
    request.map_err(|_| ApiError::bad_request("the form is not valid"))
}

/// Sends a request to the API's handler. Returns its answer.
async fn call(inner: Router, request: Request<Body>) -> Result<Value, ApiError> {
    let Ok(response) = inner.oneshot(request).await;
    let status = response.status();
    let body = to_bytes(response.into_body(), MOST).await;
    let body = body.map_err(|error| ApiError::internal(&error))?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status.is_success() {
        return Ok(answer);
    }
    let text = |name: &str| answer["error"][name].as_str().map(str::to_owned);
    let message = text("message").unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
    Err(ApiError::answered(status, message, text("hint")))
}

/// The page after a change: that of the run which it has made or is about, or else that of the layer.
fn after(base: &str, path: &str, answer: &Value) -> Response {
    let run = answer["run"]["id"].as_str().or_else(|| answer["id"].as_str());
    let to = match (run, parent(path)) {
        (Some(run), _) => address::of_run(base, run),
        (None, Some(("layers", name))) => format!("{base}/layers/{name}"),
        (None, Some(("followers", _))) => format!("{base}/followers"),
        (None, Some(("repositories", _))) => format!("{base}/repositories"),
        (None, _) => format!("{base}/"),
    };
    Redirect::to(&to).into_response()
}

/// The page that the form was on, with the reason why nothing was done.
async fn explain<S: Store>(
    state: Shared<S>,
    browser: Browser,
    path: &str,
    error: &ApiError,
) -> Response {
    let (status, ..) = error.parts();
    let notice = Some(Notice::of(error));
    let page = match parent(path) {
        Some(("layers", name)) => layer::page(&state, &browser, name, notice, status).await,
        Some(("runs", id)) => run::page(&state, &browser, id, None, notice, status).await,
        _ => overview::page(&state, &browser, &[], notice, status).await,
    };
    page.unwrap_or_else(|error| super::message::error_page(&state, Some(&browser), &error))
}

/// `layers` and `NAME` of `/layers/NAME/ACTION`.
fn parent(path: &str) -> Option<(&str, &str)> {
    let (kind, rest) = path.strip_prefix('/')?.split_once('/')?;
    rest.split_once('/').map(|(name, _)| (kind, name))
}
