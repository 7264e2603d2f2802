//! Copies of logs and plans in an object store.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use butler_base::platform::fs::PermissionsExt;
use butler_testing::{PASSWORD, Postgres};

use super::*;
use butler_testing::azure::{Azure, CONTAINER};
use butler_testing::file_s3::{self, FileS3};
use butler_testing::google_storage::{self, GoogleStorage};
use butler_testing::object_store::{BUCKET, ObjectStore};
use butler_testing::world::files_with;

/// A way to a server on this machine that can be closed for new connections.
struct Switch {
    port: u16,
    is_open: Arc<AtomicBool>,
}

impl Switch {
    fn closed(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_open = Arc::new(AtomicBool::new(false));
        let opened = Arc::clone(&is_open);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if !opened.load(Ordering::Relaxed) {
                    continue;
                }
                let server = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, server)).unwrap();
                for (mut from, mut to) in
                    [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
                {
                    std::thread::spawn(move || {
                        // One of them has closed the connection.
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Write);
                    });
                }
            }
        });
        Self { port, is_open }
    }

    fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }
}

/// The variables of an S3 client.
fn variables(objects: &ObjectStore, port: u16) -> Vec<String> {
    let words = [
        format!("AWS_ACCESS_KEY_ID={}", objects.access_key),
        format!("AWS_SECRET_ACCESS_KEY={}", objects.secret_key),
        "AWS_REGION=us-east-1".to_owned(),
        format!("AWS_ENDPOINT_URL=http://127.0.0.1:{port}"),
    ];
    words.to_vec()
}

fn port_of(objects: &ObjectStore) -> u16 {
    objects.endpoint().rsplit_once(':').unwrap().1.parse().unwrap()
}

/// Whether all attempts of an installation that have ended are copied.
fn is_copied(installation: &Installation) -> bool {
    let attempts = attempts(&installation.data());
    !attempts.is_empty() && attempts.iter().all(|attempt| attempt.join("copied.json").exists())
}

/// The files of the only attempt, by their paths in its directory.
fn files(installation: &Installation) -> BTreeSet<String> {
    let directory = attempts(&installation.data()).remove(0);
    let paths = files_with(&directory, "").into_iter();
    paths.map(|path| path.strip_prefix(&directory).unwrap().display().to_string()).collect()
}

/// Removes the files of all attempts, as the loss of a disk does.
fn lose_attempts(installation: &Installation) {
    std::fs::remove_dir_all(installation.data().join("attempts")).unwrap();
}

#[tokio::test]
async fn new_server_applies_the_plan_of_one_that_is_gone_with_its_disk() {
    let (postgres, objects) = (Postgres::start(), ObjectStore::start().await);
    let switch = Switch::closed(port_of(&objects));
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    let mut installation = Installation::new();
    let key = installation.path("plan.key");
    std::fs::write(&key, format!("{}\n", "ab".repeat(32))).unwrap();
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(installation.path("password"), format!("{PASSWORD}\n")).unwrap();
    let state = installation.path("states/a.tfstate");
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}', poll: 1s}}}}
layers:
  a:
    repository: infra
    ref: main
    path: envs/a
    strategy: approve
    backend: {{type: local, config: {{path: '{}'}}}}
",
        repository.url(),
        state.display()
    ));
    let address = format!("postgres://postgres@127.0.0.1:{}/postgres", postgres.port());
    let artifacts = format!("s3://{BUCKET}/butler");
    let arguments = [
        ["--store", &address, "--store-password-file", "password"],
        ["--artifacts", &artifacts, "--key-file", "plan.key"],
    ];
    let arguments: Vec<String> = arguments.concat().into_iter().map(str::to_owned).collect();
    let variables = variables(&objects, switch.port);
    let variables = variables.iter().map(String::as_str);
    let variables: Vec<&str> = std::iter::once("env").chain(variables).collect();

    // The object store is away: runs go on.
    installation.serve_behind(&variables, &arguments).await;
    installation.until("a", "Succeeded", 1).await;
    let plan = installation.runs("a")[0]["id"].as_str().unwrap().to_owned();
    assert!(!is_copied(&installation));
    switch.open();
    eventually("a copy", || is_copied(&installation)).await;
    installation.kill().await;
    std::fs::remove_dir_all(installation.data()).unwrap();

    installation.serve_behind(&variables, &arguments).await;
    let log = installation.ask(&["run", "logs", &plan]);
    assert!(text(&log).contains("1 to add"), "{}", text(&log));
    // It decides when the lease of the one before has ended.
    let applied = installation.ask(&["layer", "apply", "a", "--wait"]);
    assert!(text(&applied).contains("1 added"), "{}", text(&applied));
    // The plan that was approved, and not a new one.
    let runs = installation.runs("a");
    assert_eq!((runs.len(), &runs[1]["id"]), (2, &plan.into()));
    assert!(state.exists());
}

#[tokio::test]
async fn files_of_attempts_outlive_the_loss_of_the_disk_in_each_object_store() {
    let objects = ObjectStore::start().await;
    let directory = tempfile::tempdir().unwrap();
    let in_directory = format!("file://{}/copies", directory.path().display());
    let (azure, google) = (Azure::start().await, GoogleStorage::start());
    let buckets = tempfile::tempdir().unwrap();
    let in_files = FileS3::start(buckets.path());
    for (address, variables) in [
        (format!("s3://{BUCKET}"), variables(&objects, port_of(&objects))),
        (format!("s3://{}/a/prefix", file_s3::BUCKET), in_files.variables()),
        (format!("az://{CONTAINER}/a/prefix"), azure.variables()),
        (format!("gs://{}/prefix", google_storage::BUCKET), google.variables(directory.path())),
        (in_directory, Vec::new()),
    ] {
        let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
        let mut installation = Installation::new();
        let mut arguments = Installation::quick_start(&repository);
        arguments.extend(["--artifacts".to_owned(), address.clone()]);
        let variables = variables.iter().map(String::as_str);
        let variables: Vec<&str> = std::iter::once("env").chain(variables).collect();
        installation.serve_behind(&variables, &arguments).await;
        eventually("a copy", || is_copied(&installation)).await;
        let layer = installation.json(&["layer", "list"])["items"][0]["name"].clone();
        let run = installation.runs(layer.as_str().unwrap())[0]["id"].clone();
        let run = run.as_str().unwrap();
        let log = installation.ask(&["run", "logs", run]);
        assert!(text(&log).contains("1 to add"), "{address}: {}", text(&log));
        assert_eq!(installation.terminate().await, Some(0));
        // A server that ended after its last request, whose answer it did not see.
        std::fs::remove_file(attempts(&installation.data()).remove(0).join("copied.json")).unwrap();
        installation.serve_behind(&variables, &arguments).await;
        eventually("an end of the copy", || is_copied(&installation)).await;
        assert_eq!(installation.terminate().await, Some(0));
        let before = files(&installation);
        lose_attempts(&installation);
        installation.serve_behind(&variables, &arguments).await;
        assert_eq!(text(&installation.ask(&["run", "logs", run])), text(&log), "{address}");
        let copy = attempts(&installation.data()).remove(0).join("plan.json");
        let plan: Value = serde_json::from_slice(&std::fs::read(copy).unwrap()).unwrap();
        assert_eq!(plan["resource_changes"].as_array().unwrap().len(), 1, "{address}");
        // What nothing reads after the end of the attempt.
        let after = files(&installation);
        let lost: Vec<_> = before.difference(&after).map(String::as_str).collect();
        let expected = [
            "copied.json",
            "output.log",
            "process.json",
            "reports/log.txt",
            "reports/status.json",
            "reports/timings.txt",
            "work-directory",
        ];
        assert_eq!(lost, expected, "{address}");
    }
    let copies = directory.path().join("copies");
    assert_eq!(copies.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn object_store_whose_settings_are_not_complete_is_refused_at_the_start() {
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    let installation = Installation::new();
    let serve = async |address: &str, variables: &[(&str, &str)]| {
        let mut command = installation.command(&["serve", "--once"]);
        command.args(Installation::quick_start(&repository)).args(["--artifacts", address]);
        command.envs(variables.iter().copied()).output().await.unwrap()
    };
    let wrong = serve("https://bucket.example/hunter22", &[]).await;
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
    assert!(text(&wrong).contains("--artifacts") && !text(&wrong).contains("hunter22"));
    let plain = [("AWS_ENDPOINT_URL", "http://s3.example.com"), ("AWS_REGION", "us-east-1")];
    let plain = serve("s3://bucket", &plain).await;
    assert_eq!(plain.status.code(), Some(1), "{}", text(&plain));
    assert!(text(&plain).contains("AWS_ALLOW_HTTP"), "{}", text(&plain));
}
