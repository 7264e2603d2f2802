//! Tells the redactor what it must not let through.

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::ambient::{
    is_secret_name, register_assigned, register_credentials, register_environment,
};
use crate::secret::Redactor;
use crate::settings::{RunSource, Settings};
use crate::spec::{Backend, GitCredentials, GitSource, RunSpec, Source};
use crate::workspace::collection_texts;

/// Backend settings that say where the state is, and that everybody may read in a log. All others
/// count as secret: an unknown setting that is masked costs less than a key that is not.
const PUBLIC_BACKEND_SETTINGS: [&str; 45] = [
    "address",
    "bucket",
    "config_path",
    "container_name",
    "dynamodb_endpoint",
    "dynamodb_table",
    "encrypt",
    "endpoint",
    "endpoints",
    "environment",
    "force_path_style",
    "hostname",
    "iam_endpoint",
    "key",
    "kms_key_id",
    "lock_address",
    "lock_method",
    "name",
    "namespace",
    "organization",
    "path",
    "prefix",
    "region",
    "resource_group_name",
    "role_arn",
    "schema_name",
    "secret_suffix",
    "session_name",
    "skip_credentials_validation",
    "skip_index_creation",
    "skip_metadata_api_check",
    "skip_region_validation",
    "skip_requesting_account_id",
    "skip_s3_checksum",
    "skip_schema_creation",
    "skip_table_creation",
    "storage_account_name",
    "sts_endpoint",
    "table_name",
    "unlock_address",
    "unlock_method",
    "use_lockfile",
    "use_path_style",
    "workspace_key_prefix",
    "workspaces",
];

/// Registers what the runner was started with: tokens for git, the mirror's login, and the
/// credentials in the environment that children inherit.
pub(super) fn register_settings(redactor: &Redactor, settings: &Settings) {
    if let RunSource::Registry { token, .. } = &settings.source {
        redactor.register([token]);
    }
    redactor.register(settings.git.tokens.iter().map(|(_, token)| token));
    if let Some(mirror) = &settings.mirror {
        register_login(redactor, &SecretString::from(mirror.as_str()));
    }
    register_environment(redactor, &settings.environment);
}

/// Registers the logins that the run's configuration holds. Its variables come when they are
/// resolved: what stands there before may be the name of a secret, which a hint has to show.
pub(super) fn register_spec(redactor: &Redactor, spec: &RunSpec) {
    if let Source::Git(source) = &spec.source {
        register_git(redactor, source);
    }
    if let Some(backend) = &spec.backend {
        register_backend(redactor, backend);
    }
}

/// Registers an environment variable of the run: what it marks as sensitive, and what is known to
/// be secret by its name.
pub(super) fn register_environment_variable(
    redactor: &Redactor,
    name: &str,
    value: &SecretString,
    sensitive: bool,
) {
    register_login(redactor, value);
    if !sensitive && !is_secret_name(name) {
        return register_assigned(redactor, name, value.expose_secret());
    }
    register_credentials(redactor, name, value);
    if name.starts_with("TF_VAR_") {
        register_text(redactor, name, value);
    }
}

/// Registers a text, and what is in it where it is a collection.
pub(super) fn register_text(redactor: &Redactor, name: &str, text: &SecretString) {
    let mut texts = Vec::new();
    collect_inside(text.expose_secret(), &mut texts);
    register(redactor, name, [text]);
    register(redactor, name, &texts);
}

/// Registers a JSON value: its text, or each text in it where it has an inside.
pub(super) fn register_json(redactor: &Redactor, name: &str, json: &SecretString) {
    match serde_json::from_str(json.expose_secret()) {
        Ok(value) => {
            let mut texts = Vec::new();
            collect(value, &mut texts);
            register(redactor, name, &texts);
        }
        Err(_) => register(redactor, name, [json]),
    }
}

/// Registers all but the words for yes, no and nothing: they hide nothing, and every log has them.
pub(super) fn register<'a>(
    redactor: &Redactor,
    name: &str,
    secrets: impl IntoIterator<Item = &'a SecretString>,
) {
    let words = ["true", "false", "null"];
    let secrets =
        secrets.into_iter().filter(|secret| !words.contains(&secret.expose_secret().trim()));
    redactor.register_named(secrets.map(|secret| (name, secret)));
}

fn collect(value: serde_json::Value, texts: &mut Vec<SecretString>) {
    match value {
        serde_json::Value::String(text) => {
            collect_inside(&text, texts);
            texts.push(SecretString::from(text));
        }
        serde_json::Value::Number(number) => texts.push(SecretString::from(number.to_string())),
        serde_json::Value::Array(values) => {
            for value in values {
                collect(value, texts);
            }
        }
        serde_json::Value::Object(values) => {
            for (_, value) in values {
                collect(value, texts);
            }
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) => {}
    }
}

/// What is in a text that is itself a collection, as JSON or as HCL: the module sees its parts.
fn collect_inside(text: &str, texts: &mut Vec<SecretString>) {
    if !text.trim_start().starts_with(['[', '{']) {
        return;
    }
    match serde_json::from_str(text) {
        Ok(value) => collect(value, texts),
        Err(_) => texts
            .extend(collection_texts(text).iter().map(|text| SecretString::from(text.as_str()))),
    }
}

fn register_backend(redactor: &Redactor, backend: &Backend) {
    for (name, value) in &backend.config {
        register_login(redactor, value);
        register_assigned(redactor, name, value.expose_secret());
        if !PUBLIC_BACKEND_SETTINGS.contains(&name.as_str()) {
            register_json(redactor, name, value);
        }
    }
}

fn register_git(redactor: &Redactor, source: &GitSource) {
    register_login(redactor, &source.repository);
    match &source.credentials {
        GitCredentials::Token { token: secret, .. }
        | GitCredentials::Password { password: secret, .. } => {
            redactor.register([secret]);
        }
        GitCredentials::SshKey { private_key, passphrase, .. } => {
            redactor.register([private_key]);
            redactor.register(passphrase);
        }
        GitCredentials::None | GitCredentials::GithubApp => {}
    }
}

/// Registers the password of a URL, or the token that stands in its place, as it stands there and
/// decoded.
pub(super) fn register_login(redactor: &Redactor, text: &SecretString) {
    let plain = serde_json::from_str::<SecretString>(text.expose_secret());
    let text = plain.as_ref().unwrap_or(text).expose_secret();
    let Ok(url) = Url::parse(text) else { return };
    // A token alone stands where the user name does, and GitHub's with this for a password.
    let is_token = matches!(url.scheme(), "http" | "https");
    let secret = match url.password() {
        Some("x-oauth-basic") | None if is_token => url.username(),
        Some(password) => password,
        None => return,
    };
    let decoded = percent_encoding::percent_decode_str(secret).decode_utf8_lossy().into_owned();
    // As the URL was given: the parser has escaped what needs it.
    let given = text
        .split_once("://")
        .and_then(|(_, rest)| rest.split(['/', '?', '#']).next()?.rsplit_once('@'))
        .and_then(|(login, _)| login.split_once(':'))
        .map_or(secret, |(_, password)| password);
    redactor.register(&[secret, &decoded, given].map(SecretString::from));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_collection_are_masked_however_it_is_written() {
        for json in [
            r#"{"password": "hunter22", "pin": 123456}"#,
            r#""{\"password\": \"hunter22\", \"pin\": [123456]}""#,
            r#""{ password = \"hunter22\", pin = 123456 }""#,
            r#""[{ password = <<EOT\n  hunter22 \nEOT\n  pin = \"${1}123456\" }]""#,
        ] {
            let redactor = Redactor::new();
            register_json(&redactor, "x", &SecretString::from(json));
            let shown = redactor.redact(b"password hunter22, pin 123456");
            assert_eq!(shown, "password ***, pin ***", "{json}");
        }
    }

    #[test]
    fn backend_logins_are_masked_and_places_are_not() {
        let redactor = Redactor::new();
        let json = |text: &str| SecretString::from(format!("\"{text}\""));
        register_backend(
            &redactor,
            &Backend {
                kind: "pg".to_owned(),
                config: vec![
                    ("conn_str".to_owned(), json("postgres://butler:p%40ssw0rd@db/state")),
                    ("schema_name".to_owned(), json("network")),
                ],
            },
        );
        let shown = redactor.redact(
            b"cannot reach postgres://butler:p%40ssw0rd@db/state (p@ssw0rd) schema network",
        );
        assert_eq!(shown, "cannot reach *** (***) schema network");
    }

    #[test]
    fn words_for_yes_no_and_nothing_are_never_masked() {
        let redactor = Redactor::new();
        for json in [
            r#"{"a": "true", "b": ["false", null, "null"], "c": true}"#,
            r#""{ a = \"true\", b = \"false\", c = \"null\" }""#,
            r#""false""#,
            "true",
            "false\n",
        ] {
            register_json(&redactor, "x", &SecretString::from(json));
        }
        let text = "encrypt = true, lock = false, tags = null";
        assert_eq!(redactor.redact(text.as_bytes()), text);
        assert_eq!(redactor.too_short(), [""; 0]);
    }

    #[test]
    fn s3_settings_that_say_how_to_ask_are_not_masked() {
        let redactor = Redactor::new();
        let json = |text: &str| SecretString::from(format!("\"{text}\""));
        let config = vec![
            ("sts_endpoint".to_owned(), json("http://minio.internal:9000")),
            ("use_path_style".to_owned(), json("path-style")),
            ("sas_token".to_owned(), json("sv=2024&sig=abcdef")),
        ];
        register_backend(&redactor, &Backend { kind: "s3".to_owned(), config });
        let shown = redactor.redact(b"http://minio.internal:9000 path-style sv=2024&sig=abcdef");
        assert_eq!(shown, "http://minio.internal:9000 path-style ***");
    }
}
