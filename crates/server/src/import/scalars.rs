//! YAML in which every scalar is a text, as it is written.
//!
//! Other tools read `workspace: 010`, `no` or `1.10` as texts. Without a schema, YAML reads a number or a boolean, and the
//! text is lost. So the document is read twice: first for its shape, and then each scalar as a text.

use serde::Deserialize as _;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

/// Reads one document. `null` stays `null`.
///
/// # Errors
/// If it is not one document of valid YAML.
pub(super) fn document(text: &str) -> Result<Value, serde_saphyr::Error> {
    let shape: Value = serde_saphyr::from_str(text)?;
    serde_saphyr::with_deserializer_from_str(text, |yaml| Texts(&shape).deserialize(yaml))
}

/// Reads a value of this shape.
struct Texts<'shape>(&'shape Value);

impl<'de> DeserializeSeed<'de> for Texts<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.0 {
            Value::Null => IgnoredAny::deserialize(deserializer).map(|_| Value::Null),
            Value::Object(_) => deserializer.deserialize_map(self),
            Value::Array(_) => deserializer.deserialize_seq(self),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                String::deserialize(deserializer).map(Value::String)
            }
        }
    }
}

impl<'de> Visitor<'de> for Texts<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the shape that was read before")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let Some(shape) = self.0.get(&key) else {
                return Err(A::Error::custom(format!("the key `{key}` is not a text")));
            };
            map.insert(key, entries.next_value_seed(Texts(shape))?);
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let shapes = self.0.as_array().into_iter().flatten();
        let mut list = Vec::new();
        for shape in shapes {
            list.extend(items.next_element_seed(Texts(shape))?);
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Array(list))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_are_the_texts_that_are_written() {
        for text in [
            "no",
            "yes",
            "on",
            "off",
            "y",
            "n",
            "true",
            "False",
            "010",
            "007",
            "1.10",
            "1e3",
            "0x10",
            "0o7",
            "1_000",
            "2024",
            "2024-01-01",
            "12345678901234567890",
            "-1",
            "+1",
            ".5",
            "'1.10'",
            "\"no\"",
        ] {
            let read = document(&format!("a: {{b: [{text}]}}")).unwrap();
            assert_eq!(read, json!({"a": {"b": [text.trim_matches(['\'', '"'])]}}), "{text}");
        }
        let read = document("base: &base {x: 1.10}\na: {<<: *base, y: ~}\nb: *base\nc:\n").unwrap();
        let base = json!({"x": "1.10"});
        assert_eq!(
            read,
            json!({"base": base, "a": {"x": "1.10", "y": null}, "b": base, "c": null})
        );
        for text in ["a: [", "a: 1\n---\nb: 2\n", "a: .inf"] {
            assert!(document(text).is_err(), "{text}");
        }
    }
}
