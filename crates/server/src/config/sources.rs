//! What attempts get of repositories.

use schemars::JsonSchema;
use serde::Deserialize;

/// Which files of a commit an attempt gets.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Checkout {
    /// What the layer depends on.
    #[default]
    Needed,
    /// All files.
    Full,
}
