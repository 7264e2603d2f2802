//! What a saved plan will do, from its JSON (`show -json`, plan format 1.x).

use std::fmt::Formatter;
use std::io::Read;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// How many resources a plan touches, by what it does with them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Created, replacements included.
    pub create: u32,
    /// Changed in place.
    pub update: u32,
    /// Destroyed, replacements included.
    pub delete: u32,
    /// Those that are destroyed and created: counted in both.
    pub replace: u32,
    /// Taken over from elsewhere.
    pub import: u32,
    /// Only renamed, or renamed beside another change.
    pub moved: u32,
    /// Given up without being destroyed.
    pub forget: u32,
}

/// What a plan is about.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PlanSummary {
    /// Resources by action.
    pub counts: Counts,
    /// Resources that were changed outside of Terraform: address and action.
    pub drift: Vec<String>,
    /// How many outputs change.
    pub outputs: u32,
    /// How many resource instances there will be afterwards.
    pub resources_after: u32,
    /// Whether an apply of the plan would store anything, where the version says so.
    pub applyable: Option<bool>,
}

impl PlanSummary {
    /// Reads the JSON of a plan; whatever its size, only what counts is kept.
    ///
    /// # Errors
    /// When it is no plan's JSON.
    pub fn read(json: impl Read) -> Result<Self, serde_json::Error> {
        let plan: WirePlan = serde_json::from_reader(json)?;
        let changed = plan.output_changes.values().filter(|change| !change.is_no_op()).count();
        Ok(Self {
            counts: plan.resource_changes.0,
            drift: plan.resource_drift.0,
            outputs: u32::try_from(changed).unwrap_or(u32::MAX),
            resources_after: plan.planned_values.root_module.managed(),
            applyable: plan.applyable,
        })
    }

    /// Whether applying the plan would do anything.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.counts != Counts::default() || self.outputs > 0
    }

    /// One line for people, in the words that Terraform itself uses.
    #[must_use]
    pub fn line(&self) -> String {
        match (self.counts == Counts::default(), self.outputs) {
            (true, 0) => "No changes.".to_owned(),
            (true, outputs) => format!("Changes to {} only.", counted(outputs, "output")),
            (false, _) => format!("Plan: {}.", self.counts),
        }
    }

    /// One line about what changed outside of Terraform.
    #[must_use]
    pub fn drift_line(&self) -> String {
        if self.drift.is_empty() {
            return "No drift.".to_owned();
        }
        format!(
            "Drift: {} changed outside of Terraform: {}",
            self.drift.len(),
            self.drift.join(", ")
        )
    }
}

/// `1 output`, `2 outputs`.
pub(super) fn counted(count: u32, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

impl Counts {
    fn count_planned(&mut self, change: &ResourceChange) {
        if change.mode == "data" {
            return;
        }
        let actions = &change.change.actions;
        let does = |action: &str| u32::from(actions.iter().any(|other| other == action));
        self.create += does("create");
        self.update += does("update");
        self.delete += does("delete");
        self.replace += does("create") * (does("delete") | does("forget"));
        self.forget += does("forget");
        self.import += u32::from(change.change.importing.is_some());
        self.moved += u32::from(
            change.previous_address.as_ref().is_some_and(|before| *before != change.address),
        );
    }
}

/// `1 to add, 0 to change, 2 to destroy`, with the rarer ones where there are any.
impl std::fmt::Display for Counts {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        if self.import > 0 {
            write!(formatter, "{} to import, ", self.import)?;
        }
        write!(
            formatter,
            "{} to add, {} to change, {} to destroy",
            self.create, self.update, self.delete
        )?;
        for (count, name) in
            [(self.replace, "replaced"), (self.moved, "moved"), (self.forget, "forgotten")]
        {
            if count > 0 {
                write!(formatter, ", {count} {name}")?;
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct WirePlan {
    /// Not optional: it tells a plan from any other JSON object.
    #[serde(rename = "format_version")]
    _format_version: String,
    applyable: Option<bool>,
    #[serde(default)]
    planned_values: Values,
    #[serde(default)]
    resource_changes: Folded<Counts>,
    #[serde(default)]
    resource_drift: Folded<Vec<String>>,
    #[serde(default)]
    output_changes: std::collections::BTreeMap<String, Change>,
}

/// What is made of the elements of an array one after the other: a plan can have any number of them.
#[derive(Default)]
struct Folded<T>(T);

/// What elements are folded into.
trait Fold: Default {
    type Element: DeserializeOwned;

    fn add(&mut self, element: Self::Element);
}

impl<'de, T: Fold> Deserialize<'de> for Folded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);

        impl<'de, T: Fold> Visitor<'de> for Elements<T> {
            type Value = Folded<T>;

            fn expecting(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut folded = T::default();
                while let Some(element) = array.next_element()? {
                    folded.add(element);
                }
                Ok(Folded(folded))
            }
        }

        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

impl Fold for Counts {
    type Element = ResourceChange;

    fn add(&mut self, change: ResourceChange) {
        self.count_planned(&change);
    }
}

/// What drifted: address and action.
impl Fold for Vec<String> {
    type Element = ResourceChange;

    fn add(&mut self, ResourceChange { address, change, .. }: ResourceChange) {
        self.extend(change.drift().map(|action| format!("{address} ({action})")));
    }
}

/// How many are managed.
impl Fold for u32 {
    type Element = ResourceValues;

    fn add(&mut self, resource: ResourceValues) {
        *self = self.saturating_add(Self::from(resource.mode != "data"));
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

#[derive(Default, Deserialize)]
struct Values {
    #[serde(default)]
    root_module: ModuleValues,
}

#[derive(Default, Deserialize)]
struct ModuleValues {
    #[serde(default)]
    resources: Folded<u32>,
    #[serde(default)]
    child_modules: Vec<ModuleValues>,
}

#[derive(Deserialize)]
struct ResourceValues {
    #[serde(default)]
    mode: String,
}

impl ModuleValues {
    /// How many managed resource instances there are, child modules included.
    fn managed(&self) -> u32 {
        let below = self.child_modules.iter().map(Self::managed);
        below.fold(self.resources.0, u32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(address: &str, actions: &str, rest: &str) -> String {
        format!(
            r#"{{"address":"{address}","mode":"managed","change":{{"actions":[{actions}]{rest}}}}}"#
        )
    }

    #[test]
    fn every_action_is_counted_apart() {
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
        let summary = PlanSummary::read(json.as_bytes()).unwrap();
        let counts =
            Counts { create: 3, update: 1, delete: 3, replace: 2, import: 1, moved: 1, forget: 1 };
        assert_eq!(summary.counts, counts);
        assert_eq!(
            summary.line(),
            "Plan: 1 to import, 3 to add, 1 to change, 3 to destroy, 2 replaced, 1 moved, 1 forgotten."
        );
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        assert!(PlanSummary::read(&br#"{"terraform_version":"1.11.4"}"#[..]).is_err());
    }

    #[test]
    fn drift_is_what_reality_changed() {
        let json = format!(
            r#"{{"format_version":"1.2","resource_drift":[{},{},{}],"output_changes":{{"o":{{"actions":["update"]}}}}}}"#,
            change("a", r#""update""#, ""),
            change("b", r#""delete""#, ""),
            change("c", r#""no-op""#, "")
        );
        let summary = PlanSummary::read(json.as_bytes()).unwrap();
        assert_eq!(
            summary.drift_line(),
            "Drift: 2 changed outside of Terraform: a (changed), b (deleted)"
        );
        assert_eq!(summary.line(), "Changes to 1 output only.");
        let summary = PlanSummary { outputs: 2, ..summary };
        assert_eq!(summary.line(), "Changes to 2 outputs only.");
    }
}
