//! The words that the summary and the page use for a run.

use std::borrow::Cow;
use std::time::Duration;

use crate::{Action, ChangeOutcome, FinalStatus, Incomplete, PlannedChange, RunResult, Shown};
use butler_protocol::spec::Operation;

/// `Plan succeeded`.
pub(super) fn headline(result: &RunResult) -> String {
    let operation = result.operation.map_or("run", Operation::name).replace('-', " ");
    let mut letters = operation.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase()).into_iter();
    let operation: String = first.chain(letters).collect();
    match result.status {
        FinalStatus::Planned => format!("{operation} awaits confirmation"),
        status => format!("{operation} {status}"),
    }
}

/// The module's short name: the last part of its directory, or `repository//directory`.
pub(super) fn module(result: &RunResult) -> Option<String> {
    let last = |path: &str| {
        let path = path.trim_end_matches(['/', '\\']);
        path.rsplit(['/', '\\', ':']).next().unwrap_or(path).to_owned()
    };
    let directory = result.source_directory.as_deref();
    let Some(repository) = &result.source_repository else {
        return directory.map(last).filter(|name| !name.is_empty());
    };
    let name = last(repository);
    let name = name.strip_suffix(".git").unwrap_or(&name);
    Some(match directory {
        Some(directory) if !directory.is_empty() => format!("{name}//{directory}"),
        _ => name.to_owned(),
    })
}

/// The location of the module: `repository//directory`, or the path of the directory.
pub(super) fn module_source(result: &RunResult) -> Option<String> {
    match (&result.source_repository, &result.source_directory) {
        (Some(repository), Some(directory)) if !directory.is_empty() => {
            Some(format!("{repository}//{directory}"))
        }
        (Some(repository), _) => Some(repository.clone()),
        (None, directory) => directory.clone(),
    }
}

/// `2026-11-23 02:35:31 UTC`.
pub(super) fn started(result: &RunResult) -> String {
    let started = humantime::format_rfc3339_seconds(result.timings.started).to_string();
    started.replace('T', " ").replace('Z', " UTC")
}

/// The verb for the action on a resource, which is also the name of its style.
pub(super) const fn verb(change: &PlannedChange) -> &'static str {
    match change.action {
        Action::Create => "create",
        Action::Update => "update",
        Action::Replace => "replace",
        Action::Delete => "destroy",
        Action::Read => "read",
        Action::Forget => "forget",
        Action::Execute => "execute",
        Action::Changed => "changed",
        Action::Gone => "gone",
        Action::Nothing if change.imported => "import",
        Action::Nothing => "move",
    }
}

/// The sign for a verb.
pub(super) fn sign(verb: &str) -> &'static str {
    match verb {
        "create" => "+",
        "update" | "changed" => "~",
        "replace" => "±",
        "destroy" | "gone" => "−",
        "read" => "↓",
        "forget" => "×",
        "import" => "⇤",
        "execute" => "»",
        _ => "→",
    }
}

/// The action on a resource or its outcome: `create`, `created`, `create failed`.
pub(super) fn label(change: &PlannedChange) -> Cow<'static, str> {
    let verb = verb(change);
    let done = match verb {
        "create" => "created",
        "update" => "updated",
        "replace" => "replaced",
        "destroy" => "destroyed",
        "forget" => "forgotten",
        "import" => "imported",
        "move" => "moved",
        "execute" => "executed",
        other => other,
    };
    match change.outcome {
        None => verb.into(),
        Some(ChangeOutcome::Done) => done.into(),
        Some(ChangeOutcome::Tainted) => "tainted".into(),
        Some(ChangeOutcome::Failed) => format!("{verb} failed").into(),
        Some(ChangeOutcome::Interrupted) => format!("{verb} interrupted").into(),
        Some(ChangeOutcome::NotInState) => {
            format!("{done}, but {}", unstored(change.action)).into()
        }
        Some(ChangeOutcome::Unknown) => "unknown".into(),
        Some(ChangeOutcome::NotStarted) => format!("not {done}").into(),
    }
}

/// The words for a completed change that is not in the stored state.
#[must_use]
pub const fn unstored(action: Action) -> &'static str {
    match action {
        Action::Delete | Action::Forget => "still in the stored state",
        Action::Create
        | Action::Update
        | Action::Replace
        | Action::Read
        | Action::Nothing
        | Action::Execute
        | Action::Changed
        | Action::Gone => "not in the stored state",
    }
}

/// The name of the style for the outcome of a change; empty if it was completed or is only planned.
pub(super) const fn outcome_style(change: &PlannedChange) -> &'static str {
    match change.outcome {
        None | Some(ChangeOutcome::Done) => "",
        Some(ChangeOutcome::Tainted | ChangeOutcome::Failed | ChangeOutcome::NotInState) => "bad",
        Some(ChangeOutcome::Interrupted | ChangeOutcome::Unknown) => "interrupted",
        Some(ChangeOutcome::NotStarted) => "not-started",
    }
}

/// Additional remarks about a change.
pub(super) fn remarks(change: &PlannedChange) -> Vec<String> {
    let mut remarks = Vec::new();
    match &change.import_id {
        Some(id) => remarks.push(format!("imported as {id}")),
        None if change.imported && change.action != Action::Nothing => {
            remarks.push("imported".to_owned());
        }
        None => {}
    }
    if change.action == Action::Gone {
        remarks.push("deleted outside of Terraform".to_owned());
    }
    if let Some(previous) = &change.previous_address {
        remarks.push(format!("was {previous}"));
    }
    remarks.extend(change.reason.clone());
    match change.outcome {
        Some(ChangeOutcome::Tainted) => remarks.push("the next apply replaces it".to_owned()),
        Some(ChangeOutcome::Interrupted) => {
            remarks.push("the state may be incomplete".to_owned());
        }
        Some(ChangeOutcome::NotInState) => {
            remarks.push("the next apply would make it again".to_owned());
        }
        Some(ChangeOutcome::Unknown) => {
            remarks.push("reported as complete, and the state cannot be read".to_owned());
        }
        _ => {}
    }
    remarks
}

/// Whether an apply of the plan with these `changes` has begun.
pub(super) fn is_applied(changes: &[PlannedChange]) -> bool {
    changes.iter().any(|change| change.outcome.is_some())
}

/// The heading of the `actions` of a plan with these `changes`.
pub(super) fn actions_title(actions: &[PlannedChange], changes: &[PlannedChange]) -> &'static str {
    match (is_applied(actions), is_applied(changes)) {
        (true, _) => "Executed",
        (false, true) => "Actions",
        (false, false) => "Will be executed",
    }
}

/// The number of resources by action, with style and words: `to add`, or `added` after an apply.
/// Zero is omitted except for the usual three.
pub(super) fn counts(result: &RunResult) -> Vec<(u32, &'static str, &'static str)> {
    let Some(counts) = &result.counts else { return Vec::new() };
    let usual = [
        (counts.add, "create", "to add", "added"),
        (counts.change, "update", "to change", "changed"),
        (counts.destroy, "destroy", "to destroy", "destroyed"),
    ];
    let outputs = match counts.outputs {
        1 => ["output to change", "output changed"],
        _ => ["outputs to change", "outputs changed"],
    };
    let rare = [
        (counts.replace, "replace", "to replace", "replaced"),
        (counts.import, "import", "to import", "imported"),
        (counts.moved, "move", "to move", "moved"),
        (counts.forget, "forget", "to forget", "forgotten"),
        (counts.actions, "execute", "to execute", "executed"),
        (counts.outputs, "update", outputs[0], outputs[1]),
    ];
    let rare = rare.into_iter().filter(|(count, ..)| *count > 0);
    let is_applied = result.is_applied();
    let words =
        |(count, style, planned, done)| (count, style, if is_applied { done } else { planned });
    let incomplete = result.incomplete.iter().flat_map(Incomplete::counts).map(|(count, word)| {
        let style = if matches!(word, "tainted" | "failed" | "not in the stored state") {
            "fail"
        } else {
            "skipped"
        };
        (count, style, word)
    });
    usual.into_iter().chain(rare).map(words).chain(incomplete).collect()
}

/// A value on one line.
pub(super) fn value(shown: &Shown) -> &str {
    match shown {
        Shown::Value(text) | Shown::Text(text) => text,
        Shown::Sensitive => "(sensitive)",
        Shown::Unknown => "(known after apply)",
    }
}

/// `0.42 s`, `2 min 5 s`.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.2} s", duration.as_secs_f64()),
        10..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// The share of a part in the whole, `-` if it is unknown.
pub(super) fn share(part: Option<Duration>, whole: Duration) -> String {
    match part {
        Some(part) if !whole.is_zero() => {
            format!("{:.0}%", part.as_secs_f64() / whole.as_secs_f64() * 100.0)
        }
        _ => "-".to_owned(),
    }
}

/// `1 change`, `2 changes`.
pub(super) fn counted(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::Timings;

    #[test]
    fn module_is_named_by_the_last_part_of_its_path() {
        for (repository, directory, name, source) in [
            (None, Some("/srv/modules/network"), Some("network"), Some("/srv/modules/network")),
            (None, Some("C:\\modules\\network"), Some("network"), Some("C:\\modules\\network")),
            (None, Some("/"), None, Some("/")),
            (None, None, None, None),
            (
                Some("https://git.example.com/acme/infra.git"),
                Some("net/eu"),
                Some("infra//net/eu"),
                Some("https://git.example.com/acme/infra.git//net/eu"),
            ),
            (
                Some("git@git.example.com:infra.git"),
                Some(""),
                Some("infra"),
                Some("git@git.example.com:infra.git"),
            ),
        ] {
            let timings = Timings {
                started: SystemTime::UNIX_EPOCH,
                total: Duration::ZERO,
                phases: Vec::new(),
            };
            let mut result = RunResult::of(FinalStatus::Failed, 1, timings);
            result.source_repository = repository.map(str::to_owned);
            result.source_directory = directory.map(str::to_owned);
            assert_eq!(module(&result).as_deref(), name);
            assert_eq!(module_source(&result).as_deref(), source);
            assert_eq!(started(&result), "1970-01-01 00:00:00 UTC");
        }
    }
}
