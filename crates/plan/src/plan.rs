//! The summary of a saved plan, from its JSON (`show -json`, plan format 1.x).

use std::io::{Error, ErrorKind, Result};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::marks::PieceVisitor;
use super::walk::PlanVisitor;
use butler_result::ChangeCounts;

/// The summary of a plan.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PlanSummary {
    /// Resources by action.
    pub counts: ChangeCounts,
    /// Resources that were changed outside of Terraform: address and action.
    pub drift: Vec<String>,
    /// The same by what an apply of a plan that only refreshes does to the state: changed, or forgotten because deleted.
    pub drift_counts: ChangeCounts,
    /// The number of resource instances after an apply.
    pub resources_after: u32,
    /// Whether an apply of the plan would change the state, if the tool's version reports that.
    pub applyable: Option<bool>,
    /// Whether the plan covers all resources, if the tool's version reports that. A plan with targets does not.
    pub complete: Option<bool>,
}

impl PlanSummary {
    /// Whether an apply of the plan would change anything.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.counts != ChangeCounts::default()
    }

    /// One line for users, in Terraform's own words.
    #[must_use]
    pub fn line(&self) -> String {
        match self.counts {
            counts if counts.changes_resources() => format!("Plan: {counts}."),
            ChangeCounts { outputs: 0, .. } => "No changes.".to_owned(),
            counts => format!("Changes to {} only.", counted(counts.outputs, "output")),
        }
    }

    /// One line about changes outside of the tool with this `title`.
    #[must_use]
    pub fn drift_line(&self, title: &str) -> String {
        if self.drift.is_empty() {
            return "No drift.".to_owned();
        }
        format!("Drift: {} changed outside of {title}: {}", self.drift.len(), self.drift.join(", "))
    }
}

/// `1 output`, `2 outputs`.
#[must_use]
pub fn counted(count: u32, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Adds the planned actions of `change` to `counts`.
fn count_planned(counts: &mut ChangeCounts, change: &ResourceChange) {
    if change.mode == "data" {
        return;
    }
    let actions = &change.change.actions;
    let does = |action: &str| u32::from(actions.iter().any(|other| other == action));
    counts.add += does("create");
    counts.change += does("update");
    counts.destroy += does("delete");
    counts.replace += does("create") * (does("delete") | does("forget"));
    counts.forget += does("forget");
    counts.import += u32::from(change.change.importing.is_some());
    counts.moved +=
        u32::from(change.previous_address.as_ref().is_some_and(|before| *before != change.address));
}

/// Whether the plan of this version of the tool, a JSON string, lists all outputs as new: Terraform before 0.14 does not
/// compare them, and does not count them as changes.
pub(super) fn lists_all_outputs(version: &str) -> bool {
    let version = version.trim_matches('"');
    version
        .strip_prefix("0.")
        .and_then(|rest| rest.split('.').next()?.parse().ok())
        .is_some_and(|minor: u32| minor < 14)
}

/// Builds the summary of a plan from its pieces.
#[derive(Default)]
pub(super) struct SummaryBuilder {
    summary: PlanSummary,
    section: Section,
    /// Whether the document has a `format_version`, which distinguishes a plan from other JSON
    /// objects.
    is_plan: bool,
    /// Whether the tool lists all outputs as new, even those that do not change.
    lists_all_outputs: bool,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Section {
    Format,
    ToolVersion,
    Applyable,
    Complete,
    Values,
    Actions,
    Changes,
    Drift,
    Outputs,
    #[default]
    Other,
}

impl SummaryBuilder {
    /// The summary, after the whole plan was read.
    ///
    /// # Errors
    /// If the document is not a plan.
    pub(super) fn into_summary(self) -> Result<PlanSummary> {
        let missing = "not a plan: `format_version` is missing";
        self.is_plan
            .then_some(self.summary)
            .ok_or_else(|| Error::new(ErrorKind::InvalidData, missing))
    }

    fn note_drift(&mut self, ResourceChange { address, change, .. }: ResourceChange) {
        let Some(action) = change.drift() else { return };
        let counts = &mut self.summary.drift_counts;
        match action {
            "deleted" => counts.forget += 1,
            _ => counts.change += 1,
        }
        self.summary.drift.push(format!("{address} ({action})"));
    }
}

impl PieceVisitor for SummaryBuilder {
    fn piece(&mut self, name: &str, json: &RawValue) -> Result<()> {
        let text = json.get();
        let summary = &mut self.summary;
        match self.section {
            Section::Format => {
                self.is_plan = serde_json::from_str::<String>(text).is_ok();
            }
            Section::ToolVersion => self.lists_all_outputs = lists_all_outputs(text),
            Section::Applyable => summary.applyable = serde_json::from_str(text)?,
            Section::Complete => summary.complete = serde_json::from_str(text)?,
            Section::Actions => summary.counts.actions += 1,
            Section::Changes => count_planned(&mut summary.counts, &serde_json::from_str(text)?),
            Section::Drift => self.note_drift(serde_json::from_str(text)?),
            Section::Outputs if self.lists_all_outputs => {}
            Section::Outputs => {
                let change: Change = serde_json::from_str(text)?;
                let changes = u32::from(!change.is_no_op());
                summary.counts.outputs += changes;
                summary.drift_counts.outputs += changes;
            }
            // Those of the root module and of all modules below it.
            Section::Values if name == "resources" => {
                let resource: ResourceValues = serde_json::from_str(text)?;
                summary.resources_after += u32::from(resource.mode != "data");
            }
            Section::Values | Section::Other => {}
        }
        Ok(())
    }

    fn variable(&mut self, _: &RawValue) -> Result<()> {
        Ok(())
    }
}

impl PlanVisitor for SummaryBuilder {
    fn begin(&mut self, member: &str) {
        self.section = match member {
            "format_version" => Section::Format,
            "terraform_version" => Section::ToolVersion,
            "applyable" => Section::Applyable,
            "complete" => Section::Complete,
            "planned_values" => Section::Values,
            "action_invocations" => Section::Actions,
            "resource_changes" => Section::Changes,
            "resource_drift" => Section::Drift,
            "output_changes" => Section::Outputs,
            _ => Section::Other,
        };
    }
}

#[derive(Deserialize)]
struct ResourceChange {
    address: String,
    previous_address: Option<String>,
    #[serde(default)]
    mode: String,
    change: Change,
}

#[derive(Deserialize)]
struct Change {
    #[serde(default)]
    actions: Vec<String>,
    importing: Option<serde::de::IgnoredAny>,
}

impl Change {
    fn is_no_op(&self) -> bool {
        self.actions.iter().all(|action| action == "no-op" || action == "read")
    }

    fn drift(&self) -> Option<&'static str> {
        let does = |action: &str| self.actions.iter().any(|other| other == action);
        match (does("delete"), does("update")) {
            (true, _) => Some("deleted"),
            (_, true) => Some("changed"),
            // Moved resources are listed as drift too.
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct ResourceValues {
    #[serde(default)]
    mode: String,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::reading::for_tests;
    use super::*;

    fn read(plan: &[u8]) -> Result<PlanSummary> {
        for_tests::survey(|| Ok(plan), BTreeSet::new()).map(|survey| survey.summary)
    }

    fn change(address: &str, actions: &str, rest: &str) -> String {
        format!(
            r#"{{"address":"{address}","mode":"managed","change":{{"actions":[{actions}]{rest}}}}}"#
        )
    }

    #[test]
    fn every_action_has_its_own_count() {
        let changes = [
            change("a", r#""create""#, ""),
            change("b", r#""update""#, ""),
            change("c", r#""delete""#, ""),
            change("d", r#""delete","create""#, ""),
            change("e", r#""create","delete""#, ""),
            change("f", r#""no-op""#, r#","importing":{"id":"x"}"#),
            change("g", r#""forget""#, ""),
            change("h", r#""read""#, "").replace("managed", "data"),
            change("i", r#""no-op""#, "")
                .replace("\"mode\"", "\"previous_address\":\"z\",\"mode\""),
        ];
        let json =
            format!(r#"{{"format_version":"1.2","resource_changes":[{}]}}"#, changes.join(","));
        let summary = read(json.as_bytes()).unwrap();
        let counts = ChangeCounts {
            add: 3,
            change: 1,
            destroy: 3,
            replace: 2,
            import: 1,
            moved: 1,
            forget: 1,
            ..ChangeCounts::default()
        };
        assert_eq!(summary.counts, counts);
        assert_eq!(
            summary.line(),
            "Plan: 1 to import, 3 to add, 1 to change, 3 to destroy, 2 replaced, 1 moved, 1 forgotten."
        );
    }

    #[test]
    fn outputs_of_a_tool_that_does_not_compare_them_are_not_changes() {
        for (version, outputs) in [
            ("0.12.31", 0),
            ("0.13.7", 0),
            ("0.14.0", 1),
            ("0.15.5", 1),
            ("1.0.0", 1),
            ("1.13.0", 1),
        ] {
            let json = format!(
                r#"{{"format_version":"0.1","terraform_version":"{version}","output_changes":{{"o":{{"actions":["create"]}}}}}}"#
            );
            assert_eq!(read(json.as_bytes()).unwrap().counts.outputs, outputs, "{version}");
        }
    }

    #[test]
    fn document_without_format_version_is_not_a_plan() {
        assert!(read(&br#"{"terraform_version":"1.11.4"}"#[..]).is_err());
    }

    #[test]
    fn drift_lists_changes_outside_of_terraform() {
        let json = format!(
            r#"{{"format_version":"1.2","resource_drift":[{},{},{}],"output_changes":{{"o":{{"actions":["update"]}}}}}}"#,
            change("a", r#""update""#, ""),
            change("b", r#""delete""#, ""),
            change("c", r#""no-op""#, "")
        );
        let summary = read(json.as_bytes()).unwrap();
        assert_eq!(
            summary.drift_line("OpenTofu"),
            "Drift: 2 changed outside of OpenTofu: a (changed), b (deleted)"
        );
        assert_eq!(summary.line(), "Changes to 1 output only.");
        let counts = ChangeCounts { outputs: 2, ..summary.counts };
        assert_eq!(PlanSummary { counts, ..summary }.line(), "Changes to 2 outputs only.");
    }

    #[test]
    fn plan_that_only_executes_actions_has_changes() {
        let json = br#"{"format_version":"1.2","action_invocations":[{"address":"action.a.b","invoke_action_trigger":{}},
            {"address":"action.a.c","invoke_action_trigger":{}}],"deferred_action_invocations":[{"reason":"unknown","action_invocation":{"address":"action.a.d"}}]}"#;
        let summary = read(&json[..]).unwrap();
        assert!(summary.has_changes());
        assert_eq!(
            summary.line(),
            "Plan: 0 to add, 0 to change, 0 to destroy, 2 actions to execute."
        );
    }
}
