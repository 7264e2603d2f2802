//! Writes a run as Markdown of GitHub's and GitLab's flavour, for job summaries and comments.
//!
//! The text has a size limit. The plan is shortened first, and the number of omitted parts is stated.

mod plan;

use std::fmt::Write as _;

use self::plan::write_plan;
use crate::markdown::{code, cut, fenced, plain};
use crate::wording::{
    counted, counts, duration, headline, label, module, module_source, remarks, share, sign,
    started, verb,
};
use crate::{ChangeOutcome, FinalStatus, PlannedChange, RunResult, Severity};

/// The limit of GitHub for one step in bytes (1 MiB), minus a reserve for other output of the step.
pub const SUMMARY_LIMIT: usize = 1000 * 1024;

/// How many resources are listed in the table.
const MOST_ROWS: usize = 200;

/// How many diagnostics and warnings are shown.
const MOST_NOTES: usize = 50;

/// The summary of a run, at most `limit` bytes long.
#[must_use]
pub fn summary(result: &RunResult, limit: usize) -> String {
    let mut text = head(result);
    problems(result, &mut text);
    table(result, &mut text);
    let timings = timings(result);
    let room = limit.saturating_sub(text.len() + timings.len());
    write_plan(result, room, &mut text);
    text.push_str(&timings);
    if text.len() > limit {
        // Only with a very small limit: the fence may stay open, and no text follows it.
        let note = "\n\n… (cut)\n";
        text.truncate(text.floor_char_boundary(limit.saturating_sub(note.len())));
        text.push_str(note);
        text.truncate(text.floor_char_boundary(limit));
    }
    text
}

/// The icon for the status of the run.
fn icon(result: &RunResult) -> &'static str {
    match result.status {
        FinalStatus::Succeeded => "✅",
        FinalStatus::Planned => "⏸️",
        FinalStatus::Cancelled => "🚫",
        FinalStatus::Failed => "❌",
    }
}

fn head(result: &RunResult) -> String {
    let icon = icon(result);
    let module = module(result).map(|name| format!(": {}", code(&name))).unwrap_or_default();
    let mut text = format!("## {icon} {}{module}\n\n", plain(&headline(result)));
    if let Some(summary) = &result.summary {
        let _ = write!(text, "{}\n\n", plain(cut(summary)));
    }
    let mut facts = Vec::new();
    facts.extend(module_source(result).as_deref().map(|source| format!("module {}", code(source))));
    facts.extend(result.tool.as_deref().map(code));
    facts.extend(result.source_commit.as_deref().map(|commit| format!("commit {}", code(commit))));
    facts.extend(result.run_id.as_deref().map(|run| format!("run {}", code(run))));
    facts.push(format!("exit code {}", result.exit_code));
    facts.push(started(result));
    facts.push(duration(result.timings.total));
    if let Some(tests) = result.tests {
        facts.push(format!(
            "tests: {} passed, {} failed, {} skipped",
            tests.passed, tests.failed, tests.skipped
        ));
    }
    text.push_str(&facts.join(" · "));
    text.push('\n');
    text
}

fn problems(result: &RunResult, text: &mut String) {
    if let Some(problem) = &result.error {
        let what = if result.status == FinalStatus::Cancelled { "Stopped" } else { "Error" };
        let _ = write!(text, "\n### {what} in {}\n\n", problem.phase);
        text.push_str(&fenced("", cut(&problem.message)));
        if let Some(advice) = &problem.advice {
            text.push_str("\nHint:\n\n");
            text.push_str(&fenced("", cut(advice)));
        }
    }
    if !result.diagnostics.is_empty() {
        text.push_str("\n### Diagnostics\n");
    }
    for diagnostic in result.diagnostics.iter().take(MOST_NOTES) {
        let icon = match diagnostic.severity {
            Severity::Error => "❌",
            Severity::Warning => "⚠️",
        };
        let _ = write!(text, "\n{icon} {}", code(&diagnostic.summary));
        if let Some(place) = &diagnostic.place {
            let _ = write!(text, " at {}", code(&format!("{}:{}", place.file, place.line)));
        }
        if let Some(subject) = &diagnostic.subject {
            let _ = write!(text, ", {}", code(subject));
        }
        text.push('\n');
        if !diagnostic.detail.trim().is_empty() {
            text.push('\n');
            text.push_str(&fenced("", cut(&diagnostic.detail)));
        }
    }
    left_out(result.diagnostics.len(), "diagnostic", text);
    if !result.warnings.is_empty() {
        text.push_str("\n### Warnings\n\n");
    }
    for warning in result.warnings.iter().take(MOST_NOTES) {
        let _ = writeln!(text, "- {}", code(cut(warning)));
    }
    left_out(result.warnings.len(), "warning", text);
}

fn left_out(count: usize, thing: &str, text: &mut String) {
    if count > MOST_NOTES {
        let _ =
            writeln!(text, "\n… and {}.", counted(count - MOST_NOTES, &format!("more {thing}")));
    }
}

fn table(result: &RunResult, text: &mut String) {
    let numbers: Vec<_> =
        counts(result).iter().map(|(count, _, words)| format!("**{count}** {words}")).collect();
    if !numbers.is_empty() {
        let _ = writeln!(text, "\n### Changes\n\n{}", numbers.join(" · "));
    }
    let all = || result.actions.iter().chain(&result.changes);
    if all().next().is_some() {
        text.push_str("\n| | Action | Resource | |\n|:-:|---|---|---|\n");
    }
    for change in all().take(MOST_ROWS) {
        let verb = verb(change);
        let mut remarks = remarks(change);
        let attributes = change.attributes.len() + change.more_attributes;
        if verb == "update" || verb == "replace" {
            remarks.insert(0, counted(attributes, "attribute"));
        }
        let remarks: Vec<_> = remarks.iter().map(|remark| plain(remark)).collect();
        let (sign, address, label) = (mark(change), code(&change.address), label(change));
        let _ = writeln!(text, "| {sign} | {label} | {address} | {} |", remarks.join(", "));
    }
    let more = all().count().saturating_sub(MOST_ROWS) + result.changes_left_out;
    if more > 0 {
        let _ = writeln!(text, "\n… and {}.", counted(more, "more change"));
    }
}

/// The sign of a change in the table: its action, or that it was not completed.
fn mark(change: &PlannedChange) -> &'static str {
    match change.outcome {
        None | Some(ChangeOutcome::Done) => sign(verb(change)),
        Some(ChangeOutcome::Tainted | ChangeOutcome::Failed) => "❌",
        Some(ChangeOutcome::Interrupted | ChangeOutcome::NotInState | ChangeOutcome::Unknown) => {
            "⚠️"
        }
        Some(ChangeOutcome::NotStarted) => "⏭️",
    }
}

fn timings(result: &RunResult) -> String {
    let timings = &result.timings;
    let mut text =
        "\n### Timings\n\n| Phase | Start | Duration | Share |\n|---|--:|--:|--:|\n".to_owned();
    for phase in &timings.phases {
        let took = phase.duration.map_or_else(|| "-".to_owned(), duration);
        let share = share(phase.duration, timings.total);
        let failed = result.error.as_ref().is_some_and(|problem| problem.phase == phase.phase);
        let name = phase.phase.name();
        let name = if failed { format!("**{name}** {}", icon(result)) } else { name.to_owned() };
        let _ = writeln!(text, "| {name} | {} | {took} | {share} |", duration(phase.start));
    }
    let _ = writeln!(text, "| **total** | | **{}** | |", duration(timings.total));
    text
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::{
        Action, AttributeChange, Diagnostic, PhaseTiming, Problem, Shown, SourceLocation, Timings,
    };
    use butler_base::event::Phase;
    use butler_protocol::spec::Operation;

    fn result() -> RunResult {
        let phase = |phase, start, duration: Option<u64>| PhaseTiming {
            phase,
            start: Duration::from_millis(start),
            duration: duration.map(Duration::from_millis),
        };
        let timings = Timings {
            started: SystemTime::UNIX_EPOCH,
            total: Duration::from_secs(95),
            phases: vec![phase(Phase::Tool, 10, Some(19_000)), phase(Phase::Plan, 19_500, None)],
        };
        RunResult::of(FinalStatus::Failed, 1, timings)
    }

    fn change(address: &str, after: Shown) -> PlannedChange {
        PlannedChange {
            attributes: vec![AttributeChange {
                path: "input".to_owned(),
                before: Some(Shown::Text("a\nb\n".to_owned())),
                after: Some(after),
                forces_replacement: true,
            }],
            more_attributes: 2,
            ..PlannedChange::new(Action::Update, address.to_owned())
        }
    }

    #[test]
    fn untrusted_text_is_always_in_code() {
        let mut result = result();
        result.operation = Some(Operation::DriftCheck);
        result.error = Some(Problem {
            phase: Phase::Plan,
            message: "```\n<b>x</b>".to_owned(),
            advice: Some("ask @somebody".to_owned()),
            class: None,
            lock: None,
        });
        result.diagnostics.push(Diagnostic {
            severity: Severity::Warning,
            summary: "a | b".to_owned(),
            detail: "see\n".to_owned(),
            subject: Some("resource \"a\" \"b\"".to_owned()),
            place: Some(SourceLocation { file: "main.tf".to_owned(), line: 3 }),
        });
        result.warnings.push("`x`".to_owned());
        result.changes.push(change("x.y[\"a|b\"]", Shown::Text("a\n````\n".to_owned())));
        result.changes_left_out = 7;
        expect_test::expect![[r#"
            ## ❌ Drift check failed

            exit code 1 · 1970-01-01 00:00:00 UTC · 1 min 35 s

            ### Error in plan

            ````
            ```
            <b>x</b>
            ````

            Hint:

            ```
            ask @somebody
            ```

            ### Diagnostics

            ⚠️ <code>a &#124; b</code> at `main.tf:3`, `resource "a" "b"`

            ```
            see
            ```

            ### Warnings

            - <code>&#96;x&#96;</code>

            | | Action | Resource | |
            |:-:|---|---|---|
            | ~ | update | <code>x.y&#91;&#34;a&#124;b&#34;&#93;</code> | 3 attributes |

            … and 7 more changes.

            <details><summary>The plan</summary>

            `````diff
            ! x.y["a|b"] (update)
            !     input = # forces replacement
                      a
            -         b
            +         ````
                  … and 2 more attributes
            `````

            </details>

            ### Timings

            | Phase | Start | Duration | Share |
            |---|--:|--:|--:|
            | tool | 0.01 s | 19.0 s | 20% |
            | **plan** ❌ | 19.5 s | - | - |
            | **total** | | **1 min 35 s** | |
        "#]]
        .assert_eq(&summary(&result, SUMMARY_LIMIT));
    }

    #[test]
    fn actions_and_vanished_resources_are_named() {
        let mut result = result();
        result.counts = Some(crate::ChangeCounts { actions: 1, ..Default::default() });
        let named = |address: &str, action| PlannedChange {
            reason: Some("after a.b is created".to_owned()),
            ..PlannedChange::new(action, address.to_owned())
        };
        result.actions.push(named("action.x.y", Action::Execute));
        result.drift.push(named("a.gone", Action::Gone));
        let text = summary(&result, SUMMARY_LIMIT);
        for line in [
            "**1** to execute",
            "| » | execute | `action.x.y` | after a.b is created |",
            "<summary>Will be executed</summary>",
            "- a.gone (gone), deleted outside of Terraform, after a.b is created",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.find("Will be executed") < text.find("a.gone"), "{text}");
    }

    #[test]
    fn summary_keeps_its_limit_and_counts_omitted_parts() {
        let mut result = result();
        for number in 0..3000 {
            let value = Shown::Value("x".repeat(1000));
            result.changes.push(change(&format!("x.y[{number}]"), value));
        }
        for limit in [0, 10, 500, 20_000, SUMMARY_LIMIT] {
            let summary = summary(&result, limit);
            assert!(summary.len() <= limit, "{} of {limit}", summary.len());
            if limit >= 20_000 {
                assert!(summary.contains("… and 2800 more changes."));
                assert!(summary.contains("omitted: the size limit is reached."));
                assert!(summary.ends_with("| **total** | | **1 min 35 s** | |\n"));
            }
        }
    }
}
