//! The s3 backend with a server that verifies signatures: credentials, and the block of the module.

use serde_json::{Value, json};

use super::{config, failure};
use butler_testing::object_store::ObjectStore;
use butler_testing::world::{MODULE, World, merge};

/// The path of the recipe's state.
const KEY: &str = "network/terraform.tfstate";

fn backend(store: &ObjectStore, changes: &Value) -> Value {
    let mut settings = store.config();
    merge(&mut settings, changes);
    json!({"type": "s3", "config": settings})
}

#[tokio::test]
async fn wrong_s3_credentials_are_reported_with_the_servers_reason_and_masked() {
    let store = ObjectStore::start().await;
    let world = World::new(&[("main.tf", MODULE)]).await;
    for (setting, value, reason) in [
        ("secret_key", "wrong-secret-key-0123", "SignatureDoesNotMatch"),
        ("access_key", "AKIAWRONGWRONGWRONG1", "InvalidAccessKeyId"),
    ] {
        let backend = backend(&store, &json!({setting: value}));
        let end = world.run(config(&world, "plan", &backend)).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        assert_eq!(world.last_status()["error"]["phase"], "init");
        let (message, _) = failure(&world);
        assert!(message.contains("StatusCode: 403") && message.contains(reason), "{message}");
        let shown = world.reports_and_output(&end);
        // Terraform reports deprecated names only beside an error.
        assert!(!shown.contains("Deprecated"), "the flat endpoint is translated: {shown}");
        for secret in [value, &store.access_key, &store.secret_key] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

#[tokio::test]
async fn backend_of_the_run_replaces_a_block_of_the_same_type() {
    let store = ObjectStore::start().await;
    // None of these settings is valid for the run's state; `init` would fail if one remained.
    let block = r#"
terraform {
  backend "s3" {
    bucket         = "former-home"
    key            = "former.tfstate"
    region         = "eu-central-1"
    profile        = "former"
    dynamodb_table = "former-locks"
    encrypt        = true
  }
}
"#;
    let world = World::new(&[("main.tf", MODULE), ("backend.tf", block)]).await;
    let end = world.run(config(&world, "apply", &backend(&store, &json!({})))).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(store.object(KEY).await.unwrap()["outputs"]["greeting"].is_object());
    assert_eq!(store.object("former.tfstate").await, None);
    let told = "Using the run's backend `s3`, not the module's `s3`";
    assert!(world.received().log_text().lines().any(|line| line == told));
}
