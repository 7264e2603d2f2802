//! A network mirror of providers on loopback, over TLS as Terraform demands it. It counts what it
//! hands out, and can hold archives back.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
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

/// The address of the provider that the mirror has.
pub(crate) const ADDRESS: &str = "registry.terraform.io/example/test";

/// What is in a package of it.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

/// A mirror; it ends when this is dropped.
pub(crate) struct ProviderMirror {
    packages: BTreeMap<String, Files>,
    shared: Arc<Shared>,
    directory: tempfile::TempDir,
    authority: Authority,
    server: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

struct Shared {
    answers: BTreeMap<String, Vec<u8>>,
    archives: Mutex<usize>,
    requested: watch::Sender<usize>,
    held: watch::Sender<bool>,
}

/// The files of a package whose provider is this script.
pub(crate) fn package(version: &str, script: &str) -> Files {
    let provider = format!("terraform-provider-test_v{version}");
    vec![
        ("LICENSE".to_owned(), b"licence".to_vec()),
        (provider, format!("#!/bin/sh\n{script}\n").into_bytes()),
    ]
}

impl ProviderMirror {
    /// A mirror of the provider in these versions. A provider that nobody starts can be any script.
    pub(crate) fn start(packages: &[(&str, Files)]) -> Self {
        let (mut answers, mut versions) = (BTreeMap::new(), serde_json::Map::new());
        for (version, files) in packages {
            let name = format!("terraform-provider-test_{version}_{}.zip", platform());
            versions.insert((*version).to_owned(), serde_json::json!({}));
            let archives = serde_json::json!({"archives": {platform(): {"url": name}}});
            answers.insert(format!("/{ADDRESS}/{version}.json"), archives.to_string().into_bytes());
            let files: Vec<_> =
                files.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
            answers.insert(format!("/{ADDRESS}/{name}"), archive(&files));
        }
        let index = serde_json::json!({"versions": versions}).to_string().into_bytes();
        answers.insert(format!("/{ADDRESS}/index.json"), index);
        let shared = Arc::new(Shared {
            answers,
            archives: Mutex::default(),
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
        // A thread and a runtime of its own, so that a test may block without stopping the mirror.
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

    /// Has Terraform install from here in `world`.
    pub(crate) fn serve(&self, world: &mut World) {
        world.set("TF_CLI_CONFIG_FILE", self.configuration());
        world.set("SSL_CERT_FILE", self.certificates());
    }

    /// A CLI configuration file that names the mirror.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.directory.path().join("terraformrc")
    }

    /// The certificate that signed the mirror's.
    pub(crate) fn certificates(&self) -> PathBuf {
        self.authority.bundle()
    }

    /// How many archives were asked for.
    pub(crate) fn archives(&self) -> usize {
        *self.shared.archives.lock().unwrap()
    }

    /// Holds archives back from here on, or hands them out again.
    pub(crate) fn hold(&self, held: bool) {
        self.shared.held.send_replace(held);
    }

    /// Waits until this many archives have been asked for.
    pub(crate) async fn asked_for(&self, archives: usize) {
        self.shared.requested.subscribe().wait_for(|asked| *asked >= archives).await.unwrap();
    }

    /// What is in the package of a version.
    pub(crate) fn files(&self, version: &str) -> &Files {
        &self.packages[version]
    }

    /// A module that asks for a version of the provider and uses nothing of it.
    pub(crate) fn module(version: &str) -> String {
        format!(
            "terraform {{\n  required_providers {{\n    test = {{\n      source  = \"example/test\"\n      \
             version = \"{version}\"\n    }}\n  }}\n}}\n"
        )
    }

    /// The lock file of such a module, for this platform.
    pub(crate) fn lock_file(&self, version: &str) -> String {
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

/// The checksum of an unpacked package as Go's `dirhash` has it.
fn sum(files: &Files) -> String {
    let mut names: Vec<_> = files.iter().collect();
    names.sort();
    let lines: String = names
        .into_iter()
        .map(|(name, content)| format!("{}  {name}\n", hex::encode(Sha256::digest(content))))
        .collect();
    let sum = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(lines));
    format!("h1:{sum}")
}

async fn answer(State(shared): State<Arc<Shared>>, method: Method, uri: Uri) -> Response {
    let Some(content) = shared.answers.get(uri.path()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // Terraform asks for the header alone, too.
    if uri.path().ends_with(".zip") && method == Method::GET {
        let asked = {
            let mut archives = shared.archives.lock().unwrap();
            *archives += 1;
            *archives
        };
        shared.requested.send_replace(asked);
        shared.held.subscribe().wait_for(|held| !held).await.unwrap();
        return content.clone().into_response();
    }
    ([("content-type", "application/json")], content.clone()).into_response()
}
