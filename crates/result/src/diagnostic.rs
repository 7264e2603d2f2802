//! Errors and warnings of the tool.

use serde::{Deserialize, Serialize};

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The command failed because of it.
    Error,
    /// The command continued.
    Warning,
}

/// One error or warning of the tool, redacted.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// Its first line, without `Error: `.
    pub summary: String,
    /// The other lines; may be empty.
    pub detail: String,
    /// The resource or block in question, as the tool names it.
    pub subject: Option<String>,
    /// The position in the module.
    pub place: Option<SourceLocation>,
}

/// A position in the module's source.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SourceLocation {
    /// The file, relative to the directory of the module. Other files, such as the run's file of
    /// variables, have an absolute path.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}
