//! Collapsible groups of log lines, in each system's format.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{System, disarm};

/// A group that has begun.
#[derive(Clone, Debug)]
pub(super) struct Group {
    system: System,
    title: String,
    /// What it is called where two groups must not be called the same.
    name: String,
}

impl Group {
    /// A group of a system that has groups.
    pub(super) fn begin(system: System, title: &str, since: SystemTime) -> (Self, Option<String>) {
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("butler_{}_{}", title.replace(' ', "_"), since.as_millis());
        let line = match system {
            System::GitHubActions => Some(format!("::group::{title}")),
            System::AzurePipelines => Some(format!("##[group]{title}")),
            System::Buildkite => Some(format!("--- {title}")),
            System::TeamCity => Some(format!("##teamcity[blockOpened name='{title}']")),
            System::GitLabCi => {
                Some(format!("\u{1b}[0Ksection_start:{}:{name}\r\u{1b}[0K{title}", since.as_secs()))
            }
            System::Jenkins
            | System::BitbucketPipelines
            | System::CircleCi
            | System::Tekton
            | System::Plain
            | System::None => None,
        };
        (Self { system, title: title.to_owned(), name }, line)
    }

    /// What stands behind its last line.
    pub(super) fn end(&self) -> Option<String> {
        match self.system {
            System::GitHubActions => Some("::endgroup::".to_owned()),
            System::AzurePipelines => Some("##[endgroup]".to_owned()),
            System::TeamCity => Some(format!("##teamcity[blockClosed name='{}']", self.title)),
            System::GitLabCi => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Some(format!("\u{1b}[0Ksection_end:{}:{}\r\u{1b}[0K", now.as_secs(), self.name))
            }
            // The next one ends it.
            System::Buildkite
            | System::Jenkins
            | System::BitbucketPipelines
            | System::CircleCi
            | System::Tekton
            | System::Plain
            | System::None => None,
        }
    }
}

/// `text` in a group of its own, or unchanged if the system has no groups; with its newlines.
#[must_use]
pub fn grouped(system: System, title: &str, text: &str) -> String {
    let (group, begin) = Group::begin(system, title, SystemTime::now());
    let mut lines = String::new();
    for line in
        begin.as_deref().into_iter().chain([&*disarm(system, text)]).chain(group.end().as_deref())
    {
        let _ = writeln!(lines, "{line}");
    }
    lines
}
