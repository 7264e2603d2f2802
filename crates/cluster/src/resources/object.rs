//! The objects of the custom resources.

use std::fmt;

use kube::api::DynamicObject;
use serde_json::{Map, Value};

use super::kinds::ResourceKind;
use super::status::ResourceStatus;

/// Which object it is.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ResourceKey {
    /// The namespace.
    pub namespace: String,
    /// The kind.
    pub kind: ResourceKind,
    /// The name in the namespace.
    pub name: String,
}

impl ResourceKey {
    /// The name of the repository, layer or follower that the object defines: `NAMESPACE.NAME`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.namespace, self.name)
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// An object, as the cluster reported it last.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomObject {
    /// Which one it is.
    pub key: ResourceKey,
    /// What tells it from an earlier object with the same name.
    pub uid: String,
    /// Incremented by each change of what it wants.
    pub generation: i64,
    /// The version, which changes of it must name.
    pub resource_version: String,
    /// What it wants.
    pub spec: Map<String, Value>,
    /// What the server has written.
    pub status: Option<ResourceStatus>,
}

impl CustomObject {
    pub(super) fn new(kind: ResourceKind, object: DynamicObject) -> Option<Self> {
        let DynamicObject { metadata, mut data, .. } = object;
        let mut take = |field: &str| data.as_object_mut().and_then(|data| data.remove(field));
        // One that another version has written is written anew.
        let status = take("status").and_then(|status| serde_json::from_value(status).ok());
        let Some(Value::Object(spec)) = take("spec") else { return None };
        Some(Self {
            key: ResourceKey { namespace: metadata.namespace?, kind, name: metadata.name? },
            uid: metadata.uid.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            spec,
            status,
        })
    }
}
