//! The first versions that know a setting of a backend. `init` of an older one refuses it, after the downloads.

use semver::Version;

use butler_protocol::spec::{Product, ToolRequest, core};

/// The settings of a backend that older versions do not know.
struct NewSettings {
    backend: &'static str,
    /// The first Terraform, as major and minor version.
    terraform: Option<(u64, u64)>,
    /// The first `OpenTofu`.
    tofu: Option<(u64, u64)>,
    settings: &'static [&'static str],
}

/// All versions of `OpenTofu` know it.
const ALL_TOFU: Option<(u64, u64)> = Some((1, 6));

const SETTINGS: &[NewSettings] = &[
    NewSettings {
        backend: "azurerm",
        terraform: Some((0, 15)),
        tofu: ALL_TOFU,
        settings: &["use_azuread_auth"],
    },
    NewSettings {
        backend: "azurerm",
        terraform: Some((1, 2)),
        tofu: ALL_TOFU,
        settings: &["oidc_request_token", "oidc_request_url", "use_oidc"],
    },
    NewSettings {
        backend: "azurerm",
        terraform: Some((1, 3)),
        tofu: ALL_TOFU,
        settings: &["oidc_token", "oidc_token_file_path"],
    },
    NewSettings {
        backend: "azurerm",
        terraform: None,
        tofu: Some((1, 9)),
        settings: &["timeout_seconds"],
    },
    NewSettings {
        backend: "azurerm",
        terraform: Some((1, 11)),
        tofu: Some((1, 11)),
        settings: &[
            "client_certificate",
            "client_id_file_path",
            "client_secret_file_path",
            "use_aks_workload_identity",
            "use_cli",
        ],
    },
    NewSettings {
        backend: "azurerm",
        terraform: Some((1, 11)),
        tofu: None,
        settings: &["ado_pipeline_service_connection_id", "lookup_blob_endpoint"],
    },
    NewSettings {
        backend: "azurerm",
        terraform: None,
        tofu: Some((1, 12)),
        settings: &["ado_service_connection_id", "customer_provided_key", "encryption_scope"],
    },
    NewSettings {
        backend: "cos",
        terraform: Some((1, 3)),
        tofu: ALL_TOFU,
        settings: &["accelerate"],
    },
    NewSettings {
        backend: "cos",
        terraform: Some((1, 4)),
        tofu: ALL_TOFU,
        settings: &["assume_role", "security_token"],
    },
    NewSettings {
        backend: "cos",
        terraform: Some((1, 6)),
        tofu: None,
        settings: &["domain", "endpoint"],
    },
    NewSettings {
        backend: "cos",
        terraform: Some((1, 10)),
        tofu: None,
        settings: &["cam_role_name", "profile", "shared_credentials_dir"],
    },
    NewSettings {
        backend: "gcs",
        terraform: Some((0, 14)),
        tofu: ALL_TOFU,
        settings: &["impersonate_service_account", "impersonate_service_account_delegates"],
    },
    NewSettings {
        backend: "gcs",
        terraform: Some((1, 4)),
        tofu: ALL_TOFU,
        settings: &["kms_encryption_key", "storage_custom_endpoint"],
    },
    NewSettings {
        backend: "gcs",
        terraform: None,
        tofu: Some((1, 11)),
        settings: &["universe_domain"],
    },
    NewSettings {
        backend: "http",
        terraform: Some((1, 4)),
        tofu: ALL_TOFU,
        settings: &[
            "client_ca_certificate_pem",
            "client_certificate_pem",
            "client_private_key_pem",
        ],
    },
    NewSettings { backend: "http", terraform: None, tofu: Some((1, 7)), settings: &["headers"] },
    NewSettings {
        backend: "kubernetes",
        terraform: Some((1, 1)),
        tofu: ALL_TOFU,
        settings: &["config_paths"],
    },
    NewSettings {
        backend: "kubernetes",
        terraform: Some((1, 6)),
        tofu: None,
        settings: &["proxy_url"],
    },
    NewSettings {
        backend: "oss",
        terraform: Some((1, 12)),
        tofu: None,
        settings: &["tablestore_instance_name"],
    },
    NewSettings {
        backend: "pg",
        terraform: Some((0, 14)),
        tofu: ALL_TOFU,
        settings: &["skip_index_creation", "skip_table_creation"],
    },
    NewSettings {
        backend: "pg",
        terraform: None,
        tofu: Some((1, 10)),
        settings: &["index_name", "table_name"],
    },
    // Those that the runner translates are not here.
    NewSettings {
        backend: "s3",
        terraform: Some((1, 6)),
        tofu: ALL_TOFU,
        settings: &[
            "allowed_account_ids",
            "assume_role_with_web_identity",
            "custom_ca_bundle",
            "ec2_metadata_service_endpoint",
            "ec2_metadata_service_endpoint_mode",
            "forbidden_account_ids",
            "http_proxy",
            "https_proxy",
            "insecure",
            "no_proxy",
            "retry_mode",
            "shared_config_files",
            "skip_s3_checksum",
            "sts_region",
            "use_dualstack_endpoint",
            "use_fips_endpoint",
            "use_legacy_workflow",
        ],
    },
    NewSettings {
        backend: "s3",
        terraform: Some((1, 10)),
        tofu: Some((1, 10)),
        settings: &["use_lockfile"],
    },
    NewSettings {
        backend: "s3",
        terraform: None,
        tofu: Some((1, 11)),
        settings: &["lock_tags", "state_tags"],
    },
];

/// The first tool that knows `setting` of `backend` if `tool` does not; `None` if it does, or if that is not known.
pub(super) fn known_elsewhere(
    backend: &str,
    setting: &str,
    tool: &ToolRequest,
) -> Option<ToolRequest> {
    let new = SETTINGS.iter().find(|it| it.backend == backend && it.settings.contains(&setting))?;
    let first = |product, since: Option<(u64, u64)>| {
        since.map(|(major, minor)| ToolRequest { product, version: Version::new(major, minor, 0) })
    };
    let (terraform, tofu) =
        (first(Product::Terraform, new.terraform), first(Product::OpenTofu, new.tofu));
    let (own, other) = match tool.product {
        Product::Terraform => (terraform, tofu),
        Product::OpenTofu => (tofu, terraform),
        Product::Terragrunt => return None,
    };
    match own {
        Some(own) if core(&tool.version) >= own.version => None,
        Some(own) => Some(own),
        None => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_that_a_version_does_not_know_is_found() {
        for (backend, setting, tool, expected) in [
            ("s3", "use_lockfile", "1.9.8", Some("terraform 1.10.0")),
            ("s3", "use_lockfile", "1.10.0-rc1", None),
            ("s3", "use_lockfile", "opentofu-1.9.4", Some("opentofu 1.10.0")),
            ("s3", "use_lockfile", "opentofu-1.10.0", None),
            ("s3", "state_tags", "1.15.9", Some("opentofu 1.11.0")),
            ("s3", "bucket", "0.13.7", None),
            ("s3", "no_such_setting", "0.13.7", None),
            ("http", "headers", "1.15.0", Some("opentofu 1.7.0")),
            ("http", "headers", "opentofu-1.6.3", Some("opentofu 1.7.0")),
            ("kubernetes", "proxy_url", "opentofu-1.12.6", Some("terraform 1.6.0")),
            ("gcs", "headers", "1.15.0", None),
        ] {
            let found = known_elsewhere(backend, setting, &tool.parse().unwrap());
            let found = found.map(|known| known.to_string());
            assert_eq!(found.as_deref(), expected, "{backend} {setting} {tool}");
        }
    }
}
