//! What a check for drift found, from its plan as JSON.
//!
//! The difference is cleaned before it is hashed: what the layer ignores is left out, so that the hash is
//! the same while the same drift lasts, and only new drift is told.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::model::DriftKind;

/// The parts of a plan that are about drift.
#[derive(Debug, Default, Deserialize)]
struct Plan {
    #[serde(default)]
    resource_drift: Vec<ResourceDrift>,
    #[serde(default)]
    output_changes: Map<String, Value>,
}

/// A resource that differs from the state.
#[derive(Debug, Deserialize)]
struct ResourceDrift {
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

/// What differs, in one word, and the hash of the difference if there is drift.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Found {
    pub(super) kind: DriftKind,
    pub(super) difference: Option<String>,
}

/// What `plan`, the JSON of a plan that only refreshes, says about drift. `ignored` are addresses of
/// modules, resources and attributes, such as `module.web`, `aws_instance.web` and `aws_instance.web.tags`.
///
/// # Errors
/// If it is not the JSON of a plan.
pub(super) fn find(plan: &[u8], ignored: &[String]) -> serde_json::Result<Found> {
    let plan: Plan = serde_json::from_slice(plan)?;
    let (mut changes, mut has_moved) = (BTreeMap::new(), false);
    // A change without effect differs only in what is ignored, or in nothing that the plan shows.
    let mut has_no_effect = false;
    for resource in plan.resource_drift {
        let is_moved = resource.previous_address.as_ref().is_some_and(|it| *it != resource.address);
        has_moved |= is_moved;
        let actions = &resource.change.actions;
        if actions.iter().all(|action| action == "no-op" || action == "read") {
            continue;
        }
        let (mut differences, mut is_ignored) = (BTreeMap::new(), false);
        let change = &resource.change;
        compare(&resource.address, &change.before, &change.after, &mut |path, pair| {
            if ignored.iter().any(|it| contains(it, &path)) {
                is_ignored = true;
            } else {
                differences.insert(path, pair);
            }
        });
        // Sensitive values are masked, so their change shows only in that something has changed.
        let is_masked = has_true(&change.before_sensitive) || has_true(&change.after_sensitive);
        let ignores_resource = ignored.iter().any(|it| contains(it, &resource.address));
        if differences.is_empty() && is_masked && !is_ignored && !ignores_resource {
            let sensitive = Value::from("(sensitive)");
            differences.insert(resource.address.clone(), [sensitive.clone(), sensitive]);
        }
        if differences.is_empty() {
            has_no_effect = true;
        } else {
            changes.insert(resource.address, (resource.change.actions, differences));
        }
    }
    let has_outputs = plan.output_changes.values().any(|change| {
        let actions = change["actions"].as_array();
        actions.is_some_and(|actions| actions.iter().any(|action| action != "no-op"))
    });
    let difference = (!changes.is_empty())
        .then(|| serde_json::to_vec(&changes).map(|text| hex::encode(Sha256::digest(text))))
        .transpose()?;
    let kind = match (&difference, has_moved, has_outputs, has_no_effect) {
        (Some(_), ..) => DriftKind::Changes,
        (None, true, ..) => DriftKind::MovedOnly,
        (None, false, true, _) => DriftKind::OutputsOnly,
        (None, false, false, true) => DriftKind::WithoutEffect,
        (None, false, false, false) => DriftKind::None,
    };
    Ok(Found { kind, difference })
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

/// Whether `path` is `attribute`, or in it.
fn contains(attribute: &str, path: &str) -> bool {
    let rest = path.strip_prefix(attribute);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
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
        let ignored: Vec<String> = ignored.iter().map(|it| (*it).to_owned()).collect();
        find(plan.to_string().as_bytes(), &ignored).unwrap()
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
                Found { kind: DriftKind::WithoutEffect, difference: None },
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
            assert_eq!(found(&plan, &[]), Found { kind, difference: None }, "{plan}");
        }
        assert!(find(b"[", &[]).is_err());
    }
}
