//! A release site on loopback: archives, checksum files, signatures and lists in the vendors'
//! layout, signed with its own key. It counts requests and injects faults.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use ::openssl::ssl::SslAcceptor;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::{StreamExt, stream};
use sequoia_openpgp as openpgp;
use sha2::{Digest, Sha256};
use tokio::sync::{oneshot, watch};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::authority::Authority;
use openpgp::serialize::{Marshal, MarshalInto};
use openpgp::{Cert, cert::CertBuilder, packet::signature::SignatureBuilder, types::SignatureType};

/// The fault in place of a file.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// 404.
    Missing,
    /// 500, this many times; afterwards the file.
    Failing(usize),
    /// The connection breaks in the middle of the file, this many times; afterwards the file.
    Breaking(usize),
    /// The first half of the file; then the connection stays open and silent.
    Hanging,
    /// The first half of the requested range, declared as complete if a range was requested.
    Piecemeal,
    /// A compressed response with `Content-Encoding`.
    Packed,
    /// Nothing, until the fault is removed; then the file.
    Held,
    /// The file with one byte changed.
    Changed,
    /// The first half of the file, as if it were all of it.
    Halved,
    /// A signature by an untrusted key.
    ByAnother,
    /// Another file of the site, whose path ends with this.
    InPlace(&'static str),
    /// A redirect to the same path.
    Looping,
}

/// A request with the fields that tests check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordedRequest {
    /// The path.
    pub path: String,
    /// The header `range`.
    pub range: Option<String>,
    /// The header `authorization`.
    pub authorization: Option<String>,
}

/// A release site; it ends when this is dropped.
pub struct ReleaseSite {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    directory: tempfile::TempDir,
    server: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

struct Shared {
    files: BTreeMap<String, Bytes>,
    /// Files that replace others.
    replaced: Mutex<BTreeMap<String, Bytes>>,
    foreign: BTreeMap<String, Bytes>,
    faults: Mutex<BTreeMap<String, Fault>>,
    requests: watch::Sender<Vec<String>>,
    /// Changes when faults are removed.
    behaving: watch::Sender<()>,
    authorized: AtomicBool,
    seen: Mutex<Vec<RecordedRequest>>,
    /// The required value of `Authorization`.
    demanded: Mutex<Option<String>>,
    /// The target of redirects for all requests.
    elsewhere: Mutex<Option<String>>,
    /// The targets of redirects for single paths.
    leads: Mutex<BTreeMap<String, String>>,
    /// Whether range requests are supported.
    whole_files_only: AtomicBool,
}

impl ReleaseSite {
    /// Serves each of `releases`, a version such as `1.9.8`, `opentofu-1.8.3` or
    /// `terragrunt-0.99.1` with the content of its executable.
    pub fn start(releases: &[(&str, &[u8])]) -> Self {
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

    /// The same with TLS, under a certificate of `authority`.
    pub fn start_with_tls(authority: &Authority, version: &str) -> Self {
        let archive = archive(&[("terraform", b"binary")]);
        Self::start_as(vec![(version, archive)], None, Some(authority.acceptor()))
    }

    /// Serves these files, each at its path, over TLS.
    pub fn start_with_files(authority: &Authority, files: &[(&str, &[u8])]) -> Self {
        let files = files.iter();
        let files =
            files.map(|(path, file)| ((*path).to_owned(), Bytes::copy_from_slice(file))).collect();
        let directory = tempfile::tempdir().unwrap();
        Self::serve(directory, files, BTreeMap::new(), Some(authority.acceptor()))
    }

    /// Serves a version of Terraform with this text as its signed checksum file.
    pub fn start_with_checksums(version: &str, text: &str) -> Self {
        Self::start_with(vec![(version, Vec::new())], Some(text))
    }

    /// Serves archives with any content.
    pub fn start_with_archives(archives: Vec<(&str, Vec<u8>)>) -> Self {
        Self::start_with(archives, None)
    }

    fn start_with(archives: Vec<(&str, Vec<u8>)>, checksums: Option<&str>) -> Self {
        Self::start_as(archives, checksums, None)
    }

    fn start_as(
        archives: Vec<(&str, Vec<u8>)>,
        checksums: Option<&str>,
        acceptor: Option<SslAcceptor>,
    ) -> Self {
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
        Self::serve(directory, files, foreign, acceptor)
    }

    fn serve(
        directory: tempfile::TempDir,
        files: BTreeMap<String, Bytes>,
        foreign: BTreeMap<String, Bytes>,
        acceptor: Option<SslAcceptor>,
    ) -> Self {
        let shared = Arc::new(Shared {
            files,
            replaced: Mutex::default(),
            foreign,
            faults: Mutex::default(),
            requests: watch::Sender::default(),
            behaving: watch::Sender::default(),
            authorized: AtomicBool::new(false),
            seen: Mutex::default(),
            demanded: Mutex::default(),
            elsewhere: Mutex::default(),
            leads: Mutex::default(),
            whole_files_only: AtomicBool::new(false),
        });
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        // Its own thread and runtime, so that a test can block without stopping the site.
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        let thread = std::thread::spawn(move || serve(listener, router, acceptor, stopped));
        Self { address, scheme, shared, directory, server: Some((stop, thread)) }
    }

    /// The URL for `--mirror`.
    pub fn url(&self) -> url::Url {
        format!("{}://{}/", self.scheme, self.address).parse().unwrap()
    }

    /// Requires this `Authorization`.
    pub fn require_authorization(&self, authorization: &str) {
        *self.shared.demanded.lock().unwrap() = Some(authorization.to_owned());
    }

    /// Redirects all requests to the same path of another site.
    pub fn redirect_all_to(&self, site: &url::Url) {
        let site = site.as_str().trim_end_matches('/').to_owned();
        *self.shared.elsewhere.lock().unwrap() = Some(site);
    }

    /// Redirects one path to another one.
    pub fn redirect(&self, path: &str, to: &str) {
        self.shared.leads.lock().unwrap().insert(path.to_owned(), to.to_owned());
    }

    /// Ignores range requests.
    pub fn disable_ranges(&self) {
        self.shared.whole_files_only.store(true, Ordering::Relaxed);
    }

    /// The requests for files whose path ends with `name`, in order.
    pub fn seen(&self, name: &str) -> Vec<RecordedRequest> {
        let seen = self.shared.seen.lock().unwrap();
        seen.iter().filter(|seen| seen.path.ends_with(name)).cloned().collect()
    }

    /// The file whose path ends with `name`, and its path.
    pub fn file(&self, name: &str) -> (String, Vec<u8>) {
        let mut files = self.shared.files.iter();
        let (path, file) = files.find(|(path, _)| path.ends_with(name)).unwrap();
        (path.clone(), file.to_vec())
    }

    /// Writes all files to a directory in the layout of the site.
    pub fn write_to(&self, directory: &Path) {
        for (path, file) in &self.shared.files {
            let path = directory.join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
        }
    }

    /// The file for `--signing-key`: the armored public key.
    pub fn key_file(&self) -> PathBuf {
        self.directory.path().join("key.asc")
    }

    /// Injects a fault for the file whose path ends with `name`.
    pub fn inject_fault(&self, name: &str, fault: Fault) {
        let path = self.shared.files.keys().find(|path| path.ends_with(name)).unwrap();
        self.shared.faults.lock().unwrap().insert(path.clone(), fault);
    }

    /// Serves `content` in place of the file whose path ends with `name`.
    pub fn replace(&self, name: &str, content: impl Into<Bytes>) {
        let path = self.shared.files.keys().find(|path| path.ends_with(name)).unwrap();
        self.shared.replaced.lock().unwrap().insert(path.clone(), content.into());
    }

    /// Serves one more file at `path`, or replaces an existing one.
    pub fn put(&self, path: &str, content: impl Into<Bytes>) {
        self.shared.replaced.lock().unwrap().insert(path.to_owned(), content.into());
    }

    /// Removes all faults.
    pub fn remove_faults(&self) {
        self.shared.faults.lock().unwrap().clear();
        self.shared.behaving.send_replace(());
    }

    /// The requested paths, in order.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.borrow().clone()
    }

    /// Whether a request had credentials.
    pub fn authorized(&self) -> bool {
        self.shared.authorized.load(Ordering::Relaxed)
    }

    /// Waits until a file whose path ends with `name` has been requested.
    pub async fn wait_for_request(&self, name: &str) {
        self.wait_for_request_count(name, 1).await;
    }

    /// Waits until it has been requested this many times.
    pub async fn wait_for_request_count(&self, name: &str, times: usize) {
        let mut requests = self.shared.requests.subscribe();
        let count = |paths: &Vec<String>| paths.iter().filter(|path| path.ends_with(name)).count();
        requests.wait_for(|paths| count(paths) >= times).await.unwrap();
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

/// The vendors' name of the platform of the tests.
pub fn platform() -> String {
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
pub fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    // Level 1, because a real Terraform has 90 MB.
    let options = SimpleFileOptions::default().compression_level(Some(1)).unix_permissions(0o755);
    for (name, content) in files {
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A stand-in for a tool: responds to `version` with `version`.
pub fn stand_in(version: &str) -> String {
    format!("#!/bin/sh\necho '{{\"terraform_version\": \"{version}\"}}'\n")
}

/// A stand-in for Terragrunt that only prints its version.
pub fn terragrunt_stand_in(version: &str) -> String {
    format!("#!/bin/sh\necho 'terragrunt version v{version}'\n")
}

/// Writes an executable file.
pub fn executable(path: &Path, content: impl AsRef<[u8]>) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A listener with TLS. Clients that reject the certificate are dropped.
struct Secure {
    listener: tokio::net::TcpListener,
    acceptor: SslAcceptor,
}

impl axum::serve::Listener for Secure {
    type Io = tokio_openssl::SslStream<tokio::net::TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, address) = self.listener.accept().await.unwrap();
            let ssl = openssl::ssl::Ssl::new(self.acceptor.context()).unwrap();
            let mut stream = tokio_openssl::SslStream::new(ssl, stream).unwrap();
            if std::pin::Pin::new(&mut stream).accept().await.is_ok() {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

fn serve(
    listener: std::net::TcpListener,
    router: Router,
    acceptor: Option<SslAcceptor>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let serving = async {
            match acceptor {
                Some(acceptor) => axum::serve(Secure { listener, acceptor }, router).await,
                None => axum::serve(listener, router).await,
            }
        };
        tokio::select! {
            result = serving => result.unwrap(),
            _ = stopped => {}
        }
    });
}

async fn answer(State(shared): State<Arc<Shared>>, headers: HeaderMap, uri: Uri) -> Response {
    shared.authorized.fetch_or(headers.contains_key(header::AUTHORIZATION), Ordering::Relaxed);
    let path = uri.path();
    shared.requests.send_modify(|requests| requests.push(path.to_owned()));
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let (range, authorization) = (text(header::RANGE), text(header::AUTHORIZATION));
    let seen = RecordedRequest { path: path.to_owned(), range: range.clone(), authorization };
    let authorization = seen.authorization.clone();
    shared.seen.lock().unwrap().push(seen);
    if shared.demanded.lock().unwrap().as_ref().is_some_and(|it| authorization.as_ref() != Some(it))
    {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if let Some(elsewhere) = &*shared.elsewhere.lock().unwrap() {
        return Redirect::temporary(&format!("{elsewhere}{path}")).into_response();
    }
    if let Some(to) = shared.leads.lock().unwrap().get(path) {
        return Redirect::to(to).into_response();
    }
    let replaced = shared.replaced.lock().unwrap().get(path).cloned();
    let Some(file) = &replaced.or_else(|| shared.files.get(path).cloned()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag = format!("\"{}\"", hex::encode(&Sha256::digest(file)[..8]));
    let from = range.filter(|_| text(header::IF_RANGE).as_ref() == Some(&tag));
    let from = from.filter(|_| !shared.whole_files_only.load(Ordering::Relaxed));
    let from: Option<usize> =
        from.map(|range| range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap());
    let content = file.slice(from.unwrap_or(0)..);
    let mut response = faulty_response(&shared, path, file, &content).await;
    response.headers_mut().insert(header::ETAG, tag.parse().unwrap());
    if let Some(from) = from {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {from}-{}/{}", file.len() - 1, file.len());
        response.headers_mut().insert(header::CONTENT_RANGE, range.parse().unwrap());
    }
    response
}

/// `content`, which is the whole file or a range of it, or the fault in its place.
async fn faulty_response(shared: &Shared, path: &str, file: &Bytes, content: &Bytes) -> Response {
    let half = content.slice(..content.len() / 2);
    let mut behaving = shared.behaving.subscribe();
    match shared.fault(path) {
        None => content.clone().into_response(),
        Some(Fault::Looping) => Redirect::temporary(path).into_response(),
        Some(Fault::Missing) => StatusCode::NOT_FOUND.into_response(),
        Some(Fault::Failing(_)) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Some(Fault::Breaking(_)) => {
            let broken = stream::once(async {
                // Written data is flushed when no more follows immediately.
                for _ in 0..8 {
                    tokio::task::yield_now().await;
                }
                Err(std::io::Error::other("broken"))
            });
            partial_response(content.len(), stream::once(async { Ok(half) }).chain(broken))
        }
        Some(Fault::Piecemeal) if content.len() == file.len() => {
            let broken = stream::once(async {
                for _ in 0..8 {
                    tokio::task::yield_now().await;
                }
                Err(std::io::Error::other("broken"))
            });
            partial_response(content.len(), stream::once(async { Ok(half) }).chain(broken))
        }
        Some(Fault::Piecemeal) => {
            let piece = if content.len() > 1000 { half } else { content.clone() };
            piece.into_response()
        }
        Some(Fault::Packed) => {
            ([(header::CONTENT_ENCODING, "gzip")], b"\x1f\x8b\x08".to_vec()).into_response()
        }
        Some(Fault::Hanging) => partial_response(
            content.len(),
            stream::once(async { Ok(half) }).chain(stream::pending()),
        ),
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

fn partial_response(
    length: usize,
    content: impl stream::Stream<Item = std::io::Result<Bytes>> + Send + 'static,
) -> Response {
    ([(header::CONTENT_LENGTH, length)], Body::from_stream(content)).into_response()
}

impl Shared {
    /// The fault for this request. Counted faults expire.
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
