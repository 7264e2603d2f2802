//! State keys of each backend.

use serde_json::{Value, json};

use super::super::known_settings::SettingValue;
use super::{StateKey, state_key};

/// The key of a configuration; a setting whose value is `"unknown"` is unknown.
fn key(kind: &str, settings: &Value, workspace: &str) -> Option<StateKey> {
    let texts = settings.as_object().unwrap().iter();
    let texts: Vec<_> = texts.map(|(name, value)| (name.as_str(), value.to_string())).collect();
    let settings = texts.iter().map(|(name, json)| {
        let value =
            if json == r#""unknown""# { SettingValue::Unknown } else { SettingValue::Json(json) };
        (*name, value)
    });
    state_key(kind, settings, workspace)
}

fn text(kind: &str, settings: &Value, workspace: &str) -> String {
    key(kind, settings, workspace).map_or_else(|| "none".to_owned(), |key| key.to_string())
}

#[track_caller]
fn assert_keys(kind: &str, workspace: &str, table: &[(Value, &str)]) {
    for (settings, expected) in table {
        assert_eq!(text(kind, settings, workspace), *expected, "{kind} {settings}");
    }
}

#[test]
fn s3_key_is_the_same_for_all_spellings_of_an_endpoint() {
    let minio = "s3|minio.example:443|b|k";
    assert_keys(
        "s3",
        "",
        &[
            (json!({"bucket": "b", "key": "k"}), "s3|aws|b|k"),
            (json!({"bucket": "b", "key": "/k", "region": "eu-central-1"}), "s3|aws|b|k"),
            (json!({"bucket": "b", "key": "k", "region": "unknown"}), "s3|aws|b|k"),
            (
                json!({"bucket": "b", "key": "k", "endpoint": "s3.eu-west-1.amazonaws.com"}),
                "s3|aws|b|k",
            ),
            (json!({"bucket": "b", "key": "k", "region": "cn-north-1"}), "s3|aws-cn|b|k"),
            (
                json!({"bucket": "b", "key": "k", "endpoint": "https://s3.cn-north-1.amazonaws.com.cn"}),
                "s3|aws-cn|b|k",
            ),
            (json!({"bucket": "b", "key": "k", "region": "us-gov-west-1"}), "s3|aws-us-gov|b|k"),
            (json!({"bucket": "b", "key": "k", "endpoint": "minio.example"}), minio),
            (json!({"bucket": "b", "key": "k", "endpoint": "https://MinIO.example:443/"}), minio),
            (
                json!({"bucket": "b", "key": "k", "endpoints": {"s3": "https://minio.example"}}),
                minio,
            ),
            (
                json!({"bucket": "b", "key": "k", "endpoints": [{"s3": "https://minio.example"}], "endpoint": "old"}),
                minio,
            ),
            (
                json!({"bucket": "b", "key": "k", "endpoint": "http://minio.example:9000"}),
                "s3|minio.example:9000|b|k",
            ),
            (json!({"bucket": "b"}), "none"),
            (json!({"bucket": "b", "key": "unknown"}), "none"),
            (json!({"bucket": "b", "key": "k", "endpoint": "unknown"}), "none"),
            (json!({"bucket": "b", "key": "k", "endpoint": "not an address"}), "none"),
        ],
    );
}

#[test]
fn s3_workspace_is_part_of_the_object_name() {
    let settings = json!({"bucket": "b", "key": "k"});
    assert_eq!(text("s3", &settings, "default"), "s3|aws|b|k");
    assert_eq!(text("s3", &settings, "blue"), "s3|aws|b|env:/blue/k");
    let prefixed = json!({"bucket": "b", "key": "k", "workspace_key_prefix": "w/"});
    assert_eq!(text("s3", &prefixed, "blue"), "s3|aws|b|w/blue/k");
    assert_eq!(text("s3", &json!({"bucket": "b", "key": "w/blue/k"}), ""), "s3|aws|b|w/blue/k");
}

#[test]
fn gcs_key_ignores_slashes_around_the_prefix() {
    assert_keys(
        "gcs",
        "",
        &[
            (json!({"bucket": "b"}), "gcs|google|b|default.tfstate"),
            (json!({"bucket": "b", "prefix": "a/b"}), "gcs|google|b|a/b/default.tfstate"),
            (json!({"bucket": "b", "prefix": "/a/b/"}), "gcs|google|b|a/b/default.tfstate"),
            (
                json!({"bucket": "b", "storage_custom_endpoint": "https://storage-x.p.googleapis.com/storage/v1"}),
                "gcs|google|b|default.tfstate",
            ),
            (
                json!({"bucket": "b", "storage_custom_endpoint": "http://gcs.example:4443/storage/v1/"}),
                "gcs|gcs.example:4443/storage/v1|b|default.tfstate",
            ),
            (json!({"prefix": "a"}), "none"),
        ],
    );
    assert_eq!(text("gcs", &json!({"bucket": "b"}), "blue"), "gcs|google|b|blue.tfstate");
}

#[test]
fn azurerm_key_needs_account_container_and_key() {
    let settings = json!({"storage_account_name": "a", "container_name": "c", "key": "k",
        "access_key": "hunter22", "resource_group_name": "r"});
    assert_eq!(text("azurerm", &settings, ""), "azurerm|public|a|c|k");
    assert_eq!(text("azurerm", &settings, "blue"), "azurerm|public|a|c|kenv:blue");
    assert_keys(
        "azurerm",
        "",
        &[
            (
                json!({"storage_account_name": "a", "container_name": "c", "key": "k", "environment": "China"}),
                "azurerm|china|a|c|k",
            ),
            (json!({"container_name": "c", "key": "k"}), "none"),
            (json!({"storage_account_name": "a", "container_name": "c"}), "none"),
        ],
    );
}

#[test]
fn pg_key_contains_the_database_and_never_the_login() {
    let table = "terraform_remote_state|states|default";
    for connection in [
        "postgres://me:hunter22@DB.example/infra?sslmode=require",
        "postgresql://db.example:5432/infra",
        "postgres:///infra?host=db.example",
        "host=db.example dbname=infra user=me password='hunter22 \\' x'",
        "dbname = 'infra'  host = db.example port=5432",
        "postgres://infra@db.example",
    ] {
        let key = text("pg", &json!({"conn_str": connection}), "");
        assert_eq!(key, format!("pg|db.example:5432/infra|{table}"), "{connection}");
    }
    for connection in [
        "",
        "postgres:///infra",
        "dbname=infra",
        "host=a,b dbname=x",
        "host='a",
        "host",
        "postgres://h",
    ] {
        assert_eq!(text("pg", &json!({"conn_str": connection}), ""), "none", "{connection}");
    }
    let named = json!({"conn_str": "host=h dbname=d", "schema_name": "Team|a"});
    assert_eq!(text("pg", &named, "blue"), "pg|h:5432/d|Team%7Ca|states|blue");
    assert_eq!(text("pg", &json!({"conn_str": "unknown"}), ""), "none");
}

#[test]
fn http_key_is_the_address_without_a_login() {
    assert_keys(
        "http",
        "",
        &[
            (json!({"address": "https://me:hunter22@S.example:443/a"}), "http|https://s.example/a"),
            (
                json!({"address": "https://s.example/a", "username": "me"}),
                "http|https://s.example/a",
            ),
            (
                json!({"address": "https://s.example/a?access_token=hunter22&state=x#y"}),
                "http|https://s.example/a?state=x",
            ),
            (json!({"address": "http://s.example/a"}), "http|http://s.example/a"),
            (json!({"address": "s.example/a"}), "none"),
            (json!({}), "none"),
        ],
    );
    assert_eq!(text("http", &json!({"address": "https://s.example/a"}), "blue"), "none");
}

#[test]
fn consul_key_is_the_server_and_the_path() {
    assert_keys(
        "consul",
        "",
        &[
            (json!({"address": "c.example:8500", "path": "a/b"}), "consul|c.example:8500||a/b"),
            (
                json!({"address": "http://c.example:8500", "path": "a/b", "access_token": "x"}),
                "consul|c.example:8500||a/b",
            ),
            (
                json!({"address": "c.example", "scheme": "https", "path": "a", "datacenter": "dc1"}),
                "consul|c.example:443|dc1|a",
            ),
            (json!({"path": "a/b"}), "none"),
        ],
    );
    let settings = json!({"address": "c.example:8500", "path": "a"});
    assert_eq!(text("consul", &settings, "blue"), "consul|c.example:8500||a-env:blue");
}

#[test]
fn kubernetes_key_is_the_name_of_the_secret_in_its_cluster() {
    assert_keys(
        "kubernetes",
        "",
        &[
            (
                json!({"host": "https://10.0.0.1:6443", "secret_suffix": "net", "token": "hunter22"}),
                "kubernetes|10.0.0.1:6443|default|tfstate-default-net",
            ),
            (
                json!({"config_path": "/k", "secret_suffix": "net", "namespace": "infra"}),
                "kubernetes|/k##|infra|tfstate-default-net",
            ),
            (
                json!({"config_paths": ["/k"], "config_context": "c", "secret_suffix": "net"}),
                "kubernetes|/k#c#|default|tfstate-default-net",
            ),
            (
                json!({"in_cluster_config": true, "secret_suffix": "net"}),
                "kubernetes|in-cluster|default|tfstate-default-net",
            ),
            (json!({"secret_suffix": "net"}), "none"),
            (json!({"host": "h"}), "none"),
        ],
    );
    let one = text("kubernetes", &json!({"host": "h", "secret_suffix": "c"}), "a-b");
    assert_eq!(one, text("kubernetes", &json!({"host": "h", "secret_suffix": "b-c"}), "a"));
}

#[test]
fn local_key_is_an_absolute_path() {
    assert_keys(
        "local",
        "",
        &[
            (json!({"path": "/a/./b/../c.tfstate"}), "local|/a/c.tfstate"),
            (json!({"path": "/a//c.tfstate"}), "local|/a/c.tfstate"),
            (json!({"path": "c.tfstate"}), "none"),
            (json!({}), "none"),
        ],
    );
    let workspaces = json!({"path": "/a", "workspace_dir": "/w"});
    assert_eq!(text("local", &workspaces, "blue"), "local|/w/blue/terraform.tfstate");
    assert_eq!(text("local", &json!({"path": "/a"}), "blue"), "none");
}

#[test]
fn remote_and_cloud_have_the_same_keys() {
    let named = json!({"organization": "o", "workspaces": {"name": "net-blue"}});
    let key = "remote|app.terraform.io|o|net-blue";
    assert_eq!(text("remote", &named, ""), key);
    assert_eq!(text("cloud", &named, "default"), key);
    assert_eq!(text("cloud", &named, "blue"), "none");
    let prefixed = json!({"hostname": "App.Terraform.io:443", "organization": "o",
        "workspaces": [{"prefix": "net-"}]});
    assert_eq!(text("remote", &prefixed, "blue"), key);
    assert_eq!(text("remote", &prefixed, ""), "none");
    let tagged = json!({"organization": "o", "workspaces": {"tags": ["net"]}});
    assert_eq!(text("cloud", &tagged, "net-blue"), key);
    assert_eq!(text("remote", &json!({"workspaces": {"name": "x"}}), ""), "none");
    assert_eq!(text("remote", &json!({"organization": "o", "workspaces": "unknown"}), ""), "none");
}

#[test]
fn object_stores_of_other_clouds_name_bucket_and_object() {
    let bucket = json!({"bucket": "b", "region": "r", "namespace": "n"});
    for (kind, default, blue) in [
        ("oss", "oss|b|env:/terraform.tfstate", "oss|b|env:/blue/terraform.tfstate"),
        ("cos", "cos|r|b|terraform.tfstate", "cos|r|b|blue/terraform.tfstate"),
        ("oci", "oci|r|n|b|terraform.tfstate", "oci|r|n|b|env:/blue/terraform.tfstate"),
    ] {
        assert_eq!(text(kind, &bucket, ""), default);
        assert_eq!(text(kind, &bucket, "blue"), blue);
        assert_eq!(text(kind, &json!({"region": "r"}), ""), "none");
    }
}

#[test]
fn backend_that_is_not_in_the_table_has_no_key() {
    assert_eq!(key("etcdv3", &json!({"endpoints": ["a"], "prefix": "p"}), ""), None);
}
