//! The outputs of a module for display, without sensitive values.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use butler_base::secret::{Redactor, redact_json};
use butler_result::{Output, Shown};

/// Longer outputs are omitted, in bytes: the documents have no room for them.
const LONGEST: usize = 16 * 1024;

#[derive(Deserialize)]
struct Wire<'json> {
    #[serde(default)]
    sensitive: bool,
    #[serde(borrow)]
    value: &'json RawValue,
}

/// The outputs in `json`, the format of `output -json`. A value that contains a registered secret is
/// sensitive even if the module does not mark it: the rest of the value would be wrong.
pub(in crate::run) fn shown(json: &[u8], redactor: &Redactor) -> Vec<Output> {
    let outputs: BTreeMap<String, Wire<'_>> = serde_json::from_slice(json).unwrap_or_default();
    let outputs = outputs.into_iter().filter(|(_, output)| output.value.get().len() <= LONGEST);
    let shown = outputs.map(|(name, Wire { sensitive, value })| {
        let is_secret = || redact_json(redactor, value.get()) != value.get();
        let value = if sensitive || is_secret() {
            Shown::Sensitive
        } else {
            Shown::Value(one_line(value.get()))
        };
        Output { name: redactor.redact(name.as_bytes()).into_owned(), value }
    });
    shown.collect()
}

/// JSON without the white space between its parts.
fn one_line(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let mut line = String::with_capacity(json.len());
    for character in json.chars() {
        if in_string || !character.is_ascii_whitespace() {
            line.push(character);
        }
        in_string ^= character == '"' && !escaped;
        escaped = in_string && character == '\\' && !escaped;
    }
    line
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    #[test]
    fn sensitive_outputs_are_hidden_and_numbers_keep_their_digits() {
        let redactor = Redactor::new();
        redactor.register(&[SecretString::from("hunter22")]);
        let json = br#"{
          "a": {"sensitive": false, "type": "string", "value": "x \"  y\\"},
          "b": {"sensitive": true, "type": "string", "value": "secret"},
          "c": {"sensitive": false, "type": ["list", "number"], "value": [
            1234567890123456789012345678901234567890.5,
            2
          ]},
          "d": {"sensitive": false, "type": "string", "value": "with hunter22 in it"}
        }"#;
        let shown: Vec<_> = shown(json, &redactor).into_iter().map(|it| it.value).collect();
        let value = |json: &str| Shown::Value(json.to_owned());
        let numbers = value("[1234567890123456789012345678901234567890.5,2]");
        let expected = [value(r#""x \"  y\\""#), Shown::Sensitive, numbers, Shown::Sensitive];
        assert_eq!(shown, expected);
    }
}
