//! Git repositories, and a server for them: the real `git http-backend` behind HTTP or HTTPS.
//!
//! ```ignore
//! let repository = Repository::create(&[("main.tf", "...")]);
//! let server = GitServer::start();
//! fetch(server.url(&repository));
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use base64::Engine as _;
use openssl::ssl::{Ssl, SslAcceptor};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_openssl::SslStream;

use super::authority::Authority;

/// A git repository with a working tree, on branch `main`.
pub struct Repository {
    directory: tempfile::TempDir,
}

impl Repository {
    /// A repository with one commit of these files.
    pub fn create(files: &[(&str, &str)]) -> Self {
        let repository = Self { directory: tempfile::tempdir().unwrap() };
        // Without the sample hooks: fourteen files fewer in each repository.
        repository.git(&["init", "--quiet", "--template=", "--initial-branch=main"]);
        repository.commit("Initial commit", files);
        repository
    }

    /// Writes files and commits everything; returns the full commit id.
    pub fn commit(&self, message: &str, files: &[(&str, &str)]) -> String {
        for (name, content) in files {
            let path = self.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        self.head()
    }

    /// The commit of `HEAD`.
    pub fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Its `file` URL; see [`GitServer::url`] and [`super::ssh_server::SshServer::url`] for others.
    pub fn url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    /// Lets clients fetch any commit by its id, as the large hosts do.
    pub fn allow_any_commit(&self) {
        self.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    }

    /// Adds a submodule without a request to its server.
    pub fn add_submodule(&self, path: &str, url: &str, commit: &str) {
        let modules = self.path().join(".gitmodules");
        let mut text = std::fs::read_to_string(&modules).unwrap_or_default();
        let entry = format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n");
        text.push_str(&entry);
        std::fs::write(&modules, text).unwrap();
        // Without it, the next commit would remove the submodule.
        std::fs::create_dir_all(self.path().join(path)).unwrap();
        let entry = format!("160000,{commit},{path}");
        self.git(&["update-index", "--add", "--cacheinfo", &entry]);
        self.git(&["add", ".gitmodules"]);
        self.git(&["commit", "--quiet", "--message", "Add a submodule"]);
    }

    /// Runs git in the repository, without the user's configuration.
    pub fn git(&self, arguments: &[&str]) -> String {
        git(self.path(), arguments)
    }
}

/// Runs git in `directory`, without the user's configuration. Panics if it fails.
pub fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .envs([("GIT_AUTHOR_NAME", "Test"), ("GIT_AUTHOR_EMAIL", "test@example.com")])
        .envs([("GIT_COMMITTER_NAME", "Test"), ("GIT_COMMITTER_EMAIL", "test@example.com")])
        .output()
        .expect("the tests need git on PATH");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The directory of git's own programs.
pub fn git_exec_path() -> PathBuf {
    PathBuf::from(git(Path::new("/"), &["--exec-path"]))
}

/// Behaviour of the server apart from serving repositories.
#[derive(Clone, Default)]
pub struct Behaviour {
    /// User name and password that every request must have.
    pub login: Option<(String, String)>,
    /// The target of redirects for all authorized requests: scheme and authority.
    pub redirect: Option<String>,
}

/// One request, as the server saw it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Path and query.
    pub target: String,
    /// The header with the credentials.
    pub authorization: Option<String>,
}

struct Shared {
    root: tempfile::TempDir,
    backend: PathBuf,
    behaviour: Behaviour,
    names: Mutex<BTreeMap<PathBuf, String>>,
    /// The new names of renamed repositories, by the earlier ones.
    renamed: Mutex<BTreeMap<String, String>>,
    requests: Mutex<Vec<Request>>,
}

/// An HTTP server for git repositories, on 127.0.0.1; ends when it is dropped.
pub struct GitServer {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    end: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl GitServer {
    /// A server without authentication.
    pub fn start() -> Self {
        Self::with(Behaviour::default())
    }

    /// A server that requires this user name and password.
    pub fn with_login(username: &str, password: &str) -> Self {
        let login = Some((username.to_owned(), password.to_owned()));
        Self::with(Behaviour { login, ..Behaviour::default() })
    }

    /// A server with the given behaviour.
    pub fn with(behaviour: Behaviour) -> Self {
        Self::serve(behaviour, None)
    }

    /// The same over TLS, with a certificate of `authority`.
    pub fn with_tls(behaviour: Behaviour, authority: &Authority) -> Self {
        Self::serve(behaviour, Some(authority.acceptor()))
    }

    fn serve(behaviour: Behaviour, tls: Option<SslAcceptor>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            root: tempfile::tempdir().unwrap(),
            backend: git_exec_path().join("git-http-backend"),
            behaviour,
            names: Mutex::default(),
            renamed: Mutex::default(),
            requests: Mutex::default(),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let (end, ended) = tokio::sync::oneshot::channel();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                let serving = async {
                    match tls {
                        Some(acceptor) => {
                            axum::serve(TlsListener { listener, acceptor }, router).await
                        }
                        None => axum::serve(listener, router).await,
                    }
                };
                tokio::select! {
                    result = serving => result.unwrap(),
                    _ = ended => {}
                }
            });
        });
        Self { address, scheme, shared, end: Some(end), thread: Some(thread) }
    }

    /// Serves `repository` and returns its URL.
    pub fn url(&self, repository: &Repository) -> String {
        self.url_on("127.0.0.1", repository)
    }

    /// The same URL with another name of the host: `localhost`.
    pub fn url_on(&self, host: &str, repository: &Repository) -> String {
        let mut names = self.shared.names.lock().unwrap();
        let next = names.len() + 1;
        let name = names.entry(repository.path().to_owned()).or_insert_with(|| {
            let name = format!("repository-{next}.git");
            let link = self.shared.root.path().join(&name);
            std::os::unix::fs::symlink(repository.path().join(".git"), link).unwrap();
            name
        });
        format!("{}://{host}:{}/{name}", self.scheme, self.address.port())
    }

    /// Gives the repository another name, and redirects requests with the earlier one. Returns the new URL.
    pub fn rename(&self, repository: &Repository) -> String {
        let earlier = name_of(&self.url(repository));
        let name = format!("renamed-{earlier}");
        let root = self.shared.root.path();
        std::fs::rename(root.join(&earlier), root.join(&name)).unwrap();
        self.shared.names.lock().unwrap().insert(repository.path().to_owned(), name.clone());
        self.shared.renamed.lock().unwrap().insert(earlier, name);
        self.url(repository)
    }

    /// Gives the URL of a renamed repository to another one.
    pub fn reuse_name(&self, url: &str, repository: &Repository) {
        let name = name_of(url);
        let link = self.shared.root.path().join(&name);
        std::os::unix::fs::symlink(repository.path().join(".git"), link).unwrap();
        self.shared.renamed.lock().unwrap().remove(&name);
        self.shared.names.lock().unwrap().insert(repository.path().to_owned(), name);
    }

    /// `scheme://127.0.0.1:port`.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// The recorded requests.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The last part of the path of a URL.
fn name_of(url: &str) -> String {
    url.rsplit('/').next().unwrap_or_default().to_owned()
}

/// A listener that speaks TLS, for [`axum::serve()`].
pub struct TlsListener {
    /// Accepts the connections.
    pub listener: TcpListener,
    /// Begins TLS on each of them.
    pub acceptor: SslAcceptor,
}

impl axum::serve::Listener for TlsListener {
    type Io = SslStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else { continue };
            let session = Ssl::new(self.acceptor.context()).unwrap();
            let mut stream = SslStream::new(session, stream).unwrap();
            // A client that does not trust the certificate closes the connection here.
            if std::pin::Pin::new(&mut stream).accept().await.is_ok() {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let authorization = header("authorization");
    shared
        .requests
        .lock()
        .unwrap()
        .push(Request { target: uri.to_string(), authorization: authorization.clone() });
    let plain = |status: StatusCode| Response::builder().status(status);
    if let Some((username, password)) = &shared.behaviour.login {
        let basic =
            base64::engine::general_purpose::STANDARD.encode(format!("{username}:{password}"));
        if authorization != Some(format!("Basic {basic}")) {
            return plain(StatusCode::UNAUTHORIZED)
                .header("www-authenticate", "Basic realm=\"git\"")
                .body(Body::empty())
                .unwrap();
        }
    }
    if let Some(target) = &shared.behaviour.redirect {
        return plain(StatusCode::FOUND)
            .header("location", format!("{target}{uri}"))
            .body(Body::empty())
            .unwrap();
    }
    let name = uri.path().trim_start_matches('/').split('/').next().unwrap_or_default();
    if let Some(renamed) = shared.renamed.lock().unwrap().get(name) {
        let location = uri.to_string().replacen(name, renamed, 1);
        return plain(StatusCode::MOVED_PERMANENTLY)
            .header("location", location)
            .body(Body::empty())
            .unwrap();
    }
    let mut command = tokio::process::Command::new(&shared.backend);
    command
        .env("GIT_PROJECT_ROOT", shared.root.path())
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("REQUEST_METHOD", method.as_str())
        .env("PATH_INFO", uri.path())
        .env("QUERY_STRING", uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", header("content-type").unwrap_or_default())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding").unwrap_or_default())
        .env("HTTP_GIT_PROTOCOL", header("git-protocol").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn().expect("git has an http-backend");
    let mut stdin = child.stdin.take().unwrap();
    let feed = async move {
        let _ = stdin.write_all(&body).await;
    };
    let ((), output) = tokio::join!(feed, child.wait_with_output());
    cgi_response(&output.unwrap().stdout)
}

fn cgi_response(output: &[u8]) -> Response<Body> {
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").expect("CGI headers");
    let mut response = Response::builder();
    for line in std::str::from_utf8(&output[..end]).unwrap().split("\r\n") {
        let (name, value) = line.split_once(':').unwrap();
        response = match (name.eq_ignore_ascii_case("status"), value.trim()) {
            (true, status) => response.status(status[..3].parse::<u16>().unwrap()),
            (false, value) => response.header(name, value),
        };
    }
    response.body(Body::from(output[end + 4..].to_vec())).unwrap()
}
