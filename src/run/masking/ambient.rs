//! Secrets in environment variables: the runner's, which Terraform inherits, and the run's. A module that prints its
//! environment must not reveal them.
//!
//! Variables that are not marked as sensitive are secrets by their names. Logins in URLs, and values that are assigned to
//! a secret name inside of a value, are secrets in all variables.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::collected::{CollectedSecrets, SecretEvidence};
use super::secret_names::{is_pointer, is_secret_name};

/// Fields of key files that are secrets, in addition to those with names of secret variables.
const SECRET_FIELDS: [&str; 2] = ["PRIVATE_KEY_ID", "IDENTITYTOKEN"];

/// Logins for an OpenTelemetry collector: names and values of headers, percent-encoded.
const OTLP_HEADERS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
];

/// Authentication schemes, which precede the secret in a header.
const SCHEMES: [&str; 2] = ["Bearer", "Basic"];

/// The largest number of assignments that are searched in one value.
const MAX_ASSIGNMENTS: usize = 64;

/// The longest part of an assigned value that is masked, in bytes.
const MAX_ASSIGNED_LENGTH: usize = 16 * 1024;

/// Characters that end an assigned value without quotes.
const SEPARATORS: [char; 9] = [' ', '\t', '\r', '\n', '&', ';', ',', '"', '\''];

/// Adds the secrets among `variables`.
pub(in crate::run) fn add_environment<'names>(
    collected: &mut CollectedSecrets<'names>,
    variables: &'names BTreeMap<OsString, OsString>,
) {
    for (name, value) in variables {
        // A value that is not UTF-8 cannot appear in the log, which is UTF-8.
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
            add_variable(collected, name, value);
        }
    }
}

/// Adds the secrets in a variable that is not marked as sensitive.
pub(in crate::run) fn add_variable<'names>(
    collected: &mut CollectedSecrets<'names>,
    name: &'names str,
    value: &str,
) {
    collected.add_login(value);
    if is_secret_name(name) && !is_pointer(name, value) {
        if name.starts_with("TF_VAR_") {
            collected.add_text(SecretEvidence::NameOnly, name, value);
        } else {
            collected.add(SecretEvidence::NameOnly, name, value);
        }
    }
    add_nested(collected, SecretEvidence::NameOnly, name, value);
}

/// Adds a variable that is marked as sensitive, and the secrets in it.
pub(in crate::run) fn add_sensitive_variable<'names>(
    collected: &mut CollectedSecrets<'names>,
    name: &'names str,
    value: &str,
) {
    collected.add_login(value);
    if name.starts_with("TF_VAR_") {
        collected.add_text(SecretEvidence::Certain, name, value);
    } else {
        collected.add(SecretEvidence::Certain, name, value);
    }
    add_nested(collected, SecretEvidence::Certain, name, value);
}

/// Adds secrets inside of `value`: fields of a key file in JSON, and assigned values.
fn add_nested<'names>(
    collected: &mut CollectedSecrets<'names>,
    evidence: SecretEvidence,
    name: &'names str,
    value: &str,
) {
    if OTLP_HEADERS.contains(&name) {
        add_headers(collected, evidence, name, value);
    }
    add_assigned(collected, evidence, name, value);
    if value.trim_start().starts_with('{')
        && let Ok(json) = serde_json::from_str(value)
    {
        let mut fields = FieldCollector { collected, evidence, name };
        fields.add("", json, false);
    }
}

/// Adds the values of all headers in `a=x,b=y`: as they are written, decoded, and without the scheme.
fn add_headers<'names>(
    collected: &mut CollectedSecrets<'names>,
    evidence: SecretEvidence,
    name: &'names str,
    headers: &str,
) {
    collected.add(evidence, name, headers);
    for header in headers.split(',').take(MAX_ASSIGNMENTS) {
        let written = header.split_once('=').map_or(header, |(_, value)| value).trim();
        let decoded = percent_encoding::percent_decode_str(written).decode_utf8_lossy();
        for value in [written, decoded.trim()] {
            collected.add(evidence, name, value);
            let secret = SCHEMES.iter().find_map(|scheme| {
                let (before, after) = value.split_at_checked(scheme.len())?;
                let after = after.strip_prefix("%20").or_else(|| after.strip_prefix([' ', '+']))?;
                before.eq_ignore_ascii_case(scheme).then(|| after.trim_start())
            });
            if let Some(secret) = secret {
                collected.add(evidence, name, secret);
            }
        }
    }
}

/// Adds what is assigned to a secret name inside of `text`: `password=x` of a connection string,
/// `-var api_token=x` of `TF_CLI_ARGS`, `passphrase = "x"` of a configuration.
pub(in crate::run) fn add_assigned<'names>(
    collected: &mut CollectedSecrets<'names>,
    evidence: SecretEvidence,
    name: &'names str,
    text: &str,
) {
    let mut found = 0;
    for (index, _) in text.match_indices('=') {
        let before = text[..index].trim_end();
        let start = start_of_name(before);
        if !is_secret_name(before[start..].trim_start_matches('-')) {
            continue;
        }
        let opened = before[..start].chars().next_back().filter(|c| matches!(c, '"' | '\''));
        let after = text[index + 1..].trim_start_matches([' ', '\t']);
        let value = match (opened, after.chars().next()) {
            (Some(quote), _) => after.split(quote).next().unwrap_or_default(),
            (None, Some(quote @ ('"' | '\''))) => {
                after[1..].split(quote).next().unwrap_or_default()
            }
            _ => unquoted_value(after),
        };
        if value.is_empty() {
            continue;
        }
        collected.add(evidence, name, &value[..value.floor_char_boundary(MAX_ASSIGNED_LENGTH)]);
        found += 1;
        if found == MAX_ASSIGNMENTS {
            return tracing::debug!("`{name}` assigns more secrets than are looked for");
        }
    }
}

/// Where the name at the end of `text` begins.
fn start_of_name(text: &str) -> usize {
    text.rfind(|c| !is_part_of_name(c))
        .map_or(0, |last| last + text[last..].chars().next().map_or(0, char::len_utf8))
}

const fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// The value at the beginning of `text`. It ends at a separator or at the next assignment to a secret name, so that all
/// values together are not longer than the text.
fn unquoted_value(text: &str) -> &str {
    let mut name = 0;
    for (index, c) in text.char_indices() {
        if SEPARATORS.contains(&c) {
            return &text[..index];
        }
        if c == '=' && is_secret_name(text[name..index].trim_start_matches('-')) {
            return &text[..name];
        }
        if !is_part_of_name(c) {
            name = index + c.len_utf8();
        }
    }
    text
}

/// Adds the texts in JSON that are below a secret name.
struct FieldCollector<'a, 'names> {
    collected: &'a mut CollectedSecrets<'names>,
    evidence: SecretEvidence,
    name: &'names str,
}

impl FieldCollector<'_, '_> {
    fn add(&mut self, field: &str, json: serde_json::Value, secret: bool) {
        match json {
            serde_json::Value::String(text) if secret && !is_pointer(field, &text) => {
                self.collected.add(self.evidence, self.name, &text);
            }
            serde_json::Value::Array(values) => {
                for value in values {
                    self.add(field, value, secret);
                }
            }
            serde_json::Value::Object(fields) => {
                for (field, value) in fields {
                    let secret = secret
                        || is_secret_name(&field)
                        || SECRET_FIELDS.contains(&&*field.to_ascii_uppercase());
                    self.add(&field, value, secret);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use butler_base::secret::Redactor;

    fn redactor(variables: &[(&str, &str)]) -> Redactor {
        let redactor = Redactor::new();
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let mut collected = CollectedSecrets::default();
        add_environment(&mut collected, &variables);
        collected.register(&redactor);
        redactor
    }

    fn shown(variables: &[(&str, &str)], text: &str) -> String {
        redactor(variables).redact(text.as_bytes()).into_owned()
    }

    #[test]
    fn logins_and_assigned_values_are_masked_in_all_variables() {
        let variables = [
            ("HTTPS_PROXY", "http://user:pr%40xypass@proxy.example:3128"),
            ("PG_CONN_STR", "host=db.example password=hunter-dsn sslmode=disable"),
            (
                "TF_CLI_ARGS_plan",
                "-var=api_token=hunter-args -var 'db_password=it is one' -no-color",
            ),
            ("TF_ENCRYPTION", "key_provider \"pbkdf2\" \"x\" {\n  passphrase = \"hunter enc\"\n}"),
            ("CONNECTION", "AccountName=me;AccountKey=aHVudGVyMjI+/x==;Suffix=x"),
        ];
        let text = "pr%40xypass pr@xypass hunter-dsn hunter-args <it is one> <hunter enc> db.example proxy.example aHVudGVyMjI+/x==";
        assert_eq!(
            shown(&variables, text),
            "*** *** *** *** <***> <***> db.example proxy.example ***"
        );
    }

    #[test]
    fn key_file_and_its_secret_fields_are_masked() {
        let key = r#"{"type": "service_account", "project_id": "my-project",
            "private_key_id": "0a1b2c3d", "private_key": "-----BEGIN\nc2VjcmV0\n-----END\n",
            "clientSecret": "hunter2-camel", "clientId": "my-client-id",
            "auths": {"registry.example": {"auth": "dXNlcg=="}}}"#;
        let variables = [("GOOGLE_CREDENTIALS", key)];
        assert_eq!(shown(&variables, key), "***");
        assert_eq!(
            shown(
                &variables,
                "c2VjcmV0 0a1b2c3d dXNlcg== hunter2-camel my-client-id service_account"
            ),
            "*** *** *** *** my-client-id service_account"
        );
    }

    #[test]
    fn short_values_and_words_are_not_masked_for_a_name_alone() {
        let words = [
            ("PGPASSWORD", "postgres"),
            ("DB_PASSWORD", "changeme"),
            ("X_SECRET", "production"),
            ("X_TOKEN", "true"),
            ("Y_TOKEN", "hunter2"),
            ("DSN", "password=default user=terraform"),
            ("URL", "postgres://postgres:postgres@localhost/app"),
            ("NPM_AUTH", "always-auth"),
        ];
        let text = "postgres changeme production true hunter2 default terraform always-auth";
        assert_eq!(shown(&words, text), text);
        assert_eq!(redactor(&words).too_short(), [""; 0], "these are not marked as secret");
        assert_eq!(shown(&[("DB_PASSWORD", "hunter22")], "hunter22"), "***");
    }

    #[test]
    fn sensitive_value_is_masked_from_four_characters_on_even_if_it_is_a_path() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let redactor = Redactor::new();
        let mut collected = CollectedSecrets::default();
        for (name, value) in [("A", "abcd"), ("GOOGLE_CREDENTIALS", path), ("B", "Cargo.toml")] {
            add_sensitive_variable(&mut collected, name, value);
        }
        collected.register(&redactor);
        let shown = redactor.redact(format!("abcd {path} Cargo.toml").as_bytes()).into_owned();
        assert_eq!(shown, "*** *** ***");
    }

    #[test]
    fn path_of_a_key_file_is_not_masked_and_a_token_with_the_name_of_a_file_is() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let variables =
            [("GOOGLE_CREDENTIALS", path), ("HOME", "/home/me"), ("X_TOKEN", "Cargo.toml")];
        let text = format!("{path} /home/me Cargo.toml");
        assert_eq!(shown(&variables, &text), format!("{path} /home/me ***"));
    }

    #[test]
    fn number_of_assignments_in_a_value_is_limited() {
        let value = "PASSWORD=".repeat(7000);
        assert_eq!(format!("{:?}", redactor(&[("X", &value)])), "0 secrets");
        let quoted = "\"PASSWORD='hunter22".repeat(7000);
        assert_eq!(format!("{:?}", redactor(&[("X", &quoted)])), "1 secrets");
        let distinct =
            (0..7000).fold(String::new(), |text, n| text + &format!("PASSWORD=hunter{n:04};"));
        assert_eq!(format!("{:?}", redactor(&[("X", &distinct)])), "64 secrets");
        let shown = shown(&[("X", &distinct)], "hunter0000 hunter0063 hunter0064");
        assert_eq!(shown, "*** *** hunter0064");
    }
}
