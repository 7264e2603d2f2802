//! The report of a run that meets a lock, for each backend, and that a graceful stop releases the
//! lock.

use butler_runner::engine::KilledLock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::{config, failure, recipe};
use butler_testing::Postgres;
use butler_testing::cloud_storage::{self, CloudStorage};
use butler_testing::documented::assert_documented;
use butler_testing::http_backend::HttpBackend;
use butler_testing::kubernetes::Cluster;
use butler_testing::object_store::{ObjectStore, TABLE};
use butler_testing::world::{MODULE, World, eventually};

/// Lets one run block while it holds the lock. Asserts that another run reports the lock, and that
/// a graceful stop of the first releases it. Returns the report.
async fn assert_lock_reported_and_released(backend: &Value) -> &'static str {
    let holder = World::new(&[]).await;
    let ready = holder.path("ready");
    let module = format!(
        "resource \"terraform_data\" \"standing\" {{\n  provisioner \"local-exec\" {{\n    \
         command = \": > {}; exec sleep 1000\"\n  }}\n}}\n",
        ready.display()
    );
    holder.commit(&[("main.tf", &module)]);
    holder.add_run(config(&holder, "apply", backend));
    let run = holder.execute().spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(run.id().unwrap()).unwrap());
    eventually("a provisioner", || ready.exists()).await;

    let other = World::new(&[("main.tf", MODULE)]).await;
    let end = other.run(config(&other, "plan", backend)).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, advice) = failure(&other);
    let (_, lock) = message.split_once("the state is locked").expect("it says why it failed");
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap().name;
    let (told, id) = if let Some((_, id)) = lock.split_once("(OperationTypeApply, id ") {
        assert!(lock.starts_with(&format!(" by {user}@")), "{message}");
        ("holder, time and id", id.split_once(')').unwrap().0)
    } else if let Some((id, _)) = lock.split_once("; its backend does not report the holder)") {
        ("id", id.strip_prefix(" (id ").unwrap())
    } else {
        assert!(lock.contains("; its backend does not report the holder"), "{message}");
        ("nothing", "")
    };
    assert_eq!(advice.contains("`terraform force-unlock "), !id.is_empty(), "{advice}");
    assert!(advice.contains(id), "{advice}");

    kill(pid, Signal::SIGTERM).unwrap();
    let end = holder.end(&run.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    let end = other.run(config(&other, "plan", backend)).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    told
}

#[tokio::test]
async fn each_backends_lock_is_reported_as_documented_and_released_by_a_graceful_stop() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("terraform.tfstate");
    let postgres = Postgres::start();
    let connection = postgres.connection_string();
    let http = HttpBackend::start().await;
    let store = ObjectStore::start().await;
    let mut dynamodb = store.config();
    dynamodb["key"] = json!("another.tfstate");
    dynamodb["use_lockfile"] = json!(false);
    dynamodb["dynamodb_table"] = json!(TABLE);
    dynamodb["dynamodb_endpoint"] = json!(store.endpoint());
    let cluster = Cluster::start().await;
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
    let storage = CloudStorage::start().await;
    let gcs = json!({
        "access_token": cloud_storage::TOKEN,
        "storage_custom_endpoint": storage.endpoint(),
    });
    let mut rows = Vec::new();
    for (name, kind, settings) in [
        ("local", "local", json!({"path": state})),
        ("pg", "pg", json!({"conn_str": connection})),
        ("http", "http", http.config()),
        ("s3 with `use_lockfile`", "s3", store.config()),
        ("s3 with `dynamodb_table`", "s3", dynamodb),
        ("kubernetes", "kubernetes", json!({"config_path": kubeconfig})),
        ("gcs", "gcs", gcs),
    ] {
        let told = assert_lock_reported_and_released(&recipe(kind, &settings)).await;
        let killed = match KilledLock::for_backend(kind, true, false) {
            KilledLock::EndsWithTool => "it ends with the tool",
            _ => "it stays, and is named; `--force-unlock-own` removes it",
        };
        rows.push(format!("| {name} | {told} | released | {killed} |"));
    }
    assert_documented("docs/faults.md", "locks", &rows);
}
