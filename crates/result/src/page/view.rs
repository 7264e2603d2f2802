//! The values of the page's templates: texts without invisible characters, and the names of styles.

use std::borrow::Cow;
use std::time::Duration;

use butler_base::event::Phase;

use crate::line_diff::{Line, line_diff};
use crate::visible::visible;
use crate::wording::{
    counted, duration, label, module_source, outcome_style, remarks, share, sign, started, value,
    verb,
};
use crate::{AttributeChange, FinalStatus, PlannedChange, RunResult, Severity, Shown, Timings};

/// The least width of a bar in percent, so that short phases are visible.
const LEAST: f64 = 0.5;

/// An untrusted text without invisible characters.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    visible(text)
}

/// Facts about the run in addition to its result.
pub(super) fn facts(result: &RunResult) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let known = [
        ("Module", &module_source(result)),
        ("Operation", &result.operation.map(|operation| operation.to_string())),
        ("Run", &result.run_id),
        ("Tool", &result.tool),
        ("Commit", &result.source_commit),
    ];
    for (name, fact) in known {
        facts.extend(fact.as_deref().map(|fact| (name, text(fact).into_owned())));
    }
    facts.push(("Started", started(result)));
    facts.push(("Took", duration(result.timings.total)));
    if let Some(resources) = result.resources_after {
        facts.push(("Resources", resources.to_string()));
    }
    facts.push(("Exit code", result.exit_code.to_string()));
    facts
}

/// Why the run did not succeed.
pub(super) struct Problem<'a> {
    pub(super) title: String,
    pub(super) message: Cow<'a, str>,
    pub(super) advice: Option<Cow<'a, str>>,
}

impl<'a> Problem<'a> {
    pub(super) fn of(problem: &'a crate::Problem, status: FinalStatus) -> Self {
        let what = if status == FinalStatus::Cancelled { "Stopped" } else { "Error" };
        Self {
            title: format!("{what} in {}", problem.phase),
            message: text(&problem.message),
            advice: problem.advice.as_deref().map(text),
        }
    }
}

/// An error or warning of the tool.
pub(super) struct Diagnostic<'a> {
    pub(super) severity: &'static str,
    pub(super) summary: Cow<'a, str>,
    /// May be empty.
    pub(super) place: String,
    /// May be empty.
    pub(super) detail: Cow<'a, str>,
}

impl<'a> Diagnostic<'a> {
    pub(super) fn of(diagnostic: &'a crate::Diagnostic) -> Self {
        let place = diagnostic.place.as_ref();
        let place = place.map(|place| format!("{}:{}", text(&place.file), place.line));
        let subject = diagnostic.subject.as_deref().map(|subject| text(subject).into_owned());
        Self {
            severity: match diagnostic.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            summary: text(&diagnostic.summary),
            place: place.into_iter().chain(subject).collect::<Vec<_>>().join(" · "),
            detail: text(diagnostic.detail.trim_end()),
        }
    }
}

/// The change of a resource.
pub(super) struct Change<'a> {
    /// The action, which is also the name of its style.
    pub(super) verb: &'static str,
    /// The style of the outcome; may be empty.
    pub(super) outcome: &'static str,
    /// The action or its outcome in words.
    pub(super) label: Cow<'static, str>,
    pub(super) sign: &'static str,
    pub(super) address: Cow<'a, str>,
    pub(super) remarks: Vec<String>,
    pub(super) amount: String,
    pub(super) attributes: Vec<Attribute<'a>>,
    /// May be empty.
    pub(super) more: String,
    pub(super) open: bool,
}

impl<'a> Change<'a> {
    pub(super) fn of(change: &'a PlannedChange, open: bool) -> Self {
        let verb = verb(change);
        let count = change.attributes.len() + change.more_attributes;
        let more = match change.more_attributes {
            0 => String::new(),
            more => counted(more, "more attribute"),
        };
        Self {
            verb,
            outcome: outcome_style(change),
            label: label(change),
            sign: sign(verb),
            address: text(&change.address),
            remarks: remarks(change).iter().map(|remark| text(remark).into_owned()).collect(),
            amount: counted(count, "attribute"),
            attributes: change.attributes.iter().map(Attribute::of).collect(),
            more,
            open: open && count > 0,
        }
    }
}

/// The change of an attribute.
pub(super) struct Attribute<'a> {
    pub(super) kind: &'static str,
    pub(super) sign: &'static str,
    pub(super) path: Cow<'a, str>,
    pub(super) forces: bool,
    /// Style and text.
    pub(super) before: Option<(&'static str, Cow<'a, str>)>,
    /// Style and text.
    pub(super) after: Option<(&'static str, Cow<'a, str>)>,
    /// Used instead of both for a text of several lines: sign and text.
    pub(super) lines: Vec<(&'static str, Cow<'a, str>)>,
}

impl<'a> Attribute<'a> {
    pub(super) fn of(change: &'a AttributeChange) -> Self {
        let (kind, sign) = match (&change.before, &change.after) {
            _ if change.stays() => ("same", " "),
            (None, _) => ("add", "+"),
            (_, None) => ("del", "−"),
            _ => ("mod", "~"),
        };
        let side = |shown: &'a Option<Shown>| {
            shown.as_ref().map(|shown| {
                let style = match shown {
                    Shown::Value(_) | Shown::Text(_) => "",
                    Shown::Sensitive => "hidden",
                    Shown::Unknown => "unknown",
                };
                (style, text(value(shown)))
            })
        };
        Self {
            kind,
            sign,
            path: text(&change.path),
            forces: change.forces_replacement,
            before: if change.stays() { None } else { side(&change.before) },
            after: side(&change.after),
            lines: lines(change),
        }
    }
}

/// The difference of a text of several lines; empty for other values, and if one side is unknown.
fn lines(change: &AttributeChange) -> Vec<(&'static str, Cow<'_, str>)> {
    let side = |shown: &Option<Shown>| match shown {
        Some(Shown::Text(text)) => Some((text.clone(), true)),
        Some(Shown::Value(text)) => Some((text.clone(), false)),
        Some(_) => None,
        None => Some((String::new(), false)),
    };
    let (Some((before, one)), Some((after, other))) = (side(&change.before), side(&change.after))
    else {
        return Vec::new();
    };
    if !one && !other {
        return Vec::new();
    }
    let owned = |line: &str| Cow::Owned(text(line).into_owned());
    if change.stays() {
        return after.lines().map(|line| (" ", owned(line))).collect();
    }
    line_diff(&before, &after)
        .into_iter()
        .map(|line| match line {
            Line::Old(line) => ("-", owned(line)),
            Line::New(line) => ("+", owned(line)),
            Line::Same(line) => (" ", owned(line)),
            Line::Gap(count) => (" ", Cow::Owned(format!("… {}", counted(count, "line")))),
        })
        .collect()
}

/// A phase on the time axis.
pub(super) struct Bar {
    pub(super) phase: String,
    pub(super) class: &'static str,
    /// In percent.
    pub(super) x: String,
    /// In percent.
    pub(super) width: String,
    pub(super) start: String,
    pub(super) duration: String,
    pub(super) share: String,
}

impl Bar {
    pub(super) fn all(timings: &Timings, failed: Option<Phase>) -> Vec<Self> {
        let whole = timings.total.as_secs_f64().max(0.001);
        let percent = |time: Duration| time.as_secs_f64() / whole * 100.0;
        let bar = |timing: &crate::PhaseTiming| {
            let rest = timings.total.saturating_sub(timing.start);
            let width = percent(timing.duration.unwrap_or(rest)).clamp(LEAST, 100.0);
            let x = percent(timing.start).min(100.0 - width).max(0.0);
            Self {
                phase: timing.phase.to_string(),
                class: match timing.duration {
                    // The phase in which the run failed or was stopped, in the colour of its
                    // status.
                    _ if failed == Some(timing.phase) => "ended-here",
                    None => "open",
                    Some(_) => "",
                },
                x: format!("{x:.2}"),
                width: format!("{width:.2}"),
                start: duration(timing.start),
                duration: timing.duration.map_or_else(|| "-".to_owned(), duration),
                share: share(timing.duration, timings.total),
            }
        };
        timings.phases.iter().map(bar).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::PhaseTiming;

    #[test]
    fn bar_of_the_failed_phase_is_marked_and_not_the_longest() {
        let phase = |phase, start, duration| PhaseTiming {
            phase,
            start: Duration::from_secs(start),
            duration: Some(Duration::from_secs(duration)),
        };
        let timings = Timings {
            started: SystemTime::UNIX_EPOCH,
            total: Duration::from_secs(100),
            phases: vec![phase(Phase::Init, 0, 90), phase(Phase::Apply, 90, 10)],
        };
        let classes = |failed| {
            Bar::all(&timings, failed).into_iter().map(|bar| bar.class).collect::<Vec<_>>()
        };
        assert_eq!(classes(None), ["", ""]);
        assert_eq!(classes(Some(Phase::Apply)), ["", "ended-here"]);
    }
}
