//! Git hosts, credentials and clocks that cannot be relied on.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::faults::HeldBackend;
use super::*;

/// What [`LAYER`] has not.
pub(super) fn other_resource(name: &str) -> String {
    LAYER.replace("one", name)
}

/// Waits until the log of the server has this text.
pub(super) async fn until_logged(installation: &Installation, text: &str) {
    let log = || std::fs::read_to_string(installation.path("server.log")).unwrap();
    eventually(text, || log().contains(text)).await;
}

/// A proxy of a git server that is silent until it is released.
struct HeldProxy {
    address: std::net::SocketAddr,
    gate: Arc<Semaphore>,
    asked: Arc<Semaphore>,
    ended: Arc<Semaphore>,
}

impl HeldProxy {
    /// A proxy of the server at this address.
    async fn start(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let [gate, asked, ended] = [(); 3].map(|()| Arc::new(Semaphore::new(0)));
        let held = Self {
            address,
            gate: Arc::clone(&gate),
            asked: Arc::clone(&asked),
            ended: Arc::clone(&ended),
        };
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                asked.add_permits(1);
                let (gate, ended, target) = (Arc::clone(&gate), Arc::clone(&ended), target.clone());
                tokio::spawn(async move {
                    let mut received = Vec::new();
                    loop {
                        tokio::select! {
                            released = gate.acquire() => break released.unwrap().forget(),
                            read = client.read_buf(&mut received) => {
                                if matches!(read, Ok(0) | Err(_)) {
                                    return ended.add_permits(1);
                                }
                            }
                        }
                    }
                    let mut server = TcpStream::connect(target).await.unwrap();
                    server.write_all(&received).await.unwrap();
                    // The client closes the connection when it has everything.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        held
    }
}

#[tokio::test]
async fn repository_that_hangs_holds_neither_others_nor_the_end_of_the_server() {
    let mut installation = Installation::new();
    let (silent, good) = (repository(), repository());
    let served = GitServer::start();
    let url = served.url(&silent);
    let target = served.origin().replace("http://", "");
    let held = HeldProxy::start(target.clone()).await;
    installation.configure(&format!(
        "repositories:
  silent: {{url: '{}'}}
  good: {{url: '{}'}}
defaults: {{ref: main}}
layers:
  waits: {{repository: silent, path: envs/dns}}
  works: {{repository: good, path: envs/dns}}
",
        url.replace(&target, &held.address.to_string()),
        good.url(),
    ));
    installation.serve(&[]).await;
    held.asked.acquire().await.unwrap().forget();
    installation.until("works", "Succeeded", 1).await;
    assert_eq!(installation.layer("waits")["phase"], "Observed");
    assert_eq!(installation.terminate().await, Some(0));
    // The process that fetched has ended with the server.
    held.ended.acquire().await.unwrap().forget();

    installation.serve(&[]).await;
    held.asked.acquire().await.unwrap().forget();
    held.gate.add_permits(1_000);
    installation.until("waits", "Succeeded", 1).await;
    assert_eq!(installation.runs("works").len(), 1);
}

#[tokio::test]
async fn rotated_credentials_of_a_repository_need_no_reload() {
    let (mut installation, repository) = (Installation::new(), repository());
    let served = GitServer::with_login("ana", "n3w-s3cret");
    let password = installation.path("password");
    std::fs::write(&password, "0ld-s3cret").unwrap();
    installation.configure(&format!(
        "repositories:
  infra:
    url: {}
    credentials: {{username: ana, password-file: {}}}
layers: {{dns: {{repository: infra, ref: main, path: envs/dns}}}}
",
        served.url(&repository),
        password.display(),
    ));
    installation.serve(&[]).await;
    let (cause, advice) = ("refused the login with", "check that the credentials are valid");
    installation.until_problem(&["cannot read the repository `infra`", cause, advice]).await;
    eventually("a layer that says why", || {
        let layer = installation.layer("dns");
        let reason = layer["reasons"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert_eq!(layer["phase"], "Observed");
        reason.contains(cause) && reason.contains(advice)
    })
    .await;
    std::fs::write(&password, "n3w-s3cret").unwrap();
    assert!(installation.ask(&["layer", "sync", "dns"]).status.success());
    installation.until("dns", "Succeeded", 1).await;
    assert!(installation.problems().is_empty());
    let log = std::fs::read_to_string(installation.path("server.log")).unwrap();
    assert!(!log.contains("s3cret"), "{log}");
}

/// The words that start a program an hour in the future.
fn hour_ahead() -> Vec<String> {
    let entries = std::fs::read_dir("/usr/lib").unwrap();
    let library = entries
        .map(|entry| entry.unwrap().path().join("faketime/libfaketime.so.1"))
        .find(|path| path.exists())
        .expect("the tests need libfaketime: apt-get install faketime");
    vec![
        "env".to_owned(),
        format!("LD_PRELOAD={}", library.display()),
        "FAKETIME=+1h".to_owned(),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
    ]
}

/// When a run of the layer `free` was created. 0 is its first run.
fn created(installation: &Installation, number: usize) -> SystemTime {
    let runs = installation.runs("free");
    let created = runs.iter().rev().nth(number).unwrap()["created"].as_str().unwrap();
    humantime::parse_rfc3339(created).unwrap()
}

#[tokio::test]
async fn clock_that_is_an_hour_ahead_and_back_frees_no_lease_and_repeats_no_plan() {
    let mut installation = Installation::new();
    let backend = HeldBackend::start().await;
    let repository =
        Repository::create(&[("held/main.tf", &backend.module()), ("free/main.tf", LAYER)]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main, timeout: {{plan: 4h}}}}
layers: {{held: {{path: held}}, free: {{path: free}}}}
",
        repository.url()
    ));
    installation.serve(&[]).await;
    backend.wait_for_request().await;
    installation.until("free", "Succeeded", 1).await;
    let lease = installation.layer("held")["lease"].clone();
    assert_ne!(lease, Value::Null);
    installation.kill().await;

    let words = hour_ahead();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    installation.serve_behind(&words, &[]).await;
    repository.commit("Change", &[("free/two.tf", &other_resource("two"))]);
    assert!(installation.ask(&["layer", "sync", "free"]).status.success());
    installation.until("free", "Succeeded", 2).await;
    // The clock of this server really is ahead.
    let ahead = created(&installation, 1).duration_since(created(&installation, 0)).unwrap();
    assert!(ahead >= std::time::Duration::from_mins(59), "{ahead:?}");
    assert_eq!(installation.layer("held")["lease"], lease);
    assert_eq!(installation.layer("held")["phase"], "ClosingOut");
    assert_eq!(installation.terminate().await, Some(0));

    // The next server is an hour behind what the store has.
    installation.serve(&[]).await;
    repository.commit("Change", &[("free/three.tf", &other_resource("three"))]);
    assert!(installation.ask(&["layer", "sync", "free"]).status.success());
    installation.until("free", "Succeeded", 3).await;
    assert!(created(&installation, 2) < created(&installation, 1));
    backend.release();
    installation.until("held", "Succeeded", 1).await;
    assert_eq!(installation.runs("held")[0]["attempts"].as_array().unwrap().len(), 1);
    installation.until_free("held").await;
}
