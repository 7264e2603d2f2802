//! Finds the changes that an incomplete apply has made: compares the plan with the state after the apply.
//!
//! Only a change that the state shows is done. It is not done if the tool was still working on the resource
//! when it ended, because a resource is stored in the state before its provisioners run.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use serde_json::Value;

use super::reported::ReportedResources;
use butler_plan::{action, is_listed};
use butler_result::{Action, ChangeCounts, ChangeOutcome};

/// The changes that an apply has made.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AppliedChanges {
    /// Completed changes by action.
    pub counts: ChangeCounts,
    /// The number of resource instances in the state, including tainted ones.
    pub resources: u32,
    /// The outcome of each change, in the order of [`butler_result::Changes`]; none if it is not known.
    pub outcomes: Vec<Option<ChangeOutcome>>,
}

impl AppliedChanges {
    /// Compares the JSON of a plan with the JSON of the state (`show -json`) after its apply. `reported` are the
    /// resources in the output of the apply.
    ///
    /// # Errors
    /// If the JSON cannot be read.
    pub fn compare(
        plan: impl Read,
        state: impl Read,
        reported: &ReportedResources,
    ) -> Result<Self, serde_json::Error> {
        let plan: WirePlan = serde_json::from_reader(plan)?;
        let state: WireState = serde_json::from_reader(state)?;
        let mut now = BTreeMap::new();
        if let Some(values) = state.values {
            values.root_module.collect(&mut now);
        }
        let mut applied =
            Self { resources: u32::try_from(now.len()).unwrap_or(u32::MAX), ..Self::default() };
        for change in &plan.resource_changes {
            let outcome = if change.mode == "data" {
                change.outcome_of_reading(reported)
            } else {
                Some(count_applied(&mut applied.counts, change, &now, reported))
            };
            if change.is_listed() {
                applied.outcomes.push(outcome);
            }
        }
        Ok(applied)
    }
}

/// Adds the completed parts of `change` to `counts`, and returns its outcome. `now` is the current state.
fn count_applied(
    counts: &mut ChangeCounts,
    change: &WireChange,
    now: &StateResources,
    reported: &ReportedResources,
) -> ChangeOutcome {
    let key = (change.address.clone(), change.deposed.clone());
    let found = now.get(&key);
    let exists = found.is_some();
    let differs = found.map(|found| &found.values) != Some(&change.change.before);
    let is_unfinished = change.is_unfinished(reported);
    // A replacement that creates first keeps the old object as a deposed one until it is destroyed.
    let has_deposed = change.deposed.is_none()
        && now.keys().any(|(address, deposed)| *address == key.0 && deposed.is_some());
    let planned = |action: &str| change.change.actions.iter().any(|other| other == action);
    let creates = planned("create");
    let is_new = creates && exists && (!planned("delete") || differs);
    let is_tainted = is_new && found.is_some_and(|found| found.tainted);
    let is_created = is_new && !is_tainted && !is_unfinished;
    let deleted = planned("delete") && if creates { differs && !has_deposed } else { !exists };
    let updated = planned("update") && exists && differs && !is_unfinished;
    let forgotten = planned("forget") && !exists;
    counts.add += u32::from(is_created);
    counts.destroy += u32::from(deleted);
    counts.replace += u32::from(is_created && deleted);
    counts.change += u32::from(updated);
    counts.forget += u32::from(forgotten);
    counts.import += u32::from(change.change.importing.is_some() && exists);
    counts.moved += u32::from(change.previous_address.is_some() && exists);
    let is_done = match action(&change.change.actions) {
        Action::Create => is_created,
        Action::Replace => is_created && (deleted || !planned("delete")),
        Action::Delete => deleted,
        Action::Update => updated,
        Action::Forget => forgotten,
        Action::Read | Action::Nothing => exists,
    };
    if is_done {
        ChangeOutcome::Done
    } else if is_tainted {
        ChangeOutcome::Tainted
    } else if reported.has_failed(&change.address) {
        ChangeOutcome::Failed
    } else if is_unfinished || is_created || deleted {
        ChangeOutcome::Interrupted
    } else {
        ChangeOutcome::NotStarted
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

    /// Whether the tool was still working on it when it ended.
    fn is_unfinished(&self, reported: &ReportedResources) -> bool {
        match &self.deposed {
            Some(key) => {
                reported.is_unfinished(&format!("{} (deposed object {key})", self.address))
            }
            None => reported.is_unfinished(&self.address),
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
mod tests {
    use serde_json::json;

    use super::*;

    fn change(address: &str, actions: &[&str], before: &Value) -> Value {
        json!({"address": address, "mode": "managed", "change": {"actions": actions, "before": before}})
    }

    fn resource(address: &str, value: u8) -> Value {
        json!({"address": address, "mode": "managed", "values": {"v": value}})
    }

    fn tainted(address: &str, value: u8) -> Value {
        json!({"address": address, "mode": "managed", "values": {"v": value}, "tainted": true})
    }

    fn compare(changes: &[Value], resources: &[Value], lines: &[&str]) -> AppliedChanges {
        let mut reported = ReportedResources::default();
        for line in lines {
            reported.read_progress(line.as_bytes());
            reported.read_error(line.as_bytes());
        }
        let plan = json!({"resource_changes": changes}).to_string();
        let (one, other) = resources.split_at(resources.len() / 2);
        let module = json!({"resources": one, "child_modules": [{"resources": other}]});
        let state = json!({"values": {"root_module": module}}).to_string();
        AppliedChanges::compare(plan.as_bytes(), state.as_bytes(), &reported).unwrap()
    }

    #[test]
    fn change_is_done_only_if_the_state_shows_it() {
        use ChangeOutcome::{Done, Interrupted, NotStarted};

        let (none, one) = (Value::Null, json!({"v": 1}));
        let (create, update, delete) = (["create"], ["update"], ["delete"]);
        let replace = ["delete", "create"];
        let changes = [
            change("created", &create, &none),
            change("not_created", &create, &none),
            change("nothing", &["no-op"], &one),
            change("updated", &update, &one),
            change("not_updated", &update, &one),
            change("deleted", &delete, &one),
            change("not_deleted", &delete, &one),
            change("replaced", &replace, &one),
            change("half_replaced", &replace, &one),
            change("not_replaced", &replace, &one),
        ];
        let resources = [
            resource("created", 1),
            resource("updated", 2),
            resource("not_updated", 1),
            resource("not_deleted", 1),
            resource("replaced", 2),
            resource("not_replaced", 1),
            resource("nothing", 1),
        ];
        let applied = compare(&changes, &resources, &[]);
        let counts =
            ChangeCounts { add: 2, change: 1, destroy: 3, replace: 1, ..ChangeCounts::default() };
        assert_eq!((applied.counts, applied.resources), (counts, 7));
        assert_eq!(
            applied.outcomes,
            [Done, NotStarted, Done, NotStarted, Done, NotStarted, Done, Interrupted, NotStarted]
                .map(Some)
        );
    }

    #[test]
    fn tainted_failed_and_interrupted_changes_are_not_done() {
        use ChangeOutcome::{Failed, Interrupted, NotStarted, Tainted};

        let (none, one) = (Value::Null, json!({"v": 1}));
        let changes = [
            change("a.tainted", &["create"], &none),
            change("a.failed", &["create"], &none),
            change("a.provisioning", &["create"], &none),
            change("a.half_updated", &["update"], &one),
            change("a.destroying", &["delete"], &one),
            change("a.tainted_again", &["create", "delete"], &one),
            change("a.tainted_before", &["delete", "create"], &one),
            json!({"address": "data.a.b", "mode": "data", "change": {"actions": ["read"]}}),
            json!({"address": "data.a.c", "mode": "data", "change": {"actions": ["read"]}}),
        ];
        let resources = [
            tainted("a.tainted", 1),
            resource("a.provisioning", 1),
            resource("a.half_updated", 2),
            resource("a.destroying", 1),
            tainted("a.tainted_again", 2),
            tainted("a.tainted_before", 1),
        ];
        let lines = [
            "a.provisioning: Creating...",
            "a.half_updated: Modifying... [id=1]",
            "a.destroying: Destroying... [id=1]",
            "data.a.c: Reading...",
            "Error: refused",
            "  with a.failed,",
            "Error: refused",
            "  with a.half_updated,",
        ];
        let applied = compare(&changes, &resources, &lines);
        assert_eq!(applied.counts, ChangeCounts { destroy: 1, ..ChangeCounts::default() });
        let expected = [Tainted, Failed, Interrupted, Failed, Interrupted, Tainted, NotStarted];
        assert_eq!(applied.outcomes[..7], expected.map(Some));
        assert_eq!(applied.outcomes[7..], [None, Some(Interrupted)]);
    }

    #[test]
    fn deposed_object_is_not_destroyed_yet() {
        let changes = [change("a", &["create", "delete"], &json!({"v": 1}))];
        let mut old = resource("a", 1);
        old["deposed_key"] = json!("0a1b");
        let applied = compare(&changes, &[resource("a", 2), old.clone()], &[]);
        assert_eq!(applied.counts, ChangeCounts { add: 1, ..ChangeCounts::default() });
        assert_eq!(applied.outcomes, [Some(ChangeOutcome::Interrupted)]);
        // An object that an earlier apply has deposed is a change of its own.
        let mut change = change("a", &["delete"], &json!({"v": 1}));
        change["deposed"] = json!("0a1b");
        let lines = ["a (deposed object 0a1b): Destroying... [id=1]"];
        let applied = compare(&[change], &[resource("a", 2), old], &lines);
        assert_eq!(applied.outcomes, [Some(ChangeOutcome::Interrupted)]);
    }

    #[test]
    fn empty_state_is_valid() {
        let applied = AppliedChanges::compare(
            &br#"{"resource_changes":[]}"#[..],
            &br#"{"format_version":"1.0"}"#[..],
            &ReportedResources::default(),
        );
        assert_eq!(applied.unwrap(), AppliedChanges::default());
    }
}
