//! Secrets among the settings of a state backend.
//!
//! Most settings name the state and are public; [`butler_protocol::backend`] lists them. An unknown setting is a
//! secret if its name looks like that of a secret, or if its value looks like a key.

use std::collections::BTreeMap;

use secrecy::ExposeSecret;
use serde_json::value::RawValue;

use super::ambient::add_assigned;
use super::collected::{CollectedSecrets, SecretEvidence};
use super::secret_names::{is_pointer, is_secret_name};
use butler_base::secret::scalars;
use butler_protocol::backend::{is_public_setting, is_secret_setting};
use butler_protocol::spec::Backend;

/// Values of unknown settings are secrets from that length on, in characters, if they contain letters and digits.
const SHORTEST_KEY: usize = 12;

/// Settings that are nested deeper are secret as a whole.
const MAX_DEPTH: usize = 16;

/// Adds the secrets among the settings of `backend`.
pub(in crate::run) fn add_backend<'names>(
    collected: &mut CollectedSecrets<'names>,
    backend: &'names Backend,
) {
    for (name, value) in &backend.config {
        let json = value.expose_secret();
        for text in scalars(json) {
            collected.add_login(text.expose_secret());
            add_assigned(collected, SecretEvidence::Certain, name, text.expose_secret());
        }
        SettingCollector { collected, setting: name }.add(name, json, 0);
    }
}

struct SettingCollector<'a, 'names> {
    collected: &'a mut CollectedSecrets<'names>,
    /// The name of the outermost setting, which messages show.
    setting: &'names str,
}

impl SettingCollector<'_, '_> {
    fn add(&mut self, name: &str, json: &str, depth: usize) {
        if is_public_setting(name) {
            return;
        }
        if is_secret(name) || depth == MAX_DEPTH {
            let path =
                serde_json::from_str::<String>(json).is_ok_and(|text| is_pointer(name, &text));
            if !path {
                self.collected.add_json(SecretEvidence::Certain, self.setting, json);
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
                self.collected.add(SecretEvidence::Certain, self.setting, text.expose_secret());
            }
        }
    }
}

fn is_secret(name: &str) -> bool {
    is_secret_setting(name) || is_secret_name(name)
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
        let mut collected = CollectedSecrets::default();
        add_backend(&mut collected, &backend);
        collected.register(&redactor);
        redactor.redact(text.as_bytes()).into_owned()
    }

    #[test]
    fn logins_are_masked_and_addresses_are_not() {
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
    fn public_settings_are_not_masked() {
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
    fn settings_with_secret_names_or_values_like_keys_are_masked() {
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
