//! The status of a custom resource: what the server says about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the server says about a resource.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceStatus {
    /// The generation of the resource that the status is about.
    pub observed_generation: i64,
    /// The phase of a layer or a follower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The commit that is applied, or was delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The number of layers of a layer set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<i32>,
    /// What holds for the resource: `Accepted`, whether the server uses this generation of it; `Ready`,
    /// whether its desired state is reached; `Drifted`, whether infrastructure and state of a layer differ.
    pub conditions: Vec<Condition>,
}

/// What holds for a resource, as the API conventions of Kubernetes define it.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The name.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// The generation of the resource that the condition is about.
    pub observed_generation: i64,
    /// When `status` changed.
    pub last_transition_time: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// That is not known.
    Unknown,
}

impl ResourceStatus {
    /// The condition with this name.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}
