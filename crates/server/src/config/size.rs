//! Sizes, as `64MiB`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

use butler_base::size::parse_size;

/// A number of bytes in a configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Size(pub u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let size = parse_size(&text);
        size.map(Self).ok_or_else(|| {
            D::Error::custom(format!("`{text}` is not a size such as `64MiB` or `500kB`"))
        })
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}B", self.0))
    }
}

impl JsonSchema for Size {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A size, such as `64MiB` or `500kB`.",
            "type": "string",
            "pattern": "^[0-9]+ *([KMG]iB|[kMG]?B)$",
            "examples": ["64MiB"],
        })
    }
}
