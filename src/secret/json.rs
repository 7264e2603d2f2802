//! Masks secrets in JSON without spoiling it: only inside of strings, which stay strings.

use super::Redactor;

/// `json` with every registered secret in its strings replaced. Numbers, names of fields that hold
/// no secret, and the layout stay as they are. What is no JSON is masked as plain text.
#[must_use]
pub fn redact_json(redactor: &Redactor, json: &str) -> String {
    let mut masked = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(start) = rest.find('"') {
        let Some(end) = end_of_string(&rest[start..]) else { break };
        let literal = &rest[start..start + end];
        masked.push_str(&rest[..start]);
        mask_literal(redactor, literal, &mut masked);
        rest = &rest[start + end..];
    }
    masked.push_str(if rest.contains('"') { "" } else { rest });
    if rest.contains('"') {
        masked.push_str(&redactor.redact(rest.as_bytes()));
    }
    masked
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
    use secrecy::SecretString;

    use super::*;

    #[test]
    fn secrets_are_masked_in_strings_and_json_stays_json() {
        let redactor = Redactor::new();
        redactor.register(&[SecretString::from("hun\"ter22"), SecretString::from("12345")]);
        let json =
            r#"{"a":"x hun\"ter22 y", "n": 12345.0, "k\\":["\u0068un\"ter22",null,"12345"]}"#;
        let masked = redact_json(&redactor, json);
        assert_eq!(masked, r#"{"a":"x *** y", "n": 12345.0, "k\\":["***",null,"***"]}"#);
        serde_json::from_str::<serde_json::Value>(&masked).unwrap();
    }
}
