//! Secrets in the environment that the runner was started in, which Terraform inherits: a module that
//! prints its environment must not print these.
//!
//! Nobody says which variables are secret, so their names decide ([`SECRET_VARIABLES`]). Logins in
//! URLs and what is assigned to a secret name inside of a value are secret under any name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::secrets::{register, register_login};
use crate::secret::Redactor;

/// Names of variables that hold secrets, and what they are for. `*` stands for anything; one at the
/// beginning also stands for nothing, together with the `_` behind it. Case does not matter.
pub const SECRET_VARIABLES: [(&str, &str); 24] = [
    ("TF_TOKEN_*", "Terraform registries"),
    ("TF_ENCRYPTION", "OpenTofu's state encryption"),
    ("GOOGLE_CREDENTIALS", "Google Cloud"),
    ("GOOGLE_BACKEND_CREDENTIALS", "Google Cloud"),
    ("GOOGLE_CLOUD_KEYFILE_JSON", "Google Cloud"),
    ("GCLOUD_KEYFILE_JSON", "Google Cloud"),
    ("ARM_CLIENT_CERTIFICATE", "Azure"),
    ("PGPASSWORD", "PostgreSQL"),
    ("MYSQL_PWD", "MySQL"),
    ("DOCKER_AUTH_CONFIG", "container registries"),
    ("*_TOKEN", "GITHUB_TOKEN, VAULT_TOKEN, AWS_SESSION_TOKEN, ..."),
    ("*_PAT", "AZURE_DEVOPS_EXT_PAT, ..."),
    ("*_PASSWORD", "CI_REGISTRY_PASSWORD, ..."),
    ("*_PASSWD", "passwords"),
    ("*_PASSPHRASE", "keys"),
    ("*_PASS", "SMTP_PASS, ..."),
    ("*_SECRET", "ARM_CLIENT_SECRET, ..."),
    ("*_SECRET_ID", "Vault's AppRole"),
    ("*_SECRET_KEY", "object stores"),
    ("*_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY, ARM_ACCESS_KEY, ..."),
    ("*_ACCOUNT_KEY", "Azure storage"),
    ("*_PRIVATE_KEY", "keys"),
    ("*_API_KEY", "DD_API_KEY, ..."),
    ("*_APP_KEY", "DD_APP_KEY, ..."),
];

/// Fields of key files and the like that are secret beside what is called like a variable.
const SECRET_FIELDS: [&str; 3] = ["AUTH", "PRIVATE_KEY_ID", "IDENTITYTOKEN"];

/// Registers the secrets among `variables`.
pub(super) fn register_environment(redactor: &Redactor, variables: &BTreeMap<OsString, OsString>) {
    for (name, value) in variables {
        // What is no text cannot be printed as it is either.
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
            register_variable(redactor, name, &SecretString::from(value));
        }
    }
}

/// Registers what is secret in the value of one variable.
pub(super) fn register_variable(redactor: &Redactor, name: &str, value: &SecretString) {
    // A user name alone is a name in most variables.
    let has_password = Url::parse(value.expose_secret()).is_ok_and(|url| url.password().is_some());
    if has_password || name.to_ascii_uppercase().ends_with("_PROXY") {
        register_login(redactor, value);
    }
    register_assigned(redactor, name, value.expose_secret());
    if is_secret_name(name) {
        register_credentials(redactor, name, value);
    }
}

/// Registers a value that is secret as a whole, and the secret parts of a key file in JSON.
pub(super) fn register_credentials(redactor: &Redactor, name: &str, value: &SecretString) {
    let text = value.expose_secret();
    // Some variables hold a key file or its path.
    if Path::new(text).is_file() {
        return;
    }
    register(redactor, name, [value]);
    register_assigned(redactor, name, text);
    if let Ok(json @ serde_json::Value::Object(_)) = serde_json::from_str(text) {
        register_fields(redactor, name, json, false);
    }
}

/// Whether variables of this name hold secrets.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase().replace('-', "_");
    SECRET_VARIABLES.iter().any(|(pattern, _)| match pattern.strip_prefix('*') {
        Some(end) => name.ends_with(end) || name == end.trim_start_matches('_'),
        None => match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == *pattern,
        },
    })
}

/// Registers the texts in `json` that are below a secret name.
fn register_fields(redactor: &Redactor, name: &str, json: serde_json::Value, secret: bool) {
    match json {
        serde_json::Value::String(text) if secret => {
            register(redactor, name, &[SecretString::from(text)]);
        }
        serde_json::Value::Array(values) => {
            for value in values {
                register_fields(redactor, name, value, secret);
            }
        }
        serde_json::Value::Object(fields) => {
            for (field, value) in fields {
                let secret = secret
                    || is_secret_name(&field)
                    || SECRET_FIELDS.contains(&&*field.to_ascii_uppercase());
                register_fields(redactor, name, value, secret);
            }
        }
        _ => {}
    }
}

/// Registers what is assigned to a secret name inside of `text`: `password=x` of a connection
/// string, `-var api_token=x` of `TF_CLI_ARGS`, `passphrase = "x"` of a configuration.
pub(super) fn register_assigned(redactor: &Redactor, name: &str, text: &str) {
    for (index, _) in text.match_indices('=') {
        let before = text[..index].trim_end();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let start = before
            .rfind(|c| !is_part(c))
            .map_or(0, |last| last + before[last..].chars().next().map_or(0, char::len_utf8));
        if !is_secret_name(before[start..].trim_start_matches('-')) {
            continue;
        }
        let opened = before[..start].chars().next_back().filter(|c| matches!(c, '"' | '\''));
        let behind = text[index + 1..].trim_start_matches([' ', '\t']);
        let value = match (opened, behind.chars().next()) {
            (Some(quote), _) => behind.split(quote).next(),
            (None, Some(quote @ ('"' | '\''))) => behind[1..].split(quote).next(),
            _ => behind.split([' ', '\t', '\r', '\n', '&', ';', ',', '"', '\'']).next(),
        };
        if let Some(value) = value {
            register(redactor, name, &[SecretString::from(value)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(variables: &[(&str, &str)], text: &str) -> String {
        let redactor = Redactor::new();
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        register_environment(&redactor, &variables);
        redactor.redact(text.as_bytes()).into_owned()
    }

    #[test]
    fn names_of_the_well_known_credentials_are_secret_and_others_are_not() {
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "ARM_CLIENT_SECRET",
            "ARM_ACCESS_KEY",
            "ARM_CLIENT_CERTIFICATE_PASSWORD",
            "GOOGLE_CREDENTIALS",
            "GOOGLE_OAUTH_ACCESS_TOKEN",
            "TF_TOKEN_app_terraform_io",
            "TF_ENCRYPTION",
            "VAULT_TOKEN",
            "GITLAB_TOKEN",
            "GITHUB_TOKEN",
            "CI_JOB_TOKEN",
            "CI_REGISTRY_PASSWORD",
            "ACTIONS_RUNTIME_TOKEN",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
            "PGPASSWORD",
            "TF_VAR_db_password",
            "TOKEN",
            "password",
            "DIGITALOCEAN_TOKEN",
            "CLOUDFLARE_API_KEY",
            "TF_HTTP_PASSWORD",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "PWD",
            "HOME",
            "AWS_ACCESS_KEY_ID",
            "AWS_REGION",
            "SSH_AUTH_SOCK",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GPG_KEY",
            "BUTLER_TOKEN_FILE",
            "TF_VAR_region",
            "COMPASS",
            "GITHUB_SHA",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn logins_and_assignments_are_masked_under_any_name() {
        let variables = [
            ("HTTPS_PROXY", "http://user:pr%40xypass@proxy.example:3128"),
            ("PG_CONN_STR", "host=db.example password=hunter-dsn sslmode=disable"),
            ("TF_CLI_ARGS_plan", "-var=api_token=hunter-args -var 'db_password=it is' -no-color"),
            ("TF_ENCRYPTION", "key_provider \"pbkdf2\" \"x\" {\n  passphrase = \"hunter enc\"\n}"),
        ];
        let text = "pr%40xypass pr@xypass hunter-dsn hunter-args <it is> <hunter enc> db.example proxy.example";
        assert_eq!(shown(&variables, text), "*** *** *** *** <***> <***> db.example proxy.example");
    }

    #[test]
    fn key_file_is_masked_in_whole_and_in_its_secret_fields() {
        let key = r#"{"type": "service_account", "project_id": "my-project",
            "private_key_id": "0a1b2c3d", "private_key": "-----BEGIN\nc2VjcmV0\n-----END\n",
            "auths": {"registry.example": {"auth": "dXNlcg=="}}}"#;
        let variables = [("GOOGLE_CREDENTIALS", key)];
        assert_eq!(shown(&variables, key), "***");
        assert_eq!(
            shown(&variables, "c2VjcmV0 0a1b2c3d dXNlcg== my-project service_account"),
            "*** *** *** my-project service_account"
        );
    }

    #[test]
    fn path_of_a_key_file_and_words_for_yes_and_no_are_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let variables = [("GOOGLE_CREDENTIALS", path), ("X_TOKEN", "true"), ("HOME", "/home/me")];
        let text = format!("{path} true /home/me");
        assert_eq!(shown(&variables, &text), text);
    }
}
