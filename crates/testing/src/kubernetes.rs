//! The parts of a Kubernetes API server that Terraform's `kubernetes` backend uses: secrets and
//! leases of one namespace, with their versions. No package registry has a real one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::authority::Authority;
use super::git_server::TlsListener;

/// The only valid token.
pub const TOKEN: &str = "eyJhbGciOi.cluster-token.x1";

#[derive(Default)]
struct StoredObjects {
    /// By path: `/api/v1/namespaces/NAMESPACE/secrets/NAME` for example.
    objects: BTreeMap<String, Value>,
    changes: u64,
}

/// A running server; dropping it ends it.
pub struct Cluster {
    endpoint: String,
    authority: Authority,
    server: JoinHandle<()>,
    kept: Arc<Mutex<StoredObjects>>,
}

impl Cluster {
    /// Starts a cluster without objects.
    pub async fn start() -> Self {
        let kept: Arc<Mutex<StoredObjects>> = Arc::default();
        let shared = kept.clone();
        let answer = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let shared = shared.clone();
            async move {
                let login = format!("Bearer {TOKEN}");
                if headers.get(header::AUTHORIZATION).is_none_or(|given| *given != *login) {
                    return failure(StatusCode::UNAUTHORIZED, "Unauthorized");
                }
                shared.lock().unwrap().answer(&method, &uri, &body)
            }
        };
        let router = Router::new().fallback(answer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("https://{}", listener.local_addr().unwrap());
        // Over plain HTTP, the Kubernetes client omits its credentials.
        let authority = Authority::create();
        let listener = TlsListener { listener, acceptor: authority.acceptor() };
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { endpoint, authority, server, kept }
    }

    /// A kubeconfig file for the server.
    pub fn kubeconfig(&self) -> String {
        let authority = base64::engine::general_purpose::STANDARD.encode(self.certificate());
        let cluster = json!({"server": self.endpoint, "certificate-authority-data": authority});
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
        })
        .to_string()
    }

    /// Its URL.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The certificate of its authority.
    pub fn certificate(&self) -> String {
        std::fs::read_to_string(self.authority.bundle()).unwrap()
    }

    /// The secret or lease at this path.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.kept.lock().unwrap().objects.get(path).cloned()
    }

    /// The paths of all stored objects.
    pub fn paths(&self) -> Vec<String> {
        self.kept.lock().unwrap().objects.keys().cloned().collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl StoredObjects {
    fn answer(&mut self, method: &Method, uri: &Uri, body: &Bytes) -> Response {
        let path = uri.path();
        let is_collection = path.ends_with("/secrets") || path.ends_with("/leases");
        match (method.as_str(), is_collection) {
            ("GET", true) => {
                let selector = selector(uri.query().unwrap_or_default());
                let is_meant = |object: &Value| {
                    let labels = &object["metadata"]["labels"];
                    selector.iter().all(|(name, value)| labels[name] == **value)
                };
                let objects = self.objects.iter().filter(|(other, _)| other.starts_with(path));
                let items: Vec<_> =
                    objects.map(|(_, object)| object).filter(|object| is_meant(object)).collect();
                found(&json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
            }
            ("POST", true) => {
                let object: Value = serde_json::from_slice(body).unwrap();
                let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
                if self.objects.contains_key(&path) {
                    return failure(StatusCode::CONFLICT, "AlreadyExists");
                }
                self.put(&path, object)
            }
            ("GET" | "PUT" | "DELETE", false) => {
                let Some(kept) = self.objects.get(path) else {
                    return failure(StatusCode::NOT_FOUND, "NotFound");
                };
                match method.as_str() {
                    "GET" => found(kept),
                    "PUT" => {
                        let object: Value = serde_json::from_slice(body).unwrap();
                        let version =
                            |object: &Value| object["metadata"]["resourceVersion"].clone();
                        if version(kept) != version(&object) {
                            return failure(StatusCode::CONFLICT, "Conflict");
                        }
                        self.put(path, object)
                    }
                    _ => found(&self.objects.remove(path).unwrap()),
                }
            }
            _ => failure(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
        }
    }

    fn put(&mut self, path: &str, mut object: Value) -> Response {
        self.changes += 1;
        let is_secret = path.starts_with("/api/v1/");
        let (version, kind) =
            if is_secret { ("v1", "Secret") } else { ("coordination.k8s.io/v1", "Lease") };
        (object["apiVersion"], object["kind"]) = (json!(version), json!(kind));
        object["metadata"]["resourceVersion"] = json!(self.changes.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        found(&object)
    }
}

/// The labels of `labelSelector=NAME=VALUE,...`.
fn selector(query: &str) -> Vec<(String, String)> {
    let mut parameters = url::form_urlencoded::parse(query.as_bytes());
    let labels = parameters.find(|(name, _)| name == "labelSelector");
    let labels = labels.map(|(_, labels)| labels.into_owned()).unwrap_or_default();
    let pairs = labels.split(',').filter_map(|label| label.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn found(object: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], object.to_string()).into_response()
}

fn failure(status: StatusCode, reason: &str) -> Response {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "message": reason,
        "reason": reason,
        "code": status.as_u16(),
    });
    (status, found(&body)).into_response()
}
