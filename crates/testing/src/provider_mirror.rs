//! A network mirror of providers on loopback over TLS, which Terraform requires. It counts
//! downloads, and can delay archives.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use sha2::{Digest, Sha256};
use tokio::sync::{oneshot, watch};

use super::authority::Authority;
use super::git_server::TlsListener;
use super::release_site::{archive, platform};
use super::world::World;

/// The address of the mirror's provider.
pub const ADDRESS: &str = "registry.terraform.io/example/test";

/// The files of its package.
pub type Files = Vec<(String, Vec<u8>)>;

/// A mirror; it ends when this is dropped.
pub struct ProviderMirror {
    packages: BTreeMap<String, Files>,
    shared: Arc<Shared>,
    directory: tempfile::TempDir,
    authority: Authority,
    server: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

struct Shared {
    lists: BTreeMap<String, String>,
    archives: BTreeMap<String, Vec<u8>>,
    requested: watch::Sender<usize>,
    held: watch::Sender<bool>,
}

/// The files of a package with this script as the provider.
pub fn package(version: &str, script: &str) -> Files {
    let provider = format!("terraform-provider-test_v{version}");
    vec![
        ("LICENSE".to_owned(), b"licence".to_vec()),
        (provider, format!("#!/bin/sh\n{script}\n").into_bytes()),
    ]
}

impl ProviderMirror {
    /// A mirror of the provider in these versions. If the provider is never started, any script
    /// will do.
    pub fn start(packages: &[(&str, Files)]) -> Self {
        let (mut lists, mut archives) = (BTreeMap::new(), BTreeMap::new());
        let mut versions = serde_json::Map::new();
        for (version, files) in packages {
            let name = format!("terraform-provider-test_{version}_{}.zip", platform());
            versions.insert((*version).to_owned(), serde_json::json!({}));
            let list = serde_json::json!({"archives": {platform(): {"url": name}}});
            lists.insert(format!("/{ADDRESS}/{version}.json"), list.to_string());
            let files: Vec<_> =
                files.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
            archives.insert(format!("/{ADDRESS}/{name}"), archive(&files));
        }
        let list = serde_json::json!({"versions": versions});
        lists.insert(format!("/{ADDRESS}/index.json"), list.to_string());
        let shared = Arc::new(Shared {
            lists,
            archives,
            requested: watch::Sender::default(),
            held: watch::Sender::default(),
        });
        let authority = Authority::create();
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            "provider_installation {{\n  network_mirror {{\n    url = \"{url}\"\n  }}\n}}\n"
        );
        std::fs::write(directory.path().join("terraformrc"), text).unwrap();
        let (stop, stopped) = oneshot::channel();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let acceptor = authority.acceptor();
        // Its own thread and runtime, so that a test can block without stopping the mirror.
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                listener.set_nonblocking(true).unwrap();
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    result = axum::serve(TlsListener { listener, acceptor }, router) => result.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        let packages =
            packages.iter().map(|(version, files)| ((*version).to_owned(), files.clone()));
        Self {
            packages: packages.collect(),
            shared,
            directory,
            authority,
            server: Some((stop, thread)),
        }
    }

    /// Makes Terraform install from this mirror in `world`.
    pub fn serve(&self, world: &mut World) {
        world.set("TF_CLI_CONFIG_FILE", self.configuration());
        world.set("SSL_CERT_FILE", self.certificates());
    }

    /// A CLI configuration file that names the mirror.
    pub fn configuration(&self) -> PathBuf {
        self.directory.path().join("terraformrc")
    }

    /// The certificate of the mirror's authority.
    pub fn certificates(&self) -> PathBuf {
        self.authority.bundle()
    }

    /// The number of downloaded archives.
    pub fn archives(&self) -> usize {
        *self.shared.requested.borrow()
    }

    /// Delays archives from here on, or serves them again.
    pub fn hold(&self, held: bool) {
        self.shared.held.send_replace(held);
    }

    /// Waits until this many archives have been requested.
    pub async fn wait_for_request(&self, archives: usize) {
        self.shared.requested.subscribe().wait_for(|asked| *asked >= archives).await.unwrap();
    }

    /// The files of the package of a version.
    pub fn files(&self, version: &str) -> &Files {
        &self.packages[version]
    }

    /// A module that requires a version of the provider and uses nothing of it.
    pub fn module(version: &str) -> String {
        format!(
            "terraform {{\n  required_providers {{\n    test = {{\n      source  = \"example/test\"\n      \
             version = \"{version}\"\n    }}\n  }}\n}}\n"
        )
    }

    /// The lock file of such a module, for this platform.
    pub fn lock_file(&self, version: &str) -> String {
        format!(
            "provider \"{ADDRESS}\" {{\n  version     = \"{version}\"\n  constraints = \"{version}\"\n  \
             hashes = [\n    \"{}\",\n  ]\n}}\n",
            sum(&self.packages[version])
        )
    }
}

impl Drop for ProviderMirror {
    fn drop(&mut self) {
        self.hold(false);
        if let Some((stop, thread)) = self.server.take() {
            let _ = stop.send(());
            thread.join().unwrap();
        }
    }
}

/// The checksum of an unpacked package, as Go's `dirhash` computes it.
fn sum(files: &Files) -> String {
    let mut names: Vec<_> = files.iter().collect();
    names.sort();
    let lines = names.into_iter().fold(String::new(), |lines, (name, content)| {
        lines + &format!("{}  {name}\n", hex::encode(Sha256::digest(content)))
    });
    let sum = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(lines));
    format!("h1:{sum}")
}

async fn answer(State(shared): State<Arc<Shared>>, method: Method, uri: Uri) -> Response {
    if let Some(list) = shared.lists.get(uri.path()) {
        return ([("content-type", "application/json")], list.clone()).into_response();
    }
    let Some(archive) = shared.archives.get(uri.path()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // Terraform sends HEAD requests as well.
    if method == Method::GET {
        shared.requested.send_modify(|requested| *requested += 1);
        shared.held.subscribe().wait_for(|held| !held).await.unwrap();
    }
    archive.clone().into_response()
}
