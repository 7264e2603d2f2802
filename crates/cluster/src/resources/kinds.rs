//! The kinds of custom resources, and their definitions for the cluster.

use std::fmt;

use kube::CustomResource;
use kube::core::ApiResource;
use kube::core::crd::CustomResourceExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::status::ResourceStatus;

/// The API group of the resources, as below.
pub(crate) const GROUP: &str = "runner.butlerlabs.dev";

/// What a resource wants. The server checks it by the schema of its own files.
type Wanted = Map<String, Value>;

/// A repository.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize)]
#[kube(
    group = "runner.butlerlabs.dev",
    version = "v1alpha1",
    kind = "Repository",
    plural = "repositories",
    namespaced,
    status = "ResourceStatus",
    schema = "disabled",
    category = "butler",
    printcolumn = r#"{"name": "URL", "type": "string", "jsonPath": ".spec.url"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1, "jsonPath": ".status.conditions[?(@.type=='Ready')].message"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
struct RepositorySpec(Wanted);

/// A layer or a layer set.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize)]
#[kube(
    group = "runner.butlerlabs.dev",
    version = "v1alpha1",
    kind = "Layer",
    plural = "layers",
    namespaced,
    status = "ResourceStatus",
    schema = "disabled",
    category = "butler",
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name": "Drifted", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Drifted')].status"}"#,
    printcolumn = r#"{"name": "Commit", "type": "string", "jsonPath": ".status.commit"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1, "jsonPath": ".status.conditions[?(@.type=='Ready')].message"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
struct LayerSpec(Wanted);

/// A follower of a branch.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize)]
#[kube(
    group = "runner.butlerlabs.dev",
    version = "v1alpha1",
    kind = "Follower",
    plural = "followers",
    namespaced,
    status = "ResourceStatus",
    schema = "disabled",
    category = "butler",
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name": "Commit", "type": "string", "jsonPath": ".status.commit"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1, "jsonPath": ".status.conditions[?(@.type=='Ready')].message"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
struct FollowerSpec(Wanted);

/// A kind of resource.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ResourceKind {
    /// A repository.
    Repository,
    /// A layer or a layer set.
    Layer,
    /// A follower of a branch.
    Follower,
}

impl ResourceKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Repository, Self::Layer, Self::Follower];

    /// The name, as in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Repository => "Repository",
            Self::Layer => "Layer",
            Self::Follower => "Follower",
        }
    }

    /// The name in paths and permissions.
    #[must_use]
    pub fn plural(self) -> String {
        self.api_resource().plural
    }

    /// What requests need.
    pub(super) fn api_resource(self) -> ApiResource {
        match self {
            Self::Repository => Repository::api_resource(),
            Self::Layer => Layer::api_resource(),
            Self::Follower => Follower::api_resource(),
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The `CustomResourceDefinition` of each kind. `wanted` returns the structural schema of its `spec`, and `status`
/// is that of [`ResourceStatus`].
#[must_use]
pub fn definitions(wanted: impl Fn(ResourceKind) -> Value, status: &Value) -> Vec<Value> {
    let definition = |kind: ResourceKind| {
        let definition = match kind {
            ResourceKind::Repository => Repository::crd(),
            ResourceKind::Layer => Layer::crd(),
            ResourceKind::Follower => Follower::crd(),
        };
        let mut definition = json!(definition);
        definition["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": {
            "type": "object",
            "required": ["spec"],
            "properties": {"spec": wanted(kind), "status": status},
        }});
        definition
    };
    ResourceKind::ALL.into_iter().map(definition).collect()
}
