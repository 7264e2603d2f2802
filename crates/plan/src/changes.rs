//! Collects the changes of a plan from its JSON (`show -json`, plan format 1.x), for display.
//!
//! The plan is read as a stream, one resource at a time, and the result is bounded: a plan of any
//! size costs some MiB. The result contains neither values that the plan marks as sensitive nor
//! registered secrets. Omitted changes are counted.

use std::io::{Error, Result};

use serde_json::value::RawValue;

use super::clean::{Content, PlanCopy};
use super::difference::Difference;
use super::marked_value::MarkedValue;
use super::marks::PieceVisitor;
use super::path::{Path, PathStep};
use super::plan::lists_all_outputs;
use super::reasons;
use super::walk::PlanVisitor;
use super::wire::{ActionInvocation, Change, DeferredAction, Importing, Resource};
use butler_base::secret::Redactor;
use butler_result::{Action, AttributeChange, Changes, PlannedChange, Shown};

/// How many resources are listed.
const MAX_RESOURCES: usize = 5000;

/// The size of the list in bytes. After that, resources are listed without attributes.
const MAX_LIST_SIZE: usize = 4 * 1024 * 1024;

#[derive(Clone, Copy, Eq, PartialEq)]
enum Section {
    ToolVersion,
    Actions,
    DeferredActions,
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
    /// Whether the tool lists all outputs as new, even those that do not change.
    lists_all_outputs: bool,
    /// The last name that was read, as JSON text.
    name: String,
}

/// The remark about a replacement that does not destroy anything.
const KEEPS_OLD: &str = "the old object is forgotten, not destroyed";

/// The size of a change without its attributes, in bytes.
fn cost(change: &PlannedChange) -> usize {
    128 + change.address.len()
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
        if !counts || !self.has_place() {
            return Ok(());
        }
        let index_address = self.label(address)?;
        let address = match deposed {
            Some(deposed) => {
                format!("{index_address} (deposed object {})", self.label(deposed)?)
            }
            None => index_address.clone(),
        };
        let import_id = self.import_id(change.importing.as_ref())?;
        let replaced = change.replace_paths.take().unwrap_or_default();
        let (attributes, more_attributes) = match action {
            Action::Nothing if change.importing.is_some() => self.values(&change)?,
            Action::Forget | Action::Nothing => (Vec::new(), 0),
            _ => self.difference(&Path::default(), &change, replaced)?,
        };
        let reason = action_reason.map(|reason| self.label(reason)).transpose()?.map(|reason| {
            let forcing = attributes.iter().filter(|attribute| attribute.forces_replacement);
            let forcing: Vec<_> = forcing.map(|attribute| attribute.path.as_str()).collect();
            reasons::reason(&reason, &index_address, &forcing)
        });
        let keeps_old = action == Action::Replace && change.does("forget");
        let action = match self.section {
            Section::Drift if action == Action::Delete => Action::Gone,
            Section::Drift => Action::Changed,
            _ => action,
        };
        let planned = PlannedChange {
            previous_address: previous.map(|previous| self.label(previous)).transpose()?,
            imported: change.importing.is_some(),
            import_id,
            reason: match reason {
                Some(reason) if keeps_old => Some(format!("{reason}; {KEEPS_OLD}")),
                None if keeps_old => Some(KEEPS_OLD.to_owned()),
                reason => reason,
            },
            attributes,
            more_attributes,
            ..PlannedChange::new(action, address)
        };
        self.room = self.room.saturating_sub(cost(&planned));
        match self.section {
            Section::Drift => self.found.drift.push(planned),
            _ => self.found.planned.push(planned),
        }
        Ok(())
    }

    /// Whether another change can be listed; otherwise counts it.
    fn has_place(&mut self) -> bool {
        let Changes { actions, planned, drift, .. } = &self.found;
        let has_place = actions.len() + planned.len() + drift.len() < MAX_RESOURCES;
        self.found.left_out += usize::from(!has_place);
        has_place
    }

    /// The id under which a resource is imported, as JSON: a text, or the parts of its identity.
    fn import_id(&mut self, importing: Option<&Importing<'_>>) -> Result<Option<String>> {
        let given = importing.and_then(|importing| {
            let is_known = |json: &&RawValue| !matches!(json.get(), "null" | "\"\"");
            importing.id.filter(is_known).or(importing.identity.filter(is_known))
        });
        given.map(|json| self.cleaned.open(json.get()).map(|()| self.cleaned.take())).transpose()
    }

    /// Adds an action. `deferred` is the reason if this apply does not execute it.
    fn action(&mut self, json: &RawValue, deferred: Option<&str>) -> Result<()> {
        if !self.has_place() {
            return Ok(());
        }
        let invocation: ActionInvocation<'_> = serde_json::from_str(json.get())?;
        let trigger = match &invocation.lifecycle_action_trigger {
            Some(trigger) => {
                let address = trigger.triggering_resource_address;
                let address = address.map(|address| self.label(address)).transpose()?;
                let address = address.unwrap_or_else(|| "the resource".to_owned());
                reasons::trigger(&trigger.action_trigger_event, &address)
            }
            None => "asked for on the command line (`-invoke`)".to_owned(),
        };
        let settings = Change {
            after: invocation.config_values,
            after_sensitive: invocation.config_sensitive,
            after_unknown: invocation.config_unknown,
            ..Change::default()
        };
        let (attributes, more_attributes) =
            self.difference(&Path::default(), &settings, Vec::new())?;
        let planned = PlannedChange {
            reason: Some(match deferred {
                Some(reason) => {
                    format!("{trigger}; deferred to a later plan: {}", reason.replace('_', " "))
                }
                None => trigger,
            }),
            attributes,
            more_attributes,
            ..PlannedChange::new(Action::Execute, self.label(invocation.address)?)
        };
        self.room = self.room.saturating_sub(cost(&planned));
        self.found.actions.push(planned);
        Ok(())
    }

    fn deferred_action(&mut self, json: &RawValue) -> Result<()> {
        let deferred: DeferredAction<'_> = serde_json::from_str(json.get())?;
        self.action(deferred.action_invocation, Some(&deferred.reason))
    }

    fn output(&mut self, json: &RawValue) -> Result<()> {
        let change: Change<'_> = serde_json::from_str(json.get())?;
        let name: String = serde_json::from_str(&self.name)?;
        let (changes, more) = self.difference(&Path::of_output(name), &change, Vec::new())?;
        self.found.outputs.extend(changes);
        self.found.left_out += more;
        Ok(())
    }

    /// The values of a resource that stays as it is.
    fn values(&mut self, change: &Change<'_>) -> Result<(Vec<AttributeChange>, usize)> {
        let after = Change {
            after: change.after,
            after_sensitive: change.after_sensitive,
            ..Change::default()
        };
        let (mut attributes, more) = self.difference(&Path::default(), &after, Vec::new())?;
        for attribute in &mut attributes {
            // Two hidden values count as different.
            if matches!(attribute.after, Some(Shown::Value(_) | Shown::Text(_))) {
                attribute.before.clone_from(&attribute.after);
            }
        }
        Ok((attributes, more))
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
                Section::Actions => self.action(json, None),
                Section::DeferredActions => self.deferred_action(json),
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
            "action_invocations" => Section::Actions,
            "deferred_action_invocations" => Section::DeferredActions,
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
