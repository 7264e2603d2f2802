//! The progress of a run: its phases, and the resources in Terraform's lines.

use std::time::Instant;

use super::paint::{BOLD, DIM, RESET};
use super::text::{beginning, end, printable, time, width};
use butler_base::event::Phase;
use butler_base::resource_lines::{ResourceLine, resource_line};

/// The largest number of remembered resources. Terraform's default is ten concurrent operations, but other programs
/// may print similar lines.
const MOST_WORK: usize = 1000;

/// The longest shown part of an address, in columns.
const SHORTEST: usize = 12;

/// The separator of the parts of the live line.
const GAP: &str = "  ";

/// The content of the live line.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// The current phases, with their start.
    phases: Vec<(Phase, Instant)>,
    pub(super) progress: Progress,
    /// An additional note.
    pub(super) note: Option<String>,
}

/// The progress of resources, from Terraform's lines.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The number of changes in the plan.
    planned: Option<u32>,
    /// The number of completed changes.
    done: u32,
    /// The number of refreshed resources.
    refreshed: u32,
    /// The resources in progress, the oldest first.
    going_on: Vec<Work>,
}

#[derive(Debug)]
struct Work {
    address: String,
    verb: &'static str,
    since: Instant,
}

/// The parts of the live line.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Line {
    head: String,
    rest: String,
}

impl Line {
    pub(super) fn plain(&self) -> String {
        format!("{}{}", self.head, self.rest)
    }

    pub(super) fn coloured(&self) -> String {
        if self.head.is_empty() && self.rest.is_empty() {
            return String::new();
        }
        format!("{BOLD}{}{RESET}{DIM}{}{RESET}", self.head, self.rest)
    }
}

impl Board {
    pub(super) fn begun(&mut self, phase: Phase, now: Instant) {
        self.phases.push((phase, now));
        self.progress.begin();
    }

    pub(super) fn ended(&mut self, phase: Phase) {
        if let Some(index) = self.phases.iter().position(|(other, _)| *other == phase) {
            self.phases.remove(index);
        }
        self.progress.begin();
    }

    /// The current live line, in at most `columns` columns.
    pub(super) fn line(&self, now: Instant, columns: usize) -> Line {
        let names: Vec<_> = self.phases.iter().map(|(phase, _)| phase.to_string()).collect();
        let since = self.phases.iter().map(|(_, since)| *since).min();
        let mut line = Line::default();
        if let Some(since) = since {
            line.head = format!("{} {}", names.join(", "), time(now.duration_since(since)));
        }
        line.head = beginning(&line.head, columns).into_owned();
        let used = width(&line.head);
        let gap = if used == 0 { "" } else { GAP };
        let room = columns.saturating_sub(used + gap.len());
        let said = match &self.note {
            Some(note) => beginning(&printable(note), room).into_owned(),
            None => self.progress.describe(self.phases.last().map(|(phase, _)| *phase), now, room),
        };
        if !said.is_empty() && room > 0 {
            line.rest = format!("{gap}{said}");
        }
        line
    }
}

impl Progress {
    /// Starts a phase, without resources in progress.
    fn begin(&mut self) {
        self.going_on.clear();
        (self.done, self.refreshed) = (0, 0);
    }

    /// Reads the progress from a line of Terraform.
    pub(super) fn see(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("Plan: ") {
            self.planned = planned(counts);
            return;
        }
        match resource_line(line) {
            Some(ResourceLine::Working { address, verb }) => self.begin_work(address, verb),
            Some(ResourceLine::Complete { address, action }) => {
                let known = self.going_on.iter().position(|work| work.address == address);
                if let Some(index) = known {
                    self.going_on.remove(index);
                    self.done += u32::from(action.is_change());
                }
            }
            Some(ResourceLine::Refreshing) => self.refreshed += 1,
            None => {}
        }
    }

    fn begin_work(&mut self, address: &str, verb: &'static str) {
        let is_known = self.going_on.iter().any(|work| work.address == address);
        if !is_known && self.going_on.len() < MOST_WORK {
            let address = address.to_owned();
            self.going_on.push(Work { address, verb, since: Instant::now() });
        }
    }

    /// A description in at most `columns` columns.
    fn describe(&self, phase: Option<Phase>, now: Instant, columns: usize) -> String {
        let mut said = match (phase, self.planned) {
            (Some(Phase::Apply), Some(planned)) if planned > 0 => {
                format!("{} of {} done", self.done.min(planned), planned)
            }
            _ if self.refreshed > 0 => format!("{} refreshed", self.refreshed),
            _ => String::new(),
        };
        if width(&said) > columns {
            said.clear();
        }
        for (index, work) in self.going_on.iter().enumerate() {
            let more = self.going_on.len() - index - 1;
            let took = format!(" {} {}", work.verb, time(now.duration_since(work.since)));
            let separator = match (index, said.is_empty()) {
                (0, true) => "",
                (0, false) => GAP,
                _ => ", ",
            };
            let others = if more > 0 { format!(", {more} more") } else { String::new() };
            let used = width(&said) + separator.len() + took.len() + others.len();
            let room = columns.saturating_sub(used);
            let address = printable(&work.address);
            // The oldest is always shown, cut to the available columns.
            if index > 0 && width(&address) > room {
                said = format!("{said}, {} more", more + 1);
                break;
            }
            if room < width(&address).min(SHORTEST) {
                let count = format!("{separator}{} going on", self.going_on.len());
                if width(&said) + count.len() <= columns {
                    said.push_str(&count);
                }
                break;
            }
            said = format!("{said}{separator}{}{took}", end(&address, room));
        }
        said
    }
}

/// The number of changes in `1 to add, 0 to change, 2 to destroy. Actions: 1 to invoke.`.
fn planned(counts: &str) -> Option<u32> {
    let changes = ["to add", "to change", "to destroy"];
    let mut planned = None;
    // After the first sentence, Terraform counts the actions.
    for part in counts.split('.').next().unwrap_or_default().split(", ") {
        if let Some((count, what)) = part.split_once(' ')
            && changes.contains(&what)
        {
            planned = Some(planned.unwrap_or(0) + count.parse::<u32>().ok()?);
        }
    }
    planned
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    impl Board {
        /// A board that read `lines` in `phase`, which began a minute ago.
        fn after(phase: Phase, lines: &[&str]) -> (Self, Instant) {
            let mut board = Self::default();
            let begun = Instant::now();
            board.begun(phase, begun);
            for line in lines {
                board.progress.see(line);
            }
            for work in &mut board.progress.going_on {
                work.since = begun;
            }
            (board, begun + Duration::from_secs(64))
        }
    }

    const APPLY: [&str; 7] = [
        "Plan: 1 to import, 3 to add, 1 to change, 1 to destroy.",
        "module.network.aws_vpc.main[\"a: b\"]: Destroying... [id=vpc-1]",
        "aws_instance.a: Creating...",
        "aws_instance.b: Modifying... [id=i-1]",
        "aws_instance.a: Creation complete after 2s [id=i-2]",
        "aws_instance.c: Still creating... [10s elapsed]",
        "aws_instance.b: Provisioning with 'local-exec'...",
    ];

    #[test]
    fn live_line_shows_phase_time_and_resources_up_to_the_width() {
        let (board, now) = Board::after(Phase::Apply, &APPLY);
        let said: Vec<_> =
            [200, 100, 80, 60, 40, 20, 10, 1].map(|width| board.line(now, width).plain()).into();
        for (line, columns) in said.iter().zip([200, 100, 80, 60, 40, 20, 10, 1]) {
            assert!(width(line) <= columns, "{line}");
        }
        expect_test::expect![[r#"
            apply 1m04s  1 of 5 done  module.network.aws_vpc.main["a: b"] destroying 1m04s, aws_instance.b modifying 1m04s, aws_instance.c creating 1m04s
            apply 1m04s  1 of 5 done  module.network.aws_vpc.main["a: b"] destroying 1m04s, 2 more
            apply 1m04s  1 of 5 done  ...twork.aws_vpc.main["a: b"] destroying 1m04s, 2 more
            apply 1m04s  1 of 5 done  3 going on
            apply 1m04s  1 of 5 done  3 going on
            apply 1m04s
            apply 1...
            ."#]]
        .assert_eq(&said.join("\n"));
    }

    #[test]
    fn refreshed_resources_are_counted_until_the_next_phase() {
        let refresh = [
            "a.b: Refreshing state... [id=1]",
            "a.c: Refreshing state... [id=2]",
            "data.x.y: Reading...",
        ];
        let (mut board, now) = Board::after(Phase::Plan, &refresh);
        assert_eq!(board.line(now, 80).plain(), "plan 1m04s  2 refreshed  data.x.y reading 1m04s");
        board.progress.see("data.x.y: Read complete after 0s");
        board.ended(Phase::Plan);
        assert_eq!(board.line(now, 80), Line::default());
        board.begun(Phase::Source, now);
        board.begun(Phase::Tool, now);
        assert_eq!(board.line(now, 80).plain(), "source, tool 0s");
        board.note = Some("half\x1b[2J of it".to_owned());
        assert_eq!(board.line(now, 80).plain(), "source, tool 0s  half[2J of it");
    }

    #[test]
    fn other_lines_are_not_progress() {
        let mut progress = Progress::default();
        for line in ["  x: Creating...", ": Creating...", "Creating...", "Plan: none", "a: b"] {
            progress.see(line);
        }
        assert!(progress.going_on.is_empty() && progress.planned.is_none());
    }
}
