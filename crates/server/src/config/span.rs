//! Spans of time, as `90s`, `1m`, `4h` or `7d`.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

/// A span of time in a configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span(pub Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match humantime::parse_duration(&text) {
            Ok(span) if !span.is_zero() => Ok(Self(span)),
            _ => Err(D::Error::custom(format!(
                "`{text}` is not a span of time such as `90s`, `1m`, `4h` or `7d`"
            ))),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(self.0))
    }
}

impl JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A span of time, such as `90s`, `1m`, `4h`, `7d` or `1h 30m`.",
            "type": "string",
            "pattern": "^[0-9].*[A-Za-z]$",
            "examples": ["90s", "1m", "4h", "7d"],
        })
    }
}
