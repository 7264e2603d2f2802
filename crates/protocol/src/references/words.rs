//! Words, labels and names in texts.

/// The longest part of a reference: the limit for names of Kubernetes objects.
const MAX_PART_LENGTH: usize = 253;

/// A longer text in the form of a name can be a generated secret.
const MAX_SHOWN_NAME: usize = 64;

/// A name with more digits can be a generated secret.
const MAX_SHOWN_DIGITS: usize = 4;

/// Words that names of secrets contain.
const NAME_WORDS: [&str; 38] = [
    "api",
    "apikey",
    "auth",
    "cert",
    "certificate",
    "config",
    "conn",
    "connection",
    "cred",
    "credential",
    "credentials",
    "creds",
    "database",
    "db",
    "dockerconfigjson",
    "dsn",
    "json",
    "jwt",
    "key",
    "keys",
    "kubeconfig",
    "login",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "pat",
    "pem",
    "pw",
    "pwd",
    "secret",
    "secrets",
    "ssh",
    "ssl",
    "tls",
    "token",
    "tokens",
];

/// Whether the text is readable and one of its words is in [`NAME_WORDS`]: `db-password`, `tls.key`, `apiToken`.
pub(super) fn names_a_secret(text: &str) -> bool {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for character in text.chars() {
        if !character.is_ascii_alphabetic() || (character.is_ascii_uppercase() && after_small) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (character.is_ascii_alphabetic(), words.last_mut()) {
            word.push(character.to_ascii_lowercase());
        }
        after_small = character.is_ascii_lowercase();
    }
    is_readable(text) && words.iter().any(|word| NAME_WORDS.contains(&word.as_str()))
}

/// Whether no letter is small.
pub(super) fn is_upper(text: &str) -> bool {
    !text.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Whether a shell accepts the text as the name of a variable.
pub(super) fn is_word(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Names like `DB_PASSWORD`: capitals and digits, with an underscore.
pub(super) fn is_upper_snake_case(text: &str) -> bool {
    text.contains('_')
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'))
}

/// Whether a text in the form of a name is surely not a generated secret.
pub(super) fn is_readable(name: &str) -> bool {
    name.len() <= MAX_SHOWN_NAME
        && name.bytes().filter(u8::is_ascii_digit).count() <= MAX_SHOWN_DIGITS
}

/// A label by RFC 1123: at most 63 lower-case letters, digits and inner hyphens.
pub(super) fn is_dns_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// Whether Kubernetes allows the text in names and keys, and CI systems in names. It never contains `/` and is never `..`.
pub(super) fn is_part(text: &str) -> bool {
    (1..=MAX_PART_LENGTH).contains(&text.len())
        && !matches!(text, "." | "..")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}
