//! A stand-in for Google Cloud Storage: the requests of its XML interface for one bucket, as its documentation describes
//! them. The emulators that can be installed here have only the JSON interface.
//!
//! It verifies no login.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;

use super::threads::serve;

/// The only bucket.
pub const BUCKET: &str = "copies";

/// The most keys of one page of a list: small, so that lists have several pages.
const PAGE: usize = 3;

type Objects = Arc<Mutex<BTreeMap<String, Bytes>>>;

/// Listens until the test ends.
pub struct GoogleStorage {
    port: u16,
}

impl GoogleStorage {
    /// Starts it with [`BUCKET`], which is empty.
    pub fn start() -> Self {
        Self { port: serve(Router::new().fallback(answer).with_state(Objects::default())) }
    }

    /// The variables of a client, with a file for them in `directory`.
    pub fn variables(&self, directory: &Path) -> Vec<String> {
        let account = serde_json::json!({
            "gcs_base_url": format!("http://127.0.0.1:{}", self.port),
            "disable_oauth": true,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        });
        let file = directory.join("service-account.json");
        std::fs::write(&file, account.to_string()).unwrap();
        vec![format!("GOOGLE_SERVICE_ACCOUNT={}", file.display())]
    }
}

async fn answer(
    State(objects): State<Objects>,
    method: Method,
    uri: Uri,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut objects = objects.lock().unwrap();
    let path = percent_decode_str(uri.path()).decode_utf8().unwrap().into_owned();
    let key = path.strip_prefix(&format!("/{BUCKET}")).map(|key| key.trim_start_matches('/'));
    let Some(key) = key else { return StatusCode::NOT_FOUND.into_response() };
    if key.is_empty() {
        return list(&objects, &query);
    }
    let must_be_new = headers.get("x-goog-if-generation-match").is_some_and(|it| it == "0");
    match method {
        Method::PUT if must_be_new && objects.contains_key(key) => {
            StatusCode::PRECONDITION_FAILED.into_response()
        }
        Method::PUT => {
            objects.insert(key.to_owned(), body);
            described(StatusCode::OK, Bytes::new())
        }
        Method::GET | Method::HEAD => match objects.get(key) {
            Some(object) => described(StatusCode::OK, object.clone()),
            None => StatusCode::NOT_FOUND.into_response(),
        },
        Method::DELETE => match objects.remove(key) {
            Some(_) => StatusCode::NO_CONTENT.into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        },
        _ => StatusCode::NOT_IMPLEMENTED.into_response(),
    }
}

fn described(status: StatusCode, body: Bytes) -> Response {
    let modified = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH);
    let headers = [
        ("etag", "\"1\"".to_owned()),
        ("x-goog-generation", "1".into()),
        ("last-modified", modified),
    ];
    (status, headers, body).into_response()
}

fn list(objects: &BTreeMap<String, Bytes>, query: &BTreeMap<String, String>) -> Response {
    let text = |name: &str| query.get(name).cloned().unwrap_or_default();
    let (prefix, after) = (text("prefix"), text("continuation-token"));
    let mut found = objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
    let page: Vec<_> = found.by_ref().take(PAGE).collect();
    let mut items = String::new();
    for (key, object) in &page {
        let size = object.len();
        write!(
            items,
            "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>1</ETag>\
             <LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
        )
        .unwrap();
    }
    let last = page.last().map(|(key, _)| key).filter(|_| found.next().is_some());
    let next = last.map(|key| format!("<NextContinuationToken>{key}</NextContinuationToken>"));
    let next = next.unwrap_or_default();
    format!("<ListBucketResult>{items}{next}</ListBucketResult>").into_response()
}
