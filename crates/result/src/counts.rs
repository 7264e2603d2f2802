//! How many resources a run changes, and how many tests passed.

use serde::Serialize;

/// The number of resources by action. A replacement counts as an addition and a destruction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct ChangeCounts {
    /// Created, replacements included.
    pub add: u32,
    /// Changed in place.
    pub change: u32,
    /// Destroyed, replacements included.
    pub destroy: u32,
    /// Destroyed and created.
    pub replace: u32,
    /// Imported.
    pub import: u32,
    /// Renamed.
    #[serde(rename = "move")]
    pub moved: u32,
    /// Removed from the state without being destroyed.
    pub forget: u32,
}

/// The number of tests by result.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct TestResults {
    /// Passed.
    pub passed: u32,
    /// Failed, or could not run.
    pub failed: u32,
    /// Skipped.
    pub skipped: u32,
}
