//! The format of a run's log in a CI system: groups by phase if the system has groups, else the time and
//! the phase before each line. CI commands in the output of other programs are disarmed ([`disarm`]).
//!
//! Groups do not nest in all systems, and phases overlap: so one group is open at a time, called
//! by all phases in progress, and it begins with its first line. A phase without output has no group.

use std::borrow::Cow;
use std::time::SystemTime;

use super::group::Group;
use super::{System, disarm};
use butler_base::event::{AsItIs, Notation, Phase};

/// How `system`'s people see the log.
#[must_use]
pub fn notation(system: System) -> Box<dyn Notation> {
    match system {
        System::None => Box::new(AsItIs),
        System::GitHubActions
        | System::GitLabCi
        | System::AzurePipelines
        | System::Buildkite
        | System::TeamCity => Box::new(Groups { system, running: Vec::new(), open: None }),
        System::Jenkins
        | System::BitbucketPipelines
        | System::CircleCi
        | System::Tekton
        | System::Plain => Box::new(Stamped { running: Vec::new() }),
    }
}

/// The phases that go on, as a title.
fn title<'phase>(phases: impl Iterator<Item = &'phase Phase>) -> String {
    phases.map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// A group for each phase.
#[derive(Debug)]
struct Groups {
    system: System,
    /// What goes on, and since when.
    running: Vec<(Phase, SystemTime)>,
    open: Option<Group>,
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
        let (group, begin) = Group::begin(self.system, &title, *since);
        self.open = Some(group);
        match begin {
            Some(begin) => Cow::Owned(format!("{begin}\n{line}")),
            None => line,
        }
    }

    fn closed(&mut self) -> Option<String> {
        self.close()
    }
}

/// Each line with the time and what goes on.
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
        // A carriage return would take the reader to the beginning of the line, over what stands there.
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

    /// What is shown of a run whose phases overlap.
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
    fn without_groups_each_line_has_its_time_and_phase() {
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
