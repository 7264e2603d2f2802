//! Versions of a state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A version of a state. A serial is only comparable with one of the same lineage.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct StateVersion {
    /// The identity of the state, which it gets when it is first written.
    pub lineage: String,
    /// How often it was written since.
    pub serial: u64,
}

/// Whether a run reports the version of its state.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum StateReport {
    /// It does not.
    #[default]
    Omit,
    /// It does. A check for drift compares the version with the one that the registry knows.
    Send {
        /// The version that the last run has left, if the registry knows it.
        known: Option<StateVersion>,
        /// The side that a check for drift compares with the state.
        compare: DriftComparison,
    },
}

/// The side that a check for drift compares with the state.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriftComparison {
    /// The infrastructure, or the code if another program has written the state.
    #[default]
    State,
    /// The code.
    Code,
}
