//! Secrets among the settings of a state backend.
//!
//! Most settings say where the state is and how to get there; everybody may read them. A setting
//! that nobody here knows counts as secret when it is called so or looks like a key.

use std::collections::BTreeMap;

use secrecy::ExposeSecret;
use serde_json::value::RawValue;

use super::ambient::add_assigned;
use super::collected::{Collected, Known};
use super::secret_names::{is_pointer, is_secret_name};
use butler_base::secret::scalars;
use butler_protocol::spec::Backend;

/// Secret beside what is called like a variable that is.
const SECRET_SETTINGS: [&str; 7] = [
    "authorization",
    "client_certificate",
    "client_certificate_data",
    "client_key",
    "conn_str",
    "external_id",
    "oidc_request_token",
];

/// What every setting that begins so is: a way to ask, and not what opens the door.
const PUBLIC_BEGINNINGS: [&str; 6] =
    ["config_context", "ec2_metadata_", "retry_", "skip_", "sts_", "use_"];

/// Settings of the backends of Terraform and OpenTofu that are no secrets, and objects without any.
const PUBLIC_SETTINGS: [&str; 118] = [
    "accelerate",
    "access_token_lifetime",
    "account_id",
    "acl",
    "address",
    "ado_pipeline_service_connection_id",
    "allowed_account_ids",
    "assume_role_duration_seconds",
    "assume_role_policy",
    "assume_role_policy_arns",
    "assume_role_tags",
    "assume_role_transitive_tag_keys",
    "auth",
    "blob_name",
    "bucket",
    "ca_file",
    "cert_file",
    "client_ca_certificate_pem",
    "client_certificate_path",
    "client_certificate_pem",
    "client_id",
    "client_id_file_path",
    "client_secret_file_path",
    "cluster_ca_certificate",
    "concurrency",
    "config_file_profile",
    "config_path",
    "config_paths",
    "container_name",
    "custom_ca_bundle",
    "datacenter",
    "domain",
    "duration",
    "dynamodb_endpoint",
    "dynamodb_table",
    "ecs_role_name",
    "enable_virtual_node",
    "encrypt",
    "endpoint",
    "endpoints",
    "environment",
    "fingerprint",
    "forbidden_account_ids",
    "force_path_style",
    "gzip",
    "host",
    "hostname",
    "http_proxy",
    "https_proxy",
    "iam_endpoint",
    "impersonate_service_account",
    "impersonate_service_account_delegates",
    "in_cluster_config",
    "insecure",
    "key",
    "key_file",
    "kms_encryption_key",
    "kms_key_id",
    "labels",
    "lock",
    "lock_address",
    "lock_method",
    "lookup_blob_endpoint",
    "max_retries",
    "metadata_host",
    "msi_endpoint",
    "name",
    "namespace",
    "no_proxy",
    "oidc_request_url",
    "oidc_token_file_path",
    "organization",
    "path",
    "policy",
    "policy_arns",
    "prefix",
    "private_key_path",
    "profile",
    "project",
    "proxy_command",
    "region",
    "resource_group_name",
    "retry_mode",
    "role_arn",
    "schema_name",
    "scheme",
    "secret_suffix",
    "security_group_ids",
    "service_account",
    "session_duration",
    "session_name",
    "shared_config_file",
    "shared_config_files",
    "shared_credentials_file",
    "shared_credentials_files",
    "snapshot",
    "source_identity",
    "storage_account_name",
    "storage_custom_endpoint",
    "subscription_id",
    "table_name",
    "tablestore_endpoint",
    "tablestore_instance_name",
    "tablestore_table",
    "tags",
    "tenancy_ocid",
    "tenant_id",
    "timeout",
    "transitive_tag_keys",
    "unlock_address",
    "unlock_method",
    "update_method",
    "user_ocid",
    "username",
    "web_identity_token_file",
    "workspace_dir",
    "workspace_key_prefix",
    "workspaces",
];

/// Values of settings that nobody knows are secret from that length on, in characters, if they have
/// letters and digits.
const SHORTEST_KEY: usize = 12;

/// Settings that are nested deeper are secret as a whole.
const DEEPEST: usize = 16;

/// Adds the secrets among the settings of `backend`.
pub(in crate::run) fn add_backend<'names>(
    collected: &mut Collected<'names>,
    backend: &'names Backend,
) {
    for (name, value) in &backend.config {
        let json = value.expose_secret();
        for text in scalars(json) {
            collected.add_login(text.expose_secret());
            add_assigned(collected, Known::ForSure, name, text.expose_secret());
        }
        Settings { collected, setting: name }.add(name, json, 0);
    }
}

struct Settings<'a, 'names> {
    collected: &'a mut Collected<'names>,
    /// What the user knows it by, wherever in it the secret stands.
    setting: &'names str,
}

impl Settings<'_, '_> {
    fn add(&mut self, name: &str, json: &str, depth: usize) {
        if is_public(name) {
            return;
        }
        if is_secret(name) || depth == DEEPEST {
            let path =
                serde_json::from_str::<String>(json).is_ok_and(|text| is_pointer(name, &text));
            if !path {
                self.collected.add_json(Known::ForSure, self.setting, json);
            }
        } else if let Ok(fields) = serde_json::from_str::<BTreeMap<String, &RawValue>>(json) {
            for (name, json) in fields {
                self.add(&name, json.get(), depth + 1);
            }
        } else if let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(json) {
            for json in elements {
                self.add(name, json.get(), depth + 1);
            }
        } else {
            for text in scalars(json).filter(|text| looks_like_key(text.expose_secret())) {
                self.collected.add(Known::ForSure, self.setting, text.expose_secret());
            }
        }
    }
}

fn is_public(name: &str) -> bool {
    PUBLIC_SETTINGS.contains(&name)
        || PUBLIC_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

fn is_secret(name: &str) -> bool {
    SECRET_SETTINGS.iter().any(|setting| setting.eq_ignore_ascii_case(name)) || is_secret_name(name)
}

fn looks_like_key(text: &str) -> bool {
    let text = text.trim();
    text.chars().count() >= SHORTEST_KEY
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
        && text.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use butler_base::secret::Redactor;

    fn shown(config: &serde_json::Value, text: &str) -> String {
        let settings = config.as_object().unwrap().iter();
        let backend = Backend {
            kind: "s3".to_owned(),
            config: settings.map(|(name, json)| (name.clone(), json.to_string().into())).collect(),
        };
        let redactor = Redactor::new();
        let mut collected = Collected::default();
        add_backend(&mut collected, &backend);
        collected.register(&redactor);
        redactor.redact(text.as_bytes()).into_owned()
    }

    #[test]
    fn public_settings_are_listed_once_and_in_order() {
        assert!(PUBLIC_SETTINGS.is_sorted_by(|one, other| one < other));
        let secret = PUBLIC_SETTINGS.iter().filter(|name| SECRET_SETTINGS.contains(name));
        assert_eq!(secret.count(), 0);
    }

    #[test]
    fn backend_logins_are_masked_and_places_are_not() {
        let config = json!({
            "conn_str": "postgres://butler:p%40ssw0rd@db/state",
            "schema_name": "network",
            "address": "https://me:hunter22@state.example/x",
            "http_proxy": "http://user:hunter23@proxy.example:3128",
        });
        let text = "cannot reach postgres://butler:p%40ssw0rd@db/state (p@ssw0rd) schema network, hunter22, hunter23, proxy.example:3128";
        assert_eq!(
            shown(&config, text),
            "cannot reach *** (***) schema network, ***, ***, proxy.example:3128"
        );
    }

    #[test]
    fn settings_that_say_where_and_how_are_not_masked() {
        for config in [
            json!({"acl": "bucket-owner-full-control", "profile": "production-2024", "sts_region": "eu-central-1",
                "retry_mode": "standard", "max_retries": 12345, "allowed_account_ids": ["123456789012"],
                "shared_config_files": ["/home/me/.aws/config2"], "custom_ca_bundle": "/etc/ssl/ca2.pem",
                "ec2_metadata_service_endpoint": "http://169.254.169.254", "sts_endpoint": "http://minio.internal:9000",
                "assume_role": {"role_arn": "arn:aws:iam::123456789012:role/x", "session_name": "run-1234567890",
                    "policy_arns": ["arn:aws:iam::123456789012:policy/x"], "tags": {"password": "tag-value-12345"}}}),
            json!({"update_method": "POST", "username": "terraform-2024", "retry_wait_min": 12345, "skip_cert_verification": "true"}),
            json!({"scheme": "https", "datacenter": "eu-central-dc1", "gzip": true, "ca_file": "/etc/consul/ca1.pem"}),
            json!({"config_context_cluster": "cluster-0123456789", "labels": {"team": "network-0123456"},
                "host": "https://10.0.0.1:6443/0123", "in_cluster_config": true, "insecure": false}),
            json!({"tenant_id": "00000000-aaaa-0000-0000-000000000000", "subscription_id": "11111111-bbbb-0000-0000-000000000000",
                "client_id": "22222222-cccc-0000-0000-000000000000", "use_oidc": true}),
            json!({"impersonate_service_account": "state1@project2.iam.example", "kms_encryption_key": "projects/p1/keys/k2"}),
            json!({"skip_schema_creation": true, "organization": "my-organization-1", "workspaces": {"name": "network-eu-central-1"}}),
            json!({"future": "a-short", "another": "of letters alone", "more": "123456789012345"}),
        ] {
            let text = config.to_string();
            assert_eq!(shown(&config, &text), text);
        }
    }

    #[test]
    fn settings_that_are_called_secret_or_look_like_keys_are_masked() {
        for (config, secret) in [
            (json!({"access_key": "AKIA1234"}), "AKIA1234"),
            (json!({"sas_token": "sv=2024&sig=abcdef"}), "sv=2024&sig=abcdef"),
            (json!({"client_certificate_password": "pass"}), "pass"),
            (json!({"encryption_key": "c2VjcmV0"}), "c2VjcmV0"),
            (json!({"http_auth": "me:hunter22"}), "me:hunter22"),
            (json!({"client_key": "-----BEGIN KEY"}), "-----BEGIN KEY"),
            (json!({"assume_role": {"external_id": "my-own-id", "role_arn": "x"}}), "my-own-id"),
            (json!({"assume_role": [{"external_id": "my-own-id"}]}), "my-own-id"),
            (json!({"headers": {"Authorization": "Basic eHl6"}}), "Basic eHl6"),
            (json!({"exec": {"env": {"SOME_TOKEN": "hunt"}}}), "hunt"),
            (json!({"future": "0123456789abcdef"}), "0123456789abcdef"),
            (json!({"future": {"clientSecret": "abcd"}}), "abcd"),
        ] {
            assert_eq!(shown(&config, secret), "***", "{config}");
        }
    }
}
