//! Git servers that are trusted, missing, silent or behind a proxy.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use butler_base::cancel::StopReason;
use butler_base::error::{Advice, FailureClass, chain};
use butler_source::git::{FetchError, SourceError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Case, TOKEN, with_history};
use butler_testing::HeldPort;
use butler_testing::authority::Authority;
use butler_testing::git_server::{Behaviour, GitServer};
use butler_testing::ssh_server::SshServer;

#[tokio::test]
async fn git_server_certificate_is_verified_with_the_ca_bundle() {
    let repository = with_history();
    let authority = Authority::create();
    let server = GitServer::with_tls(Behaviour::default(), &authority);
    let mut case = Case::new(&server.url(&repository), "main");
    let error = case.fail().await;
    assert!(matches!(error, FetchError::Certificate { .. }), "{error:?}");
    assert!(error.advice().unwrap().contains("--ca-bundle"));
    // The bundle is added to the system's certificates and does not replace them.
    let system = Authority::create();
    let second = GitServer::with_tls(Behaviour::default(), &system);
    for server in [server, second] {
        case = Case::new(&server.url(&repository), "main");
        case.environment.ca_bundle = Some(authority.bundle());
        case.environment.variables.set("SSL_CERT_FILE", system.bundle());
        case.succeed().await;
    }
}

/// Opening this pipe blocks forever, because nothing writes to it.
#[tokio::test]
async fn system_certificates_are_not_read_for_a_local_repository() {
    let repository = with_history();
    let server = SshServer::start();
    let of_directory = Case::new(&repository.url(), "main");
    let over_ssh = Case::new(&server.url(&repository), "main")
        .ssh_key(server.private_key(), Some(server.known_hosts()));
    for mut case in [of_directory, over_ssh] {
        let pipe = case.directory.path().join("pipe.pem");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        case.environment.variables.set("SSL_CERT_FILE", pipe);
        case.succeed().await;
    }
}

#[tokio::test]
async fn git_fetch_uses_the_proxy_of_the_environment() {
    let repository = with_history();
    let authority = Authority::create();
    let server = GitServer::with_tls(Behaviour::default(), &authority);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut case = Case::new(&server.url_on("localhost", &repository), "main");
    case.environment.ca_bundle = Some(authority.bundle());
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    case.environment.variables.set("HTTPS_PROXY", &proxy);
    let targets = Mutex::new(Vec::new());
    tokio::select! {
        checkout = case.succeed() => drop(checkout),
        () = proxy_for(&listener, &targets) => unreachable!("a proxy has no end"),
    }
    let wanted = server.url_on("localhost", &repository);
    let asked = targets.into_inner().unwrap();
    assert!(asked.iter().any(|target| wanted.contains(target)), "{asked:?}");

    case = Case::new(&server.url(&repository), "main");
    case.environment.ca_bundle = Some(authority.bundle());
    case.environment.variables.set("HTTPS_PROXY", proxy);
    case.environment.variables.set("NO_PROXY", "127.0.0.1");
    case.succeed().await;
}

/// Serves `CONNECT` requests one at a time and records their targets.
async fn proxy_for(listener: &tokio::net::TcpListener, targets: &Mutex<Vec<String>>) {
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(client.read_u8().await.unwrap());
        }
        let request = String::from_utf8(request).unwrap();
        let target = request.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
        targets.lock().unwrap().push(target.to_owned());
        let mut upstream = tokio::net::TcpStream::connect(target).await.unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
    }
}

#[tokio::test]
async fn missing_repository_and_missing_server_are_named() {
    let server = GitServer::start();
    let error = Case::new(&format!("{}/none.git", server.origin()), "main").fail().await;
    assert!(matches!(error, FetchError::RepositoryNotFound { .. }), "{error:?}");
    let closed = HeldPort::new();
    let url = format!("http://127.0.0.1:{}/none.git", closed.port());
    let error = Case::new(&url, "main").fail().await;
    assert!(matches!(error, FetchError::Connect { .. }), "{error:?}");
    let error = Case::new("file:///no/such/directory", "main").fail().await;
    assert!(matches!(error, FetchError::RepositoryNotFound { .. }), "{error:?}");
}

/// A server that answers each request with this response. Returns the URL of a repository.
async fn answering(response: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/repository.git", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = client.read_u8().await else { return };
                    request.push(byte);
                }
                let (head, body) = response.split_once("\r\n\r\n").unwrap();
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                let _ = client.write_all(text.as_bytes()).await;
            });
        }
    });
    url
}

#[tokio::test]
async fn message_of_a_server_over_http_is_in_the_error() {
    for (response, expected) in [
        (
            "403 Forbidden\r\ncontent-type: text/plain\r\n\r\nSSO is required for hunter22-very-secret\nmore",
            "refuses access to the repository: unexpected http status code: 403; it says: SSO is required for ***",
        ),
        (
            "403 Forbidden\r\ncontent-type: application/json\r\nretry-after: 60\r\n\r\n{\"message\": \"too many\"}",
            "cannot answer now: unexpected http status code: 403; it says: too many",
        ),
        (
            "503 Unavailable\r\ncontent-type: text/html\r\nretry-after: 7\r\n\r\n<html>Down</html>",
            "cannot answer now: unexpected http status code: 503; it answers with a web page",
        ),
        (
            "429 Too Many\r\ncontent-type: text/plain\r\n\r\nslow down",
            "cannot answer now: unexpected http status code: 429; it says: slow down",
        ),
        (
            "200 OK\r\ncontent-type: text/html; charset=utf-8\r\n\r\n<html>Sign in</html>",
            "smart HTTP protocol at this address: it answers with a web page",
        ),
        (
            "200 OK\r\ncontent-type: text/plain\r\n\r\n0123456789012345678901234567890123456789\trefs/heads/main\n",
            "smart HTTP protocol at this address: it only has the files of a repository",
        ),
        (
            "401 No\r\nwww-authenticate: Basic\r\ncontent-type: text/plain\r\n\r\nthe token has expired",
            "refused the login with the given token; it says: the token has expired",
        ),
    ] {
        let error = Case::new(&answering(response).await, "main").token(TOKEN).run().await;
        let error = error.unwrap_err();
        let text = chain(&error);
        assert!(text.contains(expected), "{text}");
        let seconds = response.split_once("retry-after: ").map(|(_, rest)| {
            rest.split('\r').next().unwrap().parse().map(Duration::from_secs).unwrap()
        });
        assert_eq!(error.retry_after(), seconds, "{text}");
    }
}

#[tokio::test]
async fn logins_of_git_that_are_not_used_are_named() {
    let repository = with_history();
    let server = GitServer::with_login("x-access-token", TOKEN);
    let settings = format!(
        "[credential]\n\thelper = store\n[http \"{}\"]\n\textraHeader = X-Secret: value\n\
         [credential \"https://git.example.com\"]\n\thelper = other\n",
        server.origin()
    );
    let url = server.url(&repository);
    let case = Case::new(&url, "main").in_home(".gitconfig", &settings);
    let error = case.in_home(".netrc", "machine 127.0.0.1 password value\n").fail().await;
    let text = error.to_string();
    assert!(text.contains("`credential.helper`, ") && text.contains(".extraheader` and"), "{text}");
    assert!(text.ends_with("`~/.netrc` are not used)") && !text.contains("value"), "{text}");
    assert!(!text.contains("git.example.com"), "{text}");
    // The system of this machine can have settings of its own.
    let text = Case::new(&url, "main").fail().await.to_string();
    assert!(!text.contains("netrc") && !text.contains("extraheader"), "{text}");
}

#[tokio::test]
async fn pack_that_breaks_off_is_not_a_refusal() {
    let repository = with_history();
    let noise: Vec<String> = (0..20_000).map(|_| format!("{:016x}", fastrand::u64(..))).collect();
    repository.commit("Large", &[("large.txt", &noise.concat())]);
    let server = GitServer::start();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = server.origin().replace("http://", "");
    let through = format!("http://{}", listener.local_addr().unwrap());
    let url = server.url(&repository).replace(&server.origin(), &through);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let upstream = tokio::net::TcpStream::connect(&target).await.unwrap();
            let ((mut from_client, mut to_client), (from_server, mut to_server)) =
                (client.into_split(), upstream.into_split());
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
            });
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut from_server.take(130_000), &mut to_client).await;
            });
        }
    });
    let case = Case::new(&url, "main");
    let error = case.fail().await;
    assert!(matches!(error, FetchError::Incomplete { .. }), "{error:?}");
    assert!(!case.has_logged("history"));
    assert_eq!(error.class(), Some(FailureClass::Network));
}

#[tokio::test]
async fn stop_ends_a_fetch_from_a_silent_server() {
    for scheme in ["http", "https", "ssh"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}/repository.git", listener.local_addr().unwrap());
        let case = Case::new(&url, "main").in_home(".ssh/known_hosts", "");
        let stop = case.stop.clone();
        let server = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            stop.request(StopReason::RunOver { status: "cancelled".to_owned() });
            // The child ends when the connection ends.
            let mut received = Vec::new();
            let _ = connection.read_to_end(&mut received);
        });
        let error = case.run().await.unwrap_err();
        assert!(matches!(error, SourceError::Stopped { .. }), "{error:?}");
        server.join().unwrap();
        let left: Vec<_> = std::fs::read_dir(case.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != "home" && name != "clone")
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test]
async fn orphaned_fetch_process_exits() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let task = serde_json::json!({
        "access": {
            "url": format!("http://{}/repository.git", listener.local_addr().unwrap()),
            "logins": [],
            "ssh_user": "git",
            "scratch_home": directory.path(),
            "has_agent": false,
            // A process that is certainly not the parent.
            "parent": 0,
        },
        "job": {
            "clone": {
                "reference": "main",
                "working_directory": "",
                "destination": directory.path().join("clone"),
                "submodules": "needed",
                "values": [],
            },
        },
    });
    let mut child = Command::new(env!("CARGO_BIN_EXE_butler-runner"))
        .arg("internal-fetch")
        .env_clear()
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(task.to_string().as_bytes()).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}
