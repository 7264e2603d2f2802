//! A check as a registry file writes it.

use serde::Deserialize;
use serde_json::{Number, Value};

/// One check: a path and exactly one test.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CheckEntry {
    pub(super) path: String,
    pub(super) equals: Option<Value>,
    #[serde(rename = "in")]
    pub(super) one_of: Option<Vec<Value>>,
    pub(super) at_least: Option<Number>,
    pub(super) exists: Option<bool>,
    pub(super) equals_path: Option<String>,
    pub(super) at_least_path: Option<String>,
    /// The value if the path selects nothing.
    pub(super) default: Option<Value>,
}
