//! What an apply that failed half way has really done: the plan, compared with the state after it.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use serde_json::Value;

use super::plan::Counts;

/// What was really applied.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Applied {
    /// Resources by action.
    pub counts: Counts,
    /// How many resource instances there are now.
    pub resources: u32,
}

impl Applied {
    /// Compares the JSON of a plan with the JSON of the state (`show -json`) after its apply.
    ///
    /// # Errors
    /// When one of the two cannot be read.
    pub fn compare(plan: impl Read, state: impl Read) -> Result<Self, serde_json::Error> {
        let plan: WirePlan = serde_json::from_reader(plan)?;
        let state: WireState = serde_json::from_reader(state)?;
        let mut now = BTreeMap::new();
        if let Some(values) = state.values {
            values.root_module.collect(&mut now);
        }
        let mut applied =
            Self { resources: u32::try_from(now.len()).unwrap_or(u32::MAX), ..Self::default() };
        for change in plan.resource_changes.iter().filter(|change| change.mode != "data") {
            let place = (change.address.clone(), change.deposed.clone());
            // A replacement that creates first keeps the old object aside until it is destroyed.
            let set_aside = change.deposed.is_none()
                && now.keys().any(|(address, deposed)| *address == place.0 && deposed.is_some());
            applied.counts.count_applied(change, now.get(&place), set_aside);
        }
        Ok(applied)
    }
}

impl Counts {
    /// Counts what of `change` shows in the state, where the resource has the values `now` and its
    /// old object may be `set_aside`.
    fn count_applied(&mut self, change: &WireChange, now: Option<&Value>, set_aside: bool) {
        let planned = |action: &str| change.change.actions.iter().any(|other| other == action);
        let differs = now != Some(&change.change.before);
        let (created, deleted) = match (planned("create"), planned("delete")) {
            // Gone and not there again: only the first half of the replacement was done.
            (true, true) => (differs && now.is_some(), differs && !set_aside),
            (create, delete) => (create && now.is_some(), delete && now.is_none()),
        };
        self.create += u32::from(created);
        self.delete += u32::from(deleted);
        self.replace += u32::from(created && deleted);
        self.update += u32::from(planned("update") && now.is_some() && differs);
        self.forget += u32::from(planned("forget") && now.is_none());
        self.import += u32::from(change.change.importing.is_some() && now.is_some());
        self.moved += u32::from(change.previous_address.is_some() && now.is_some());
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
}

impl StateModule {
    fn collect(self, resources: &mut BTreeMap<(String, Option<String>), Value>) {
        for resource in self.resources.into_iter().filter(|resource| resource.mode != "data") {
            resources.insert((resource.address, resource.deposed_key), resource.values);
        }
        for module in self.child_modules {
            module.collect(resources);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_state_shows_was_applied() {
        let change = |address: &str, actions: &str, before: &str| {
            format!(
                r#"{{"address":"{address}","mode":"managed","change":{{"actions":[{actions}],"before":{before}}}}}"#
            )
        };
        let plan = format!(
            r#"{{"resource_changes":[{}]}}"#,
            [
                change("created", r#""create""#, "null"),
                change("not_created", r#""create""#, "null"),
                change("updated", r#""update""#, r#"{"v":1}"#),
                change("not_updated", r#""update""#, r#"{"v":1}"#),
                change("deleted", r#""delete""#, r#"{"v":1}"#),
                change("not_deleted", r#""delete""#, r#"{"v":1}"#),
                change("replaced", r#""delete","create""#, r#"{"v":1}"#),
                change("half_replaced", r#""delete","create""#, r#"{"v":1}"#),
                change("not_replaced", r#""delete","create""#, r#"{"v":1}"#),
            ]
            .join(",")
        );
        let resource = |address: &str, value: u8| {
            format!(r#"{{"address":"{address}","mode":"managed","values":{{"v":{value}}}}}"#)
        };
        let state = format!(
            r#"{{"values":{{"root_module":{{"resources":[{}],"child_modules":[{{"resources":[{}]}}]}}}}}}"#,
            [
                resource("created", 1),
                resource("updated", 2),
                resource("not_updated", 1),
                resource("not_deleted", 1)
            ]
            .join(","),
            [resource("replaced", 2), resource("not_replaced", 1)].join(","),
        );
        let applied = Applied::compare(plan.as_bytes(), state.as_bytes()).unwrap();
        let counts = Counts { create: 2, update: 1, delete: 3, replace: 1, ..Counts::default() };
        assert_eq!(applied, Applied { counts, resources: 6 });
    }

    #[test]
    fn an_old_object_that_is_set_aside_is_not_destroyed() {
        let plan = r#"{"resource_changes":[{"address":"a","mode":"managed",
            "change":{"actions":["create","delete"],"before":{"v":1}}}]}"#;
        let state = r#"{"values":{"root_module":{"resources":[
            {"address":"a","mode":"managed","values":{"v":2}},
            {"address":"a","mode":"managed","deposed_key":"0a1b","values":{"v":1}}]}}}"#;
        let applied = Applied::compare(plan.as_bytes(), state.as_bytes()).unwrap();
        assert_eq!(applied.counts, Counts { create: 1, ..Counts::default() });
    }

    #[test]
    fn an_empty_state_is_a_state() {
        let applied = Applied::compare(
            &br#"{"resource_changes":[]}"#[..],
            &br#"{"format_version":"1.0"}"#[..],
        );
        assert_eq!(applied.unwrap(), Applied::default());
    }
}
