//! Which object is meant.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One object of a cluster, or one run of a layer or of a CI system.
#[derive(
    Clone, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
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

/// The group and version of runs, which are not objects of the cluster.
const RUNS: &str = "butler.dev/v1";

impl ObjectReference {
    /// The run of a layer or of a CI system with this name.
    #[must_use]
    pub fn run(name: String) -> Self {
        let (api_version, kind) = (RUNS.to_owned(), "Run".to_owned());
        Self { api_version, kind, namespace: None, name }
    }

    /// Whether it is a Tekton `PipelineRun`, which has `TaskRun`s.
    #[must_use]
    pub fn is_pipeline_run(&self) -> bool {
        self.kind == "PipelineRun" && self.api_version.starts_with("tekton.dev/")
    }

    /// Whether it is a run, and not an object of the cluster.
    #[must_use]
    pub fn is_run(&self) -> bool {
        self.api_version == RUNS
    }
}

impl fmt::Display for ObjectReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{} {namespace}/{}", self.kind, self.name),
            None => write!(formatter, "{} {}", self.kind, self.name),
        }
    }
}
