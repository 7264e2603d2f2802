//! Collects secrets for the redactor.
//!
//! They are registered together, because each registration sorts all secrets of the redactor again.

use secrecy::{ExposeSecret, SecretString};
use serde::de::IgnoredAny;
use url::Url;

use super::secret_names::{can_be_secret, is_ordinary};
use butler_base::secret::{Redactor, scalars};
use butler_source::hcl::collection_texts;

/// The shortest user name without a password that counts as a token, in bytes.
const MIN_TOKEN_LENGTH: usize = 16;

/// Numbers with more digits are only masked as they are written.
const MAX_DIGITS: usize = 512;

/// The reason why a value counts as a secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::run) enum SecretEvidence {
    /// It is marked as sensitive, or its purpose is to be a secret.
    Certain,
    /// Only its name looks like that of a secret.
    NameOnly,
}

/// Secrets that will be registered, with names for messages.
#[derive(Default)]
pub(in crate::run) struct CollectedSecrets<'names> {
    named: Vec<(&'names str, SecretString)>,
    nameless: Vec<SecretString>,
}

impl<'names> CollectedSecrets<'names> {
    /// Registers all secrets with the redactor.
    pub(in crate::run) fn register(&self, redactor: &Redactor) {
        redactor.register(&self.nameless);
        redactor.register_named(self.named.iter().map(|(name, secret)| (*name, secret)));
    }

    /// Adds a secret without a name. No warning is printed if it is too short to be masked.
    pub(in crate::run) fn add_nameless(&mut self, secret: &str) {
        self.nameless.push(SecretString::from(secret));
    }

    /// Adds a text, except for `true`, `false` and `null`, which are in every log. Ordinary words and short texts are
    /// also ignored if only the name looks like that of a secret.
    pub(in crate::run) fn add(&mut self, evidence: SecretEvidence, name: &'names str, text: &str) {
        if text.trim().is_empty() || matches!(text.trim(), "true" | "false" | "null") {
            return;
        }
        match evidence {
            SecretEvidence::Certain => self.named.push((name, SecretString::from(text))),
            SecretEvidence::NameOnly if can_be_secret(text) => self.add_nameless(text),
            SecretEvidence::NameOnly => {
                tracing::debug!("`{name}` is called like a secret, but its value cannot be one");
            }
        }
    }

    /// Adds a text, and its elements if it is a collection.
    pub(in crate::run) fn add_text(
        &mut self,
        evidence: SecretEvidence,
        name: &'names str,
        text: &str,
    ) {
        self.add(evidence, name, text);
        if !text.trim_start().starts_with(['[', '{']) {
            return;
        }
        if is_json(text) {
            self.add_scalars(evidence, name, text);
        } else {
            for inner in collection_texts(text) {
                self.add_digits(evidence, name, &inner);
                self.add(evidence, name, &inner);
            }
        }
    }

    /// Adds a JSON value: each text and number in it.
    pub(in crate::run) fn add_json(
        &mut self,
        evidence: SecretEvidence,
        name: &'names str,
        json: &str,
    ) {
        if is_json(json) {
            self.add_scalars(evidence, name, json);
        } else {
            self.add(evidence, name, json);
        }
    }

    /// Adds the password of a URL, or a token instead of the user name, as it is written and decoded.
    pub(in crate::run) fn add_login(&mut self, text: &str) {
        self.add_login_of(text, MIN_TOKEN_LENGTH);
    }

    /// The same for a git URL, in which a user name without a password is always a token.
    pub(in crate::run) fn add_git_login(&mut self, text: &str) {
        self.add_login_of(text, 0);
    }

    fn add_login_of(&mut self, text: &str, shortest_token: usize) {
        let Ok(url) = Url::parse(text) else { return };
        // A token can be the user name. GitHub uses `x-oauth-basic` as the password then.
        let is_token = matches!(url.scheme(), "http" | "https");
        let secret = match url.password() {
            Some("x-oauth-basic") if is_token => url.username(),
            None if is_token && url.username().len() >= shortest_token => url.username(),
            Some(password) if !is_ordinary(password) => password,
            _ => return,
        };
        let decoded = percent_encoding::percent_decode_str(secret).decode_utf8_lossy().into_owned();
        // As it is written in the URL: the parser escapes some characters.
        let given = text
            .split_once("://")
            .and_then(|(_, rest)| rest.split(['/', '?', '#']).next()?.rsplit_once('@'))
            .and_then(|(login, _)| login.split_once(':'))
            .filter(|(_, password)| *password != "x-oauth-basic")
            .map_or(secret, |(_, password)| password);
        for form in [secret, &decoded, given] {
            self.add_nameless(form);
        }
    }

    /// Adds the values in `json`. Numbers are added as they are written and without an exponent.
    fn add_scalars(&mut self, evidence: SecretEvidence, name: &'names str, json: &str) {
        for text in scalars(json) {
            self.add_digits(evidence, name, text.expose_secret());
            self.add_text(evidence, name, text.expose_secret());
        }
    }

    /// Adds a number without an exponent, if it is written in another way.
    fn add_digits(&mut self, evidence: SecretEvidence, name: &'names str, text: &str) {
        if let Some(digits) = decimal_number(text).filter(|digits| digits != text) {
            self.add(evidence, name, &digits);
        }
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The number `text` without an exponent and without trailing zeros, as Terraform prints it.
pub(in crate::run) fn decimal_number(text: &str) -> Option<String> {
    if !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) || !is_json(text) {
        return None;
    }
    let (sign, number) = text.strip_prefix('-').map_or(("", text), |number| ("-", number));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i64 = exponent.parse().ok()?;
    if whole.len() + fraction.len() + usize::try_from(exponent.unsigned_abs()).ok()? > MAX_DIGITS {
        return None;
    }
    let places = usize::try_from(exponent.unsigned_abs()).ok()?;
    let zeros = "0".repeat(places);
    let (whole, fraction) = if exponent < 0 {
        let whole = format!("{zeros}{whole}");
        let (whole, moved) = whole.split_at(whole.len() - places);
        (whole.to_owned(), format!("{moved}{fraction}"))
    } else {
        let fraction = format!("{fraction}{zeros}");
        let (moved, fraction) = fraction.split_at(places);
        (format!("{whole}{moved}"), fraction.to_owned())
    };
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let point = if fraction.trim_end_matches('0').is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{}", fraction.trim_end_matches('0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(add: impl FnOnce(&mut CollectedSecrets<'_>), text: &str) -> String {
        let redactor = Redactor::new();
        let mut collected = CollectedSecrets::default();
        add(&mut collected);
        collected.register(&redactor);
        redactor.redact(text.as_bytes()).into_owned()
    }

    #[test]
    fn elements_of_a_collection_are_masked_in_all_notations() {
        for json in [
            r#"{"password": "hunter22", "pin": 123456}"#,
            r#""{\"password\": \"hunter22\", \"pin\": [123456]}""#,
            r#""{ password = \"hunter22\", pin = 123456 }""#,
            r#""[{ password = <<EOT\n  hunter22 \nEOT\n  pin = \"${1}123456\" }]""#,
        ] {
            let shown = shown(
                |collected| collected.add_json(SecretEvidence::Certain, "x", json),
                "password hunter22, pin 123456",
            );
            assert_eq!(shown, "password ***, pin ***", "{json}");
        }
    }

    #[test]
    fn numbers_are_masked_in_the_form_that_terraform_prints() {
        for (json, text) in [
            ("123456789012345678901234567", "123456789012345678901234567"),
            ("{\"n\": [1.23456789e8]}", "123456789"),
            ("9007199254740993.10", "9007199254740993.1"),
            ("\"[12345678901234567890123]\"", "12345678901234567890123"),
            (r#""{ pin = 12345678901234567890123.50 }""#, "12345678901234567890123.5"),
            ("-12345e-3", "-12.345"),
            ("12e4", "120000"),
        ] {
            let shown = shown(
                |collected| collected.add_json(SecretEvidence::Certain, "x", json),
                &format!("<{text}>"),
            );
            assert_eq!(shown, "<***>", "{json}");
        }
        assert_eq!(decimal_number("12e-4").as_deref(), Some("0.0012"));
        assert_eq!(decimal_number("1e999999999999"), None);
        assert_eq!(decimal_number("007"), None);
    }

    #[test]
    fn booleans_and_null_are_never_masked() {
        let redactor = Redactor::new();
        let mut collected = CollectedSecrets::default();
        for json in [
            r#"{"a": "true", "b": ["false", null, "null"], "c": true}"#,
            r#""{ a = \"true\", b = \"false\", c = \"null\" }""#,
            r#""false""#,
            "true",
            "false\n",
        ] {
            collected.add_json(SecretEvidence::Certain, "x", json);
        }
        collected.register(&redactor);
        let text = "encrypt = true, lock = false, tags = null";
        assert_eq!(redactor.redact(text.as_bytes()), text);
        assert_eq!(redactor.too_short(), [""; 0]);
    }

    #[test]
    fn user_name_without_a_password_is_a_token_for_git_or_if_it_is_long() {
        let login = |url: &str, text: &str| shown(|collected| collected.add_login(url), text);
        assert_eq!(login("http://builder@proxy.example", "builder"), "builder");
        assert_eq!(login("https://ghp_0123456789abc@x.example", "ghp_0123456789abc"), "***");
        assert_eq!(login("https://abcd:x-oauth-basic@x.example", "abcd"), "***");
        assert_eq!(login("postgres://postgres:postgres@db", "postgres"), "postgres");
        assert_eq!(login("postgres://postgres:p%40ss@db", "p%40ss p@ss"), "*** ***");
        let git = |url: &str, text: &str| shown(|collected| collected.add_git_login(url), text);
        assert_eq!(git("https://abcd1234@git.example/x", "abcd1234"), "***");
    }
}
