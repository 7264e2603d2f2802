//! Describes errors in a JSON document: the field, the expected type, and the actual type. Values of the
//! document are never part of the description, because they may be secrets.

use serde::de::DeserializeOwned;
use serde_json::error::Category;

use butler_base::error::visible;

/// The longest path of a field in a message, in characters. It contains names from the document.
const MAX_SHOWN_PATH: usize = 120;

/// The message about `json`, which was parsed as `T` with `error`; without line and column.
pub(super) fn problem<T: DeserializeOwned>(json: &[u8], error: &serde_json::Error) -> String {
    let message = without_place(&error.to_string());
    if error.classify() != Category::Data {
        // Syntax errors have fixed texts without values.
        return message;
    }
    let deserializer = &mut serde_json::Deserializer::from_slice(json);
    let place = match serde_path_to_error::deserialize::<_, T>(deserializer) {
        Err(error) => error.path().to_string(),
        Ok(_) => ".".to_owned(),
    };
    let field = if place == "." {
        "the document".to_owned()
    } else {
        format!("`{}`", visible(&place).take(MAX_SHOWN_PATH).collect::<String>())
    };
    match (expected(&message), found(&message)) {
        (Some(expected), Some(found)) => format!("{field} must be {expected}, and is {found}"),
        (Some(expected), None) => format!("{field} must be {expected}"),
        // Other messages can contain values.
        _ if message.starts_with("a name is given twice") => {
            format!("{field}: a name is given twice")
        }
        _ => format!("{field} has a value that cannot be"),
    }
}

/// `message` without ` at line 1 column 2`.
fn without_place(message: &str) -> String {
    message.rsplit_once(" at line ").map_or(message, |(text, _)| text).to_owned()
}

/// The expected type, in terms of JSON. The value before it in the message can contain any text.
fn expected(message: &str) -> Option<&'static str> {
    let (_, expected) = message.rsplit_once(", expected ")?;
    Some(match expected {
        "a string" => "text",
        "a boolean" => "true or false",
        "a map" | "an object" => "an object",
        "a sequence" => "a list",
        it if it.starts_with("struct ") => "an object",
        _ => return None,
    })
}

/// The actual type, never the value.
fn found(message: &str) -> Option<&'static str> {
    let found = message.strip_prefix("invalid type: ")?;
    let kinds = [
        ("string", "text"),
        ("integer", "a number"),
        ("floating point", "a number"),
        ("number", "a number"),
        ("boolean", "true or false"),
        ("sequence", "a list"),
        ("map", "an object"),
        ("null", "null"),
        ("unit", "null"),
    ];
    kinds.into_iter().find_map(|(kind, said)| found.starts_with(kind).then_some(said))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is read")]
    struct Document {
        name: Option<String>,
        members: BTreeMap<String, Member>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is read")]
    struct Member {
        sensitive: Option<bool>,
    }

    #[test]
    fn field_and_expected_shape_are_named_and_no_value_is() {
        let mut shown = String::new();
        for json in [
            r#"{"name": ["hunter22"]}"#,
            r#"{"members": {"db": "hunter22, expected a string"}}"#,
            r#"{"members": {"db": {"sensitive": "hunter22"}}}"#,
            r#"{"members": {"db": {"sensitive": 1.5}}}"#,
            r#"{"members": "hunter22"}"#,
            r#"["hunter22"]"#,
            r#"{"name": "hunter22",}"#,
            r#"{"name": "hunter22"#,
            "<html>hunter22</html>",
            "",
        ] {
            let error = serde_json::from_str::<Document>(json).err().unwrap();
            shown.push_str(&problem::<Document>(json.as_bytes(), &error));
            shown.push('\n');
        }
        assert!(!shown.contains("hunter22"), "{shown}");
        expect_test::expect![[r"
            `name` must be text, and is a list
            `members.db` must be an object, and is text
            `members.db.sensitive` must be true or false, and is text
            `members.db.sensitive` must be true or false, and is a number
            `members` must be an object, and is text
            the document must be an object
            trailing comma
            EOF while parsing a string
            expected value
            EOF while parsing a value
        "]]
        .assert_eq(&shown);
    }
}
