//! The parts of a page about a run: its plan, its diagnostics and its timings. The report and the server's pages
//! show them alike.

use std::borrow::Cow;

use askama::Template;

use super::groups::Group;
use super::view::{self, Attribute, Bar, Change, Diagnostic};
use crate::wording::{actions_title, duration, is_applied, sign, verb};
use crate::{AttributeChange, PlannedChange, Timings};

/// The order of the verbs in the filter.
const VERBS: [&str; 8] =
    ["create", "update", "replace", "destroy", "read", "forget", "import", "move"];

/// With fewer resources, all are expanded initially.
const FEW: usize = 12;

/// A plan as a difference, resource by resource. It prints as HTML.
#[derive(Template)]
#[template(path = "plan.html")]
pub struct PlanSection<'a> {
    title: &'static str,
    actions_title: &'static str,
    actions: Vec<Change<'a>>,
    /// Verb, sign, and number of resources.
    verbs: Vec<(&'static str, &'static str, usize)>,
    groups: Vec<Group<'a>>,
    outputs: Vec<Attribute<'a>>,
    drift: Vec<Change<'a>>,
    left_out: usize,
}

impl std::fmt::Debug for PlanSection<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "PlanSection({})", self.title)
    }
}

impl<'a> PlanSection<'a> {
    /// The changes of resources and outputs, and what was changed outside of the module. `left_out` is the number
    /// of changes that are not listed.
    #[must_use]
    pub fn new(
        changes: &'a [PlannedChange],
        outputs: &'a [AttributeChange],
        drift: &'a [PlannedChange],
        left_out: usize,
    ) -> Self {
        Self {
            title: title(changes),
            actions_title: "",
            actions: Vec::new(),
            verbs: verbs(changes),
            groups: Group::all(changes, changes.len() <= FEW),
            outputs: outputs.iter().map(Attribute::of).collect(),
            drift: drift.iter().map(|change| Change::of(change, drift.len() <= FEW)).collect(),
            left_out,
        }
    }

    /// The section with the `actions` that are executed, before the `changes`.
    #[must_use]
    pub fn executing(self, actions: &'a [PlannedChange], changes: &'a [PlannedChange]) -> Self {
        let shown = actions.iter().map(|action| Change::of(action, actions.len() <= FEW));
        Self { actions_title: actions_title(actions, changes), actions: shown.collect(), ..self }
    }

    /// The section with another heading than "Plan" or "Changes".
    #[must_use]
    pub fn titled(self, title: &'static str) -> Self {
        Self { title, ..self }
    }

    /// Whether there is nothing to show.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.groups.is_empty()
            && self.actions.is_empty()
            && self.outputs.is_empty()
            && self.drift.is_empty()
            && self.left_out == 0
    }
}

/// The heading of the changes: planned or applied ones.
pub(super) fn title(changes: &[PlannedChange]) -> &'static str {
    if is_applied(changes) { "Changes" } else { "Plan" }
}

fn verbs(changes: &[PlannedChange]) -> Vec<(&'static str, &'static str, usize)> {
    let count = |wanted: &str| changes.iter().filter(|change| verb(change) == wanted).count();
    let all = VERBS.into_iter().map(|verb| (verb, sign(verb), count(verb)));
    all.filter(|(.., count)| *count > 0).collect()
}

/// The errors and warnings of the tool, and the warnings of the runner. They print as HTML.
#[derive(Template)]
#[template(path = "diagnostics.html")]
pub struct DiagnosticsSection<'a> {
    all: Vec<Diagnostic<'a>>,
    warnings: Vec<Cow<'a, str>>,
}

impl std::fmt::Debug for DiagnosticsSection<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "DiagnosticsSection({})", self.all.len())
    }
}

impl<'a> DiagnosticsSection<'a> {
    /// These ones.
    #[must_use]
    pub fn new(all: &'a [crate::Diagnostic], warnings: &'a [String]) -> Self {
        Self {
            all: all.iter().map(Diagnostic::of).collect(),
            warnings: warnings.iter().map(|warning| view::text(warning)).collect(),
        }
    }

    /// Whether there is nothing to show.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty() && self.warnings.is_empty()
    }
}

/// The phases of a run on a time axis. It prints as HTML.
#[derive(Template)]
#[template(path = "timings.html")]
pub struct TimingsTable {
    bars: Vec<Bar>,
    total: String,
    status: String,
}

impl std::fmt::Debug for TimingsTable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "TimingsTable({})", self.total)
    }
}

impl TimingsTable {
    /// `failed` is the phase in which the run failed or was stopped, and `status` how it ended, in one word.
    #[must_use]
    pub fn new(timings: &Timings, failed: Option<butler_base::event::Phase>, status: &str) -> Self {
        let (bars, total) = (Bar::all(timings, failed), duration(timings.total));
        Self { bars, total, status: status.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, ChangeOutcome, Shown};

    fn change(address: &str, action: Action) -> PlannedChange {
        PlannedChange::new(action, address.to_owned())
    }

    #[test]
    fn actions_are_shown_before_the_changes() {
        let action = PlannedChange {
            reason: Some("after a.b is created".to_owned()),
            ..change("action.x.y", Action::Execute)
        };
        let (mut actions, changes) = ([action], [change("a.b", Action::Create)]);
        let html =
            PlanSection::new(&changes, &[], &[], 0).executing(&actions, &changes).to_string();
        let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text}: {html}"));
        assert!(at("Will be executed") < at("action.x.y"), "{html}");
        assert!(at("after a.b is created") < at("id=\"changes\""), "{html}");
        let alone = PlanSection::new(&[], &[], &[], 0).executing(&actions, &[]);
        assert!(!alone.is_empty() && alone.to_string().contains("Will be executed"));
        actions[0].outcome = Some(ChangeOutcome::Done);
        let html = PlanSection::new(&[], &[], &[], 0).executing(&actions, &[]).to_string();
        assert!(html.contains("<h3>Executed ") && html.contains(">executed<"), "{html}");
    }

    #[test]
    fn import_shows_its_id_and_values_and_a_vanished_resource_is_gone() {
        let shown = |text: &str| Some(Shown::Value(text.to_owned()));
        let attribute = AttributeChange {
            path: "tags".to_owned(),
            before: shown("\"b\""),
            after: shown("\"b\""),
            forces_replacement: false,
        };
        let import = PlannedChange {
            imported: true,
            import_id: Some("\"i-1\"".to_owned()),
            attributes: vec![attribute],
            ..change("a.b", Action::Nothing)
        };
        let (changes, drift) = ([import], [change("a.c", Action::Gone)]);
        let html = PlanSection::new(&changes, &[], &drift, 0).to_string();
        assert!(html.contains("imported as &#34;i-1&#34;"), "{html}");
        assert_eq!(html.matches("&#34;b&#34;").count(), 1, "{html}");
        assert!(html.contains("deleted outside of Terraform"), "{html}");
        assert!(!html.contains("destroy"), "{html}");
    }
}
