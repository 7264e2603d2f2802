//! The format of a run's log in a CI system: groups by phase if the system has groups, else the time and
//! the phase before each line. CI commands in the output of other programs are disarmed ([`disarm`]).
//!
//! Groups do not nest in all systems, and phases overlap: so one group is open at a time, called
//! by all phases in progress, and it begins with its first line. A phase without output has no group.

use std::borrow::Cow;
use std::time::SystemTime;

use super::description::{GroupFormat, LogFormat};
use super::group::OpenGroup;
use super::{System, disarm};
use butler_base::event::{AsItIs, Notation, Phase};

/// The format of the log in `system`.
#[must_use]
pub fn notation(system: System) -> Box<dyn Notation> {
    match system.description().log {
        LogFormat::Unchanged => Box::new(AsItIs),
        LogFormat::Groups(format) => {
            Box::new(Groups { system, format, running: Vec::new(), open: None })
        }
        LogFormat::Stamped => Box::new(Stamped { running: Vec::new() }),
    }
}

/// The phases in progress, as a title.
fn title<'phase>(phases: impl Iterator<Item = &'phase Phase>) -> String {
    phases.map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// A group for each phase.
#[derive(Debug)]
struct Groups {
    system: System,
    format: GroupFormat,
    /// The phases in progress, with their beginnings.
    running: Vec<(Phase, SystemTime)>,
    open: Option<OpenGroup>,
}

impl Groups {
    fn close(&mut self) -> Option<String> {
        self.open.take()?.end()
    }
}

impl Notation for Groups {
    fn begun(&mut self, phase: Phase) -> Option<String> {
        self.running.push((phase, SystemTime::now()));
        self.close()
    }

    fn ended(&mut self, phase: Phase) -> Option<String> {
        self.running.retain(|(other, _)| *other != phase);
        self.close()
    }

    fn line<'line>(&mut self, line: &'line str) -> Cow<'line, str> {
        let line = disarm(self.system, line);
        let Some((_, since)) = self.running.last() else { return line };
        if self.open.is_some() {
            return line;
        }
        let title = title(self.running.iter().map(|(phase, _)| phase));
        let (group, begin) = OpenGroup::begin(self.format, &title, *since);
        self.open = Some(group);
        Cow::Owned(format!("{begin}\n{line}"))
    }

    fn closed(&mut self) -> Option<String> {
        self.close()
    }
}

/// Each line with the time and the phases in progress.
#[derive(Debug)]
struct Stamped {
    running: Vec<Phase>,
}

impl Notation for Stamped {
    fn begun(&mut self, phase: Phase) -> Option<String> {
        self.running.push(phase);
        None
    }

    fn ended(&mut self, phase: Phase) -> Option<String> {
        self.running.retain(|other| *other != phase);
        None
    }

    fn line<'line>(&mut self, line: &'line str) -> Cow<'line, str> {
        let time = humantime::format_rfc3339_seconds(SystemTime::now());
        // After a carriage return, a terminal would overwrite the time.
        let line = line.replace('\r', " ");
        let title = title(self.running.iter());
        let space = if title.is_empty() { "" } else { " " };
        Cow::Owned(format!("{time} {title}{space}| {line}"))
    }

    fn closed(&mut self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log of a run whose phases overlap.
    fn shown(system: System) -> String {
        let mut notation = notation(system);
        let mut shown = String::new();
        let mut add = |text: Option<String>| shown.extend(text.iter().flat_map(|it| [it, "\n"]));
        add(notation.begun(Phase::Config));
        add(notation.ended(Phase::Config));
        add(notation.begun(Phase::Source));
        add(Some(notation.line("cloning").into_owned()));
        add(notation.begun(Phase::Tool));
        add(Some(notation.line("::error::both").into_owned()));
        add(Some(notation.line("both").into_owned()));
        add(notation.ended(Phase::Source));
        add(notation.ended(Phase::Tool));
        add(Some(notation.line("between").into_owned()));
        add(notation.begun(Phase::Plan));
        add(Some(notation.line("10%\r20%").into_owned()));
        add(notation.closed());
        shown
    }

    #[test]
    fn groups_follow_one_another_and_are_never_empty() {
        expect_test::expect![[r"
            ::group::source
            cloning
            ::endgroup::
            ::group::source and tool
            : :error::both
            both
            ::endgroup::
            between
            ::group::plan
            10%20%
            ::endgroup::
        "]]
        .assert_eq(&shown(System::GitHubActions).replace('\r', ""));
        let shown = shown(System::GitLabCi);
        let marks: Vec<&str> = shown.lines().filter(|line| line.contains("section_")).collect();
        for pair in marks.chunks(2) {
            let name = |line: &str| line.split([':', '\r']).nth(2).unwrap().to_owned();
            assert!(pair[0].starts_with("\u{1b}[0Ksection_start:1"), "{pair:?}");
            assert!(pair[1].starts_with("\u{1b}[0Ksection_end:1"), "{pair:?}");
            assert_eq!(name(pair[0]), name(pair[1]));
        }
        assert_eq!(marks.len(), 6);
    }

    #[test]
    fn line_without_a_group_has_time_and_phase() {
        let shown = shown(System::Tekton);
        let lines: Vec<_> = shown.lines().map(|line| line.split_once("Z ").unwrap()).collect();
        assert!(
            lines.iter().all(|(time, _)| time.len() == "2026-01-01T00:00:00".len()),
            "{lines:?}"
        );
        let rest: Vec<_> = lines.into_iter().map(|(_, rest)| rest).collect();
        let both = ["source and tool | ::error::both", "source and tool | both"];
        assert_eq!(rest, ["source | cloning", both[0], both[1], "| between", "plan | 10% 20%"]);
    }
}
