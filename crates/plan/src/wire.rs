//! Parts of a plan's JSON as Terraform and `OpenTofu` write them (plan format 1.x). Values are unparsed.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::path::PathStep;

/// A member of `resource_changes` or `resource_drift`.
#[derive(Deserialize)]
pub(super) struct Resource<'a> {
    #[serde(borrow)]
    pub(super) address: &'a RawValue,
    #[serde(borrow)]
    pub(super) previous_address: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) deposed: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) action_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) change: Change<'a>,
}

/// The change of a resource or an output.
#[derive(Default, Deserialize)]
pub(super) struct Change<'a> {
    #[serde(default)]
    pub(super) actions: Vec<String>,
    #[serde(borrow)]
    pub(super) before: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) after: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) before_sensitive: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) after_sensitive: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) after_unknown: Option<&'a RawValue>,
    pub(super) replace_paths: Option<Vec<Vec<PathStep>>>,
    #[serde(borrow)]
    pub(super) importing: Option<Importing<'a>>,
}

/// The imported object: its id, or its identity of several parts.
#[derive(Deserialize)]
pub(super) struct Importing<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) identity: Option<&'a RawValue>,
}

/// A member of `action_invocations`.
#[derive(Deserialize)]
pub(super) struct ActionInvocation<'a> {
    #[serde(borrow)]
    pub(super) address: &'a RawValue,
    #[serde(borrow)]
    pub(super) config_values: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) config_sensitive: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) config_unknown: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) lifecycle_action_trigger: Option<ActionTrigger<'a>>,
}

/// The event of a resource that executes an action.
#[derive(Deserialize)]
pub(super) struct ActionTrigger<'a> {
    #[serde(borrow)]
    pub(super) triggering_resource_address: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) action_trigger_event: String,
}

/// A member of `deferred_action_invocations`.
#[derive(Deserialize)]
pub(super) struct DeferredAction<'a> {
    #[serde(default)]
    pub(super) reason: String,
    #[serde(borrow)]
    pub(super) action_invocation: &'a RawValue,
}

impl Change<'_> {
    pub(super) fn does(&self, action: &str) -> bool {
        self.actions.iter().any(|other| other == action)
    }
}
