//! The parts of Google Cloud Storage that Terraform's `gcs` backend uses: the objects of one bucket
//! with their generations. No package registry has a server that stores generations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use butler_registry::memory::Server;
use serde_json::{Value, json};

/// The only valid access token.
pub const TOKEN: &str = "ya29.access-token-0x1";

/// The only bucket.
pub const BUCKET: &str = "states";

struct Object {
    generation: u64,
    content: Vec<u8>,
    /// The hash of the customer-supplied encryption key.
    key: Option<String>,
}

#[derive(Default)]
struct StorageState {
    objects: BTreeMap<String, Object>,
    changes: u64,
}

/// A running server; dropping it ends it.
pub struct CloudStorage {
    server: Server,
    kept: Arc<Mutex<StorageState>>,
}

impl CloudStorage {
    /// Starts it with [`BUCKET`], which is empty.
    pub async fn start() -> Self {
        let kept: Arc<Mutex<StorageState>> = Arc::default();
        let shared = kept.clone();
        let answer = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let shared = shared.clone();
            async move {
                let login = format!("Bearer {TOKEN}");
                if headers.get(header::AUTHORIZATION).is_none_or(|given| *given != *login) {
                    return failure(StatusCode::UNAUTHORIZED);
                }
                shared.lock().unwrap().answer(&method, &uri, &headers, &body)
            }
        };
        let server = Server::start(Router::new().fallback(answer)).await.unwrap();
        Self { server, kept }
    }

    /// The value of `storage_custom_endpoint`.
    pub fn endpoint(&self) -> String {
        format!("{}/storage/v1/b", self.server.endpoint().origin().ascii_serialization())
    }

    /// An object's content, and the hash of its encryption key.
    pub fn object(&self, name: &str) -> Option<(Value, Option<String>)> {
        let kept = self.kept.lock().unwrap();
        let object = kept.objects.get(name)?;
        Some((serde_json::from_slice(&object.content).unwrap(), object.key.clone()))
    }
}

impl StorageState {
    fn answer(&mut self, method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Response {
        let path = percent_encoding::percent_decode_str(uri.path()).decode_utf8().unwrap();
        let query: BTreeMap<_, _> =
            url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).collect();
        let list = format!("/storage/v1/b/{BUCKET}/o");
        let demanded = query.get("ifGenerationMatch").map(|text| text.parse::<u64>().unwrap());
        let generation = |name: &str| self.objects.get(name).map_or(0, |object| object.generation);
        if path == format!("/upload{list}") {
            let name = query["name"].to_string();
            if demanded.is_some_and(|demanded| demanded != generation(&name)) {
                return failure(StatusCode::PRECONDITION_FAILED);
            }
            self.changes += 1;
            let key = headers.get("x-goog-encryption-key-sha256");
            let key = key.map(|hash| hash.to_str().unwrap().to_owned());
            let content = uploaded(headers, body);
            let object = Object { generation: self.changes, content, key };
            let answer = described(&name, &object);
            self.objects.insert(name, object);
            return answer;
        }
        if path == list {
            let body = json!({"kind": "storage#objects", "items": []});
            return ([(header::CONTENT_TYPE, "application/json")], body.to_string())
                .into_response();
        }
        let metadata = path.strip_prefix(&format!("{list}/"));
        let content = path.strip_prefix(&format!("/{BUCKET}/"));
        let Some(name) = metadata.or(content) else { return failure(StatusCode::NOT_FOUND) };
        if demanded.is_some_and(|demanded| demanded != generation(name)) {
            return failure(StatusCode::PRECONDITION_FAILED);
        }
        match (method.as_str(), self.objects.get(name)) {
            (_, None) => failure(StatusCode::NOT_FOUND),
            ("DELETE", Some(_)) => {
                self.objects.remove(name);
                StatusCode::NO_CONTENT.into_response()
            }
            (_, Some(object)) if metadata.is_some() => described(name, object),
            (_, Some(object)) => {
                let generation = [("x-goog-generation", object.generation.to_string())];
                (generation, object.content.clone()).into_response()
            }
        }
    }
}

/// The second part of a `multipart/related` body. The first one describes it.
fn uploaded(headers: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let kind = headers[header::CONTENT_TYPE].to_str().unwrap();
    let (_, boundary) = kind.split_once("boundary=").unwrap();
    let text = std::str::from_utf8(body).unwrap();
    let part = text.split(&format!("--{boundary}")).nth(2).unwrap();
    let (_, content) = part.split_once("\r\n\r\n").unwrap();
    content.strip_suffix("\r\n").unwrap().as_bytes().to_vec()
}

fn described(name: &str, object: &Object) -> Response {
    let body = json!({
        "kind": "storage#object",
        "bucket": BUCKET,
        "name": name,
        "generation": object.generation.to_string(),
        "metageneration": "1",
        "size": object.content.len().to_string(),
    });
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn failure(status: StatusCode) -> Response {
    let body = json!({"error": {"code": status.as_u16(), "message": status.to_string()}});
    (status, body.to_string()).into_response()
}
