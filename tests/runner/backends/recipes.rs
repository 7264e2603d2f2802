//! The recipes of `docs/backends.md`, with the tests' own servers in place of the examples.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use serde_json::json;

use super::{MODULE, assert_kept, config, failure, recipe, sensitive};
use butler_testing::cloud_storage::{self, CloudStorage};
use butler_testing::http_backend::HttpBackend;
use butler_testing::kubernetes::{self, Cluster};
use butler_testing::object_store::ObjectStore;
use butler_testing::world::World;
use butler_testing::{PASSWORD, Postgres};

#[tokio::test]
async fn local_recipe_stores_the_state() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let path = world.path("kept.tfstate");
    assert_kept(&world, &recipe("local", &json!({"path": path})), &[]).await;
    assert!(path.is_file());
}

#[tokio::test]
async fn pg_recipe_stores_the_state() {
    let server = Postgres::start();
    let world = World::new(&[("main.tf", MODULE)]).await;
    let connection = server.connection_string();
    let backend = recipe("pg", &json!({"conn_str": connection}));
    assert_kept(&world, &backend, &[PASSWORD, &connection]).await;
    assert_eq!(server.query("SELECT name FROM network.states"), ["default"]);
}

#[tokio::test]
async fn http_recipe_stores_the_state() {
    let server = HttpBackend::start().await;
    let world = World::new(&[("main.tf", MODULE)]).await;
    let mut changes = server.config();
    changes["password"] = json!("hunter22-http");
    assert_kept(&world, &recipe("http", &changes), &["hunter22-http"]).await;
    assert_eq!(server.state().unwrap()["outputs"]["value"]["value"], "kept");
    assert_eq!(server.lock(), None);
}

#[tokio::test]
async fn s3_recipe_stores_the_state() {
    let store = ObjectStore::start().await;
    let world = World::new(&[("main.tf", MODULE)]).await;
    let backend = recipe("s3", &store.config());
    assert_kept(&world, &backend, &[&store.access_key, &store.secret_key]).await;
    let key = backend["config"]["key"].as_str().unwrap();
    assert_eq!(store.object(key).await.unwrap()["outputs"]["value"]["value"], "kept");
    assert_eq!(store.object(&format!("{key}.tflock")).await, None);
}

#[tokio::test]
async fn kubernetes_recipe_stores_the_state() {
    let cluster = Cluster::start().await;
    let world = World::new(&[("main.tf", MODULE)]).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let kubeconfig = elsewhere.path().join("config");
    std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
    let backend = recipe("kubernetes", &json!({"config_path": kubeconfig}));
    assert_kept(&world, &backend, &[kubernetes::TOKEN]).await;
    let secret = "/api/v1/namespaces/terraform/secrets/tfstate-default-network";
    let lease =
        "/apis/coordination.k8s.io/v1/namespaces/terraform/leases/lock-tfstate-default-network";
    assert_eq!(cluster.paths(), [secret, lease]);
    assert_eq!(cluster.object(secret).unwrap()["metadata"]["labels"]["team"], "network");
    assert!(cluster.object(lease).unwrap()["spec"]["holderIdentity"].is_null());

    // A host and a token do not suffice, as the recipe says; with the file they count.
    let login = json!({
        "host": cluster.endpoint(),
        "token": kubernetes::TOKEN,
        "cluster_ca_certificate": cluster.certificate(),
    });
    let mut alone = login.clone();
    alone["config_path"] = json!(null);
    let end = world.run(config(&world, "plan", &recipe("kubernetes", &alone))).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let shown = world.reports_and_output(&end);
    assert!(shown.contains("no configuration has been provided"), "{shown}");
    let unused_address = cluster.kubeconfig().replace(cluster.endpoint(), "https://127.0.0.1:1");
    std::fs::write(&kubeconfig, unused_address.replace(kubernetes::TOKEN, "other")).unwrap();
    let mut beside = login;
    beside["config_path"] = json!(kubeconfig);
    beside["secret_suffix"] = json!("beside");
    assert_kept(&world, &recipe("kubernetes", &beside), &[kubernetes::TOKEN]).await;
    assert_eq!(cluster.paths().len(), 4);
}

#[tokio::test]
async fn gcs_recipe_stores_the_state() {
    let storage = CloudStorage::start().await;
    let world = World::new(&[("main.tf", MODULE)]).await;
    let changes = json!({
        "bucket": cloud_storage::BUCKET,
        "access_token": cloud_storage::TOKEN,
        "storage_custom_endpoint": storage.endpoint(),
    });
    let backend = recipe("gcs", &changes);
    let key = backend["config"]["encryption_key"].as_str().unwrap();
    assert_kept(&world, &backend, &[cloud_storage::TOKEN, key]).await;
    let (state, encrypted) = storage.object("network/default.tfstate").unwrap();
    assert_eq!(state["outputs"]["value"]["value"], "kept");
    assert!(encrypted.is_some(), "the key is used");
    assert!(storage.object("network/default.tflock").is_none());
}

#[tokio::test]
async fn azurerm_recipe_sends_requests_to_the_storage_account() {
    // A proxy between Terraform and Azure records the requested host and forwards nothing.
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut connection, _) = proxy.accept().unwrap();
        drop(proxy);
        let mut line = String::new();
        BufReader::new(connection.try_clone().unwrap()).read_line(&mut line).unwrap();
        let _ = connection.write_all(b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n");
        line
    });
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("HTTPS_PROXY", address);
    let backend = recipe("azurerm", &json!({}));
    let end = world.run(config(&world, "plan", &backend)).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let host = "examplestates.blob.core.windows.net";
    assert_eq!(asked.join().unwrap().trim(), format!("CONNECT {host}:443 HTTP/1.1"));
    let shown = world.reports_and_output(&end);
    let key = backend["config"]["access_key"].as_str().unwrap();
    assert!(shown.contains(host) && !shown.contains(key), "{shown}");
    assert_eq!(world.last_status()["error"]["phase"], "init");
    let (message, _) = failure(&world);
    assert!(message.contains("Failed to get existing workspaces"), "{message}");
}

#[tokio::test]
async fn credentials_in_the_environment_suffice_for_a_backend_block_in_the_module() {
    let store = ObjectStore::start().await;
    let storage = CloudStorage::start().await;
    let server = Postgres::start();
    let s3 = format!(
        "bucket = \"states\"\nkey = \"own\"\nregion = \"us-east-1\"\nuse_path_style = true\n\
         skip_credentials_validation = true\nskip_requesting_account_id = true\n\
         endpoints = {{ s3 = \"{}\" }}\n",
        store.endpoint()
    );
    let gcs =
        format!("bucket = \"states\"\nstorage_custom_endpoint = \"{}\"\n", storage.endpoint());
    let aws = [
        ("AWS_ACCESS_KEY_ID", store.access_key.clone()),
        ("AWS_SECRET_ACCESS_KEY", store.secret_key.clone()),
    ];
    let google = [("GOOGLE_OAUTH_ACCESS_TOKEN", cloud_storage::TOKEN.to_owned())];
    let postgres = [("PG_CONN_STR", server.connection_string())];
    for (kind, settings, variables) in [
        ("s3", s3.as_str(), &aws[..]),
        ("gcs", gcs.as_str(), &google[..]),
        ("pg", "schema_name = \"own\"", &postgres[..]),
    ] {
        let block = format!("terraform {{\nbackend \"{kind}\" {{\n{settings}\n}}\n}}\n");
        let world = World::new(&[("main.tf", MODULE), ("backend.tf", &block)]).await;
        let mut plan = config(&world, "apply", &json!(null));
        for (name, value) in variables {
            plan["envVars"][name] = sensitive(value);
        }
        for (operation, result) in [("apply", "1 added"), ("plan", "No changes.")] {
            plan["operation"] = json!(operation);
            let end = world.run(plan.clone()).await;
            assert_eq!(end.code, Some(0), "{kind}: {}\n{}", end.stderr, end.stdout);
            assert!(world.received().log_text().contains(result), "{kind} {operation}");
            let shown = world.reports_and_output(&end);
            for (name, value) in variables {
                assert!(!shown.contains(value), "{name} in {shown}");
                assert!(super::files_with(world.directory.path(), value).is_empty(), "{name}");
            }
        }
    }
    assert!(store.object("own").await.is_some());
    assert!(storage.object("default.tfstate").is_some());
    assert_eq!(server.query("SELECT name FROM own.states"), ["default"]);
}
