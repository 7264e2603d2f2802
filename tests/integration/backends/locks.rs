//! Locks that outlive their holder's process, where the backend tells who holds them.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::{config, failure, recipe};
use crate::support::cloud_storage::{self, CloudStorage};
use crate::support::kubernetes::Cluster;
use crate::support::object_store::{ObjectStore, TABLE};
use crate::support::world::{MODULE, World, eventually};

/// Has one run stand still under its lock and asserts what another one says of that, and that a
/// graceful stop of the first releases it.
async fn assert_told_and_released(backend: &Value) {
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
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap().name;
    assert!(message.contains(&format!("the state is locked by {user}@")), "{message}");
    let (_, id) = message.split_once("(OperationTypeApply, id ").expect("the message has the id");
    let (id, _) = id.split_once(')').unwrap();
    assert!(advice.contains(&format!("`terraform force-unlock {id}`")), "{advice}");

    kill(pid, Signal::SIGTERM).unwrap();
    let end = holder.end(&run.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    let end = other.run(config(&other, "plan", backend)).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
}

#[tokio::test]
async fn a_lock_file_in_s3_is_told_and_released() {
    let store = ObjectStore::start().await;
    assert_told_and_released(&recipe("s3", &store.config())).await;
}

#[tokio::test]
async fn a_lock_in_dynamodb_is_told_and_released() {
    let store = ObjectStore::start().await;
    let mut settings = store.config();
    settings["use_lockfile"] = json!(false);
    settings["dynamodb_table"] = json!(TABLE);
    settings["dynamodb_endpoint"] = json!(store.endpoint());
    assert_told_and_released(&recipe("s3", &settings)).await;
}

#[tokio::test]
async fn a_lease_in_kubernetes_is_told_and_released() {
    let cluster = Cluster::start().await;
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(kubeconfig.path(), cluster.kubeconfig()).unwrap();
    let settings = json!({"config_path": kubeconfig.path()});
    assert_told_and_released(&recipe("kubernetes", &settings)).await;
}

#[tokio::test]
async fn a_lock_object_in_gcs_is_told_and_released() {
    let storage = CloudStorage::start().await;
    let settings = json!({
        "access_token": cloud_storage::TOKEN,
        "storage_custom_endpoint": storage.endpoint(),
    });
    assert_told_and_released(&recipe("gcs", &settings)).await;
}
