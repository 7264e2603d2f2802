//! The objects of an installation that are in a cluster.

use butler_cluster::{NativeObject, NativeObjects, Reading};
use serde_json::Value;

/// The kind, the namespace and the name of an object, for messages.
pub(super) fn title(object: &Value) -> String {
    let NativeObject { kind, namespace, name, .. } = NativeObject::of(object);
    namespace.map_or_else(|| format!("{kind} {name}"), |it| format!("{kind} {it}/{name}"))
}

/// The object as it is in the cluster, if it is there.
///
/// # Errors
/// If it cannot be read, in a sentence.
pub(super) async fn existing(
    cluster: &NativeObjects,
    object: &Value,
) -> Result<Option<Value>, String> {
    match cluster.read(NativeObject::of(object)).await {
        Reading::Found(found) => Ok(Some(found)),
        Reading::Absent => Ok(None),
        Reading::Denied { why } | Reading::Unknown { why } => {
            Err(format!("cannot read {}: {why}", title(object)))
        }
    }
}
