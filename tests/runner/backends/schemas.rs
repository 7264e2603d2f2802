//! All settings of each backend are accepted by `terraform init`: with their types, and with
//! numbers and booleans as strings.

use butler_base::secret::PrivateDirectory;
use butler_protocol::spec::Backend;
use butler_runner::workspace::write_backend;
use serde_json::{Value, json};

use butler_testing::cloud_storage::{self, CloudStorage};
use butler_testing::terraform::{TestModule, flag};

/// The output of `init` with these settings.
fn init_output(kind: &str, settings: &Value) -> String {
    let module = TestModule::new(&[("main.tf", "output \"a\" {\n  value = 1\n}\n")]);
    let settings = settings.as_object().unwrap().iter();
    let config = settings.map(|(name, value)| (name.clone(), value.to_string().into())).collect();
    let backend = Backend { kind: kind.to_owned(), config };
    let private = PrivateDirectory::create(module.base(), "private-").unwrap();
    let tool = "1.11.4".parse().unwrap();
    let files = write_backend(&backend, &tool, &module.directory(), &private).unwrap();
    let mut init = module.command(&["init".to_owned(), flag("backend-config", &files.config_file)]);
    // None of these settings is sent to another machine.
    let output = init.env("HTTPS_PROXY", "http://127.0.0.1:1").output().unwrap();
    [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat()
}

/// The same with every number and boolean as a string, at any depth.
fn as_strings(value: &Value) -> Value {
    match value {
        Value::Bool(_) | Value::Number(_) => json!(value.to_string()),
        Value::Array(elements) => elements.iter().map(as_strings).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), as_strings(value))).collect()
        }
        other => other.clone(),
    }
}

/// Asserts that Terraform accepts the settings and then fails with `expected`.
fn assert_accepted(kind: &str, settings: &Value, expected: &str) {
    for settings in [settings.clone(), as_strings(settings)] {
        let output = init_output(kind, &settings);
        let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
        for refusal in [
            "Deprecated",
            "Unsupported",
            "Invalid",
            "not expected",
            "Incorrect",
            "required",
            "Missing",
        ] {
            assert!(!output.contains(refusal), "{kind} {settings}: {output}");
        }
        assert!(output.contains(expected), "{kind} {settings}: {output}");
    }
}

const ROLE: &str = "arn:aws:iam::123456789012:role/states";

#[test]
fn terraform_accepts_all_s3_settings() {
    let settings = json!({
        "bucket": "states",
        "key": "network",
        "region": "eu-central-1",
        "acl": "private",
        "access_key": "AKIAEXAMPLE",
        "secret_key": "secret",
        "allowed_account_ids": ["123456789012"],
        "assume_role": {
            "role_arn": ROLE,
            "session_name": "run",
            "duration": "1h",
            "external_id": "outside",
            "policy": "{\"Version\":\"2012-10-17\",\"Statement\":[]}",
            "policy_arns": ["arn:aws:iam::123456789012:policy/states"],
            "tags": {"team": "network"},
            "transitive_tag_keys": ["team"],
            "source_identity": "runner",
        },
        "ec2_metadata_service_endpoint_mode": "IPv4",
        "encrypt": true,
        "endpoint": "http://127.0.0.1:1",
        "iam_endpoint": "http://127.0.0.1:1",
        "sts_endpoint": "http://127.0.0.1:1",
        "dynamodb_endpoint": "http://127.0.0.1:1",
        "endpoints": {"sso": "http://127.0.0.1:1"},
        "force_path_style": true,
        "insecure": false,
        "max_retries": 1,
        "retry_mode": "standard",
        "skip_credentials_validation": false,
        "skip_metadata_api_check": true,
        "skip_region_validation": true,
        "skip_requesting_account_id": true,
        "skip_s3_checksum": true,
        "sts_region": "eu-central-1",
        "use_dualstack_endpoint": false,
        "use_fips_endpoint": false,
        "use_lockfile": true,
        "workspace_key_prefix": "workspaces",
    });
    let mut without_ids = settings;
    // It conflicts with `skip_requesting_account_id`.
    without_ids.as_object_mut().unwrap().remove("allowed_account_ids");
    assert_accepted("s3", &without_ids, "Cannot assume IAM Role");
    // As it was before Terraform 1.6: of these names, 1.11.4 knows none.
    let flat = json!({
        "bucket": "states",
        "key": "network",
        "region": "eu-central-1",
        "access_key": "AKIAEXAMPLE",
        "secret_key": "secret",
        "max_retries": 1,
        "sts_endpoint": "http://127.0.0.1:1",
        "role_arn": ROLE,
        "session_name": "run",
        "external_id": "outside",
        "assume_role_duration_seconds": 3600,
        "assume_role_policy": "{\"Version\":\"2012-10-17\",\"Statement\":[]}",
        "assume_role_policy_arns": ["arn:aws:iam::123456789012:policy/states"],
        "assume_role_tags": {"team": "network"},
        "assume_role_transitive_tag_keys": ["team"],
    });
    assert_accepted("s3", &flat, "Cannot assume IAM Role");
    let web = json!({
        "bucket": "states",
        "key": "network",
        "region": "eu-central-1",
        "max_retries": 1,
        "endpoints": {"sts": "http://127.0.0.1:1"},
        "assume_role_with_web_identity": {"role_arn": ROLE, "web_identity_token": "token"},
    });
    assert_accepted("s3", &web, "AssumeRoleWithWebIdentity");
}

#[test]
fn terraform_accepts_all_azurerm_settings() {
    let id = "00000000-0000-0000-0000-000000000001";
    let settings = json!({
        "resource_group_name": "terraform",
        "storage_account_name": "butlerrunner",
        "container_name": "states",
        "key": "network.tfstate",
        "access_key": "c2VjcmV0",
        "environment": "public",
        "snapshot": true,
        "use_azuread_auth": false,
        "use_cli": false,
        "use_msi": false,
        "use_oidc": false,
        "use_aks_workload_identity": false,
        "lookup_blob_endpoint": false,
        "subscription_id": id,
        "tenant_id": id,
        "client_id": id,
        "client_secret": "secret",
    });
    assert_accepted("azurerm", &settings, "butlerrunner.blob.core.windows.net");
}

#[test]
fn terraform_accepts_all_kubernetes_settings() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "contexts": [{"name": "test", "context": {"cluster": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": "http://127.0.0.1:2"}}],
    });
    std::fs::write(&kubeconfig, content.to_string()).unwrap();
    let settings = json!({
        "secret_suffix": "network",
        "namespace": "terraform",
        "labels": {"team": "network", "floor": 3},
        "in_cluster_config": false,
        "host": "http://127.0.0.1:1",
        "insecure": false,
        "config_path": kubeconfig,
        "config_context": "test",
        "config_context_cluster": "test",
        "exec": {
            "api_version": "client.authentication.k8s.io/v1beta1",
            "command": "sh",
            "args": ["-c", "exit 1"],
            "env": {"REGION": "eu-central-1", "DEPTH": 2},
        },
    });
    // Terraform itself omits a part that the Kubernetes client requires.
    assert_accepted("kubernetes", &settings, "interactiveMode must be specified");
    let mut without_exec = settings;
    without_exec.as_object_mut().unwrap().remove("exec");
    assert_accepted("kubernetes", &without_exec, "dial tcp 127.0.0.1:1");
}

#[tokio::test]
async fn terraform_accepts_all_gcs_settings() {
    let storage = CloudStorage::start().await;
    let endpoint = storage.endpoint();
    let key = |name: &str, value: &str| {
        json!({
            "bucket": cloud_storage::BUCKET,
            "prefix": "network",
            "access_token": cloud_storage::TOKEN,
            "storage_custom_endpoint": endpoint,
            name: value,
        })
    };
    for settings in [
        key("encryption_key", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="),
        key("kms_encryption_key", "projects/p/locations/l/keyRings/r/cryptoKeys/k"),
    ] {
        tokio::task::spawn_blocking(move || {
            assert_accepted("gcs", &settings, "Successfully configured the backend");
        })
        .await
        .unwrap();
    }
}

#[test]
fn terraform_accepts_the_settings_of_other_backends() {
    let unused_address = "127.0.0.1:1";
    for (kind, settings, expected) in [
        (
            "remote",
            json!({"hostname": unused_address, "organization": "o", "token": "t", "workspaces": {"name": "network"}}),
            "https://127.0.0.1:1/.well-known/terraform.json",
        ),
        (
            "remote",
            json!({"hostname": unused_address, "organization": "o", "workspaces": [{"prefix": "network-"}]}),
            "https://127.0.0.1:1/.well-known/terraform.json",
        ),
        (
            "consul",
            json!({"path": "p", "address": unused_address, "scheme": "http", "lock": true, "gzip": true, "access_token": "t"}),
            "http://127.0.0.1:1/v1/kv/",
        ),
        (
            "cos",
            json!({"region": "ap-guangzhou", "bucket": "states-1", "prefix": "p", "secret_id": "i", "secret_key": "k",
                "encrypt": true, "accelerate": false, "acl": "private",
                "assume_role": {"role_arn": "r", "session_name": "s", "session_duration": 3600, "policy": ""}}),
            "sts.tencentcloudapi.com",
        ),
        (
            "oss",
            json!({"region": "cn-hangzhou", "bucket": "states", "prefix": "p", "access_key": "i", "secret_key": "k",
                "encrypt": true, "assume_role": {"role_arn": "r", "session_name": "s", "session_expiration": 3600}}),
            "sts.cn-hangzhou.aliyuncs.com",
        ),
        (
            "pg",
            json!({"conn_str": "postgres://u:p@127.0.0.1:1/d?sslmode=disable", "schema_name": "s",
                "skip_schema_creation": true, "skip_table_creation": true, "skip_index_creation": true}),
            "dial tcp 127.0.0.1:1",
        ),
        (
            "http",
            json!({"address": "http://127.0.0.1:1/", "update_method": "PUT", "lock_address": "http://127.0.0.1:1/",
                "lock_method": "PUT", "unlock_address": "http://127.0.0.1:1/", "unlock_method": "DELETE",
                "username": "u", "password": "p", "skip_cert_verification": false,
                "retry_max": 0, "retry_wait_min": 1, "retry_wait_max": 2}),
            "Successfully configured the backend",
        ),
    ] {
        assert_accepted(kind, &settings, expected);
    }
}
