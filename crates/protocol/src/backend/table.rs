//! The table of state backends.

use super::identity;
use super::kind::{BackendKind, LockLifetime, SettingsTranslation, StateLocation};

/// The backend of a module that does not name one.
pub const LOCAL: BackendKind = BackendKind {
    name: "local",
    state: StateLocation::LocalFile,
    lock: LockLifetime::Process,
    public_settings: &["path", "workspace_dir"],
    identity: identity::local,
    ..REMOTE
};

/// A backend that is not in the table: a new one, or one of an old version of Terraform.
pub const UNKNOWN: BackendKind = BackendKind {
    name: "unknown",
    public_settings: &[
        "concurrency",
        "enable_virtual_node",
        "proxy_command",
        "security_group_ids",
        "service_account",
    ],
    ..REMOTE
};

/// The name of the block that replaces a backend.
const CLOUD: &str = "cloud";

/// What most backends have in common.
const REMOTE: BackendKind = BackendKind {
    name: "",
    state: StateLocation::Remote,
    lock: LockLifetime::UntilRemoved,
    sends_module: false,
    blocks: &[],
    translation: SettingsTranslation::Unchanged,
    public_settings: &[],
    identity: identity::none,
};

/// The backends of Terraform and OpenTofu, by name.
static BACKENDS: [BackendKind; 13] = [
    BackendKind {
        name: "azurerm",
        public_settings: &[
            "ado_pipeline_service_connection_id",
            "blob_name",
            "client_certificate_path",
            "client_id",
            "client_id_file_path",
            "client_secret_file_path",
            "container_name",
            "endpoint",
            "environment",
            "key",
            "lookup_blob_endpoint",
            "metadata_host",
            "msi_endpoint",
            "oidc_request_url",
            "oidc_token_file_path",
            "resource_group_name",
            "snapshot",
            "storage_account_name",
            "subscription_id",
            "tenant_id",
            "timeout",
        ],
        identity: identity::azurerm,
        ..REMOTE
    },
    BackendKind {
        name: CLOUD,
        sends_module: true,
        public_settings: &["hostname", "name", "organization", "project", "tags", "workspaces"],
        identity: identity::remote,
        ..REMOTE
    },
    BackendKind {
        name: "consul",
        public_settings: &[
            "address",
            "ca_file",
            "cert_file",
            "datacenter",
            "gzip",
            "key_file",
            "lock",
            "path",
            "scheme",
        ],
        identity: identity::consul,
        ..REMOTE
    },
    BackendKind {
        name: "cos",
        blocks: &["assume_role"],
        public_settings: &[
            "accelerate",
            "acl",
            "bucket",
            "domain",
            "encrypt",
            "endpoint",
            "key",
            "policy",
            "prefix",
            "profile",
            "region",
            "role_arn",
            "session_duration",
            "session_name",
        ],
        identity: identity::cos,
        ..REMOTE
    },
    BackendKind {
        name: "gcs",
        public_settings: &[
            "access_token_lifetime",
            "bucket",
            "impersonate_service_account",
            "impersonate_service_account_delegates",
            "kms_encryption_key",
            "prefix",
            "storage_custom_endpoint",
        ],
        identity: identity::gcs,
        ..REMOTE
    },
    BackendKind {
        name: "http",
        public_settings: &[
            "address",
            "client_ca_certificate_pem",
            "client_certificate_pem",
            "lock_address",
            "lock_method",
            "unlock_address",
            "unlock_method",
            "update_method",
            "username",
        ],
        identity: identity::http,
        ..REMOTE
    },
    BackendKind {
        name: "kubernetes",
        blocks: &["exec"],
        public_settings: &[
            "cluster_ca_certificate",
            "config_path",
            "config_paths",
            "host",
            "in_cluster_config",
            "insecure",
            "labels",
            "namespace",
            "secret_suffix",
            "username",
        ],
        identity: identity::kubernetes,
        ..REMOTE
    },
    LOCAL,
    BackendKind {
        name: "oci",
        public_settings: &[
            "auth",
            "bucket",
            "config_file_profile",
            "fingerprint",
            "key",
            "kms_key_id",
            "namespace",
            "private_key_path",
            "region",
            "tenancy_ocid",
            "user_ocid",
            "workspace_key_prefix",
        ],
        identity: identity::oci,
        ..REMOTE
    },
    BackendKind {
        name: "oss",
        blocks: &["assume_role"],
        public_settings: &[
            "acl",
            "bucket",
            "ecs_role_name",
            "encrypt",
            "endpoint",
            "key",
            "policy",
            "prefix",
            "profile",
            "region",
            "role_arn",
            "session_name",
            "shared_credentials_file",
            "tablestore_endpoint",
            "tablestore_instance_name",
            "tablestore_table",
        ],
        identity: identity::oss,
        ..REMOTE
    },
    BackendKind {
        name: "pg",
        lock: LockLifetime::Process,
        public_settings: &["schema_name", "table_name"],
        identity: identity::pg,
        ..REMOTE
    },
    BackendKind {
        name: "remote",
        sends_module: true,
        blocks: &["workspaces"],
        public_settings: &[
            "hostname",
            "name",
            "organization",
            "prefix",
            "project",
            "tags",
            "workspaces",
        ],
        identity: identity::remote,
        ..REMOTE
    },
    BackendKind {
        name: "s3",
        translation: SettingsTranslation::S3,
        public_settings: &[
            "account_id",
            "acl",
            "allowed_account_ids",
            "assume_role_duration_seconds",
            "assume_role_policy",
            "assume_role_policy_arns",
            "assume_role_tags",
            "assume_role_transitive_tag_keys",
            "bucket",
            "custom_ca_bundle",
            "duration",
            "dynamodb_endpoint",
            "dynamodb_table",
            "encrypt",
            "endpoint",
            "endpoints",
            "forbidden_account_ids",
            "force_path_style",
            "http_proxy",
            "https_proxy",
            "iam_endpoint",
            "insecure",
            "key",
            "kms_key_id",
            "max_retries",
            "no_proxy",
            "policy",
            "policy_arns",
            "profile",
            "region",
            "retry_mode",
            "role_arn",
            "session_name",
            "shared_config_file",
            "shared_config_files",
            "shared_credentials_file",
            "shared_credentials_files",
            "source_identity",
            "tags",
            "transitive_tag_keys",
            "web_identity_token_file",
            "workspace_key_prefix",
        ],
        identity: identity::s3,
        ..REMOTE
    },
];

/// Settings with these prefixes are public in all backends: they select a way to authenticate.
const PUBLIC_PREFIXES: [&str; 6] =
    ["config_context", "ec2_metadata_", "retry_", "skip_", "sts_", "use_"];

/// Settings that are secrets although their names do not look like it.
const SECRET_SETTINGS: [&str; 7] = [
    "authorization",
    "client_certificate",
    "client_certificate_data",
    "client_key",
    "conn_str",
    "external_id",
    "oidc_request_token",
];

impl BackendKind {
    /// The backend with Terraform's name `name`; [`UNKNOWN`] if it is not in the table.
    #[must_use]
    pub fn of(name: &str) -> &'static Self {
        BACKENDS.iter().find(|kind| kind.name == name).unwrap_or(&UNKNOWN)
    }

    /// Why this type cannot be configured from outside of a module, with the type to use instead; `None` if it can.
    #[must_use]
    pub fn why_not_configurable(&self) -> Option<&'static str> {
        (self.name == CLOUD).then_some(
            "`cloud` is a block of a module and not a type of backend: use `remote` with its `workspaces` block",
        )
    }

    /// Whether the state is on a server, and so outlives the machine.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.state == StateLocation::Remote
    }
}

/// Whether any backend has a setting of this name, or a member of a setting, that is not a secret. Which backend
/// a value is for does not count: a name never means a secret in one backend and none in another.
#[must_use]
pub fn is_public_setting(name: &str) -> bool {
    public_settings().any(|setting| setting == name)
        || PUBLIC_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether the setting is in the list of secret settings. Other names are judged by the rules for variables.
#[must_use]
pub fn is_secret_setting(name: &str) -> bool {
    SECRET_SETTINGS.iter().any(|setting| setting.eq_ignore_ascii_case(name))
}

/// The public settings of all backends. A name can come several times.
pub fn public_settings() -> impl Iterator<Item = &'static str> {
    BACKENDS.iter().chain([&UNKNOWN]).flat_map(|kind| kind.public_settings).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_and_their_public_settings_are_listed_once_and_in_order() {
        assert!(BACKENDS.is_sorted_by(|one, other| one.name < other.name));
        for kind in BACKENDS.iter().chain([&UNKNOWN]) {
            assert!(kind.public_settings.is_sorted_by(|one, other| one < other), "{}", kind.name);
        }
    }

    #[test]
    fn no_setting_is_both_public_and_secret() {
        let both: Vec<_> = public_settings().filter(|name| is_secret_setting(name)).collect();
        assert_eq!(both, [""; 0]);
    }

    #[test]
    fn backend_that_is_not_in_the_table_is_remote_and_its_lock_stays() {
        let unknown = BackendKind::of("etcdv3");
        assert_eq!(unknown.name, UNKNOWN.name);
        assert_eq!(unknown.state, StateLocation::Remote);
        assert_eq!(unknown.lock, LockLifetime::UntilRemoved);
        assert_eq!(BackendKind::of("local").lock, LockLifetime::Process);
    }
}
