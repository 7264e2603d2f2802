//! Collects the changes of a plan from its JSON (`show -json`, plan format 1.x), for display.
//!
//! The plan is read as a stream, one resource at a time, and the result is bounded: a plan of any
//! size costs some MiB. The result contains neither values that the plan marks as sensitive nor
//! registered secrets. Omitted changes are counted.

use std::io::{Error, Result};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::clean::{Content, PlanCopy};
use super::difference::Difference;
use super::marked_value::MarkedValue;
use super::marks::PieceVisitor;
use super::path::{Path, PathStep};
use super::plan::lists_all_outputs;
use super::walk::PlanVisitor;
use butler_base::secret::Redactor;
use butler_result::{Action, AttributeChange, Changes, PlannedChange};

/// How many resources are listed.
const MAX_RESOURCES: usize = 5000;

/// The size of the list in bytes. After that, resources are listed without attributes.
const MAX_LIST_SIZE: usize = 4 * 1024 * 1024;

#[derive(Clone, Copy, Eq, PartialEq)]
enum Section {
    ToolVersion,
    Resources,
    Drift,
    Outputs,
    Elsewhere,
}

/// Collects the changes of a plan.
pub(super) struct ChangeCollector<'a> {
    cleaned: PlanCopy<'a, Vec<u8>>,
    found: Changes,
    /// Why the changes cannot be listed.
    failed: Option<Error>,
    room: usize,
    section: Section,
    /// Whether the tool lists all outputs as new, also those that do not change.
    lists_all_outputs: bool,
    /// The last name that was read, as JSON text.
    name: String,
}

#[derive(Deserialize)]
struct Resource<'a> {
    #[serde(borrow)]
    address: &'a RawValue,
    #[serde(borrow)]
    previous_address: Option<&'a RawValue>,
    #[serde(borrow)]
    deposed: Option<&'a RawValue>,
    #[serde(borrow)]
    action_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    change: Change<'a>,
}

#[derive(Deserialize)]
struct Change<'a> {
    #[serde(default)]
    actions: Vec<String>,
    #[serde(borrow)]
    before: Option<&'a RawValue>,
    #[serde(borrow)]
    after: Option<&'a RawValue>,
    #[serde(borrow)]
    before_sensitive: Option<&'a RawValue>,
    #[serde(borrow)]
    after_sensitive: Option<&'a RawValue>,
    #[serde(borrow)]
    after_unknown: Option<&'a RawValue>,
    replace_paths: Option<Vec<Vec<PathStep>>>,
    importing: Option<IgnoredAny>,
}

/// The action on a resource, from the plan's own words.
#[must_use]
pub fn action(actions: &[String]) -> Action {
    let does = |action: &str| actions.iter().any(|other| other == action);
    match (does("create"), does("delete") || does("forget")) {
        (true, true) => Action::Replace,
        (true, false) => Action::Create,
        _ if does("delete") => Action::Delete,
        _ if does("forget") => Action::Forget,
        _ if does("update") => Action::Update,
        _ if does("read") => Action::Read,
        _ => Action::Nothing,
    }
}

/// Whether a member of `resource_changes` is listed: not if its action is `no-op`.
#[must_use]
pub fn is_listed(action: Action, is_renamed: bool, is_imported: bool) -> bool {
    action != Action::Nothing || is_renamed || is_imported
}

impl<'a> ChangeCollector<'a> {
    /// The plan's own secrets must be registered with `redactor` before.
    pub(super) fn new(redactor: &'a Redactor) -> Self {
        Self {
            cleaned: PlanCopy::new(Content::Clean, redactor, Vec::new()),
            found: Changes::default(),
            failed: None,
            room: MAX_LIST_SIZE,
            section: Section::Elsewhere,
            lists_all_outputs: false,
            name: String::new(),
        }
    }

    /// The collected changes.
    ///
    /// # Errors
    /// If a change of the plan does not have the documented format.
    pub(super) fn into_found(self) -> Result<Changes> {
        self.failed.map_or(Ok(self.found), Err)
    }

    fn resource(&mut self, json: &RawValue) -> Result<()> {
        let Resource { address, previous_address, deposed, action_reason, mut change } =
            serde_json::from_str(json.get())?;
        let action = action(&change.actions);
        let previous = previous_address.filter(|previous| previous.get() != address.get());
        let counts = match self.section {
            // A resource that was only renamed is in the drift too.
            Section::Drift => matches!(action, Action::Update | Action::Delete),
            _ => is_listed(action, previous.is_some(), change.importing.is_some()),
        };
        if !counts {
            return Ok(());
        }
        if self.found.planned.len() + self.found.drift.len() >= MAX_RESOURCES {
            self.found.left_out += 1;
            return Ok(());
        }
        let mut address = self.label(address)?;
        if let Some(deposed) = deposed {
            address = format!("{address} (deposed object {})", self.label(deposed)?);
        }
        let imported = change.importing.is_some();
        let replaced = change.replace_paths.take().unwrap_or_default();
        let (attributes, more_attributes) = match action {
            Action::Forget | Action::Nothing => (Vec::new(), 0),
            _ => self.difference(&Path::default(), &change, replaced)?,
        };
        let planned = PlannedChange {
            address,
            previous_address: previous.map(|previous| self.label(previous)).transpose()?,
            action,
            imported,
            reason: action_reason.map(|reason| self.label(reason)).transpose()?,
            attributes,
            more_attributes,
            outcome: None,
        };
        let cost = 128 + planned.address.len();
        self.room = self.room.saturating_sub(cost);
        match self.section {
            Section::Drift => self.found.drift.push(planned),
            _ => self.found.planned.push(planned),
        }
        Ok(())
    }

    fn output(&mut self, json: &RawValue) -> Result<()> {
        let change: Change<'_> = serde_json::from_str(json.get())?;
        let name: String = serde_json::from_str(&self.name)?;
        let (changes, more) = self.difference(&Path::of_output(name), &change, Vec::new())?;
        self.found.outputs.extend(changes);
        self.found.left_out += more;
        Ok(())
    }

    fn difference(
        &mut self,
        path: &Path,
        change: &Change<'_>,
        replaced: Vec<Vec<PathStep>>,
    ) -> Result<(Vec<AttributeChange>, usize)> {
        let mut difference = Difference {
            cleaned: &mut self.cleaned,
            replaced,
            room: &mut self.room,
            found: Vec::new(),
            more: 0,
        };
        let before =
            MarkedValue { value: change.before, sensitive: change.before_sensitive, unknown: None };
        let after = MarkedValue {
            value: change.after,
            sensitive: change.after_sensitive,
            unknown: change.after_unknown,
        };
        difference.compare(path, before, after, 0)?;
        difference.found.shrink_to_fit();
        Ok((difference.found, difference.more))
    }

    fn label(&mut self, json: &RawValue) -> Result<String> {
        self.cleaned.label(json.get())?;
        Ok(serde_json::from_str(&self.cleaned.take())?)
    }
}

impl PieceVisitor for ChangeCollector<'_> {
    fn layout(&mut self, text: &str) -> Result<()> {
        if self.section == Section::Outputs && text.starts_with('"') {
            text.clone_into(&mut self.name);
        }
        Ok(())
    }

    /// A plan whose changes cannot be listed is still reported.
    fn piece(&mut self, _: &str, json: &RawValue) -> Result<()> {
        if self.failed.is_none() {
            let told = match self.section {
                Section::Resources | Section::Drift => self.resource(json),
                Section::Outputs if !self.lists_all_outputs => self.output(json),
                Section::ToolVersion => {
                    self.lists_all_outputs = lists_all_outputs(json.get());
                    Ok(())
                }
                Section::Outputs | Section::Elsewhere => Ok(()),
            };
            self.failed = told.err();
        }
        Ok(())
    }

    fn variable(&mut self, _: &RawValue) -> Result<()> {
        Ok(())
    }
}

impl PlanVisitor for ChangeCollector<'_> {
    fn begin(&mut self, member: &str) {
        self.section = match member {
            "terraform_version" => Section::ToolVersion,
            "resource_changes" => Section::Resources,
            "resource_drift" => Section::Drift,
            "output_changes" => Section::Outputs,
            _ => Section::Elsewhere,
        };
    }
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
