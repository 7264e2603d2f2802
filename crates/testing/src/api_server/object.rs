//! Objects of the API: which ones a request selects, and those that it answers with.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// `metadata.name=x,type=Warning`, `involvedObject.name=x`, and labels.
pub(super) fn is_selected(object: &Value, query: &BTreeMap<String, String>) -> bool {
    let pairs = |name: &str| -> Vec<(String, String)> {
        let text = query.get(name).map(String::as_str).unwrap_or_default();
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let fields = pairs("fieldSelector").iter().all(|(field, value)| {
        let pointer = format!("/{}", field.replace('.', "/"));
        object.pointer(&pointer).is_some_and(|found| *found == **value)
    });
    let labels = &object["metadata"]["labels"];
    fields && pairs("labelSelector").iter().all(|(name, value)| labels[name] == **value)
}

/// The time of a new object.
pub(super) fn now() -> String {
    Timestamp::now().to_string()
}

/// The answer to a request that fails.
pub(super) fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}
