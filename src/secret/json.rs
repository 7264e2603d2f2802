//! Masks secrets in JSON without spoiling it: only inside of strings, which stay strings.

use secrecy::SecretString;

use super::Redactor;
use super::redactor::MASK;

/// Words of Terraform's own plan format: a plan in which they were masked could not be read, and
/// nobody keeps a secret in them.
const FORMAT_WORDS: [&str; 10] =
    ["create", "update", "delete", "read", "no-op", "forget", "open", "managed", "data", "unknown"];

/// `json` with every registered secret in its string values replaced, and every number that is
/// one. Names of fields and the layout stay as they are: Terraform allows no secret in a name.
/// What is no JSON is masked as plain text.
#[must_use]
pub fn redact_json(redactor: &Redactor, json: &str) -> String {
    let mut masked = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(start) = rest.find('"') {
        let Some(end) = end_of_string(&rest[start..]) else {
            masked.push_str(&redactor.redact(rest.as_bytes()));
            return masked;
        };
        mask_numbers(redactor, &rest[..start], &mut masked);
        let (literal, after) = rest[start..].split_at(end);
        if after.trim_start().starts_with(':') {
            masked.push_str(literal);
        } else {
            mask_literal(redactor, literal, &mut masked);
        }
        rest = after;
    }
    mask_numbers(redactor, rest, &mut masked);
    masked
}

/// The texts and numbers that stand in `json` as values, wherever they are in it.
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

/// Copies what stands between two strings; a number that is a secret becomes a masked string.
fn mask_numbers(redactor: &Redactor, text: &str, masked: &mut String) {
    let mut rest = text;
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

/// The length of the string literal that `text` begins with, quotes included.
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

fn mask_literal(redactor: &Redactor, literal: &str, masked: &mut String) {
    let plain: String = match serde_json::from_str(literal) {
        Ok(plain) => plain,
        Err(_) => return masked.push_str(&redactor.redact(literal.as_bytes())),
    };
    if FORMAT_WORDS.contains(&plain.as_str()) {
        return masked.push_str(literal);
    }
    // A secret with several lines is registered line by line, and stands here in one piece.
    let shown = redactor.redact(plain.as_bytes());
    if shown == plain {
        masked.push_str(literal);
    } else {
        masked.push_str(&serde_json::to_string(&shown).expect("text is JSON text"));
    }
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

    #[test]
    fn secrets_are_masked_in_values_and_json_stays_json() {
        let redactor = Redactor::new();
        redactor.register(&[
            SecretString::from("hun\"ter22"),
            SecretString::from("12345"),
            SecretString::from("root"),
            SecretString::from("create"),
        ]);
        let json = r#"{"a":"x hun\"ter22 y", "n": 12345, "m":123456.0,"k\\":["\u0068un\"ter22",null,"12345"],
            "root_module": {"actions":["create"], "root" : "root"}, "t":[-1,12345]}"#;
        let masked = redact_json(&redactor, json);
        assert_eq!(
            masked,
            r#"{"a":"x *** y", "n": "***", "m":123456.0,"k\\":["***",null,"***"],
            "root_module": {"actions":["create"], "root" : "***"}, "t":[-1,"***"]}"#
        );
        serde_json::from_str::<serde_json::Value>(&masked).unwrap();
    }
}
