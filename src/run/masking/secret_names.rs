//! What names say about values: which ones hold secrets, and which values are none all the same.
//!
//! A name is a guess. What is known by nothing else must therefore be long enough and no ordinary
//! word: a log in which every `postgres` is masked cannot be read.

use std::path::Path;

/// Names of variables that hold secrets, and what they are for. `*` stands for anything; one at the
/// beginning also stands for nothing, together with the `_` behind it. Case does not matter.
pub const SECRET_VARIABLES: [(&str, &str); 31] = [
    ("TF_TOKEN_*", "Terraform registries"),
    ("TF_ENCRYPTION", "OpenTofu's state encryption"),
    ("GOOGLE_CREDENTIALS", "Google Cloud"),
    ("GOOGLE_BACKEND_CREDENTIALS", "Google Cloud"),
    ("GOOGLE_CLOUD_KEYFILE_JSON", "Google Cloud"),
    ("GCLOUD_KEYFILE_JSON", "Google Cloud"),
    ("ARM_CLIENT_CERTIFICATE", "Azure"),
    ("PGPASSWORD", "PostgreSQL"),
    ("MYSQL_PWD", "MySQL"),
    ("SSHPASS", "sshpass"),
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
    ("*_CONSUMER_KEY", "OVH_CONSUMER_KEY, ..."),
    ("*_ENCRYPTION_KEY", "GOOGLE_ENCRYPTION_KEY, ..."),
    ("*_CUSTOMER_KEY", "AWS_SSE_CUSTOMER_KEY, ..."),
    ("*_KEY_DATA", "KUBE_CLIENT_KEY_DATA, ..."),
    ("*_CREDENTIALS", "AZURE_CREDENTIALS, ..."),
    ("*_AUTH", "NPM_AUTH, ...; not a path or a word"),
];

/// Names like those of secrets, but the values are the path of a file and the name of a key.
const PUBLIC_VARIABLES: [&str; 2] = ["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_KMS_ENCRYPTION_KEY"];

/// Ends of the names of variables whose value can be the path of a file with the secret.
const PATH_VARIABLE_SUFFIXES: [&str; 2] = ["CREDENTIALS", "KEYFILE_JSON"];

/// Shorter values are not masked for a name alone, in characters.
const MIN_GUESSED_LENGTH: usize = 8;

/// Words that are used as placeholders for secrets and are frequent in logs.
const ORDINARY_WORDS: [&str; 46] = [
    "admin",
    "administrator",
    "anonymous",
    "change-me",
    "change_me",
    "changeit",
    "changeme",
    "database",
    "default",
    "development",
    "disabled",
    "docker",
    "dummy",
    "enabled",
    "example",
    "github",
    "gitlab",
    "guest",
    "kubernetes",
    "localhost",
    "master",
    "minioadmin",
    "mongodb",
    "mysql",
    "oauth2",
    "opentofu",
    "optional",
    "passw0rd",
    "password",
    "placeholder",
    "postgres",
    "postgresql",
    "private",
    "production",
    "public",
    "rabbitmq",
    "registry",
    "required",
    "root",
    "secret",
    "staging",
    "terraform",
    "testing",
    "undefined",
    "unknown",
    "username",
];

/// Whether variables and settings with this name contain secrets. `clientSecret` is the same as `CLIENT_SECRET`.
pub(in crate::run) fn is_secret_name(name: &str) -> bool {
    let name = upper_snake_case(name);
    !PUBLIC_VARIABLES.contains(&name.as_str())
        && SECRET_VARIABLES.iter().any(|(pattern, _)| match pattern.strip_prefix('*') {
            Some(end) => name.ends_with(end) || name == end.trim_start_matches('_'),
            None => match pattern.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => name == *pattern,
            },
        })
}

/// Whether `value` is an ordinary word.
pub(in crate::run) fn is_ordinary(value: &str) -> bool {
    ORDINARY_WORDS.iter().any(|word| word.eq_ignore_ascii_case(value.trim()))
}

/// Whether a value can be a secret if only its name looks like that of one.
pub(in crate::run) fn can_be_secret(value: &str) -> bool {
    value.trim().chars().count() >= MIN_GUESSED_LENGTH && !is_ordinary(value)
}

/// Whether the value of the variable `name`, which has the name of a secret, is the path of a secret or a way to
/// authenticate instead of a secret.
pub(in crate::run) fn is_pointer(name: &str, value: &str) -> bool {
    let (name, value) = (upper_snake_case(name), value.trim());
    let path = Path::new(value);
    if PATH_VARIABLE_SUFFIXES.iter().any(|end| name.ends_with(end)) {
        return path.is_absolute() && path.is_file();
    }
    let is_word = |case: fn(&u8) -> bool| {
        value.bytes().skip(1).all(|byte| case(&byte) || matches!(byte, b'-' | b'_'))
    };
    name.ends_with("AUTH")
        && (value.starts_with(['/', '~', '.'])
            || is_word(u8::is_ascii_lowercase)
            || is_word(u8::is_ascii_uppercase))
}

/// `name` in capitals with underscores, as in the list.
fn upper_snake_case(name: &str) -> String {
    let mut capitals = String::with_capacity(name.len() + 4);
    let mut characters = name.chars().peekable();
    let mut before = None;
    while let Some(character) = characters.next() {
        let ends_small =
            before.is_some_and(|it: char| it.is_ascii_lowercase() || it.is_ascii_digit());
        let ends_acronym = before.is_some_and(|it: char| it.is_ascii_uppercase())
            && characters.peek().is_some_and(char::is_ascii_lowercase);
        if character.is_ascii_uppercase() && (ends_small || ends_acronym) {
            capitals.push('_');
        }
        capitals.push(if character == '-' { '_' } else { character.to_ascii_uppercase() });
        before = Some(character);
    }
    capitals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_well_known_credentials_are_secret() {
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
            "GOOGLE_ENCRYPTION_KEY",
            "AWS_SSE_CUSTOMER_KEY",
            "KUBE_CLIENT_KEY_DATA",
            "AZURE_CREDENTIALS",
            "NPM_AUTH",
            "_auth",
            "OVH_CONSUMER_KEY",
            "SSHPASS",
            "clientSecret",
            "APIKey",
            "dbPassword",
            "TF_VAR_githubToken",
            "client-key-data",
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
            "GOOGLE_KMS_ENCRYPTION_KEY",
            "GPG_KEY",
            "BUTLER_TOKEN_FILE",
            "TF_VAR_region",
            "COMPASS",
            "GITHUB_SHA",
            "clientId",
            "tokenUrl",
            "OAUTH",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn words_and_short_values_are_not_secrets_for_a_name_alone() {
        for value in ["postgres", "Changeme", "production", " terraform\n", "hunter2", ""] {
            assert!(!can_be_secret(value), "{value}");
        }
        for value in ["hunter22", "postgres1", "pässwört"] {
            assert!(can_be_secret(value), "{value}");
        }
    }

    #[test]
    fn only_absolute_paths_of_existing_files_are_pointers() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert!(is_pointer("GOOGLE_CREDENTIALS", path) && is_pointer("credentials", path));
        // Tests run in the directory of the package, which contains this file.
        for (name, value) in [
            ("GOOGLE_CREDENTIALS", "Cargo.toml"),
            ("GOOGLE_CREDENTIALS", "/no/such/file"),
            ("DB_PASSWORD", path),
            ("DB_PASSWORD", "Cargo.toml"),
            ("NPM_AUTH", "dXNlcjpwYXNzd29yZA"),
        ] {
            assert!(!is_pointer(name, value), "{name}: {value}");
        }
        for value in ["/etc/auth.json", "~/.auth", "kerberos-only", "Kerberos", "DISABLED"] {
            assert!(is_pointer("NPM_AUTH", value), "{value}");
        }
    }
}
