//! What the tool complained about.

use serde::Serialize;

/// How much it matters.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The command failed because of it.
    Error,
    /// The command went on.
    Warning,
}

/// One error or warning of the tool, masked.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// Its first line, without `Error: `.
    pub summary: String,
    /// The rest; may be empty.
    pub detail: String,
    /// The resource or block it is about, as the tool names it.
    pub subject: Option<String>,
    /// Where in the module it is.
    pub place: Option<Place>,
}

/// A place in the module's source.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Place {
    /// The file, relative to the directory of the module; one that is not the module's, as a file of
    /// variables that the run has written, with its whole path.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}
