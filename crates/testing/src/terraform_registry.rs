//! A module registry and a provider mirror on loopback over TLS. It records the paths and
//! credentials of requests.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::net::TcpListener;

use super::authority::Authority;
use super::git_server::TlsListener;
use super::release_site::{archive, platform};

/// A provider that can be installed, and does nothing when it is started.
const PROVIDER: &[u8] = b"#!/bin/sh\nexit 1\n";

/// A module without providers.
const MODULE: &[u8] = b"output \"it\" {\n  value = \"from the registry\"\n}\n";

/// A path, and the `Authorization` of its request.
type Request = (String, Option<String>);

/// A running registry; it ends when it is dropped.
pub struct TerraformRegistry {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
    server: tokio::task::JoinHandle<()>,
}

impl TerraformRegistry {
    /// Serves with a certificate of `authority`.
    pub async fn start(authority: &Authority) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let noted = requests.clone();
        let router = Router::new().fallback(move |uri: Uri, headers: HeaderMap| {
            let given = headers.get(header::AUTHORIZATION);
            let given = given.map(|value| value.to_str().unwrap().to_owned());
            noted.lock().unwrap().push((uri.path().to_owned(), given));
            async move { answer(uri.path()) }
        });
        let listener = TlsListener { listener, acceptor: authority.acceptor() };
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self { port, requests, server }
    }

    /// `127.0.0.1:port`; Terraform does not accept a registry name without a dot.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A block that calls the registry's module.
    pub fn module_call(&self) -> String {
        let host = self.host();
        format!(
            "module \"it\" {{\n  source = \"{host}/acme/it/test\"\n}}\noutput \"it\" {{\n  value = module.it.it\n}}\n"
        )
    }

    /// A block that requires the mirror's provider.
    pub const REQUIRES_PROVIDER: &str = "terraform {\n  required_providers {\n    tiny = { source = \"example.com/acme/tiny\" }\n  }\n}\n";

    /// The recorded requests.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for TerraformRegistry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The provider unpacked below `directory`, in the layout of a filesystem mirror.
pub fn unpack_provider(directory: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let place = directory.join(format!("example.com/acme/tiny/1.0.0/{}", platform()));
    std::fs::create_dir_all(&place).unwrap();
    let file = place.join("terraform-provider-tiny_v1.0.0");
    std::fs::write(&file, PROVIDER).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
}

fn answer(path: &str) -> Response {
    let json = |value: serde_json::Value| {
        ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
    };
    match path {
        "/.well-known/terraform.json" => json(json!({"modules.v1": "/modules/"})),
        "/modules/acme/it/test/versions" => {
            json(json!({"modules": [{"versions": [{"version": "1.0.0"}]}]}))
        }
        "/modules/acme/it/test/1.0.0/download" => {
            (StatusCode::NO_CONTENT, [("X-Terraform-Get", "/module.zip")]).into_response()
        }
        "/module.zip" => Bytes::from(archive(&[("main.tf", MODULE)])).into_response(),
        "/mirror/example.com/acme/tiny/index.json" => json(json!({"versions": {"1.0.0": {}}})),
        "/mirror/example.com/acme/tiny/1.0.0.json" => {
            json(json!({"archives": {(platform()): {"url": "tiny.zip"}}}))
        }
        "/mirror/example.com/acme/tiny/tiny.zip" => {
            Bytes::from(archive(&[("terraform-provider-tiny_v1.0.0", PROVIDER)])).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}
