//! Names: the known keys, suggestions for unknown ones, and Terraform's names of a backend's settings.

use butler_base::similar::closest;

/// All keys by the path of their map. Hosts, variables and settings of a backend have names of the user's choice.
pub const KEYS: &[(&str, &[&str])] = &[
    ("", &["terraformrc", "backend", "env", "logging", "afterPlan"]),
    ("terraformrc", &["providerInstallation", "credentials"]),
    ("terraformrc.providerInstallation", &["networkMirror", "filesystemMirror", "direct"]),
    ("terraformrc.providerInstallation.networkMirror", &["url", "include", "exclude"]),
    ("terraformrc.providerInstallation.filesystemMirror", &["path", "include", "exclude"]),
    ("terraformrc.providerInstallation.direct", &["include", "exclude"]),
    ("terraformrc.credentials.HOST", &["token"]),
    ("terraformrc.credentials.HOST.token", &["secretId", "key"]),
    ("backend", &["type", "config"]),
    ("logging", &["level", "path"]),
    ("afterPlan", &["command", "env"]),
];

/// Terraform's names of settings that do not follow the rule, because Terraform writes several words as one.
pub const ONE_WORD: &[(&str, &str)] = &[
    ("dynamoDB", "dynamodb"),
    ("dynamoDb", "dynamodb"),
    ("dynamoDBEndpoint", "dynamodb_endpoint"),
    ("dynamoDbEndpoint", "dynamodb_endpoint"),
    ("dynamoDBTable", "dynamodb_table"),
    ("dynamoDbTable", "dynamodb_table"),
    ("tableStoreEndpoint", "tablestore_endpoint"),
    ("tableStoreTable", "tablestore_table"),
    ("useAzureADAuth", "use_azuread_auth"),
    ("useAzureAdAuth", "use_azuread_auth"),
    ("useDualStackEndpoint", "use_dualstack_endpoint"),
    ("useLockFile", "use_lockfile"),
];

/// Settings whose members have names of the user's choice.
const FREE: &[&str] = &["env", "headers", "labels", "tags"];

/// The keys at a path of [`KEYS`].
pub(super) fn keys_of(place: &str) -> &'static [&'static str] {
    KEYS.iter().find(|(known, _)| *known == place).map_or(&[], |(_, keys)| keys)
}

/// The message about the unknown `key` at `place`, with a suggestion. `shown_place` is the path with the user's own names.
pub(super) fn unknown(key: &str, place: &str, shown_place: &str) -> String {
    let key_shown = super::document::shown(key);
    let place_shown =
        if shown_place.is_empty() { String::new() } else { format!(" in `{shown_place}`") };
    let keys = keys_of(place);
    let hint = if let Some(near) = closest(key, keys.iter().copied()) {
        format!("did you mean `{near}`?")
    } else if let Some((home, _)) = KEYS.iter().find(|(_, keys)| keys.contains(&key)) {
        let home = if home.is_empty() { "the top".to_owned() } else { format!("`{home}`") };
        format!("it belongs to {home}")
    } else {
        format!("there are {}", keys.join(", "))
    };
    format!("unknown key `{key_shown}`{place_shown}, {hint}")
}

/// Terraform's name of a backend's setting: `secretSuffix` is `secret_suffix`. A name without capitals stays as it is.
#[must_use]
pub fn terraform_name(key: &str) -> String {
    if let Some((_, name)) = ONE_WORD.iter().find(|(known, _)| *known == key) {
        return (*name).to_owned();
    }
    let mut name = String::with_capacity(key.len() + 4);
    let mut before: Option<char> = None;
    let mut characters = key.chars().peekable();
    while let Some(character) = characters.next() {
        let ends_word = before.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
        let ends_acronym = before.is_some_and(|it| it.is_ascii_uppercase())
            && characters.peek().is_some_and(char::is_ascii_lowercase);
        if character.is_ascii_uppercase() && (ends_word || ends_acronym) {
            name.push('_');
        }
        name.push(character.to_ascii_lowercase());
        before = Some(character);
    }
    name
}

/// Whether the members of this setting keep the names that they have.
pub(super) fn is_free(setting: &str) -> bool {
    FREE.contains(&setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings of the backends of Terraform 1.11 that consist of several words.
    const SETTINGS: &str = "
        access_key access_token account_name acl address assume_role assume_role_policy
        assume_role_with_web_identity ado_pipeline_service_connection_id allowed_account_ids
        ca_file ca_pem cert_file client_ca_certificate_pem client_certificate
        client_certificate_password client_certificate_path client_certificate_pem client_id
        client_id_file_path client_key client_private_key_pem client_secret
        client_secret_file_path cluster_ca_certificate config_context config_context_auth_info
        config_context_cluster config_path config_paths conn_str container_name
        custom_ca_bundle dynamodb_endpoint dynamodb_table ec2_metadata_service_endpoint
        ec2_metadata_service_endpoint_mode ecs_role_name encryption_key external_id
        forbidden_account_ids force_path_style http_auth http_proxy https_proxy iam_endpoint
        impersonate_service_account in_cluster_config index_name insecure key_file
        kms_encryption_key kms_key_id load_config_file lock_address lock_method max_retries
        metadata_host msi_endpoint no_proxy oidc_azure_service_connection_id
        oidc_request_token oidc_request_url oidc_token oidc_token_file_path policy_arns
        resource_group_name retry_max retry_mode retry_wait_max retry_wait_min role_arn
        sas_token schema_name secret_key secret_suffix session_name shared_config_files
        shared_credentials_files skip_cert_verification skip_credentials_validation
        skip_index_creation skip_metadata_api_check skip_region_validation
        skip_requesting_account_id skip_s3_checksum skip_schema_creation skip_table_creation
        source_identity sse_customer_key storage_account_name storage_custom_endpoint
        sts_endpoint sts_region subscription_id table_name tablestore_endpoint
        tablestore_table tenant_id transitive_tag_keys unlock_address unlock_method
        update_method use_aks_workload_identity use_azuread_auth use_cli
        use_dualstack_endpoint use_fips_endpoint use_legacy_workflow use_lockfile use_msi
        use_oidc use_path_style web_identity_token web_identity_token_file workspace_dir
        workspace_key_prefix";

    fn camel(name: &str) -> String {
        let mut words = name.split('_');
        let mut camel = words.next().unwrap_or_default().to_owned();
        for word in words {
            camel += &word[..1].to_uppercase();
            camel += &word[1..];
        }
        camel
    }

    #[test]
    fn camel_case_names_and_terraforms_names_are_translated() {
        for name in SETTINGS.split_whitespace() {
            assert_eq!(terraform_name(&camel(name)), name);
            assert_eq!(terraform_name(name), name);
        }
        for (key, name) in [
            ("clusterCACertificate", "cluster_ca_certificate"),
            ("kmsKeyID", "kms_key_id"),
            ("oidcRequestURL", "oidc_request_url"),
            ("useAKSWorkloadIdentity", "use_aks_workload_identity"),
            ("skipS3Checksum", "skip_s3_checksum"),
            ("useMSI", "use_msi"),
        ] {
            assert_eq!(terraform_name(key), name);
        }
        for (key, name) in ONE_WORD {
            assert_eq!(terraform_name(key), *name);
        }
    }

    #[test]
    fn message_about_an_unknown_key_suggests_a_known_one() {
        for (key, place, expected) in [
            ("networkMiror", "terraformrc.providerInstallation", "did you mean `networkMirror`?"),
            ("network_mirror", "terraformrc.providerInstallation", "did you mean `networkMirror`?"),
            ("Logging", "", "did you mean `logging`?"),
            ("networkMirror", "terraformrc", "it belongs to `terraformrc.providerInstallation`"),
            ("colour", "logging", "there are level, path"),
        ] {
            let text = unknown(key, place, place);
            assert!(text.ends_with(expected), "{text}");
        }
    }
}
