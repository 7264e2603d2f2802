//! The plan in the summary: a folded difference, up to a size limit.

use std::fmt::Write as _;

use crate::line_diff::{Line, line_diff};
use crate::markdown::fenced;
use crate::visible::visible;
use crate::wording::{actions_title, counted, label, remarks, value, verb};
use crate::{AttributeChange, PlannedChange, RunResult, Shown};

/// The plan, folded, up to the size limit.
pub(in crate::summary) fn write_plan(result: &RunResult, room: usize, text: &mut String) {
    let parts = [
        (actions_title(&result.actions, &result.changes), &result.actions),
        ("The plan", &result.changes),
        ("Changed outside of the module", &result.drift),
    ];
    let mut room = room;
    for (title, changes) in parts {
        let blocks = changes.iter().map(resource);
        fold(title, blocks.collect(), changes.len(), &mut room, text);
    }
    let mut outputs = String::new();
    for change in &result.output_changes {
        attribute(change, "", &mut outputs);
    }
    let count = usize::from(!outputs.is_empty());
    fold("Outputs", vec![outputs], count, &mut room, text);
}

fn fold(title: &str, blocks: Vec<String>, count: usize, room: &mut usize, text: &mut String) {
    if count == 0 {
        return;
    }
    // The text around the blocks, including the fences and the note.
    let frame = 400 + title.len();
    let mut shown = String::new();
    let mut missing = 0;
    for block in blocks {
        if shown.len() + block.len() + frame > *room {
            missing += 1;
        } else {
            shown.push_str(&block);
        }
    }
    let mut part = format!("\n<details><summary>{title}</summary>\n\n");
    part.push_str(&fenced("diff", &shown));
    if missing > 0 {
        let _ =
            write!(part, "\n{} omitted: the size limit is reached.\n", counted(missing, "part"));
    }
    part.push_str("\n</details>\n");
    *room = room.saturating_sub(part.len());
    text.push_str(&part);
}

fn resource(change: &PlannedChange) -> String {
    let verb = verb(change);
    let mark = match verb {
        "create" => "+",
        "destroy" | "gone" => "-",
        "read" | "forget" | "move" | "import" => " ",
        _ => "!",
    };
    let mut text = format!("{mark} {} ({})", visible(&change.address), label(change));
    for remark in remarks(change) {
        let _ = write!(text, ", {}", visible(&remark));
    }
    text.push('\n');
    for change in &change.attributes {
        attribute(change, "    ", &mut text);
    }
    if change.more_attributes > 0 {
        let _ = writeln!(text, "      … and {}", counted(change.more_attributes, "more attribute"));
    }
    text.push('\n');
    text
}

fn attribute(change: &AttributeChange, indent: &str, text: &mut String) {
    let path = visible(&change.path);
    let note = if change.forces_replacement { " # forces replacement" } else { "" };
    let is_text = |shown: &Option<Shown>| matches!(shown, Some(Shown::Text(_)));
    let mark = match (&change.before, &change.after) {
        _ if change.stays() => ' ',
        (None, _) => '+',
        (_, None) => '-',
        _ => '!',
    };
    if is_text(&change.before) || is_text(&change.after) {
        let of = |shown: &Option<Shown>| shown.as_ref().map(value).unwrap_or_default().to_owned();
        let _ = writeln!(text, "{mark} {indent}{path} ={note}");
        let (before, after) = (of(&change.before), of(&change.after));
        if change.stays() {
            for line in after.lines() {
                let _ = writeln!(text, "  {indent}    {}", visible(line));
            }
            return;
        }
        for line in line_diff(&before, &after) {
            let (mark, line) = match line {
                Line::Old(line) => ("-", visible(line)),
                Line::New(line) => ("+", visible(line)),
                Line::Same(line) => (" ", visible(line)),
                Line::Gap(count) => (" ", format!("… {}", counted(count, "line")).into()),
            };
            let _ = writeln!(text, "{mark} {indent}    {line}");
        }
        return;
    }
    let before = change.before.as_ref().filter(|_| !change.stays());
    let values: Vec<_> = [before, change.after.as_ref()]
        .into_iter()
        .flatten()
        .map(|shown| visible(value(shown)).replace('\n', " "))
        .collect();
    let _ = writeln!(text, "{mark} {indent}{path} = {}{note}", values.join(" → "));
}
