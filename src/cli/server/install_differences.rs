//! How a cluster differs from an installation.

use std::collections::BTreeSet;

use butler_cluster::{NativeObject, NativeObjects};
use serde_json::Value;

use super::installed::{existing, title};
use crate::cli::columns::columns;

/// The fields that the cluster sets.
const OF_THE_CLUSTER: [&str; 5] =
    ["resourceVersion", "generation", "uid", "creationTimestamp", "managedFields"];

/// The change of an object.
#[derive(Eq, PartialEq)]
pub(super) enum Difference {
    Created,
    /// With the paths of the fields that change.
    Changed(Vec<String>),
    Unchanged,
}

/// The change of each object, as the cluster predicts it.
pub(super) async fn differences(
    cluster: &NativeObjects,
    objects: &[Value],
) -> Result<Vec<Difference>, String> {
    let mut found = Vec::new();
    for object in objects {
        found.push(match existing(cluster, object).await? {
            None => Difference::Created,
            Some(current) => {
                let applied = Box::pin(cluster.apply(object, true)).await;
                let applied =
                    applied.map_err(|why| format!("cannot change {}: {why}", title(object)))?;
                let mut paths = Vec::new();
                changed_paths("", &of_people(current), &of_people(applied), &mut paths);
                if paths.is_empty() { Difference::Unchanged } else { Difference::Changed(paths) }
            }
        });
    }
    Ok(found)
}

/// The object without what the cluster sets.
fn of_people(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in OF_THE_CLUSTER {
            metadata.remove(field);
        }
    }
    object
}

/// The paths at which two objects differ.
fn changed_paths(path: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in keys {
                changed_paths(&format!("{path}.{key}"), &old[key], &new[key], found);
            }
        }
        (old, new) if old != new => found.push(path.to_owned()),
        _ => {}
    }
}

pub(super) fn table(objects: &[Value], differences: &[Difference], obsolete: &[Value]) -> String {
    let head = ["CHANGE", "KIND", "NAMESPACE", "NAME", "FIELDS"].map(str::to_owned).to_vec();
    let (mut created, mut changed) = (0, 0);
    let rows = objects.iter().zip(differences).map(|(object, difference)| {
        let NativeObject { kind, namespace, name, .. } = NativeObject::of(object);
        let (word, fields) = match difference {
            Difference::Created => {
                created += 1;
                ("create", String::new())
            }
            Difference::Changed(paths) => {
                changed += 1;
                ("change", paths.join(" "))
            }
            Difference::Unchanged => ("none", String::new()),
        };
        let namespace = namespace.unwrap_or_default();
        [word, kind, namespace, name, &fields].map(str::to_owned).to_vec()
    });
    let deleted = obsolete.iter().map(|object| {
        let NativeObject { kind, namespace, name, .. } = NativeObject::of(object);
        ["delete", kind, namespace.unwrap_or_default(), name, ""].map(str::to_owned).to_vec()
    });
    let rows: Vec<_> = std::iter::once(head).chain(rows).chain(deleted).collect();
    let deleted = obsolete.len();
    format!("{}\n{created} to create, {changed} to change, {deleted} to delete\n", columns(&rows))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_named_by_their_paths() {
        let mut found = Vec::new();
        let old = json!({"spec": {"replicas": 1, "a": [1]}, "data": {"x": "1"}});
        let new = json!({"spec": {"replicas": 2, "a": [1]}, "data": {"y": "1"}});
        changed_paths("", &old, &new, &mut found);
        assert_eq!(found, [".data.x", ".data.y", ".spec.replicas"]);
    }

    #[test]
    fn what_is_deleted_is_in_the_table() {
        let role = json!({"kind": "Role", "metadata": {"name": "r", "namespace": "old"}});
        let config = json!({"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "new"}});
        let shown = table(&[config], &[Difference::Created], &[role]);
        let rows: Vec<_> =
            shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(rows[1], ["create", "ConfigMap", "new", "c"]);
        assert_eq!(rows[2], ["delete", "Role", "old", "r"]);
        assert!(shown.ends_with("1 to create, 0 to change, 1 to delete\n"), "{shown}");
    }
}
