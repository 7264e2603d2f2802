//! Secrets in environment variables: those that the runner was started in, which Terraform
//! inherits, and the run's own. A module that prints its environment must not print these.
//!
//! Where nobody says which variables are secret, their names decide. Logins in URLs and what is
//! assigned to a secret name inside of a value are secret under any name.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::collected::{Collected, Known};
use super::secret_names::{is_pointer, is_secret_name};

/// Fields of key files and the like that are secret beside what is called like a variable.
const SECRET_FIELDS: [&str; 2] = ["PRIVATE_KEY_ID", "IDENTITYTOKEN"];

/// What a collector of OpenTelemetry is logged in to with: names and values of headers, percent-encoded.
const HEADERS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
];

/// What stands before the secret in a header.
const SCHEMES: [&str; 2] = ["Bearer", "Basic"];

/// As many assignments in one value are looked at.
const MOST_ASSIGNED: usize = 64;

/// Of what is assigned as much is looked for, in bytes.
const LONGEST_ASSIGNED: usize = 16 * 1024;

/// What ends a value that is assigned without quotes.
const SEPARATORS: [char; 9] = [' ', '\t', '\r', '\n', '&', ';', ',', '"', '\''];

/// Adds the secrets among `variables`.
pub(in crate::run) fn add_environment<'names>(
    collected: &mut Collected<'names>,
    variables: &'names BTreeMap<OsString, OsString>,
) {
    for (name, value) in variables {
        // What is no text cannot be printed as it is either.
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
            add_variable(collected, name, value);
        }
    }
}

/// Adds what is secret in a variable that nobody has said anything about.
pub(in crate::run) fn add_variable<'names>(
    collected: &mut Collected<'names>,
    name: &'names str,
    value: &str,
) {
    collected.add_login(value);
    if is_secret_name(name) && !is_pointer(name, value) {
        if name.starts_with("TF_VAR_") {
            collected.add_text(Known::ByName, name, value);
        } else {
            collected.add(Known::ByName, name, value);
        }
    }
    add_inside(collected, Known::ByName, name, value);
}

/// Adds a variable that is marked as sensitive, and the secrets in it.
pub(in crate::run) fn add_sensitive_variable<'names>(
    collected: &mut Collected<'names>,
    name: &'names str,
    value: &str,
) {
    collected.add_login(value);
    if name.starts_with("TF_VAR_") {
        collected.add_text(Known::ForSure, name, value);
    } else {
        collected.add(Known::ForSure, name, value);
    }
    add_inside(collected, Known::ForSure, name, value);
}

/// Adds what is called a secret inside of `value`: by the fields of a key file in JSON, or by
/// assignments.
fn add_inside<'names>(
    collected: &mut Collected<'names>,
    known: Known,
    name: &'names str,
    value: &str,
) {
    if HEADERS.contains(&name) {
        add_headers(collected, known, name, value);
    }
    add_assigned(collected, known, name, value);
    if value.trim_start().starts_with('{')
        && let Ok(json) = serde_json::from_str(value)
    {
        let mut fields = Fields { collected, known, name };
        fields.add("", json, false);
    }
}

/// Adds the values of headers, `a=x,b=y`, whatever these are called: as they are written, decoded, and
/// without the scheme.
fn add_headers<'names>(
    collected: &mut Collected<'names>,
    known: Known,
    name: &'names str,
    headers: &str,
) {
    collected.add(known, name, headers);
    for header in headers.split(',').take(MOST_ASSIGNED) {
        let written = header.split_once('=').map_or(header, |(_, value)| value).trim();
        let decoded = percent_encoding::percent_decode_str(written).decode_utf8_lossy();
        for value in [written, decoded.trim()] {
            collected.add(known, name, value);
            let secret = SCHEMES.iter().find_map(|scheme| {
                let (before, after) = value.split_at_checked(scheme.len())?;
                let after = after.strip_prefix("%20").or_else(|| after.strip_prefix([' ', '+']))?;
                before.eq_ignore_ascii_case(scheme).then(|| after.trim_start())
            });
            if let Some(secret) = secret {
                collected.add(known, name, secret);
            }
        }
    }
}

/// Adds what is assigned to a secret name inside of `text`: `password=x` of a connection string,
/// `-var api_token=x` of `TF_CLI_ARGS`, `passphrase = "x"` of a configuration.
pub(in crate::run) fn add_assigned<'names>(
    collected: &mut Collected<'names>,
    known: Known,
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
        let behind = text[index + 1..].trim_start_matches([' ', '\t']);
        let value = match (opened, behind.chars().next()) {
            (Some(quote), _) => behind.split(quote).next().unwrap_or_default(),
            (None, Some(quote @ ('"' | '\''))) => {
                behind[1..].split(quote).next().unwrap_or_default()
            }
            _ => without_quotes(behind),
        };
        if value.is_empty() {
            continue;
        }
        collected.add(known, name, &value[..value.floor_char_boundary(LONGEST_ASSIGNED)]);
        found += 1;
        if found == MOST_ASSIGNED {
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

/// The value that `text` begins with: up to what separates it from the next one, or up to the next
/// assignment to a secret name. No further, so that all values together are no longer than the text.
fn without_quotes(text: &str) -> &str {
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
struct Fields<'a, 'names> {
    collected: &'a mut Collected<'names>,
    known: Known,
    name: &'names str,
}

impl Fields<'_, '_> {
    fn add(&mut self, field: &str, json: serde_json::Value, secret: bool) {
        match json {
            serde_json::Value::String(text) if secret && !is_pointer(field, &text) => {
                self.collected.add(self.known, self.name, &text);
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
        let mut collected = Collected::default();
        add_environment(&mut collected, &variables);
        collected.register(&redactor);
        redactor
    }

    fn shown(variables: &[(&str, &str)], text: &str) -> String {
        redactor(variables).redact(text.as_bytes()).into_owned()
    }

    #[test]
    fn logins_and_assignments_are_masked_under_any_name() {
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
    fn key_file_is_masked_in_whole_and_in_its_secret_fields() {
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
    fn what_only_a_name_tells_is_masked_unless_it_is_short_or_a_word() {
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
        assert_eq!(redactor(&words).too_short(), [""; 0], "nobody has said that these are secret");
        assert_eq!(shown(&[("DB_PASSWORD", "hunter22")], "hunter22"), "***");
    }

    #[test]
    fn what_the_run_marks_is_masked_from_four_characters_on_and_is_never_a_path() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let redactor = Redactor::new();
        let mut collected = Collected::default();
        for (name, value) in [("A", "abcd"), ("GOOGLE_CREDENTIALS", path), ("B", "Cargo.toml")] {
            add_sensitive_variable(&mut collected, name, value);
        }
        collected.register(&redactor);
        let shown = redactor.redact(format!("abcd {path} Cargo.toml").as_bytes()).into_owned();
        assert_eq!(shown, "*** *** ***");
    }

    #[test]
    fn path_of_a_key_file_is_shown_and_a_password_that_is_called_like_a_file_is_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let variables =
            [("GOOGLE_CREDENTIALS", path), ("HOME", "/home/me"), ("X_TOKEN", "Cargo.toml")];
        let text = format!("{path} /home/me Cargo.toml");
        assert_eq!(shown(&variables, &text), format!("{path} /home/me ***"));
    }

    #[test]
    fn value_that_is_nothing_but_assignments_is_no_work() {
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
