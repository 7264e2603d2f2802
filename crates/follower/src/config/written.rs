//! The values of a registry file that can be of any type, as they are written.

use serde_json::Value;

use super::check_entry::CheckEntry;
use super::document::{AdapterEntry, Document};

/// Replaces values whose text was lost while `document` was read: `version: 1.10` of a template stays `1.10`.
/// `written` is the same document, read by [`butler_base::yaml::values`].
pub(super) fn restore(document: &mut Document, written: &Value) {
    let followers = written["followers"].as_array().into_iter().flatten();
    for (follower, written) in document.followers.iter_mut().zip(followers) {
        let AdapterEntry::Kubernetes(adapter) = &mut follower.adapter else { continue };
        let stages = written["adapter"]["kubernetes"]["stages"].as_array().into_iter().flatten();
        for (stage, written) in adapter.stages.iter_mut().zip(stages) {
            put(&mut stage.create, &written["create"]);
            checks(stage.succeeded.as_mut(), &written["succeeded"]);
            checks(stage.failed.as_mut(), &written["failed"]);
        }
    }
}

fn checks(checks: Option<&mut Vec<CheckEntry>>, written: &Value) {
    let written = written.as_array().into_iter().flatten();
    for (check, written) in checks.into_iter().flatten().zip(written) {
        put(&mut check.equals, &written["equals"]);
        put(&mut check.default, &written["default"]);
        if let (Some(values), Some(written)) = (&mut check.one_of, written["in"].as_array()) {
            values.clone_from(written);
        }
    }
}

fn put(value: &mut Option<Value>, written: &Value) {
    if let Some(value) = value {
        value.clone_from(written);
    }
}
