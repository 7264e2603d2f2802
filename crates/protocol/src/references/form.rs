//! Distinguishes references from secrets by their form, because a run sends both as plain text.
//!
//! A registry can send the name of a secret instead of its value without marking it. A text in a form that is typical for
//! names and rare for secrets must resolve to a secret. Otherwise Terraform would use the name as the password.

use super::other_systems;
use super::words::{
    is_dns_label, is_part, is_readable, is_upper, is_upper_snake_case, is_word, names_a_secret,
};

/// The directories below `/` in which a file with a value is expected.
const FILE_ROOTS: [&str; 13] = [
    "builds/", "dev/", "etc/", "home/", "mnt/", "opt/", "root/", "run/", "secrets/", "srv/",
    "tmp/", "usr/", "var/",
];

/// The meaning of a sensitive text by its form.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Form<'text> {
    /// A reference. Its secret must exist.
    Reference(Parts<'text>),
    /// A name, as a registry sends it instead of the secret. A cloud integration can send such a text as a secret.
    Name(Parts<'text>),
    /// Perhaps a name. If its secret does not exist, the text is the secret.
    Likely(Parts<'text>),
    /// A reference of another system, which the runner cannot read.
    Unreadable,
    /// A word that can be the name of an environment variable. Without such a variable, the text is the secret.
    Word,
    /// The secret itself.
    Secret,
}

/// The parts of a reference.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Parts<'text> {
    pub(super) namespace: Option<&'text str>,
    pub(super) name: &'text str,
    pub(super) key: Option<&'text str>,
    /// Whether messages may contain it, because secrets never have this form.
    pub(super) showable: bool,
}

/// The form of a sensitive text.
pub(super) fn form(text: &str) -> Form<'_> {
    let (path, key) = match text.split_once(':') {
        Some((path, key)) => (path, Some(key)),
        None => (text, None),
    };
    // `NAME:` comes from a form with an empty field for the key.
    let (key, ends_with_colon) = (key.filter(|key| !key.is_empty()), key == Some(""));
    let (namespace, name) = match path.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, path),
    };
    let labels = namespace.is_none_or(is_dns_label) && is_dns_label(name);
    let parts = |showable| Parts { namespace, name, key, showable };
    match (namespace, key) {
        (Some(_), Some(key)) if labels && is_dns_label(key) => Form::Reference(parts(true)),
        (Some(_), None) if labels => Form::Reference(parts(false)),
        (None, Some(key)) if labels && is_dns_label(key) => Form::Reference(parts(false)),
        (Some(_), Some(key)) if labels && is_part(key) => Form::Name(parts(true)),
        (None, Some(key)) if is_upper_snake_case(name) && is_part(key) => Form::Name(parts(false)),
        (None, Some(key)) if labels && is_part(key) => {
            let is_name = is_upper_snake_case(key) || names_a_secret(text);
            if is_name { Form::Name(parts(false)) } else { Form::Likely(parts(false)) }
        }
        (None, None) if is_upper_snake_case(name) => Form::Reference(parts(is_readable(name))),
        (None, None) if ends_with_colon && (labels || is_word(name)) => {
            Form::Reference(parts(false))
        }
        (None, None) if is_word(name) => Form::Word,
        (None, None) if is_hyphenated(name) && names_a_secret(name) => Form::Name(parts(false)),
        (None, None) if name.contains('-') && labels => Form::Likely(parts(false)),
        _ if other_systems::is_reference(text) => Form::Unreadable,
        _ if is_long_path(text) && names_a_secret(text) => Form::Unreadable,
        _ => Form::Secret,
    }
}

/// Whether it is a DNS label with a hyphen, or one in capitals.
fn is_hyphenated(text: &str) -> bool {
    let is_label = is_dns_label(text) || is_dns_label(&text.to_ascii_lowercase()) && is_upper(text);
    text.contains('-') && is_label
}

/// `prod/db/password`, `/prod/db/password`: a path of at least three parts, as Vault and AWS have them. The path of a
/// file is none.
fn is_long_path(text: &str) -> bool {
    let path = text.strip_prefix('/').unwrap_or(text);
    if path.len() < text.len() && FILE_ROOTS.iter().any(|root| path.starts_with(root)) {
        return false;
    }
    let is_plain =
        |part: &str| is_part(part) && !part.bytes().any(|byte| byte.is_ascii_uppercase());
    path.split('/').count() + usize::from(path.len() < text.len()) >= 3
        && path.split(['/', ':']).all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_and_secrets_differ_by_their_form() {
        for (text, namespace, name, key, showable) in [
            ("prod/db:password", Some("prod"), "db", Some("password"), true),
            ("db:password", None, "db", Some("password"), false),
            ("prod/db", Some("prod"), "db", None, false),
            ("prod/db:", Some("prod"), "db", None, false),
            ("db-creds:", None, "db-creds", None, false),
            ("dbPassword:", None, "dbPassword", None, false),
            ("DB_PASSWORD", None, "DB_PASSWORD", None, true),
            ("DB_PASSWORD:", None, "DB_PASSWORD", None, true),
            ("S3_KEY_2", None, "S3_KEY_2", None, true),
            ("A1_B2C3D4E5", None, "A1_B2C3D4E5", None, false),
        ] {
            let parts = Parts { namespace, name, key, showable };
            assert_eq!(form(text), Form::Reference(parts), "{text}");
        }
        for text in [
            "prod/db:DB_PASSWORD",
            "prod/db:tls.key",
            "DB_CREDS:password",
            "my-secret:DB_PASSWORD",
            "db:DB_PASSWORD",
            "db-credentials:tls.key",
            "app:apiToken",
            "registry:.dockerconfigjson",
            "db-password",
            "smtp-pass",
            "prod-db-password-2",
            "DB-PASSWORD",
        ] {
            assert!(matches!(form(text), Form::Name(_)), "{text}");
        }
        for text in [
            "correct-horse",
            "correct-horse-battery-staple",
            "monkey-wrench",
            "550e8400-e29b-41d4-a716-446655440000",
            "0123456-key",
            "admin:Hunter2",
        ] {
            assert!(matches!(form(text), Form::Likely(_)), "{text}");
        }
        for text in [
            "prod/db/password",
            "/prod/password",
            "team-a/prod/db/api_key",
            "prod/db/creds:password",
            "op://vault/item",
            "$DB_PASSWORD",
        ] {
            assert_eq!(form(text), Form::Unreadable, "{text}");
        }
        for text in ["hunter2", "PASSWORD", "dbPassword", "_x", "db_password"] {
            assert_eq!(form(text), Form::Word, "{text}");
        }
        for text in [
            "",
            ":",
            "/",
            "1abc",
            "two words",
            "/run/secrets/db_password",
            "/etc/ssl/private/key.pem",
            "CORRECT-HORSE",
            "Db-Password",
            "AbC-key-0d9F",
            "p@ssw0rd",
            "postgres://user:pw@host/db",
            "https://example.com",
            "10.0.0.0/16",
            "a/b/c",
            "a/b/c:d",
            "a:b:c",
            "Ab:cd",
            "-a:b",
            "Prod/db",
            "prod/db:..",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "{\"type\": \"service_account\"}",
            "-----BEGIN KEY-----\nA_B\n",
            "\u{c4}_B",
        ] {
            assert_eq!(form(text), Form::Secret, "{text}");
        }
    }
}
