//! Finds the changes that an incomplete apply has made: compares the plan with the state after the apply.
//!
//! Only a change that the state shows is done. It is not done if the tool was still working on the resource
//! when it ended, because a resource is stored in the state before its provisioners run.
//!
//! If the tool could not store its state, the state that it has written to a file shows the changes; without such a
//! file, the lines that it printed do. A change that is not in the stored state was still made, and the next apply
//! would make it a second time.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use serde_json::Value;

use super::reported::ReportedResources;
use butler_base::resource_lines::CompleteAction;
use butler_plan::{action, is_listed};
use butler_result::{Action, ChangeCounts, ChangeOutcome};

/// The changes that an apply has made.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AppliedChanges {
    /// Completed changes by action; none if it is not known of every change whether it was made.
    pub counts: Option<ChangeCounts>,
    /// The number of resource instances, including tainted ones; none if it is not known.
    pub resources: Option<u32>,
    /// The outcome of each change, in the order of [`butler_result::Changes`]; none if it is not known.
    pub outcomes: Vec<Option<ChangeOutcome>>,
    /// The changes that were made and that the stored state does not have.
    pub unstored: Vec<Unstored>,
}

/// A change that was made and that the stored state does not have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unstored {
    /// The action.
    pub action: Action,
    /// The address, not redacted.
    pub address: String,
}

/// The JSON of the states after an apply.
#[derive(Debug)]
pub struct StatesAfter<R> {
    /// The state in the backend, if it can be read.
    pub stored: Option<R>,
    /// The state that the tool could not store there, if there is one.
    pub unsaved: Option<R>,
}

impl AppliedChanges {
    /// Compares the JSON of a plan with the JSON of the states (`show -json`) after its apply. `reported` are the
    /// resources in the output of the apply.
    ///
    /// # Errors
    /// If the JSON cannot be read.
    pub fn compare<R: Read>(
        plan: impl Read,
        states: StatesAfter<R>,
        reported: &ReportedResources,
    ) -> Result<Self, serde_json::Error> {
        let plan: WirePlan = serde_json::from_reader(plan)?;
        let after = After {
            stored: states.stored.map(resources_of).transpose()?,
            unsaved: states.unsaved.map(resources_of).transpose()?,
            reported,
        };
        // The state does not show the executed actions.
        let counts = ChangeCounts { actions: reported.executed(), ..ChangeCounts::default() };
        let mut applied = Self { counts: Some(counts), ..Self::default() };
        for change in &plan.resource_changes {
            let outcome = if change.mode == "data" {
                change.outcome_of_reading(reported)
            } else {
                Some(applied.add(change, &after))
            };
            if change.is_listed() {
                applied.outcomes.push(outcome);
            }
        }
        // The stored state does not count the resources of unstored changes.
        let stored = after.stored.as_ref().filter(|_| applied.unstored.is_empty());
        let resources = after.unsaved.as_ref().or(stored);
        applied.resources = resources.map(|it| u32::try_from(it.len()).unwrap_or(u32::MAX));
        Ok(applied)
    }

    /// Adds a change, and returns its outcome.
    fn add(&mut self, change: &WireChange, after: &After<'_>) -> ChangeOutcome {
        let (made, outcome) = after.made(change);
        if outcome == ChangeOutcome::NotInState {
            let address = change.reported_address();
            self.unstored.push(Unstored { action: action(&change.change.actions), address });
        }
        match (&mut self.counts, outcome) {
            (counts, ChangeOutcome::Unknown) => *counts = None,
            (Some(counts), _) => made.add_to(counts),
            (None, _) => {}
        }
        outcome
    }
}

/// The facts about an apply that has ended early.
struct After<'run> {
    stored: Option<StateResources>,
    unsaved: Option<StateResources>,
    reported: &'run ReportedResources,
}

impl After<'_> {
    /// The parts of a change that were made, and its outcome.
    fn made(&self, change: &WireChange) -> (Made, ChangeOutcome) {
        let reported = self.reported;
        match (&self.unsaved, &self.stored) {
            (Some(unsaved), stored) => {
                let (made, outcome) = Made::of(change, unsaved, reported);
                let exists = matches!(outcome, ChangeOutcome::Done | ChangeOutcome::Tainted);
                let is_stored = stored
                    .as_ref()
                    .is_some_and(|stored| Made::of(change, stored, reported).1 == outcome);
                let outcome =
                    if exists && !is_stored { ChangeOutcome::NotInState } else { outcome };
                (made, outcome)
            }
            (None, Some(stored)) => {
                let (made, outcome) = Made::of(change, stored, reported);
                let is_missing = reported.is_unsaved() && outcome != ChangeOutcome::Done;
                if is_missing && change.was_reported(reported) {
                    return (Made::all(change), ChangeOutcome::NotInState);
                }
                (made, outcome)
            }
            (None, None) => self.made_without_state(change),
        }
    }

    /// The parts of a change that were made, and its outcome, if no state can be read.
    fn made_without_state(&self, change: &WireChange) -> (Made, ChangeOutcome) {
        let reported = self.reported;
        if change.was_reported(reported) {
            return if reported.is_unsaved() {
                (Made::all(change), ChangeOutcome::NotInState)
            } else {
                (Made::default(), ChangeOutcome::Unknown)
            };
        }
        let outcome = if reported.has_failed(&change.address) {
            ChangeOutcome::Failed
        } else if change.is_unfinished(reported) {
            ChangeOutcome::Interrupted
        } else if change.is_silent() {
            // The tool prints nothing about it.
            ChangeOutcome::Unknown
        } else {
            ChangeOutcome::NotStarted
        };
        (Made::default(), outcome)
    }
}

/// The parts of a change that were made.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each part is counted on its own")]
struct Made {
    created: bool,
    updated: bool,
    deleted: bool,
    forgotten: bool,
    imported: bool,
    moved: bool,
}

impl Made {
    /// All parts of a change.
    fn all(change: &WireChange) -> Self {
        Self {
            created: change.plans("create"),
            updated: change.plans("update"),
            deleted: change.plans("delete"),
            forgotten: change.plans("forget"),
            imported: change.change.importing.is_some(),
            moved: change.previous_address.is_some(),
        }
    }

    /// The parts that the state `now` shows, and the outcome of the change.
    fn of(
        change: &WireChange,
        now: &StateResources,
        reported: &ReportedResources,
    ) -> (Self, ChangeOutcome) {
        let key = (change.address.clone(), change.deposed.clone());
        let found = now.get(&key);
        let exists = found.is_some();
        let differs = found.map(|found| &found.values) != Some(&change.change.before);
        let is_unfinished = change.is_unfinished(reported);
        // A replacement that creates first keeps the old object as a deposed one until it is destroyed.
        let has_deposed = change.deposed.is_none()
            && now.keys().any(|(address, deposed)| *address == key.0 && deposed.is_some());
        let (creates, deletes) = (change.plans("create"), change.plans("delete"));
        let is_new = creates && exists && (!deletes || differs);
        let is_tainted = is_new && found.is_some_and(|found| found.tainted);
        let made = Self {
            created: is_new && !is_tainted && !is_unfinished,
            updated: change.plans("update") && exists && differs && !is_unfinished,
            deleted: deletes && if creates { differs && !has_deposed } else { !exists },
            forgotten: change.plans("forget") && !exists,
            imported: change.change.importing.is_some() && exists,
            moved: change.previous_address.is_some() && exists,
        };
        let is_done = match action(&change.change.actions) {
            Action::Create => made.created,
            Action::Replace => made.created && (made.deleted || !deletes),
            Action::Delete => made.deleted,
            Action::Update => made.updated,
            Action::Forget => made.forgotten,
            Action::Read | Action::Nothing | Action::Execute | Action::Changed | Action::Gone => {
                exists
            }
        };
        let outcome = if is_done {
            ChangeOutcome::Done
        } else if is_tainted {
            ChangeOutcome::Tainted
        } else if reported.has_failed(&change.address) {
            ChangeOutcome::Failed
        } else if is_unfinished || made.created || made.deleted {
            ChangeOutcome::Interrupted
        } else {
            ChangeOutcome::NotStarted
        };
        (made, outcome)
    }

    fn add_to(&self, counts: &mut ChangeCounts) {
        counts.add += u32::from(self.created);
        counts.destroy += u32::from(self.deleted);
        counts.replace += u32::from(self.created && self.deleted);
        counts.change += u32::from(self.updated);
        counts.forget += u32::from(self.forgotten);
        counts.import += u32::from(self.imported);
        counts.moved += u32::from(self.moved);
    }
}

#[derive(Deserialize)]
struct WirePlan {
    #[serde(default)]
    resource_changes: Vec<WireChange>,
}

#[derive(Deserialize)]
struct WireChange {
    address: String,
    previous_address: Option<String>,
    deposed: Option<String>,
    #[serde(default)]
    mode: String,
    change: Change,
}

#[derive(Deserialize)]
struct Change {
    #[serde(default)]
    actions: Vec<String>,
    #[serde(default)]
    before: Value,
    importing: Option<serde::de::IgnoredAny>,
}

impl WireChange {
    /// Whether the reports list it.
    fn is_listed(&self) -> bool {
        let is_renamed = self.previous_address.as_ref().is_some_and(|it| *it != self.address);
        is_listed(action(&self.change.actions), is_renamed, self.change.importing.is_some())
    }

    /// Whether the plan contains this action.
    fn plans(&self, action: &str) -> bool {
        self.change.actions.iter().any(|other| other == action)
    }

    /// The address in the lines of the tool.
    fn reported_address(&self) -> String {
        match &self.deposed {
            Some(key) => format!("{} (deposed object {key})", self.address),
            None => self.address.clone(),
        }
    }

    /// Whether the tool was still working on it when it ended.
    fn is_unfinished(&self, reported: &ReportedResources) -> bool {
        reported.is_unfinished(&self.reported_address())
    }

    /// Whether the tool prints nothing about it, because it changes only the state.
    fn is_silent(&self) -> bool {
        let action = action(&self.change.actions);
        matches!(action, Action::Forget) || action == Action::Nothing && self.is_listed()
    }

    /// Whether the tool has printed that it is complete.
    fn was_reported(&self, reported: &ReportedResources) -> bool {
        let address = self.reported_address();
        let completed = |action| reported.has_completed(&address, action);
        match action(&self.change.actions) {
            Action::Create => completed(CompleteAction::Create),
            Action::Update => completed(CompleteAction::Modify),
            Action::Delete => completed(CompleteAction::Destroy),
            Action::Replace => {
                let is_destroyed = completed(CompleteAction::Destroy)
                    || reported.has_destroyed_deposed(&self.address);
                completed(CompleteAction::Create) && (is_destroyed || !self.plans("delete"))
            }
            Action::Nothing => completed(CompleteAction::Import),
            // The tool does not print the end of a `forget`; the others are not changes of resources.
            Action::Read | Action::Forget | Action::Execute | Action::Changed | Action::Gone => {
                false
            }
        }
    }

    /// The outcome for a data source that is read during the apply, which the state does not show.
    fn outcome_of_reading(&self, reported: &ReportedResources) -> Option<ChangeOutcome> {
        if reported.has_failed(&self.address) {
            Some(ChangeOutcome::Failed)
        } else {
            self.is_unfinished(reported).then_some(ChangeOutcome::Interrupted)
        }
    }
}

/// The resources in the state, by address and key of a deposed object.
type StateResources = BTreeMap<(String, Option<String>), ResourceState>;

/// The resources in the JSON of a state.
fn resources_of(state: impl Read) -> Result<StateResources, serde_json::Error> {
    let state: WireState = serde_json::from_reader(state)?;
    let mut resources = BTreeMap::new();
    if let Some(values) = state.values {
        values.root_module.collect(&mut resources);
    }
    Ok(resources)
}

/// A resource in the state.
struct ResourceState {
    values: Value,
    tainted: bool,
}

#[derive(Deserialize)]
struct WireState {
    values: Option<StateValues>,
}

#[derive(Deserialize)]
struct StateValues {
    root_module: StateModule,
}

#[derive(Deserialize)]
struct StateModule {
    #[serde(default)]
    resources: Vec<StateResource>,
    #[serde(default)]
    child_modules: Vec<StateModule>,
}

#[derive(Deserialize)]
struct StateResource {
    address: String,
    deposed_key: Option<String>,
    #[serde(default)]
    mode: String,
    #[serde(default)]
    values: Value,
    #[serde(default)]
    tainted: bool,
}

impl StateModule {
    fn collect(self, resources: &mut StateResources) {
        for resource in self.resources.into_iter().filter(|resource| resource.mode != "data") {
            let StateResource { address, deposed_key, values, tainted, .. } = resource;
            resources.insert((address, deposed_key), ResourceState { values, tainted });
        }
        for module in self.child_modules {
            module.collect(resources);
        }
    }
}

#[cfg(test)]
#[path = "applied_tests.rs"]
mod tests;
