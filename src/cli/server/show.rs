//! Answers of a server, as text for people.

use std::fmt::Write as _;

use butler_result::ChangeCounts;
use serde_json::Value;

use crate::cli::columns::columns;

/// The text of a field, or nothing.
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The first digits of a commit or digest.
pub(super) fn short(value: &Value) -> String {
    text(value).chars().take(8).collect()
}

fn reasons(layer: &Value) -> String {
    let reasons = layer["reasons"].as_array().into_iter().flatten();
    reasons.map(|reason| text(&reason["text"])).collect::<Vec<_>>().join("; ")
}

/// What people should know.
fn notes(layer: &Value) -> String {
    let notes = layer["notes"].as_array().into_iter().flatten();
    notes.map(text).collect::<Vec<_>>().join("; ")
}

/// Why nothing is started, and drift that was found.
fn noted(layer: &Value) -> String {
    let drift = (layer["drift"] == "found").then(|| format!("drift {}", drift(layer)));
    let failing: Vec<_> =
        layer["failingChecks"].as_array().into_iter().flatten().map(text).collect();
    let checks = (!failing.is_empty()).then(|| format!("checks failing: {}", failing.join(", ")));
    let notes = [drift.unwrap_or_default(), checks.unwrap_or_default(), reasons(layer)].into_iter();
    notes.filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Whether infrastructure and state differ, and how.
fn drift(layer: &Value) -> String {
    match layer["driftKind"].as_str() {
        Some("changed-outside") if layer["drift"] == "found" => {
            "found (changed outside of this server)".to_owned()
        }
        Some("code-differs") if layer["drift"] == "found" => {
            match layer["wantedChanges"].as_u64() {
                Some(1) => "found (the code wants 1 change)".to_owned(),
                Some(count) => format!("found (the code wants {count} changes)"),
                None => "found (the code wants changes)".to_owned(),
            }
        }
        Some(kind) if layer["drift"] == "found" => format!("found ({kind})"),
        _ => text(&layer["drift"]),
    }
}

/// The entries of `drift.ignore` that name nothing.
fn unmatched_ignores(layer: &Value) -> String {
    let entries = layer["unmatchedIgnores"].as_array().into_iter().flatten();
    entries.map(text).collect::<Vec<_>>().join(", ")
}

/// A lock of Terraform: its id and holder, as far as they are known.
fn state_lock(lock: &Value) -> String {
    let holder = |name: &str, words: &str| lock[name].as_str().map(|it| format!("{words}{it}"));
    let parts = [
        holder("id", "id "),
        holder("who", "held by "),
        holder("created", "since "),
        holder("operation", "for "),
    ];
    let known = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if lock.is_object() && known.is_empty() {
        return "held; its backend does not report its id and holder".to_owned();
    }
    known
}

/// The names of the gates that are closed.
fn closed_gates(layer: &Value) -> String {
    let gates = layer["gates"].as_array().into_iter().flatten();
    let closed = gates.filter(|gate| gate["open"] == false).map(|gate| text(&gate["gate"]));
    closed.collect::<Vec<_>>().join(", ")
}

/// What a plan would change, in short.
pub(super) fn changes(run: &Value) -> String {
    let counts = serde_json::from_value::<ChangeCounts>(run["counts"].clone());
    counts.map(|counts| counts.short('-')).unwrap_or_default()
}

/// A list of layers.
pub(super) fn layers(answer: &Value) -> String {
    let head = ["NAME", "PHASE", "COMMIT", "LAST RUN", "CHANGES", "REASON"].map(str::to_owned);
    let layers = answer["items"].as_array().into_iter().flatten().map(|layer| {
        let last = &layer["lastRun"];
        let run = format!("{} {}", text(&last["action"]), text(&last["phase"]));
        vec![
            text(&layer["name"]),
            text(&layer["phase"]),
            short(&layer["revision"]["commit"]),
            run.trim().to_owned(),
            changes(last),
            noted(layer),
        ]
    });
    columns(&std::iter::once(head.to_vec()).chain(layers).collect::<Vec<_>>())
}

/// One layer.
pub(super) fn layer(layer: &Value) -> String {
    let revision = |name: &str| {
        let revision = &layer[name];
        format!("{} (digest {})", short(&revision["commit"]), short(&revision["digest"]))
    };
    let shown = |name: &str| if layer[name].is_null() { "none".to_owned() } else { revision(name) };
    let last = &layer["lastRun"];
    let rows = [
        ("name", text(&layer["name"])),
        ("repository", text(&layer["repository"])),
        ("ref", text(&layer["ref"])),
        ("path", text(&layer["path"])),
        ("phase", text(&layer["phase"])),
        ("reasons", reasons(layer)),
        ("notes", notes(layer)),
        ("revision", shown("revision")),
        ("planned", shown("plannedRevision")),
        ("applied", shown("appliedRevision")),
        ("drift", drift(layer)),
        ("drift.ignore without effect", unmatched_ignores(layer)),
        ("tool", text(&layer["configuration"]["tool"])),
        ("strategy", text(&layer["configuration"]["strategy"])),
        ("backend", text(&layer["configuration"]["backend"]["type"])),
        ("workspace", text(&layer["configuration"]["workspace"])),
        ("closed gates", closed_gates(layer)),
        ("state lock", state_lock(&layer["stateLock"])),
        ("paused by", text(&layer["pausedBy"])),
        ("next look", text(&layer["nextLook"])),
        ("last run", format!("{} {}", text(&last["id"]), text(&last["phase"]))),
    ];
    let rows = rows.into_iter().filter(|(_, value)| !value.trim().is_empty());
    columns(&rows.map(|(name, value)| vec![format!("{name}:"), value]).collect::<Vec<_>>())
}

/// A run that was created.
pub(super) fn created(run: &Value) -> String {
    let id = text(&run["id"]);
    format!("run {id} is queued; `butler-runner run logs {id}` shows its log")
}

/// The runs that apply plans which were approved together.
pub(super) fn approved(answer: &Value) -> String {
    let items = answer["items"].as_array().into_iter().flatten();
    let row = |run: &Value| vec![text(&run["layer"]), text(&run["id"]), text(&run["phase"])];
    let head = ["LAYER", "RUN", "PHASE"].map(str::to_owned).to_vec();
    columns(&std::iter::once(head).chain(items.map(row)).collect::<Vec<_>>())
}

/// A layer that was forgotten.
pub(super) fn forgotten(answer: &Value) -> String {
    format!(
        "{} is forgotten; its infrastructure and its state are left alone",
        text(&answer["name"])
    )
}

/// A run whose plan was discarded.
pub(super) fn discarded(run: &Value) -> String {
    let (id, by) = (text(&run["id"]), text(&run["discardedBy"]));
    format!("the plan of run {id} is discarded by {by}")
}

/// A run that was cancelled.
pub(super) fn cancelled(run: &Value) -> String {
    let id = text(&run["id"]);
    if run["cancelling"] == true {
        return format!("run {id} is being stopped; `butler-runner run show {id}` shows its end");
    }
    format!("run {id} is cancelled")
}

/// A repository that is read now.
pub(super) fn synced(answer: &Value) -> String {
    format!("the repository {} is read now", text(&answer["repository"]))
}

/// A layer for which a commit caused no run.
pub(super) fn nothing_to_plan(layer: &Value) -> String {
    let (name, phase, reasons) = (text(&layer["name"]), text(&layer["phase"]), reasons(layer));
    let why = if reasons.is_empty() { phase } else { format!("{phase}: {reasons}") };
    format!("no new commit changes {name} ({why})")
}

/// A layer whose state is free.
pub(super) fn unlocked(answer: &Value) -> String {
    let name = text(&answer["name"]);
    if let Some(run) = answer["run"]["id"].as_str() {
        return format!(
            "run {run} removes the state lock, then plans; `butler-runner run logs {run}` shows its log"
        );
    }
    match answer["lost"].as_str() {
        Some(run) => format!("{name} is unlocked: the attempt of run {run} counts as lost"),
        None => format!("{name} is not locked"),
    }
}

/// A layer that was paused or resumed.
pub(super) fn paused(answer: &Value) -> String {
    let name = text(&answer["name"]);
    match answer["pausedBy"].as_str() {
        Some(by) => format!("{name} is paused by {by}"),
        None => format!("{name} is not paused"),
    }
}

/// The breaker.
pub(super) fn breaker(answer: &Value) -> String {
    if answer["open"] != true {
        return "the breaker is closed: automatic applies are not stopped".to_owned();
    }
    let head = ["LAYER", "RUN", "ATTEMPT", "ENDED", "BECAUSE"].map(str::to_owned).to_vec();
    let failures = answer["failures"].as_array().into_iter().flatten().map(|failure| {
        vec![
            text(&failure["layer"]),
            text(&failure["run"]),
            failure["attempt"].to_string(),
            text(&failure["ended"]),
            text(&failure["outcome"]),
        ]
    });
    let table = columns(&std::iter::once(head).chain(failures).collect::<Vec<_>>());
    let since = answer["since"].as_str().map(|at| format!(" since {at}")).unwrap_or_default();
    let failed = "the applies of these layers in a row have failed";
    format!(
        "the breaker is open{since}: automatic applies of all layers are stopped, because {failed}\n{table}"
    )
}

/// A breaker that was reset.
pub(super) fn breaker_reset(answer: &Value) -> String {
    let text = if answer["wasOpen"] == true {
        "the breaker is reset: automatic applies are allowed again"
    } else {
        "the breaker was not open"
    };
    text.to_owned()
}

/// A list of the runs of one layer.
pub(super) fn runs(answer: &Value) -> String {
    let mut rows = rows_of_runs(answer);
    for row in &mut rows {
        row.remove(1);
    }
    columns(&rows)
}

/// A list of runs of several layers.
pub(super) fn runs_of_all_layers(answer: &Value) -> String {
    columns(&rows_of_runs(answer))
}

fn rows_of_runs(answer: &Value) -> Vec<Vec<String>> {
    let head = ["ID", "LAYER", "ACTION", "CAUSE", "PHASE", "COMMIT", "CHANGES", "CREATED", "ENDED"];
    let runs = answer["items"].as_array().into_iter().flatten().map(|run| {
        vec![
            text(&run["id"]),
            text(&run["layer"]),
            text(&run["action"]),
            text(&run["cause"]),
            text(&run["phase"]),
            short(&run["commit"]),
            changes(run),
            text(&run["created"]),
            text(&run["ended"]),
        ]
    });
    std::iter::once(head.map(str::to_owned).to_vec()).chain(runs).collect()
}

/// A run that was waited for.
pub(super) fn ended(run: &Value) -> String {
    let how = run["ended"].as_str().map_or_else(|| changes(run), str::to_owned);
    format!("run {} {}: {how}", text(&run["id"]), text(&run["phase"]))
}

/// One run.
pub(super) fn run(run: &Value) -> String {
    let mut rows: Vec<Vec<String>> = [
        ("id", text(&run["id"])),
        ("layer", text(&run["layer"])),
        ("action", text(&run["action"])),
        ("cause", text(&run["cause"])),
        ("phase", text(&run["phase"])),
        ("cancelling", if run["cancelling"] == true { "yes".to_owned() } else { String::new() }),
        ("ended", text(&run["ended"])),
        ("commit", text(&run["commit"])),
        ("changes", changes(run)),
        ("plan digest", text(&run["planDigest"])),
        ("stale", if run["stale"] == true { "yes".to_owned() } else { String::new() }),
        ("discarded by", text(&run["discardedBy"])),
        ("applied by run", text(&run["applyRun"])),
        ("approved by", text(&run["approvedBy"])),
        ("window overridden by", overridden(run)),
        ("made before", made_before(run)),
        ("created", text(&run["created"])),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(name, value)| vec![format!("{name}:"), value])
    .collect();
    for attempt in run["attempts"].as_array().into_iter().flatten() {
        let outcome = attempt["outcome"].as_str().unwrap_or("runs");
        let started = text(&attempt["started"]);
        let place = text(&attempt["place"]);
        rows.push(vec![
            format!("attempt {}:", attempt["number"]),
            format!("{outcome}, started {started} on {place}"),
        ]);
        let lock = state_lock(&attempt["stateLock"]);
        if !lock.is_empty() {
            rows.push(vec!["state lock:".to_owned(), lock]);
        }
    }
    columns(&rows)
}

/// The layers that come first and were not applied when the plan was made.
fn made_before(run: &Value) -> String {
    let names: Vec<String> = run["madeBefore"].as_array().into_iter().flatten().map(text).collect();
    match names.len() {
        0 => String::new(),
        1 => format!("{} is applied", names[0]),
        _ => format!("{} are applied", names.join(", ")),
    }
}

/// Who lets a run start although a window is closed, and why.
fn overridden(run: &Value) -> String {
    let given = &run["windowOverride"];
    match given["by"].as_str() {
        Some(by) => format!("{by}: {}", text(&given["reason"])),
        None => String::new(),
    }
}

/// How many lines of the output of a program that has refused a plan are printed.
const LAST_LINES: usize = 10;

/// The last lines of the programs that have refused the plan of a run.
pub(super) fn refusals(checked: &Value) -> String {
    let items = checked["items"].as_array().into_iter().flatten();
    let mut shown = String::new();
    for item in items.filter(|item| item["passed"] == false) {
        let output = text(&item["output"]);
        let lines: Vec<&str> = output.trim_end().lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        let is_cut = last.len() < lines.len();
        let of = if is_cut { "the last lines of `" } else { "the output of `" };
        let program = text(&item["program"]);
        let _ = writeln!(shown, "\n{of}{program}`, which has refused the plan:");
        for line in last {
            let _ = writeln!(shown, "  {line}");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_changes_of_a_run_are_shown() {
        assert_eq!(changes(&json!({"counts": null})), "");
        // As a server of an earlier version answers.
        assert_eq!(changes(&json!({"counts": {"add": 1, "change": 2, "destroy": 3}})), "+1 ~2 -3");
        let rare = json!({"counts": {"add": 0, "change": 0, "destroy": 0, "import": 1, "move": 2, "forget": 3}});
        assert_eq!(changes(&rare), "+0 ~0 -0, 1 import, 2 move, 3 forget");
    }

    #[test]
    fn only_the_end_of_what_a_program_said_that_refused_is_shown() {
        let lines: Vec<String> = (1..=12).map(|number| format!("line {number}")).collect();
        let checked = json!({"items": [
            {"program": "cost", "passed": true, "output": "3 EUR\n"},
            {"program": "rules", "passed": false, "output": "no deletions\n"},
            {"program": "more", "passed": false, "output": lines.join("\n")},
        ]});
        let shown = refusals(&checked);
        assert!(!shown.contains("EUR"), "{shown}");
        assert!(
            shown.starts_with(
                "\nthe output of `rules`, which has refused the plan:\n  no deletions\n"
            ),
            "{shown}"
        );
        assert!(
            shown.contains("\nthe last lines of `more`, which has refused the plan:\n  line 3\n")
        );
        assert!(shown.ends_with("  line 12\n"), "{shown}");
    }
}
