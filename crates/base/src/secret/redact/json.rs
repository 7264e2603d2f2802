//! Redacts JSON and keeps it valid: a redacted string or number becomes another string.

use std::borrow::Cow;

use secrecy::SecretString;

use super::names::Names;
use super::redactor::{MASK, Redactor};

/// The kind of a JSON document.
enum Kind<'a> {
    /// A line of a log. The runner defines its member names, so they are not redacted.
    Record,
    /// Values. Member names may be secrets too.
    Values(&'a mut Names),
    /// Fixed words. A short secret can equal one of them by chance.
    Labels(&'a mut Names),
}

/// Whether [`redact_values`] and [`redact_labels`] would not change `json`. False if that is
/// unclear: if `json` contains a backslash or [`MASK`].
#[must_use]
pub fn holds_no_secret(redactor: &Redactor, json: &str) -> bool {
    let bytes = json.as_bytes();
    memchr::memchr(b'\\', bytes).is_none()
        // A name that contains the mask could collide with a masked name.
        && memchr::memmem::find(bytes, MASK.as_bytes()).is_none()
        && redactor.is_open(bytes)
}

/// Redacts the string values of a log line in JSON, and the numbers that are secrets. Member names
/// and whitespace remain unchanged. A line that is not JSON is redacted as plain text.
#[must_use]
pub fn redact_json(redactor: &Redactor, json: &str) -> String {
    redact(redactor, json, &mut Kind::Record)
}

/// Redacts the strings of `json`, its member names (with `names`), and the numbers that are secrets.
#[must_use]
pub fn redact_values(redactor: &Redactor, names: &mut Names, json: &str) -> String {
    redact(redactor, json, &mut Kind::Values(names))
}

/// Redacts `json` that consists of fixed words: masks a short secret only if it is an index key, as
/// in `a.b["key"]`. Redacts all member names with `names`.
#[must_use]
pub fn redact_labels(redactor: &Redactor, names: &mut Names, json: &str) -> String {
    redact(redactor, json, &mut Kind::Labels(names))
}

fn redact(redactor: &Redactor, json: &str, kind: &mut Kind<'_>) -> String {
    // The fast path for values and labels, because most do not contain a secret.
    if !matches!(kind, Kind::Record) && holds_no_secret(redactor, json) {
        return json.to_owned();
    }
    let mut masked = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(start) = rest.find('"') {
        let Some(end) = end_of_string(&rest[start..]) else {
            masked.push_str(&redactor.redact(rest.as_bytes()));
            return masked;
        };
        mask_numbers(redactor, &rest[..start], kind, &mut masked);
        let (literal, after) = rest[start..].split_at(end);
        let is_name = after.trim_start().starts_with(':');
        mask_literal(redactor, (literal, is_name), kind, &mut masked);
        rest = after;
    }
    mask_numbers(redactor, rest, kind, &mut masked);
    masked
}

/// The string and number values in `json`, at any depth.
pub fn scalars(json: &str) -> impl Iterator<Item = SecretString> {
    let mut rest = json;
    std::iter::from_fn(move || {
        loop {
            rest = &rest[rest.find(|c: char| c == '"' || starts_number(c))?..];
            if !rest.starts_with('"') {
                let end = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
                let (number, after) = rest.split_at(end);
                rest = after;
                return Some(SecretString::from(number));
            }
            let (literal, after) = rest.split_at(end_of_string(rest)?);
            rest = after;
            if !after.trim_start().starts_with(':')
                && let Ok(text) = serde_json::from_str(literal)
            {
                return Some(text);
            }
        }
    })
}

const fn starts_number(c: char) -> bool {
    c.is_ascii_digit() || c == '-'
}

const fn is_number(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E')
}

/// Copies the text between two strings. A number that is a secret becomes the string [`MASK`].
fn mask_numbers(redactor: &Redactor, text: &str, kind: &Kind<'_>, masked: &mut String) {
    let mut rest = text;
    if let Kind::Labels(_) = kind {
        return masked.push_str(rest);
    }
    while let Some(start) = rest.find(starts_number) {
        let end = rest[start..].find(|c| !is_number(c)).map_or(rest.len(), |length| start + length);
        let number = &rest[start..end];
        masked.push_str(&rest[..start]);
        if redactor.redact(number.as_bytes()) == MASK {
            masked.push('"');
            masked.push_str(MASK);
            masked.push('"');
        } else {
            masked.push_str(number);
        }
        rest = &rest[end..];
    }
    masked.push_str(rest);
}

/// The length of the string literal at the start of `text`, including its quotes; none if its end
/// is missing.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(index + 1),
            _ => {}
        }
    }
    None
}

/// Copies a string literal, redacted. `is_name` states whether it is a member name.
fn mask_literal(
    redactor: &Redactor,
    (literal, is_name): (&str, bool),
    kind: &mut Kind<'_>,
    masked: &mut String,
) {
    let plain: String = match serde_json::from_str(literal) {
        Ok(plain) => plain,
        Err(_) => return masked.push_str(&redactor.redact(literal.as_bytes())),
    };
    let text = plain.as_bytes();
    let shown = match kind {
        Kind::Record if is_name => Cow::Borrowed(plain.as_str()),
        Kind::Values(names) | Kind::Labels(names) if is_name => names.masked(redactor, &plain),
        Kind::Record | Kind::Values(_) => redactor.redact(text),
        Kind::Labels(_) => Cow::Owned(label(redactor, &plain)),
    };
    if shown == plain {
        masked.push_str(literal);
    } else {
        masked.push_str(&serde_json::to_string(&shown).expect("text is JSON text"));
    }
}

/// Redacts long secrets in `text`, and all secrets in its index keys.
fn label(redactor: &Redactor, text: &str) -> String {
    let text = redactor.redact_name(text.as_bytes());
    let (mut masked, mut rest) = (String::new(), text.as_ref());
    while let Some(start) = rest.find("[\"").map(|bracket| bracket + 1)
        && let Some(length) = end_of_string(&rest[start..])
    {
        let (key, after) = rest[start..].split_at(length);
        masked.push_str(&rest[..start]);
        masked.push_str(&redactor.redact(key.as_bytes()));
        rest = after;
    }
    masked + rest
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn scalars_are_values_and_not_names() {
        let json = r#"{"a": ["x\"y", -1.5, {"b7" : "\u0068i"}], "c": null, "d":12}"#;
        let found: Vec<_> = scalars(json).map(|text| text.expose_secret().to_owned()).collect();
        assert_eq!(found, ["x\"y", "-1.5", "hi", "12"]);
        assert_eq!(scalars("\"endless").count(), 0);
    }

    fn redactor() -> Redactor {
        let redactor = Redactor::new();
        redactor.register(
            &["hun\"ter22", "12345", "root", "create", "a longer secret"].map(SecretString::from),
        );
        redactor
    }

    #[test]
    fn secrets_in_values_are_masked_and_the_json_stays_valid() {
        let json = r#"{"a":"x hun\"ter22 y", "n": 12345, "m":123456.0,"k\\":["\u0068un\"ter22",null,"12345"],
            "root_module": {"actions":["create"], "root" : "root"}, "t":[-1,12345]}"#;
        let masked = redact_json(&redactor(), json);
        assert_eq!(
            masked,
            r#"{"a":"x *** y", "n": "***", "m":123456.0,"k\\":["***",null,"***"],
            "root_module": {"actions":["***"], "root" : "***"}, "t":[-1,"***"]}"#
        );
        serde_json::from_str::<serde_json::Value>(&masked).unwrap();
    }

    #[test]
    fn only_text_without_secrets_takes_the_fast_path() {
        for (json, expected) in [
            (r#"{"a":["x",1234],"t":"*"}"#, true),
            (r#"{"a":12345}"#, false),
            (r#"{"a":"\u0031\u0032345"}"#, false),
            (r#"{"***":1}"#, false),
        ] {
            assert_eq!(holds_no_secret(&redactor(), json), expected, "{json}");
        }
    }

    #[test]
    fn names_in_values_are_masked_and_stay_distinct() {
        let json = r#"{"root":1,"a root":{"hun\"ter22" : 2,"12345":3},"b":{"12345":12345}}"#;
        let mut names = Names::default();
        assert_eq!(
            redact_values(&redactor(), &mut names, json),
            r#"{"***":1,"a ***":{"*** 2" : 2,"*** 3":3},"b":{"*** 3":"***"}}"#
        );
        assert_eq!(redact_values(&redactor(), &mut names, r#"{"12345":0}"#), r#"{"*** 3":0}"#);
    }

    #[test]
    fn labels_are_masked_only_in_keys_and_for_long_secrets() {
        for (json, masked) in [
            (r#"["create","root",12345]"#, r#"["create","root",12345]"#),
            (r#""root.create[\"root\"].x[\"b\"].y""#, r#""root.create[\"***\"].x[\"b\"].y""#),
            (r#""x.root[\"a longer secret""#, r#""x.root[\"***""#),
            (r#"["object",{"root":"string"}]"#, r#"["object",{"***":"string"}]"#),
        ] {
            assert_eq!(redact_labels(&redactor(), &mut Names::default(), json), masked, "{json}");
        }
    }
}
