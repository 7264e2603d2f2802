//! The summary of a run on a terminal: its result, its changes, its duration, the paths of reports, and at the end
//! the error with its hint.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::paint::{BOLD, CYAN, DIM, GREEN, RED, RESET, YELLOW};
use super::text::{beginning, end, printable, time, width};
use butler_protocol::spec::Operation;
use butler_result::{
    Action, ChangeCounts, ChangeOutcome, FinalStatus, Incomplete, PlannedChange, Problem,
    RunResult, Severity, TestCounts, table, unstored,
};

/// The largest number of listed changes; the complete plan is above, and in the reports.
const MOST_CHANGES: usize = 20;

/// The indentation of all lines except the headline.
const INDENT: &str = "  ";

/// The maximum width of lines; longer lines are hard to read on a wide screen.
const WIDEST: usize = 120;

/// The result of a run, and the abilities of the terminal.
#[derive(Debug)]
pub struct Ending<'run> {
    /// The result.
    pub result: &'run RunResult,
    /// The width of the terminal, in columns.
    pub width: usize,
    /// Whether to use colours.
    pub colours: bool,
    /// Reports, each with a description and its path.
    pub places: &'run [(&'static str, PathBuf)],
}

/// The text: an empty line, and then paragraphs of lines.
#[must_use]
pub fn ending(ending: &Ending<'_>) -> String {
    let Ending { result, colours, places, .. } = ending;
    let room = ending.width.min(WIDEST).saturating_sub(INDENT.len() + 1);
    let mut page = Page { text: String::new(), colours: *colours };
    page.headline(result, ending.width.saturating_sub(1));
    // If the run failed before the apply, no change was made, and the plan is above.
    if result.error.is_none() || result.changes.iter().any(|change| change.outcome.is_some()) {
        page.paragraph(&amounts(result));
        page.changes(&result.actions.iter().chain(&result.changes).collect::<Vec<_>>(), room);
    }
    page.warnings(result);
    page.timings(result);
    for (what, place) in *places {
        let place = printable(&place.display().to_string());
        let room = room.saturating_sub(what.len() + 2);
        let _ = writeln!(page.text, "{INDENT}{what}: {}", end(&place, room));
    }
    if let Some(problem) = &result.error {
        page.problem(problem, !places.is_empty());
    }
    page.text
}

struct Page {
    text: String,
    colours: bool,
}

impl Page {
    fn in_colour(&self, codes: &str, text: &str) -> String {
        if self.colours { format!("{codes}{text}{RESET}") } else { text.to_owned() }
    }

    fn headline(&mut self, result: &RunResult, columns: usize) {
        let operation = result.operation.map_or("run", Operation::name);
        let mut letters = operation.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        let operation: String = first.into_iter().chain(letters).collect();
        let (said, colour) = match result.status {
            FinalStatus::Succeeded => ("complete", GREEN),
            FinalStatus::Planned => ("complete, to be confirmed", YELLOW),
            FinalStatus::Cancelled => ("cancelled", YELLOW),
            FinalStatus::Failed => ("failed", RED),
        };
        let headline = format!("{operation} {said}");
        let tool = result.tool.as_ref().map(|tool| format!("{}, ", printable(tool)));
        let rest = format!("  {}{}", tool.unwrap_or_default(), time(result.timings.total));
        let rest = beginning(&rest, columns.saturating_sub(width(&headline))).into_owned();
        let headline = self.in_colour(&format!("{BOLD}{colour}"), &headline);
        let rest = self.in_colour(DIM, rest.trim_end());
        let _ = writeln!(self.text, "\n{headline}{rest}\n");
    }

    /// The error, and after it the hint, which is the last line on the screen.
    fn problem(&mut self, problem: &Problem, is_below_places: bool) {
        if is_below_places {
            self.text.push('\n');
        }
        let error = self.in_colour(&format!("{BOLD}{RED}"), "Error:");
        let _ = writeln!(self.text, "{error} {}: {}", problem.phase, printable(&problem.message));
        if let Some(advice) = &problem.advice {
            let hint = self.in_colour(BOLD, "hint:");
            let _ = writeln!(self.text, "{hint} {}", printable(advice));
        }
    }

    fn paragraph(&mut self, text: &str) {
        if !text.is_empty() {
            let _ = writeln!(self.text, "{INDENT}{text}\n");
        }
    }

    fn changes(&mut self, changes: &[&PlannedChange], room: usize) {
        let listed = if changes.len() > MOST_CHANGES { MOST_CHANGES - 1 } else { changes.len() };
        for change in changes[..listed].iter().copied() {
            let (sign, colour) = sign(change);
            let address = printable(&change.address);
            let address = end(&address, room.saturating_sub(5)).into_owned();
            let left = room.saturating_sub(5 + width(&address) + 2);
            let remark = remark(change).map(|remark| format!("  {}", beginning(&remark, left)));
            let remark = remark.filter(|_| left > 8).unwrap_or_default();
            let (sign, remark) =
                (self.in_colour(colour, &format!("{sign:<3}")), self.in_colour(DIM, &remark));
            let _ = writeln!(self.text, "{INDENT}{sign}  {address}{remark}");
        }
        if listed < changes.len() {
            let _ = writeln!(self.text, "{INDENT}     ... and {} more", changes.len() - listed);
        }
        if !changes.is_empty() {
            self.text.push('\n');
        }
    }

    fn warnings(&mut self, result: &RunResult) {
        let of_tool = result.diagnostics.iter().filter(|it| it.severity == Severity::Warning);
        let text = match of_tool.count() + result.warnings.len() {
            0 => return,
            1 => "1 warning".to_owned(),
            more => format!("{more} warnings"),
        };
        let text = self.in_colour(YELLOW, &text);
        self.paragraph(&text);
    }

    fn timings(&mut self, result: &RunResult) {
        let table = table(&result.timings);
        let failed = result.error.as_ref().map(|problem| problem.phase);
        let failed = result.timings.phases.iter().map(|timing| failed == Some(timing.phase));
        // One line for each phase, after the heading.
        let failed = [false].into_iter().chain(failed).chain([false]);
        for (index, (line, failed)) in table.lines().zip(failed).enumerate() {
            let line = match (index, failed) {
                (0, _) => self.in_colour(DIM, line),
                (_, true) => self.in_colour(RED, line),
                _ => line.to_owned(),
            };
            let _ = writeln!(self.text, "{INDENT}{line}");
        }
        self.text.push('\n');
    }
}

/// The numbers of changes, completed or planned.
fn amounts(result: &RunResult) -> String {
    let mut amounts: Vec<String> = Vec::new();
    amounts.extend(result.counts.map(|counts| changed(counts, !result.is_applied())));
    amounts.extend(result.incomplete.as_ref().map(Incomplete::to_string));
    let resources =
        |count| if count == 1 { "1 resource now".into() } else { format!("{count} resources now") };
    amounts.extend(result.resources_after.map(resources));
    amounts.extend(result.tests.map(|TestCounts { passed, failed, skipped }| {
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }));
    amounts.join("; ")
}

fn changed(counts: ChangeCounts, is_plan: bool) -> String {
    // Replaced resources are included in the added and the destroyed ones.
    let said = counts.occurring(!is_plan);
    if said.is_empty() {
        return "no changes".to_owned();
    }
    let replaced =
        if counts.replace > 0 { format!(" ({} replaced)", counts.replace) } else { String::new() };
    format!("{said}{replaced}")
}

const fn sign(change: &PlannedChange) -> (&'static str, &'static str) {
    match change.outcome {
        None | Some(ChangeOutcome::Done) => {}
        Some(ChangeOutcome::Tainted | ChangeOutcome::Failed | ChangeOutcome::NotInState) => {
            return ("!", RED);
        }
        Some(ChangeOutcome::Interrupted | ChangeOutcome::Unknown) => return ("!", YELLOW),
        Some(ChangeOutcome::NotStarted) => return ("", DIM),
    }
    match change.action {
        Action::Create => ("+", GREEN),
        Action::Update | Action::Changed => ("~", YELLOW),
        Action::Replace => ("-/+", RED),
        Action::Delete | Action::Gone => ("-", RED),
        Action::Execute => (">>", YELLOW),
        Action::Read => ("<=", CYAN),
        Action::Forget => (".", RED),
        Action::Nothing => ("", DIM),
    }
}

/// The text after the sign of a change.
fn remark(change: &PlannedChange) -> Option<String> {
    let moved = change.previous_address.as_ref().map(|from| format!("was {}", printable(from)));
    let imported = change.imported.then(|| match &change.import_id {
        Some(id) => format!("imported as {}", printable(id)),
        None => "imported".to_owned(),
    });
    let reason = change.reason.as_ref().map(|reason| printable(reason));
    let outcome = match change.outcome {
        None | Some(ChangeOutcome::Done) => None,
        Some(ChangeOutcome::Tainted) => Some("tainted"),
        Some(ChangeOutcome::Failed) => Some("failed"),
        Some(ChangeOutcome::Interrupted) => Some("interrupted"),
        Some(ChangeOutcome::NotInState) => Some(unstored(change.action)),
        Some(ChangeOutcome::Unknown) => Some("unknown"),
        Some(ChangeOutcome::NotStarted) => Some("not started"),
    };
    let outcome = outcome.map(str::to_owned);
    let remarks: Vec<_> = [outcome, moved, imported, reason].into_iter().flatten().collect();
    (!remarks.is_empty()).then(|| remarks.join(", "))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use butler_base::event::Phase;
    use butler_result::{PhaseTiming, Timings};

    fn result(status: FinalStatus, operation: &str) -> RunResult {
        let phase = |phase, start, duration: u64| PhaseTiming {
            phase,
            start: Duration::from_secs(start),
            duration: Some(Duration::from_secs(duration)),
        };
        let timings = Timings {
            started: SystemTime::UNIX_EPOCH,
            total: Duration::from_secs(64),
            phases: vec![phase(Phase::Plan, 0, 4), phase(Phase::Apply, 4, 60)],
        };
        let mut result = RunResult::of(status, 0, timings);
        result.operation = Some(operation.parse().unwrap());
        result.tool = Some("terraform 1.11.4".to_owned());
        result
    }

    fn change(action: Action, address: &str) -> PlannedChange {
        PlannedChange::new(action, address.to_owned())
    }

    fn shown(result: &RunResult, width: usize) -> String {
        let places = [("report", PathBuf::from("/srv/reports/of this run/page.html"))];
        let text = ending(&Ending { result, width, colours: false, places: &places });
        assert!(text.lines().all(|line| super::width(line) < width.max(40)), "{text}");
        text
    }

    fn applied() -> RunResult {
        let mut result = result(FinalStatus::Succeeded, "apply");
        result.counts = Some(ChangeCounts {
            add: 2,
            change: 1,
            destroy: 1,
            replace: 1,
            ..ChangeCounts::default()
        });
        result.resources_after = Some(3);
        result.changes = vec![
            change(Action::Create, "module.network.aws_subnet.private[\"東京-1a\"]"),
            change(Action::Update, "aws_instance.web"),
            PlannedChange {
                reason: Some("it is tainted".to_owned()),
                ..change(Action::Replace, "aws_instance.database")
            },
        ];
        result.warnings = vec!["something".to_owned()];
        result
    }

    #[test]
    fn summary_has_changes_duration_and_reports() {
        expect_test::expect![[r#"

            Apply complete  terraform 1.11.4, 1m04s

              2 added, 1 changed, 1 destroyed (1 replaced); 3 resources now

              +    module.network.aws_subnet.private["東京-1a"]
              ~    aws_instance.web
              -/+  aws_instance.database  it is tainted

              1 warning

              phase          start  duration  share
              plan           0.00s     4.00s     6%
              apply          4.00s    60.00s    94%
              total                   64.00s

              report: /srv/reports/of this run/page.html
        "#]]
        .assert_eq(&shown(&applied(), 80));
    }

    #[test]
    fn summary_fits_a_narrow_terminal() {
        let mut result = applied();
        result.counts = None;
        expect_test::expect![[r#"

            Apply complete  terraform 1.11.4, 1m04s

              3 resources now

              +    ...aws_subnet.private["東京-1a"]
              ~    aws_instance.web
              -/+  aws_instance.database  it is ...

              1 warning

              phase          start  duration  share
              plan           0.00s     4.00s     6%
              apply          4.00s    60.00s    94%
              total                   64.00s

              report: ...orts/of this run/page.html
        "#]]
        .assert_eq(&shown(&result, 40));
    }

    #[test]
    fn summary_of_a_failed_apply_separates_completed_from_open_changes() {
        let mut result = applied();
        result.status = FinalStatus::Failed;
        result.error = Some(Problem {
            phase: Phase::Apply,
            message: "no".to_owned(),
            advice: None,
            class: None,
            lock: None,
        });
        let outcomes =
            [ChangeOutcome::Done, ChangeOutcome::NotStarted, ChangeOutcome::Tainted].map(Some);
        for (change, outcome) in result.changes.iter_mut().zip(outcomes) {
            change.outcome = outcome;
        }
        result.counts = Some(ChangeCounts { add: 1, destroy: 1, ..ChangeCounts::default() });
        result.incomplete = Incomplete::of(ChangeCounts::default(), &outcomes);
        expect_test::expect![[r#"

            Apply failed  terraform 1.11.4, 1m04s

              1 added, 1 destroyed; 1 tainted, 1 not started; 3 resources now

              +    module.network.aws_subnet.private["東京-1a"]
                   aws_instance.web  not started
              !    aws_instance.database  tainted, it is tainted

              1 warning

              phase          start  duration  share
              plan           0.00s     4.00s     6%
              apply          4.00s    60.00s    94%
              total                   64.00s

              report: /srv/reports/of this run/page.html

            Error: apply: no
        "#]]
        .assert_eq(&shown(&result, 80));
        let places = [];
        let text = ending(&Ending { result: &result, width: 80, colours: true, places: &places });
        let red = format!("{RED}apply ");
        assert!(text.contains(&red) && !text.contains(&format!("{RED}plan ")), "{text}");
    }

    #[test]
    fn summary_of_a_failed_run_omits_planned_changes() {
        let mut result = applied();
        result.status = FinalStatus::Failed;
        let advice = Some("try again".to_owned());
        result.error = Some(Problem {
            phase: Phase::Apply,
            message: "no".to_owned(),
            advice,
            class: None,
            lock: None,
        });
        let text = shown(&result, 80);
        assert!(text.starts_with("\nApply failed  terraform"), "{text}");
        assert!(text.ends_with("page.html\n\nError: apply: no\nhint: try again\n"), "{text}");
        assert!(!text.contains("added") && !text.contains("aws_instance"), "{text}");
    }

    #[test]
    fn long_lists_are_cut_and_plans_are_in_the_future_tense() {
        let mut result = result(FinalStatus::Planned, "plan");
        result.changes = vec![change(Action::Delete, "aws_instance.many"); 50];
        result.counts = Some(ChangeCounts { destroy: 50, ..ChangeCounts::default() });
        let text = shown(&result, 80);
        assert!(text.contains("Plan complete, to be confirmed"), "{text}");
        assert!(text.contains("50 to destroy"), "{text}");
        assert_eq!(text.matches("aws_instance.many").count(), 19);
        assert!(text.contains("... and 31 more"), "{text}");
    }
}
