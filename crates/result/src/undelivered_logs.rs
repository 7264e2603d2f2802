//! The log lines that were not delivered to the registry.

use serde::Serialize;

/// The log lines that were not delivered to the registry. The JSON is a member of the final status
/// (registry API, POST status).
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct UndeliveredLogs {
    /// The number of lines.
    pub lines: u32,
    /// The sequence number of the first line.
    pub first: u32,
    /// The sequence number of the last line.
    pub last: u32,
    /// The file with the lines, one JSON object on each line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_in: Option<String>,
    /// Why the file is incomplete or missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// One line for users.
impl std::fmt::Display for UndeliveredLogs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lines, first, last, kept_in, problem } = self;
        match lines {
            1 => write!(formatter, "1 log line ({first}) did not reach the registry")?,
            _ => {
                write!(
                    formatter,
                    "{lines} log lines ({first} to {last}) did not reach the registry"
                )?;
            }
        }
        if let Some(path) = kept_in {
            write!(formatter, "; kept in `{path}`")?;
        }
        if let Some(problem) = problem {
            write!(formatter, "; {problem}")?;
        }
        Ok(())
    }
}
