//! A check as a registry file writes it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Number, Value};

/// One check: a path and exactly one test.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CheckEntry {
    /// A JSON path of RFC 9535 that selects the values.
    pub(super) path: String,
    /// Each value is equal to this one.
    pub(super) equals: Option<Value>,
    /// Each value is one of these.
    #[serde(rename = "in")]
    pub(super) one_of: Option<Vec<Value>>,
    /// Each value is a number, and not smaller than this one.
    pub(super) at_least: Option<Number>,
    /// Whether the path selects something.
    pub(super) exists: Option<bool>,
    /// Each value is equal to the one at this path.
    pub(super) equals_path: Option<String>,
    /// Each value is a number, and not smaller than the one at this path.
    pub(super) at_least_path: Option<String>,
    /// The value if the path selects nothing.
    pub(super) default: Option<Value>,
}
