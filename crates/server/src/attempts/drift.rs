//! What a check for drift found, from its plan as JSON.
//!
//! The difference is cleaned before it is hashed: what the layer ignores is left out, so that the hash is
//! the same while the same drift lasts, and only new drift is told.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::drift_ignore::Ignored;
use crate::model::{DriftKind, Seen};

/// The most failing checks that are named.
const MOST_CHECKS: usize = 50;

/// The parts of a plan that are about drift.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Plan {
    resource_drift: Vec<ResourceChange>,
    resource_changes: Vec<ResourceChange>,
    output_changes: BTreeMap<String, Value>,
    prior_state: State,
    checks: Vec<Check>,
}

/// The conditions of a check, a resource, an output or a variable.
#[derive(Debug, Deserialize)]
struct Check {
    #[serde(default)]
    address: CheckAddress,
    #[serde(default)]
    status: String,
    #[serde(default)]
    instances: Vec<Self>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CheckAddress {
    to_display: String,
}

/// A resource that differs from the state, or that the plan changes.
#[derive(Debug, Deserialize)]
struct ResourceChange {
    address: String,
    previous_address: Option<String>,
    change: Change,
}

#[derive(Debug, Deserialize)]
struct Change {
    actions: Vec<String>,
    #[serde(default)]
    before: Value,
    #[serde(default)]
    after: Value,
    #[serde(default)]
    before_sensitive: Value,
    #[serde(default)]
    after_sensitive: Value,
}

/// The state that the plan was made from. Large plans are reported without it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    values: Values,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Values {
    root_module: Module,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Module {
    resources: Vec<Resource>,
    child_modules: Vec<Self>,
}

#[derive(Debug, Deserialize)]
struct Resource {
    address: String,
    #[serde(default)]
    values: Value,
}

/// What is compared with what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Compared {
    /// The infrastructure with the state.
    State,
    /// The code with the state, because another program has written the state.
    Code,
    /// The code with the state, because the configuration says so.
    Always,
}

/// What differs, in one word, and the hash of the difference if there is drift.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Found {
    pub(super) kind: DriftKind,
    pub(super) difference: Option<String>,
    /// The hash of the difference between infrastructure and state, whatever is compared.
    pub(super) of_state: Option<String>,
    /// The entries of `drift.ignore` that name nothing of the layer.
    pub(super) unmatched: Vec<String>,
    /// The findings that are not drift.
    pub(super) seen: Seen,
}

/// The differences of one resource: for each path, the value before and after.
type Differences = BTreeMap<String, [Value; 2]>;

/// What `plan`, the JSON of a plan, says about drift. `ignored` are entries of `drift.ignore`.
///
/// # Errors
/// If it is not the JSON of a plan.
pub(super) fn find(
    plan: &[u8],
    ignored: &[String],
    compared: Compared,
) -> serde_json::Result<Found> {
    let plan: Plan = serde_json::from_slice(plan)?;
    let ignored: Vec<Ignored> = ignored.iter().map(|entry| Ignored::new(entry)).collect();
    let of_state = Differing::of(&plan.resource_drift, &ignored)?;
    let differing = match compared {
        Compared::State => of_state.clone(),
        Compared::Code | Compared::Always => Differing::of(&plan.resource_changes, &ignored)?,
    };
    let mut seen = seen(&plan)?;
    seen.wanted = (compared != Compared::State).then_some(differing.number);
    seen.only_gone = differing.only_gone;
    let has_outputs = !seen.outputs.is_empty();
    let Differing { difference, has_moved, has_no_effect, .. } = differing;
    let kind = match (&difference, has_moved, has_outputs, has_no_effect) {
        (Some(_), ..) if compared == Compared::Code => DriftKind::ChangedOutside,
        (Some(_), ..) if compared == Compared::Always => DriftKind::CodeDiffers,
        (Some(_), ..) => DriftKind::Changes,
        (None, true, ..) => DriftKind::MovedOnly,
        (None, false, true, _) => DriftKind::OutputsOnly,
        (None, false, false, true) => DriftKind::WithoutEffect,
        (None, false, false, false) => DriftKind::None,
    };
    let unmatched = unmatched(&plan, &ignored);
    Ok(Found { kind, difference, of_state: of_state.difference, unmatched, seen })
}

/// The findings of a plan that are not drift: conditions that do not hold, and outputs that have moved.
fn seen(plan: &Plan) -> serde_json::Result<Seen> {
    let changes = |change: &Value| {
        let actions = change["actions"].as_array();
        actions.is_some_and(|actions| actions.iter().any(|action| action != "no-op"))
    };
    let moved: BTreeMap<_, _> =
        plan.output_changes.iter().filter(|(_, change)| changes(change)).collect();
    Ok(Seen {
        failing_checks: failing_checks(&plan.checks),
        outputs: moved.keys().map(|name| (*name).clone()).collect(),
        outputs_difference: hash(&moved)?,
        ..Seen::default()
    })
}

/// The addresses of checks, resources, outputs and variables with a condition that does not hold, without duplicates. If
/// the plan names the instances, their addresses.
fn failing_checks(checks: &[Check]) -> Vec<String> {
    let fails = |check: &&Check| matches!(check.status.as_str(), "fail" | "error");
    let mut failing = BTreeSet::new();
    for check in checks.iter().filter(fails) {
        let mut instances = check.instances.iter().filter(fails).peekable();
        if instances.peek().is_none() {
            failing.insert(check.address.to_display.clone());
        }
        failing.extend(instances.map(|instance| instance.address.to_display.clone()));
    }
    failing.into_iter().take(MOST_CHECKS).collect()
}

/// The hash of differences; `None` if there are none.
fn hash<K: Serialize + Ord, V: Serialize>(
    differences: &BTreeMap<K, V>,
) -> serde_json::Result<Option<String>> {
    let hash = |text| hex::encode(Sha256::digest(text));
    (!differences.is_empty()).then(|| serde_json::to_vec(differences).map(hash)).transpose()
}

/// How resources differ.
#[derive(Clone, Debug)]
struct Differing {
    /// The hash of what is not ignored.
    difference: Option<String>,
    /// The number of resources that differ.
    number: u64,
    /// Whether all of them are gone from the infrastructure: they are deleted there, or the plan creates them.
    only_gone: bool,
    has_moved: bool,
    /// Whether a resource differs only in what is ignored, or in nothing that the plan shows.
    has_no_effect: bool,
}

impl Differing {
    fn of(resources: &[ResourceChange], ignored: &[Ignored]) -> serde_json::Result<Self> {
        let (mut changes, mut has_moved) = (BTreeMap::new(), false);
        let mut has_no_effect = false;
        for resource in resources {
            let before = resource.previous_address.as_ref();
            has_moved |= before.is_some_and(|before| *before != resource.address);
            let actions = &resource.change.actions;
            if actions.iter().all(|action| action == "no-op" || action == "read") {
                continue;
            }
            let differences = differences(resource, ignored);
            if differences.is_empty() {
                has_no_effect = true;
            } else {
                changes.insert(&resource.address, (actions, differences));
            }
        }
        let number = changes.len() as u64;
        let only_gone =
            !changes.is_empty() && changes.values().all(|(actions, _)| is_gone(actions));
        Ok(Self { difference: hash(&changes)?, number, only_gone, has_moved, has_no_effect })
    }
}

/// Whether the only action for a resource is that it is deleted or created.
fn is_gone(actions: &[String]) -> bool {
    matches!(actions, [only] if only == "delete" || only == "create")
}

/// What differs in a resource and is not ignored.
fn differences(resource: &ResourceChange, ignored: &[Ignored]) -> Differences {
    let (mut differences, mut is_ignored) = (Differences::new(), false);
    let change = &resource.change;
    compare(&resource.address, &change.before, &change.after, &mut |path, pair| {
        if ignored.iter().any(|it| it.contains(&path)) {
            is_ignored = true;
        } else {
            differences.insert(path, pair);
        }
    });
    // Sensitive values are masked, so their change shows only in that something has changed.
    let is_masked = has_true(&change.before_sensitive) || has_true(&change.after_sensitive);
    let ignores_resource = ignored.iter().any(|it| it.contains(&resource.address));
    if differences.is_empty() && is_masked && !is_ignored && !ignores_resource {
        let sensitive = Value::from("(sensitive)");
        differences.insert(resource.address.clone(), [sensitive.clone(), sensitive]);
    }
    differences
}

/// The entries that name nothing of the plan. None if the plan has no resources: then nothing is known.
fn unmatched(plan: &Plan, ignored: &[Ignored]) -> Vec<String> {
    let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for resource in plan.resource_drift.iter().chain(&plan.resource_changes) {
        let attributes = known.entry(&resource.address).or_default();
        for value in [&resource.change.before, &resource.change.after] {
            attributes
                .extend(value.as_object().into_iter().flat_map(Map::keys).map(String::as_str));
        }
    }
    let mut modules = vec![&plan.prior_state.values.root_module];
    while let Some(module) = modules.pop() {
        for resource in &module.resources {
            let attributes = known.entry(&resource.address).or_default();
            let names = resource.values.as_object().into_iter().flat_map(Map::keys);
            attributes.extend(names.map(String::as_str));
        }
        modules.extend(&module.child_modules);
    }
    if known.is_empty() {
        return Vec::new();
    }
    let is_matched = |entry: &&Ignored| {
        known
            .iter()
            .any(|(address, attributes)| entry.is_about(address, |it| attributes.contains(it)))
    };
    let without = ignored.iter().filter(|entry| !is_matched(entry));
    without.map(|entry| entry.entry().to_owned()).collect()
}

/// Calls `differs` with the path and both values of each attribute that differs.
fn compare(
    path: &str,
    before: &Value,
    after: &Value,
    differs: &mut impl FnMut(String, [Value; 2]),
) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let names =
                before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
            for name in names {
                let value =
                    |values: &Map<String, Value>| values.get(name).cloned().unwrap_or_default();
                compare(&format!("{path}.{name}"), &value(before), &value(after), differs);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}[{index}]"), before, after, differs);
            }
        }
        (before, after) if before == after => {}
        (before, after) => differs(path.to_owned(), [before.clone(), after.clone()]),
    }
}

/// Whether a value is marked as sensitive anywhere.
fn has_true(marks: &Value) -> bool {
    match marks {
        Value::Bool(mark) => *mark,
        Value::Array(marks) => marks.iter().any(has_true),
        Value::Object(marks) => marks.values().any(has_true),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A plan in which the file `a` has this content instead of `old`.
    fn plan(content: &str) -> Value {
        json!({
            "resource_drift": [{
                "address": "files_file.a",
                "change": {
                    "actions": ["update"],
                    "before": {"path": "/a", "content": "old", "tags": ["x", "y"]},
                    "after": {"path": "/a", "content": content, "tags": ["x", "y"]},
                },
            }],
        })
    }

    fn found(plan: &Value, ignored: &[&str]) -> Found {
        found_by(plan, ignored, Compared::State)
    }

    fn found_by(plan: &Value, ignored: &[&str], compared: Compared) -> Found {
        let ignored: Vec<String> = ignored.iter().map(|it| (*it).to_owned()).collect();
        let found = find(plan.to_string().as_bytes(), &ignored, compared).unwrap();
        Found { unmatched: Vec::new(), of_state: None, seen: Seen::default(), ..found }
    }

    fn seen(plan: &Value, compared: Compared) -> Seen {
        find(plan.to_string().as_bytes(), &[], compared).unwrap().seen
    }

    #[test]
    fn failing_checks_are_named_by_their_instances() {
        let check = |name: &str, status: &str, instances: &[(&str, &str)]| {
            let instances: Vec<_> = instances
                .iter()
                .map(|(name, status)| json!({"address": {"to_display": name}, "status": status, "problems": [{"message": "no"}]}))
                .collect();
            json!({"address": {"kind": "check", "to_display": name}, "status": status, "instances": instances})
        };
        let plan = json!({"checks": [
            check("check.health", "fail", &[("check.health", "fail")]),
            check("a.b", "fail", &[("a.b[0]", "pass"), ("a.b[1]", "fail")]),
            check("output.o", "error", &[]),
            check("check.later", "unknown", &[]),
            check("var.v", "pass", &[]),
        ]});
        let failing = seen(&plan, Compared::State).failing_checks;
        assert_eq!(failing, ["a.b[1]", "check.health", "output.o"]);
        assert_eq!(seen(&json!({}), Compared::State), Seen::default());
    }

    #[test]
    fn outputs_that_have_moved_are_named_and_the_same_ones_have_the_same_hash() {
        let output = |after: &str| {
            seen(
                &json!({"output_changes": {"o": {"actions": ["update"], "before": "a", "after": after},
                    "same": {"actions": ["no-op"], "before": 1, "after": 1}}}),
                Compared::State,
            )
        };
        assert_eq!(output("b").outputs, ["o"]);
        assert_eq!(output("b"), output("b"));
        assert_ne!(output("b").outputs_difference, output("c").outputs_difference);
    }

    #[test]
    fn code_that_is_always_compared_says_how_much_it_wants() {
        let change = |address: &str| json!({"address": address, "change": {"actions": ["update"], "before": {"x": 1}, "after": {"x": 2}}});
        let plan = json!({"resource_changes": [change("a.a"), change("a.b")]});
        let found = find(plan.to_string().as_bytes(), &[], Compared::Always).unwrap();
        assert_eq!((found.kind, found.seen.wanted), (DriftKind::CodeDiffers, Some(2)));
        assert_eq!(seen(&plan, Compared::State).wanted, None);
    }

    fn unmatched(plan: &Value, ignored: &[&str]) -> Vec<String> {
        let ignored: Vec<String> = ignored.iter().map(|it| (*it).to_owned()).collect();
        find(plan.to_string().as_bytes(), &ignored, Compared::State).unwrap().unmatched
    }

    #[test]
    fn same_drift_has_the_same_difference_and_other_drift_another_one() {
        let first = found(&plan("new"), &[]);
        assert_eq!(first.kind, DriftKind::Changes);
        assert!(first.difference.is_some());
        let mut with_others = plan("new");
        with_others["timestamp"] = json!("later");
        with_others["resource_drift"][0]["change"]["before_sensitive"] = json!({});
        assert_eq!(found(&with_others, &[]), first);
        assert_ne!(found(&plan("newer"), &[]), first);
        let mut deleted = plan("new");
        deleted["resource_drift"][0]["change"]["actions"] = json!(["delete"]);
        deleted["resource_drift"][0]["change"]["after"] = Value::Null;
        let deleted = found(&deleted, &[]);
        assert!(deleted.kind == DriftKind::Changes && deleted != first);
    }

    #[test]
    fn ignored_resources_and_attributes_are_no_drift() {
        for ignored in ["files_file.a", "files_file.a.content"] {
            let found = found(&plan("new"), &[ignored]);
            assert_eq!(
                found,
                Found { kind: DriftKind::WithoutEffect, ..Found::default() },
                "{ignored}"
            );
        }
        for other in ["files_file.b", "files_file.a.con", "files_file.a.path", "content"] {
            assert_eq!(found(&plan("new"), &[other]).kind, DriftKind::Changes, "{other}");
        }
        // Another attribute changes too: only that one counts.
        let mut both = plan("new");
        both["resource_drift"][0]["change"]["after"]["tags"] = json!(["x", "z"]);
        let one = found(&both, &["files_file.a.content"]);
        assert_eq!(one.kind, DriftKind::Changes);
        assert_ne!(one, found(&both, &[]));
        assert_eq!(found(&both, &["files_file.a.content", "files_file.a.tags"]).difference, None);
    }

    #[test]
    fn change_of_a_masked_value_is_drift() {
        let mut masked = plan("***");
        masked["resource_drift"][0]["change"]["before"]["content"] = json!("***");
        masked["resource_drift"][0]["change"]["before_sensitive"] = json!({"tags": [false]});
        assert_eq!(found(&masked, &[]).kind, DriftKind::WithoutEffect);
        masked["resource_drift"][0]["change"]["before_sensitive"] = json!({"content": true});
        let drift = found(&masked, &[]);
        assert!(drift.kind == DriftKind::Changes && drift.difference.is_some());
        assert_eq!(found(&masked, &["files_file.a"]).difference, None);
    }

    #[test]
    fn moves_outputs_and_changes_without_effect_are_told_apart_from_drift() {
        let moved = json!({"resource_drift": [{
            "address": "files_file.b", "previous_address": "files_file.a",
            "change": {"actions": ["no-op"], "before": {}, "after": {}},
        }]});
        let outputs = json!({"output_changes": {"o": {"actions": ["update"]}}});
        let none = json!({"output_changes": {"o": {"actions": ["no-op"]}}});
        for (plan, kind) in [
            (moved, DriftKind::MovedOnly),
            (outputs, DriftKind::OutputsOnly),
            (plan("old"), DriftKind::WithoutEffect),
            (none, DriftKind::None),
            (json!({}), DriftKind::None),
        ] {
            assert_eq!(found(&plan, &[]), Found { kind, ..Found::default() }, "{plan}");
        }
        assert!(find(b"[", &[], Compared::State).is_err());
    }

    #[test]
    fn code_is_compared_with_a_state_that_another_program_has_written() {
        let change = |actions: Value, before: Value, after: Value| {
            let change = json!({"actions": actions, "before": before, "after": after});
            json!({"resource_changes": [{"address": "files_file.a", "change": change}]})
        };
        let code = |plan: &Value, ignored: &[&str]| found_by(plan, ignored, Compared::Code);
        let (old, new) = (json!({"content": "old"}), json!({"content": "new"}));
        let updated = change(json!(["update"]), new.clone(), old.clone());
        let removed = change(json!(["create"]), Value::Null, old.clone());
        let (updated, removed) = (code(&updated, &[]), code(&removed, &[]));
        for found in [&updated, &removed] {
            assert_eq!(found.kind, DriftKind::ChangedOutside, "{found:?}");
        }
        assert_ne!(updated.difference, removed.difference);
        let none = change(json!(["no-op"]), old.clone(), old.clone());
        assert_eq!(code(&none, &[]), Found::default());
        let ignored = change(json!(["update"]), new, old);
        assert_eq!(code(&ignored, &["files_file.a.content"]).kind, DriftKind::WithoutEffect);
        // What the infrastructure differs in is not what the code does.
        let drift = plan("new").to_string();
        assert_eq!(code(&plan("new"), &[]), Found::default());
        let of_state = find(drift.as_bytes(), &[], Compared::Code).unwrap().of_state;
        assert!(of_state.is_some());
        assert_eq!(of_state, find(drift.as_bytes(), &[], Compared::State).unwrap().difference);
    }

    #[test]
    fn entry_that_names_nothing_is_named() {
        let entries = [
            "files_file.a",
            "files_file.a.content",
            "files_file.b",
            "files_file.a.typo",
            "module.m",
        ];
        let wrong = ["files_file.b", "files_file.a.typo", "module.m"];
        assert_eq!(unmatched(&plan("new"), &entries), wrong);
        // Without drift, the state has the resources.
        let resource = |address: &str| json!({"address": address, "values": {"content": "x"}});
        let state = json!({"prior_state": {"values": {"root_module": {
            "resources": [resource("files_file.a")],
            "child_modules": [{"resources": [resource("module.m[0].files_file.c[\"x\"]")]}],
        }}}});
        let entries = [
            "files_file.a[*].content",
            "module.m[*].files_file.c[*].content",
            "module.m",
            "module.n",
        ];
        assert_eq!(unmatched(&state, &entries), ["files_file.a[*].content", "module.n"]);
        // A large plan is reported without the state.
        assert_eq!(unmatched(&json!({}), &entries), Vec::<String>::new());
    }
}
