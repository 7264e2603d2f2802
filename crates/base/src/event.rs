//! What travels sideways while a run goes on: one numbered, redacted line after the other.
//!
//! A [`LogLine`] exists only behind the redactor, so whoever holds one may show it. Numbers start
//! at 1, run over both streams together and follow the order of arrival.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Which of a child's two output streams a line came from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output, and what the runner itself has to say.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Its name, as the registry has it.
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
    /// Where the line came from.
    pub stream: Stream,
    /// The text, at most 1 MiB.
    pub content: String,
}

/// A [`LogLine`] whose text is borrowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LogLineRef<'text> {
    /// Position in the run's log.
    pub sequence: u32,
    /// Where the line came from.
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
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Asking the registry for the run's status and configuration.
    Config,
    /// Fetching the module's source.
    Source,
    /// Making Terraform or `OpenTofu` ready.
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
    /// `apply` of the saved plan, and what is read back after it.
    Apply,
    /// `validate`.
    Validate,
    /// `test`.
    Test,
    /// Sending plan, outputs and status.
    Report,
}

/// How the log is written for those who look on: what stands around a phase and a line.
///
/// Whatever it adds is shown, and is not part of the run's log.
pub trait Notation: Send + std::fmt::Debug {
    /// What stands before the first line of `phase`.
    fn begun(&mut self, phase: Phase) -> Option<String>;
    /// What stands after the last line of `phase`.
    fn ended(&mut self, phase: Phase) -> Option<String>;
    /// How a line is shown.
    fn line<'line>(&mut self, line: &'line str) -> Cow<'line, str>;
    /// What stands at the end of all, whatever phases go on.
    fn closed(&mut self) -> Option<String>;
}

/// Nothing is added.
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
    /// What it is called, everywhere.
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
