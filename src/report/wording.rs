//! How the summary and the page say what a run did.

use std::time::Duration;

use crate::result::{Action, ChangeCounts, PlannedChange, RunResult, Shown};

/// `Plan succeeded`.
pub(super) fn headline(result: &RunResult) -> String {
    let operation = result.operation.as_deref().unwrap_or("run").replace('-', " ");
    let mut letters = operation.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase()).into_iter();
    let operation: String = first.chain(letters).collect();
    match result.status.as_str() {
        "planned" => format!("{operation} awaits confirmation"),
        status => format!("{operation} {status}"),
    }
}

/// The verb for what is done with a resource, which is also the name of its style.
pub(super) const fn verb(change: &PlannedChange) -> &'static str {
    match change.action {
        Action::Create => "create",
        Action::Update => "update",
        Action::Replace => "replace",
        Action::Delete => "destroy",
        Action::Read => "read",
        Action::Forget => "forget",
        Action::Nothing if change.imported => "import",
        Action::Nothing => "move",
    }
}

/// The sign for a verb.
pub(super) fn sign(verb: &str) -> &'static str {
    match verb {
        "create" => "+",
        "update" => "~",
        "replace" => "±",
        "destroy" => "−",
        "read" => "↓",
        "forget" => "×",
        "import" => "⇤",
        _ => "→",
    }
}

/// What else there is to say about a change.
pub(super) fn remarks(change: &PlannedChange) -> Vec<String> {
    let mut remarks = Vec::new();
    if change.imported && change.action != Action::Nothing {
        remarks.push("imported".to_owned());
    }
    if let Some(previous) = &change.previous_address {
        remarks.push(format!("was {previous}"));
    }
    if let Some(reason) = &change.reason {
        remarks.push(reason.replace('_', " "));
    }
    remarks
}

/// Counts with what they count, those that are nothing left out but for the usual three.
pub(super) fn counts(counts: &ChangeCounts) -> Vec<(&'static str, u32)> {
    let usual = [("add", counts.add), ("change", counts.change), ("destroy", counts.destroy)];
    let rare = [
        ("replace", counts.replace),
        ("import", counts.import),
        ("move", counts.moved),
        ("forget", counts.forget),
    ];
    usual.into_iter().chain(rare.into_iter().filter(|(_, count)| *count > 0)).collect()
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

/// The share of a part in the whole, `-` where it is not known.
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
