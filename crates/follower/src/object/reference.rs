//! Which object is meant.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One object of a cluster, or one run of a layer or of a CI system.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// The group and version, such as `batch/v1`. For runs: `butler.dev/v1`.
    pub api_version: String,
    /// The kind, such as `Job`. For runs: `Run`.
    pub kind: String,
    /// The namespace. `None` for objects of the whole cluster and for runs.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl fmt::Display for ObjectReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{} {namespace}/{}", self.kind, self.name),
            None => write!(formatter, "{} {}", self.kind, self.name),
        }
    }
}
