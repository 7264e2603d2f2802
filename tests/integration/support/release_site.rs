//! A release site on loopback: archives, checksum files, signatures and lists, laid out as the
//! vendors do it, signed with a key of its own. It counts its requests and misbehaves on demand.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use sequoia_openpgp as openpgp;
use sha2::{Digest, Sha256};
use tokio::sync::{oneshot, watch};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use openpgp::serialize::{Marshal, MarshalInto};
use openpgp::{Cert, cert::CertBuilder, packet::signature::SignatureBuilder, types::SignatureType};

/// What the site does instead of handing out a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// 404.
    Missing,
    /// 500, this many times; the file after that.
    Failing(usize),
    /// The connection breaks in the middle of the file, this many times; the file after that.
    Breaking(usize),
    /// The first half of the file, and then nothing, with the connection open.
    Hanging,
    /// Nothing, until the site behaves again; then the file.
    Held,
    /// The file with one byte changed.
    Changed,
    /// The first half of the file, as if it were all of it.
    Halved,
    /// The signature by a key that nobody trusts, in place of the right one.
    ByAnother,
    /// Another file of the site, the one whose path ends with this.
    InPlace(&'static str),
}

/// A release site; it ends when this is dropped.
pub(crate) struct ReleaseSite {
    address: SocketAddr,
    shared: Arc<Shared>,
    directory: tempfile::TempDir,
    server: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

struct Shared {
    files: BTreeMap<String, Bytes>,
    /// What is handed out in the place of a file.
    replaced: Mutex<BTreeMap<String, Bytes>>,
    foreign: BTreeMap<String, Bytes>,
    faults: Mutex<BTreeMap<String, Fault>>,
    requests: watch::Sender<Vec<String>>,
    /// Changes when the site behaves again.
    behaving: watch::Sender<()>,
    authorized: AtomicBool,
}

impl ReleaseSite {
    /// Serves each of `releases`, a version such as `1.9.8`, `opentofu-1.8.3` or
    /// `terragrunt-0.99.1` with the content of its executable.
    pub(crate) fn start(releases: &[(&str, &[u8])]) -> Self {
        let archives: Vec<_> = releases
            .iter()
            .map(|(version, executable)| {
                if version.starts_with("terragrunt-") {
                    return (*version, executable.to_vec());
                }
                let name = if version.starts_with("opentofu-") { "tofu" } else { "terraform" };
                (*version, archive(&[("LICENSE.txt", b"licence"), (name, executable)]))
            })
            .collect();
        Self::start_with_archives(archives)
    }

    /// Serves a version of Terraform whose signed checksum file has this text.
    pub(crate) fn start_with_checksums(version: &str, text: &str) -> Self {
        Self::start_with(vec![(version, Vec::new())], Some(text))
    }

    /// Serves archives with whatever content.
    pub(crate) fn start_with_archives(archives: Vec<(&str, Vec<u8>)>) -> Self {
        Self::start_with(archives, None)
    }

    fn start_with(archives: Vec<(&str, Vec<u8>)>, checksums: Option<&str>) -> Self {
        let (key, stranger) = (certificate(), certificate());
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("key.asc"), key.armored().to_vec().unwrap()).unwrap();
        let (mut files, mut foreign) = (BTreeMap::new(), BTreeMap::new());
        let (mut terraform, mut opentofu, mut terragrunt) =
            (serde_json::Map::new(), Vec::new(), Vec::new());
        for (version, archive) in archives {
            let platform = platform();
            let (directory, archive_name, sums_name, suffixes) = if let Some(version) =
                version.strip_prefix("opentofu-")
            {
                opentofu.push(serde_json::json!({"id": version, "files": []}));
                let directory = format!("/opentofu/opentofu/releases/download/v{version}");
                let name = format!("tofu_{version}_{platform}.zip");
                (directory, name, format!("tofu_{version}_SHA256SUMS"), [".gpgsig"].as_slice())
            } else if let Some(version) = version.strip_prefix("terragrunt-") {
                terragrunt.push(serde_json::json!({"tag_name": format!("v{version}")}));
                let directory = format!("/gruntwork-io/terragrunt/releases/download/v{version}");
                let name = format!("terragrunt_{platform}");
                (directory, name, "SHA256SUMS".to_owned(), [".gpgsig"].as_slice())
            } else {
                terraform.insert(version.to_owned(), serde_json::json!({"version": version}));
                let name = format!("terraform_{version}_{platform}.zip");
                let sums_name = format!("terraform_{version}_SHA256SUMS");
                let suffixes = [".72D7468F.sig", ".sig"].as_slice();
                (format!("/terraform/{version}"), name, sums_name, suffixes)
            };
            let sums = checksums.map_or_else(
                || format!("{}  {archive_name}\n", hex::encode(Sha256::digest(&archive))),
                str::to_owned,
            );
            for suffix in suffixes {
                let path = format!("{directory}/{sums_name}{suffix}");
                files.insert(path.clone(), sign(&key, sums.as_bytes()));
                foreign.insert(path, sign(&stranger, sums.as_bytes()));
            }
            files.insert(format!("{directory}/{sums_name}"), sums.into());
            files.insert(format!("{directory}/{archive_name}"), archive.into());
        }
        let index = serde_json::Value::from(terragrunt).to_string();
        files.insert("/repos/gruntwork-io/terragrunt/releases".to_owned(), index.into());
        let index = serde_json::json!({"name": "terraform", "versions": terraform});
        files.insert("/terraform/index.json".to_owned(), index.to_string().into());
        let index = serde_json::json!({"versions": opentofu});
        files.insert("/tofu/api.json".to_owned(), index.to_string().into());

        let shared = Arc::new(Shared {
            files,
            replaced: Mutex::default(),
            foreign,
            faults: Mutex::default(),
            requests: watch::Sender::default(),
            behaving: watch::Sender::default(),
            authorized: AtomicBool::new(false),
        });
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        // A thread and a runtime of its own, so that a test may block without stopping the site.
        let thread = std::thread::spawn(move || serve(listener, router, stopped));
        Self { address, shared, directory, server: Some((stop, thread)) }
    }

    /// What `--mirror` is to name.
    pub(crate) fn url(&self) -> url::Url {
        format!("http://{}/", self.address).parse().unwrap()
    }

    /// What `--signing-key` is to name: the armored public key.
    pub(crate) fn key_file(&self) -> PathBuf {
        self.directory.path().join("key.asc")
    }

    /// Misbehaves for the file whose path ends with `name`.
    pub(crate) fn misbehave(&self, name: &str, fault: Fault) {
        let path = self.shared.files.keys().find(|path| path.ends_with(name)).unwrap();
        self.shared.faults.lock().unwrap().insert(path.clone(), fault);
    }

    /// Hands `content` out in the place of the file whose path ends with `name`.
    pub(crate) fn replace(&self, name: &str, content: impl Into<Bytes>) {
        let path = self.shared.files.keys().find(|path| path.ends_with(name)).unwrap();
        self.shared.replaced.lock().unwrap().insert(path.clone(), content.into());
    }

    /// The file whose path ends with `name`.
    pub(crate) fn file(&self, name: &str) -> Bytes {
        self.shared.files.iter().find(|(path, _)| path.ends_with(name)).unwrap().1.clone()
    }

    /// Behaves again.
    pub(crate) fn behave(&self) {
        self.shared.faults.lock().unwrap().clear();
        self.shared.behaving.send_replace(());
    }

    /// The paths that were asked for, in order.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.requests.borrow().clone()
    }

    /// Whether a request came with credentials.
    pub(crate) fn authorized(&self) -> bool {
        self.shared.authorized.load(Ordering::Relaxed)
    }

    /// Waits until a file whose path ends with `name` has been asked for.
    pub(crate) async fn asked_for(&self, name: &str) {
        let mut requests = self.shared.requests.subscribe();
        requests.wait_for(|paths| paths.iter().any(|path| path.ends_with(name))).await.unwrap();
    }
}

impl Drop for ReleaseSite {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.server.take() {
            let _ = stop.send(());
            thread.join().unwrap();
        }
    }
}

/// The vendors' name of the platform that the tests run on.
pub(crate) fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}_{architecture}")
}

/// A zip archive of `files`.
pub(crate) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    // Level 1, because a real Terraform has 90 MB.
    let options = SimpleFileOptions::default().compression_level(Some(1)).unix_permissions(0o755);
    for (name, content) in files {
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A stand-in for a tool: answers `version` with `version`.
pub(crate) fn stand_in(version: &str) -> String {
    format!("#!/bin/sh\necho '{{\"terraform_version\": \"{version}\"}}'\n")
}

/// A stand-in for Terragrunt that can nothing but say its version.
pub(crate) fn terragrunt_stand_in(version: &str) -> String {
    format!("#!/bin/sh\necho 'terragrunt version v{version}'\n")
}

/// Writes an executable file.
pub(crate) fn executable(path: &Path, content: impl AsRef<[u8]>) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn serve(listener: std::net::TcpListener, router: Router, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        tokio::select! {
            result = axum::serve(listener, router) => result.unwrap(),
            _ = stopped => {}
        }
    });
}

async fn answer(State(shared): State<Arc<Shared>>, headers: HeaderMap, uri: Uri) -> Response {
    shared.authorized.fetch_or(headers.contains_key(header::AUTHORIZATION), Ordering::Relaxed);
    let path = uri.path();
    shared.requests.send_modify(|requests| requests.push(path.to_owned()));
    let replaced = shared.replaced.lock().unwrap().get(path).cloned();
    let Some(file) = replaced.or_else(|| shared.files.get(path).cloned()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let half = file.slice(..file.len() / 2);
    let mut behaving = shared.behaving.subscribe();
    match shared.fault(path) {
        None => file.into_response(),
        Some(Fault::Missing) => StatusCode::NOT_FOUND.into_response(),
        Some(Fault::Failing(_)) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Some(Fault::Breaking(_)) => {
            let broken = stream::once(async { Err(std::io::Error::other("broken")) });
            partly(file.len(), stream::once(async { Ok(half) }).chain(broken))
        }
        Some(Fault::Hanging) => {
            partly(file.len(), stream::once(async { Ok(half) }).chain(stream::pending()))
        }
        Some(Fault::Held) => {
            let _ = behaving.changed().await;
            file.clone().into_response()
        }
        Some(Fault::Changed) => {
            let mut changed = file.to_vec();
            changed[file.len() / 2] ^= 1;
            changed.into_response()
        }
        Some(Fault::Halved) => half.into_response(),
        Some(Fault::ByAnother) => shared.foreign[path].clone().into_response(),
        Some(Fault::InPlace(name)) => {
            let (_, other) = shared.files.iter().find(|(path, _)| path.ends_with(name)).unwrap();
            other.clone().into_response()
        }
    }
}

fn partly(
    length: usize,
    content: impl stream::Stream<Item = std::io::Result<Bytes>> + Send + 'static,
) -> Response {
    ([(header::CONTENT_LENGTH, length)], Body::from_stream(content)).into_response()
}

impl Shared {
    /// The fault for this request; the ones that count run out.
    fn fault(&self, path: &str) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let fault = *faults.get(path)?;
        let next = match fault {
            Fault::Failing(0) | Fault::Breaking(0) => return None,
            Fault::Failing(times) => Fault::Failing(times - 1),
            Fault::Breaking(times) => Fault::Breaking(times - 1),
            other => other,
        };
        faults.insert(path.to_owned(), next);
        Some(fault)
    }
}

fn certificate() -> Cert {
    CertBuilder::new()
        .add_userid("release site of a test")
        .add_signing_subkey()
        .generate()
        .unwrap()
        .0
}

fn sign(certificate: &Cert, data: &[u8]) -> Bytes {
    let policy = openpgp::policy::StandardPolicy::new();
    let keys = certificate.keys().with_policy(&policy, None).secret().for_signing();
    let key = keys.into_iter().next().unwrap().key().clone();
    let mut pair = key.into_keypair().unwrap();
    let signature =
        SignatureBuilder::new(SignatureType::Binary).sign_message(&mut pair, data).unwrap();
    let mut bytes = Vec::new();
    openpgp::Packet::from(signature).serialize(&mut bytes).unwrap();
    bytes.into()
}
