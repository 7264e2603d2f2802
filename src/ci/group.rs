//! Collapsible groups of log lines, in each system's format.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use super::description::{GroupFormat, GroupHeader, LogFormat};
use super::{System, disarm};

/// A group that has begun.
#[derive(Clone, Debug)]
pub(super) struct OpenGroup {
    format: GroupFormat,
    header: GroupHeader,
}

impl OpenGroup {
    /// Begins a group. Returns it with its first line.
    pub(super) fn begin(format: GroupFormat, title: &str, since: SystemTime) -> (Self, String) {
        let milliseconds = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let name = format!("butler_{}_{milliseconds}", title.replace(' ', "_"));
        let header = GroupHeader { title: title.to_owned(), name, since };
        let line = (format.begin)(&header);
        (Self { format, header }, line)
    }

    /// The line after the group; `None` if the next group ends it.
    pub(super) fn end(&self) -> Option<String> {
        self.format.end.map(|end| end(&self.header))
    }
}

/// `text` in a group of its own, or unchanged if the system has no groups; with its newlines.
#[must_use]
pub fn grouped(system: System, title: &str, text: &str) -> String {
    let text = disarm(system, text);
    let LogFormat::Groups(format) = system.description().log else { return format!("{text}\n") };
    let (group, begin) = OpenGroup::begin(format, title, SystemTime::now());
    let mut lines = format!("{begin}\n{text}\n");
    if let Some(end) = group.end() {
        let _ = writeln!(lines, "{end}");
    }
    lines
}
