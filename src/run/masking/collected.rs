//! Secrets on their way to the redactor.
//!
//! It gets them all at once: with each registration it puts everything that it knows in order anew.

use secrecy::{ExposeSecret, SecretString};
use serde::de::IgnoredAny;
use url::Url;

use super::secret_names::{can_be_secret, is_ordinary};
use butler_base::secret::{Redactor, scalars};
use butler_source::hcl::collection_texts;

/// A user name of that many bytes without a password is a token.
const SHORTEST_TOKEN: usize = 16;

/// Numbers with more digits than that are only looked for as they are written.
const MOST_DIGITS: usize = 512;

/// How it is known that a value is a secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::run) enum Known {
    /// The run or the module says so, or what it is for.
    ForSure,
    /// By nothing but the name beside it.
    ByName,
}

/// Secrets that are to be registered, with the names that the user knows them by.
#[derive(Default)]
pub(in crate::run) struct Collected<'names> {
    named: Vec<(&'names str, SecretString)>,
    nameless: Vec<SecretString>,
}

impl<'names> Collected<'names> {
    /// Tells the redactor.
    pub(in crate::run) fn register(&self, redactor: &Redactor) {
        redactor.register(&self.nameless);
        redactor.register_named(self.named.iter().map(|(name, secret)| (*name, secret)));
    }

    /// Adds what nobody has to be told of when it is too short to be masked.
    pub(in crate::run) fn add_nameless(&mut self, secret: &str) {
        self.nameless.push(SecretString::from(secret));
    }

    /// Adds all but the words for yes, no and nothing, which hide nothing and are in every log.
    /// What is only known by its name may be no ordinary word either, and not short.
    pub(in crate::run) fn add(&mut self, known: Known, name: &'names str, text: &str) {
        if text.trim().is_empty() || matches!(text.trim(), "true" | "false" | "null") {
            return;
        }
        match known {
            Known::ForSure => self.named.push((name, SecretString::from(text))),
            Known::ByName if can_be_secret(text) => self.add_nameless(text),
            Known::ByName => {
                tracing::debug!("`{name}` is called like a secret, but its value cannot be one");
            }
        }
    }

    /// Adds a text, and what is in it where it is a collection.
    pub(in crate::run) fn add_text(&mut self, known: Known, name: &'names str, text: &str) {
        self.add(known, name, text);
        if !text.trim_start().starts_with(['[', '{']) {
            return;
        }
        if is_json(text) {
            self.add_scalars(known, name, text);
        } else {
            for inner in collection_texts(text) {
                self.add_digits(known, name, &inner);
                self.add(known, name, &inner);
            }
        }
    }

    /// Adds a JSON value: its text, or each text in it where it has an inside.
    pub(in crate::run) fn add_json(&mut self, known: Known, name: &'names str, json: &str) {
        if is_json(json) {
            self.add_scalars(known, name, json);
        } else {
            self.add(known, name, json);
        }
    }

    /// Adds the password of a URL, or a token that stands in place of the user name, as it stands
    /// there and decoded.
    pub(in crate::run) fn add_login(&mut self, text: &str) {
        self.add_login_of(text, SHORTEST_TOKEN);
    }

    /// The same where a user name without a password is never a name.
    pub(in crate::run) fn add_git_login(&mut self, text: &str) {
        self.add_login_of(text, 0);
    }

    fn add_login_of(&mut self, text: &str, shortest_token: usize) {
        let Ok(url) = Url::parse(text) else { return };
        // A token alone stands where the user name does, and GitHub's with this for a password.
        let is_token = matches!(url.scheme(), "http" | "https");
        let secret = match url.password() {
            Some("x-oauth-basic") if is_token => url.username(),
            None if is_token && url.username().len() >= shortest_token => url.username(),
            Some(password) if !is_ordinary(password) => password,
            _ => return,
        };
        let decoded = percent_encoding::percent_decode_str(secret).decode_utf8_lossy().into_owned();
        // As the URL was given: the parser has escaped what needs it.
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

    /// What stands in `json` as values, numbers as they are written and digit by digit.
    fn add_scalars(&mut self, known: Known, name: &'names str, json: &str) {
        for text in scalars(json) {
            self.add_digits(known, name, text.expose_secret());
            self.add_text(known, name, text.expose_secret());
        }
    }

    /// Adds the digits of a number that is written otherwise.
    fn add_digits(&mut self, known: Known, name: &'names str, text: &str) {
        if let Some(digits) = digits(text).filter(|digits| digits != text) {
            self.add(known, name, &digits);
        }
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The number `text` without an exponent and without zeros that say nothing: as Terraform shows it.
fn digits(text: &str) -> Option<String> {
    if !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) || !is_json(text) {
        return None;
    }
    let (sign, number) = text.strip_prefix('-').map_or(("", text), |number| ("-", number));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i64 = exponent.parse().ok()?;
    if whole.len() + fraction.len() + usize::try_from(exponent.unsigned_abs()).ok()? > MOST_DIGITS {
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

    fn shown(add: impl FnOnce(&mut Collected<'_>), text: &str) -> String {
        let redactor = Redactor::new();
        let mut collected = Collected::default();
        add(&mut collected);
        collected.register(&redactor);
        redactor.redact(text.as_bytes()).into_owned()
    }

    #[test]
    fn parts_of_a_collection_are_masked_however_it_is_written() {
        for json in [
            r#"{"password": "hunter22", "pin": 123456}"#,
            r#""{\"password\": \"hunter22\", \"pin\": [123456]}""#,
            r#""{ password = \"hunter22\", pin = 123456 }""#,
            r#""[{ password = <<EOT\n  hunter22 \nEOT\n  pin = \"${1}123456\" }]""#,
        ] {
            let shown = shown(
                |collected| collected.add_json(Known::ForSure, "x", json),
                "password hunter22, pin 123456",
            );
            assert_eq!(shown, "password ***, pin ***", "{json}");
        }
    }

    #[test]
    fn numbers_are_masked_digit_by_digit() {
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
                |collected| collected.add_json(Known::ForSure, "x", json),
                &format!("<{text}>"),
            );
            assert_eq!(shown, "<***>", "{json}");
        }
        assert_eq!(digits("12e-4").as_deref(), Some("0.0012"));
        assert_eq!(digits("1e999999999999"), None);
        assert_eq!(digits("007"), None);
    }

    #[test]
    fn words_for_yes_no_and_nothing_are_never_masked() {
        let redactor = Redactor::new();
        let mut collected = Collected::default();
        for json in [
            r#"{"a": "true", "b": ["false", null, "null"], "c": true}"#,
            r#""{ a = \"true\", b = \"false\", c = \"null\" }""#,
            r#""false""#,
            "true",
            "false\n",
        ] {
            collected.add_json(Known::ForSure, "x", json);
        }
        collected.register(&redactor);
        let text = "encrypt = true, lock = false, tags = null";
        assert_eq!(redactor.redact(text.as_bytes()), text);
        assert_eq!(redactor.too_short(), [""; 0]);
    }

    #[test]
    fn user_name_alone_is_a_token_for_git_or_when_it_is_long() {
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
