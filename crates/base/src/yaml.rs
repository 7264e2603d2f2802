//! Reads YAML so that scalars keep their text.
//!
//! A YAML parser without a schema turns `010`, `no` and `1.10` into numbers and booleans, and the text is lost. So each
//! document is read twice: first for its shape, and then each scalar as a text. Callers get one JSON value for each
//! document that is not empty. Errors have the line and the column in the whole text.

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};
use serde_saphyr::options::NonFiniteFloatPolicy;
use serde_saphyr::{Error, Options};

/// Reads documents in which each scalar is the text that is written. `null` stays `null`.
///
/// # Errors
/// If the text is not valid YAML.
pub fn texts(text: &str) -> Result<Vec<Value>, Error> {
    documents(text, Scalars::Texts)
}

/// Reads documents in which a scalar is a number or a boolean only if that loses nothing of its text: `3`, `0.5` and
/// `true`, but not `3.0`, `010`, `1e3`, `0x10` and `yes`. All other scalars are texts.
///
/// # Errors
/// If the text is not valid YAML.
pub fn values(text: &str) -> Result<Vec<Value>, Error> {
    documents(text, Scalars::Values)
}

/// Reads a value whose key can be left out. A key without a value is an error, because its meaning is not written: a
/// `workspace` without a value would be the default one.
///
/// # Errors
/// If the value is `null`, or not a `T`.
pub fn given<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The types that scalars get.
#[derive(Clone, Copy)]
enum Scalars {
    Texts,
    Values,
}

fn documents(text: &str, scalars: Scalars) -> Result<Vec<Value>, Error> {
    let mut documents = Vec::new();
    for (lines, part) in parts(text) {
        // Lines of errors are those of the whole text.
        let part = "\n".repeat(lines) + part;
        let shape: Value = serde_saphyr::from_str_with_options(&part, options())?;
        if !shape.is_null() {
            let seed = Shape { shape: &shape, scalars };
            documents.push(serde_saphyr::with_deserializer_from_str_with_options(
                &part,
                options(),
                |yaml| seed.deserialize(yaml),
            )?);
        }
    }
    Ok(documents)
}

/// The booleans of YAML 1.2. An infinite number is a text.
fn options() -> Options {
    serde_saphyr::options! {
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
    }
}

/// The documents, each with the number of lines before it. A line that begins with `---` begins a document wherever it
/// stands (YAML 1.2.2, 9.1.4), except after directives.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let is_marker = |line: &str| {
        line.strip_prefix("---").is_some_and(|rest| rest.trim_start() != rest || rest.is_empty())
    };
    let is_content = |line: &str| !line.trim().is_empty() && !line.starts_with(['#', '%']);
    let (mut parts, mut begin, mut first, mut has_content) = (Vec::new(), 0, 0, false);
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if is_marker(line) && has_content {
            parts.push((first, &text[begin..at]));
            (begin, first) = (at, number);
        }
        has_content |= is_content(line);
        at += line.len();
    }
    parts.push((first, &text[begin..]));
    parts
}

/// Reads a value of this shape.
#[derive(Clone, Copy)]
struct Shape<'shape> {
    shape: &'shape Value,
    scalars: Scalars,
}

impl<'de> DeserializeSeed<'de> for Shape<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.shape {
            Value::Null => IgnoredAny::deserialize(deserializer).map(|_| Value::Null),
            Value::Object(_) => deserializer.deserialize_map(self),
            Value::Array(_) => deserializer.deserialize_seq(self),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                let text = String::deserialize(deserializer)?;
                let is_kept = match (self.scalars, self.shape) {
                    (Scalars::Texts, _) => false,
                    (Scalars::Values, Value::Number(number)) => {
                        number.to_string() == text && !text.ends_with(".0")
                    }
                    (Scalars::Values, shape) => shape.is_boolean(),
                };
                Ok(if is_kept { self.shape.clone() } else { Value::String(text) })
            }
        }
    }
}

impl<'de> Visitor<'de> for Shape<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the shape that was read before")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let Some(shape) = self.shape.get(&key) else {
                return Err(A::Error::custom(format!("the key `{key}` is not a text")));
            };
            map.insert(key, entries.next_value_seed(Shape { shape, ..self })?);
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        for shape in self.shape.as_array().into_iter().flatten() {
            list.extend(items.next_element_seed(Shape { shape, ..self })?);
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
            "NO",
            "true",
            "False",
            "010",
            "007",
            "1.10",
            "1e3",
            "0x10",
            "0o7",
            "0b11",
            "1_000",
            "2024",
            "2024-01-01",
            "12:30:45",
            "12345678901234567890",
            "123456789012345678901234567890",
            "-1",
            "+1",
            ".5",
            ".inf",
            "-.INF",
            ".NaN",
            "'1.10'",
            "\"no\"",
        ] {
            let read = texts(&format!("a: {{b: [{text}]}}")).unwrap();
            assert_eq!(read, [json!({"a": {"b": [text.trim_matches(['\'', '"'])]}})], "{text}");
        }
        let read = texts("base: &base {x: 1.10}\na: {<<: *base, y: ~}\nb: *base\nc:\n").unwrap();
        let base = json!({"x": "1.10"});
        assert_eq!(
            read,
            [json!({"base": base, "a": {"x": "1.10", "y": null}, "b": base, "c": null})]
        );
    }

    #[test]
    fn values_are_numbers_only_if_nothing_is_lost() {
        for (text, expected) in [
            ("3", json!(3)),
            ("-3", json!(-3)),
            ("0.5", json!(0.5)),
            ("18446744073709551615", json!(u64::MAX)),
            ("true", json!(true)),
            ("True", json!(true)),
            ("'3'", json!("3")),
            ("~", json!(null)),
            ("3.0", json!("3.0")),
            ("1.10", json!("1.10")),
            ("010", json!("010")),
            ("0x10", json!("0x10")),
            ("1e3", json!("1e3")),
            ("+3", json!("+3")),
            ("-0", json!("-0")),
            ("1_000", json!("1_000")),
            ("123456789012345678901234567890", json!("123456789012345678901234567890")),
            ("yes", json!("yes")),
            ("no", json!("no")),
            (".inf", json!(".inf")),
        ] {
            assert_eq!(
                values(&format!("a: [{text}]")).unwrap(),
                [json!({"a": [expected]})],
                "{text}"
            );
        }
    }

    #[test]
    fn each_document_is_read_and_errors_have_the_line_in_the_text() {
        for (text, expected) in [
            ("", json!([])),
            ("# a\n---\n", json!([])),
            ("a: 1\n---\nb: |\n  x\n  ---\n---\tc\n", json!([{"a": "1"}, {"b": "x\n---\n"}, "c"])),
            ("%YAML 1.2\n---\na: 1\n...\n---\nb: 2\n", json!([{"a": "1"}, {"b": "2"}])),
            ("---a: 1\n", json!([{"---a": "1"}])),
            ("--- {a: 1}\n--- {b: 2}", json!([{"a": "1"}, {"b": "2"}])),
        ] {
            assert_eq!(Value::Array(texts(text).unwrap()), expected, "{text}");
        }
        for (text, line) in [("a: [", 1), ("a: 1\n---\nb: [\n", 3), ("a: 1\n---\nb: 2\nb: 3\n", 4)]
        {
            assert_eq!(
                texts(text).unwrap_err().location().map(|it| it.line()),
                Some(line),
                "{text}"
            );
        }
    }
}
