//! Spans of time, as `90s`, `1m` or `4h`.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// A span of time in a registry file. It is never zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Span(pub(super) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match humantime::parse_duration(&text) {
            Ok(span) if !span.is_zero() => Ok(Self(span)),
            _ => Err(D::Error::custom(format!(
                "`{text}` is not a span of time such as `90s`, `1m` or `4h`"
            ))),
        }
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A span of time, such as `90s`, `1m` or `4h`.",
            "examples": ["90s", "1m", "4h"],
        })
    }
}
