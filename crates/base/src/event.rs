//! The log of a run as a sequence of numbered, redacted lines.
//!
//! Only code behind the redactor creates a [`LogLine`], so that each one may be shown. Numbers
//! start at 1, count both streams together, and follow the order of arrival.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Which of a child's two output streams a line came from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output, and the runner's own messages.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Its name in the registry's API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// One line of a run's log: redacted, valid UTF-8 without NUL, without its newline.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LogLine {
    /// Position in the run's log, from 1, without gaps.
    pub sequence: u32,
    /// The stream.
    pub stream: Stream,
    /// The text, at most 1 MiB.
    pub content: String,
}

/// A [`LogLine`] whose text is borrowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LogLineRef<'text> {
    /// Position in the run's log.
    pub sequence: u32,
    /// The stream.
    pub stream: Stream,
    /// The text.
    pub content: &'text str,
}

impl From<LogLineRef<'_>> for LogLine {
    fn from(entry: LogLineRef<'_>) -> Self {
        Self { sequence: entry.sequence, stream: entry.stream, content: entry.content.to_owned() }
    }
}

/// The stages of a run, in their order; errors and log lines name them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Asking the registry for the run's status and configuration.
    Config,
    /// Fetching the module's source.
    Source,
    /// Providing Terraform or `OpenTofu`.
    Tool,
    /// Resolving variables and secrets, writing variable and backend files.
    Variables,
    /// `init`.
    Init,
    /// `plan`, and reading the saved plan.
    Plan,
    /// The program that judges the plan (`--after-plan`).
    #[serde(rename = "after-plan")]
    AfterPlan,
    /// `apply` of the saved plan, and reading the state and outputs.
    Apply,
    /// `validate`.
    Validate,
    /// `test`.
    Test,
    /// Sending plan, outputs and status.
    Report,
}

/// How a CI system shows the log: the text around phases and lines.
///
/// Additional text is only shown, and is not part of the run's log.
pub trait Notation: Send + std::fmt::Debug {
    /// The text before the first line of `phase`.
    fn begun(&mut self, phase: Phase) -> Option<String>;
    /// The text after the last line of `phase`.
    fn ended(&mut self, phase: Phase) -> Option<String>;
    /// A line as it is shown.
    fn line<'line>(&mut self, line: &'line str) -> Cow<'line, str>;
    /// The text at the end of the log, even if a phase has not ended.
    fn closed(&mut self) -> Option<String>;
}

/// Adds no text.
#[derive(Debug)]
pub struct AsItIs;

impl Notation for AsItIs {
    fn begun(&mut self, _: Phase) -> Option<String> {
        None
    }

    fn ended(&mut self, _: Phase) -> Option<String> {
        None
    }

    fn line<'line>(&mut self, line: &'line str) -> Cow<'line, str> {
        Cow::Borrowed(line)
    }

    fn closed(&mut self) -> Option<String> {
        None
    }
}

impl Phase {
    /// Its name in messages, logs and the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Source => "source",
            Self::Tool => "tool",
            Self::Variables => "variables",
            Self::Init => "init",
            Self::Plan => "plan",
            Self::AfterPlan => "after-plan",
            Self::Apply => "apply",
            Self::Validate => "validate",
            Self::Test => "test",
            Self::Report => "report",
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}
