//! The stages of a chain, checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::commit::Commit;
use crate::condition::Closeout;
use crate::object::{ObjectReference, Purpose, Template};

/// The row of the timings that a stage belongs to.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum StageKind {
    /// Synchronization, snapshot or flush of a git mirror.
    GitMirror,
    /// A Kubernetes Job, or a run of a layer.
    Job,
    /// A Tekton `PipelineRun`, or a pipeline of a CI system.
    PipelineRun,
    /// A Tekton `TaskRun`.
    TaskRun,
    /// An Argo CD Application.
    Argo,
    /// A workload: a Deployment or a `StatefulSet`.
    Runtime,
}

impl StageKind {
    /// All kinds, in the order of the timings.
    pub const ALL: [Self; 6] =
        [Self::GitMirror, Self::Job, Self::PipelineRun, Self::TaskRun, Self::Argo, Self::Runtime];

    /// The name, as in tables and registry files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GitMirror => "git-mirror",
            Self::Job => "job",
            Self::PipelineRun => "pipeline-run",
            Self::TaskRun => "task-run",
            Self::Argo => "argo",
            Self::Runtime => "runtime",
        }
    }
}

/// One stage of a follower.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Its name, distinct in the chain.
    pub name: String,
    /// Its row in the timings.
    pub kind: StageKind,
    /// What it does.
    pub work: StageWork,
    /// How its object is read.
    pub closeout: Closeout,
    /// The longest time from its start to its end.
    pub timeout: Duration,
    /// Whether a commit is delivered only if this stage is complete.
    pub is_required: bool,
}

/// What a stage does.
#[derive(Clone, Debug, PartialEq)]
pub enum StageWork {
    /// It creates an object.
    Create(Template),
    /// It observes an object that another controller owns.
    Observe(ObjectReference),
    /// It starts a run of a layer or of a CI system.
    Run(ExternalRun),
}

/// A run that is not an object of the cluster. The caller describes it as
/// `{"spec": {"commit": …}, "status": {"phase": "running" | "succeeded" | "failed"}}`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ExternalRun {
    /// A run of a layer.
    Terraform {
        /// The layer's name.
        layer: String,
    },
    /// A run of a CI system.
    Ci(Box<CiJob>),
}

/// A workflow, project or job of a CI system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CiJob {
    /// Which one.
    pub place: CiPlace,
    /// The address of the CI system; `None` for its public one.
    pub url: Option<String>,
    /// The user whose token it is.
    pub user: Option<String>,
    /// Where the token is that starts runs.
    pub token: TokenSource,
    /// Where the token is that reads runs, if it is another one.
    pub api_token: Option<TokenSource>,
    /// Further inputs by name.
    pub inputs: BTreeMap<String, String>,
}

/// Which workflow, project or job starts runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CiPlace {
    /// A workflow of GitHub Actions.
    GithubActions {
        /// `OWNER/REPOSITORY`.
        repository: String,
        /// The workflow's file.
        workflow: String,
    },
    /// A project of GitLab.
    GitlabCi {
        /// The project's path.
        project: String,
    },
    /// A job of Jenkins.
    Jenkins {
        /// The job's path.
        job: String,
    },
}

/// Where a token is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TokenSource {
    /// In a file.
    File(PathBuf),
    /// In a variable of the server.
    Variable(String),
    /// In a Secret of the cluster.
    Secret(SecretReference),
}

/// A key of a Secret of the cluster.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SecretReference {
    /// The namespace, which the server sets.
    #[serde(default)]
    #[schemars(skip)]
    pub namespace: String,
    /// The name of the Secret.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The key.
    #[schemars(length(min = 1))]
    pub key: String,
}

impl Stage {
    /// Whether the stage starts its work itself.
    #[must_use]
    pub const fn creates(&self) -> bool {
        matches!(self.work, StageWork::Create(_) | StageWork::Run(_))
    }

    /// Whether a layer of the server does the work of the stage.
    #[must_use]
    pub const fn is_layer(&self) -> bool {
        matches!(self.work, StageWork::Run(ExternalRun::Terraform { .. }))
    }

    /// The object of the stage for `purpose`. An observed object is the same for each commit.
    #[must_use]
    pub fn object(&self, purpose: &Purpose<'_>) -> ObjectReference {
        match &self.work {
            StageWork::Create(template) => template.reference(purpose),
            StageWork::Observe(object) => object.clone(),
            StageWork::Run(_) => ObjectReference::run(purpose.object_name()),
        }
    }
}

impl ExternalRun {
    /// The description of the run to start. Its name is the idempotency key.
    #[must_use]
    pub fn describe(&self, name: &str, commit: &Commit) -> Value {
        let spec = match self {
            Self::Terraform { layer } => json!({"adapter": "terraform", "layer": layer}),
            Self::Ci(job) => match &job.place {
                CiPlace::GithubActions { repository, workflow } => {
                    json!({"adapter": "github-actions", "repository": repository, "workflow": workflow})
                }
                CiPlace::GitlabCi { project } => {
                    json!({"adapter": "gitlab-ci", "project": project})
                }
                CiPlace::Jenkins { job } => json!({"adapter": "jenkins", "job": job}),
            },
        };
        let mut run = json!({"metadata": {"name": name}, "spec": spec});
        run["spec"]["commit"] = commit.as_str().into();
        run
    }
}
