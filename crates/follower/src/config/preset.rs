//! Conditions for well-known kinds of objects.
//!
//! | preset | complete | failed |
//! | --- | --- | --- |
//! | `job` | condition `Complete` is `True` | condition `Failed` is `True` |
//! | `pipeline-run`, `task-run` | condition `Succeeded` is `True` | it is `False` |
//! | `argo` | `sync.status` is `Synced`, `health.status` is `Healthy` | `health.status` is `Degraded` |
//! | `deployment` | the newest generation is observed, all replicas are updated and available, and no older pod remains | `Progressing` is `False` for the newest generation |
//! | `stateful-set` | the newest generation is observed, and all replicas are updated and ready | never; its timeout decides |
//! | `git-mirror-flush` | `pendingFlush` is false and `githubInSync` is true | never |
//! | `run` | `phase` is `succeeded` | `phase` is `failed` |
//!
//! `git-mirror-flush` reads `status` of an object, or `data` of a `ConfigMap`, whose values are texts.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::check_entry::CheckEntry;
use super::stage::StageKind;

/// A well-known kind of object.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// A Kubernetes Job.
    Job,
    /// A Tekton `PipelineRun`.
    PipelineRun,
    /// A Tekton `TaskRun`.
    TaskRun,
    /// An Argo CD Application.
    Argo,
    /// A Deployment.
    Deployment,
    /// A `StatefulSet`.
    StatefulSet,
    /// The flush of a git mirror.
    GitMirrorFlush,
    /// A run of a layer or of a CI system.
    #[serde(skip)]
    Run,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 8] = [
        Self::Job,
        Self::PipelineRun,
        Self::TaskRun,
        Self::Argo,
        Self::Deployment,
        Self::StatefulSet,
        Self::GitMirrorFlush,
        Self::Run,
    ];

    /// The row of the timings of such an object.
    #[must_use]
    pub const fn kind(self) -> StageKind {
        match self {
            Self::Job => StageKind::Job,
            Self::PipelineRun | Self::Run => StageKind::PipelineRun,
            Self::TaskRun => StageKind::TaskRun,
            Self::Argo => StageKind::Argo,
            Self::Deployment | Self::StatefulSet => StageKind::Runtime,
            Self::GitMirrorFlush => StageKind::GitMirror,
        }
    }

    /// The checks of a complete stage.
    pub(super) fn succeeded(self) -> Vec<CheckEntry> {
        match self {
            Self::Job => vec![condition("Complete", "True")],
            Self::PipelineRun | Self::TaskRun => vec![condition("Succeeded", "True")],
            Self::Argo => vec![
                equals("$.status.sync.status", "Synced"),
                equals("$.status.health.status", "Healthy"),
            ],
            Self::Deployment => vec![
                generation(),
                replicas("$.status.updatedReplicas", "$.spec.replicas"),
                replicas("$.status.availableReplicas", "$.spec.replicas"),
                // As `kubectl rollout status`: a pod of the old version may still serve requests.
                equals_path("$.status.replicas", "$.spec.replicas"),
            ],
            Self::StatefulSet => vec![
                generation(),
                replicas("$.status.updatedReplicas", "$.spec.replicas"),
                replicas("$.status.readyReplicas", "$.spec.replicas"),
            ],
            Self::GitMirrorFlush => {
                vec![flag("pendingFlush", false), flag("githubInSync", true)]
            }
            Self::Run => vec![equals("$.status.phase", "succeeded")],
        }
    }

    /// The checks of a stage that failed, if the object can say so.
    pub(super) fn failed(self) -> Option<Vec<CheckEntry>> {
        match self {
            Self::Job => Some(vec![condition("Failed", "True")]),
            Self::PipelineRun | Self::TaskRun => Some(vec![condition("Succeeded", "False")]),
            Self::Argo => Some(vec![equals("$.status.health.status", "Degraded")]),
            Self::Deployment => Some(vec![generation(), condition("Progressing", "False")]),
            Self::StatefulSet | Self::GitMirrorFlush => None,
            Self::Run => Some(vec![equals("$.status.phase", "failed")]),
        }
    }

    /// The paths that are shown as evidence.
    pub(super) fn reuse(self) -> Vec<String> {
        match self {
            Self::Argo => vec!["$.status.sync.revision".to_owned()],
            Self::Job
            | Self::PipelineRun
            | Self::TaskRun
            | Self::Deployment
            | Self::StatefulSet
            | Self::GitMirrorFlush
            | Self::Run => Vec::new(),
        }
    }
}

fn equals(path: &str, value: &str) -> CheckEntry {
    CheckEntry { path: path.to_owned(), equals: Some(value.into()), ..CheckEntry::default() }
}

fn condition(kind: &str, status: &str) -> CheckEntry {
    equals(&format!("$.status.conditions[?(@.type=='{kind}')].status"), status)
}

fn equals_path(path: &str, other: &str) -> CheckEntry {
    CheckEntry {
        path: path.to_owned(),
        equals_path: Some(other.to_owned()),
        default: Some(json!(0)),
        ..CheckEntry::default()
    }
}

/// Kubernetes omits numbers of replicas that are zero.
fn replicas(path: &str, wanted: &str) -> CheckEntry {
    CheckEntry {
        path: path.to_owned(),
        at_least_path: Some(wanted.to_owned()),
        default: Some(json!(0)),
        ..CheckEntry::default()
    }
}

/// The controller has seen the newest specification. Without this, the counts are about an older one.
fn generation() -> CheckEntry {
    replicas("$.status.observedGeneration", "$.metadata.generation")
}

fn flag(name: &str, value: bool) -> CheckEntry {
    CheckEntry {
        path: format!("$['status','data']['{name}']"),
        one_of: Some(vec![Value::Bool(value), value.to_string().into()]),
        ..CheckEntry::default()
    }
}
