//! What a registry file can contain. Unknown keys are refused.

use std::collections::BTreeMap;
use std::path::PathBuf;

use butler_base::yaml::given;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::check_entry::CheckEntry;
use super::preset::Preset;
use super::span::Span;
use super::stage::{SecretReference, StageKind};

/// The registry file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Document {
    /// The settings of the controller.
    #[serde(default)]
    pub(super) controller: ControllerEntry,
    /// The followers.
    #[serde(default)]
    pub(super) followers: Vec<FollowerEntry>,
}

/// The settings of the controller.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ControllerEntry {
    /// The namespace of objects whose templates have none.
    #[serde(default, deserialize_with = "given")]
    pub(super) namespace: Option<String>,
    /// The time between two looks at a follower that waits for a commit.
    pub(super) poll: Option<Span>,
    /// The time between two looks at a follower that has an object in flight.
    pub(super) watch: Option<Span>,
    /// The budget of followers that do not set one.
    pub(super) budget: Option<Span>,
    /// The wait after failures.
    pub(super) retry: RetryEntry,
}

/// The wait after failures.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RetryEntry {
    /// The wait after the first failure. It doubles with each further failure.
    pub(super) first: Option<Span>,
    /// The longest wait.
    pub(super) longest: Option<Span>,
}

/// A follower.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FollowerEntry {
    /// Its name: 1 to 63 lowercase letters, digits and `-`.
    pub(super) id: String,
    /// The branch that is followed.
    pub(super) source: SourceEntry,
    /// What delivers a commit.
    pub(super) adapter: AdapterEntry,
    /// How long a source change should take.
    pub(super) budget: Option<Span>,
    /// Whether nothing is triggered.
    #[serde(default)]
    pub(super) paused: bool,
    /// References to the configurations that own what is delivered. They are only shown.
    #[serde(default)]
    pub(super) config_refs: Vec<String>,
}

/// The branch that is followed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SourceEntry {
    /// The address of the repository, or its name in the server's configuration.
    pub(super) repository: String,
    /// The branch.
    pub(super) branch: String,
}

/// What delivers a commit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AdapterEntry {
    /// A layer of the server.
    Terraform(TerraformEntry),
    /// A workflow of GitHub Actions.
    GithubActions(GithubActionsEntry),
    /// A pipeline of GitLab CI.
    GitlabCi(GitlabCiEntry),
    /// A job of Jenkins.
    Jenkins(JenkinsEntry),
    /// A chain of native objects.
    Kubernetes(KubernetesEntry),
}

/// A layer of the server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TerraformEntry {
    /// The name of the layer.
    pub(super) layer: String,
    /// The longest time from the start of a run to its end; 30 minutes by default.
    pub(super) timeout: Option<Span>,
}

/// A workflow of GitHub Actions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct GithubActionsEntry {
    /// `OWNER/REPOSITORY`.
    pub(super) repository: String,
    /// The file of the workflow.
    pub(super) workflow: String,
    /// The address of the API; by default that of github.com.
    #[serde(default, deserialize_with = "given")]
    pub(super) url: Option<String>,
    /// An absolute path: the file with a token that may start workflows.
    #[serde(default, deserialize_with = "given")]
    pub(super) token_file: Option<PathBuf>,
    /// The variable of the server with the token, instead of a file.
    #[serde(default, deserialize_with = "given")]
    pub(super) token_env: Option<String>,
    /// The key of a Kubernetes Secret with the token, instead of a file; only in custom resources.
    pub(super) token_secret: Option<SecretReference>,
    /// Further inputs of the workflow.
    #[serde(default)]
    pub(super) inputs: BTreeMap<String, String>,
    /// The longest time from the start of a run to its end; 30 minutes by default.
    pub(super) timeout: Option<Span>,
}

/// A pipeline of GitLab CI.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct GitlabCiEntry {
    /// The path of the project.
    pub(super) project: String,
    /// The address of the server; by default that of gitlab.com.
    #[serde(default, deserialize_with = "given")]
    pub(super) url: Option<String>,
    /// An absolute path: the file with a trigger token, which starts pipelines.
    #[serde(default, deserialize_with = "given")]
    pub(super) token_file: Option<PathBuf>,
    /// The variable of the server with the token, instead of a file.
    #[serde(default, deserialize_with = "given")]
    pub(super) token_env: Option<String>,
    /// The key of a Kubernetes Secret with the token, instead of a file; only in custom resources.
    pub(super) token_secret: Option<SecretReference>,
    /// An absolute path: the file with an access token, which reads pipelines.
    #[serde(default, deserialize_with = "given")]
    pub(super) api_token_file: Option<PathBuf>,
    /// The variable of the server with the access token, instead of a file.
    #[serde(default, deserialize_with = "given")]
    pub(super) api_token_env: Option<String>,
    /// The key of a Kubernetes Secret with the access token, instead of a file; only in custom resources.
    pub(super) api_token_secret: Option<SecretReference>,
    /// Further variables of the pipeline.
    #[serde(default)]
    pub(super) inputs: BTreeMap<String, String>,
    /// The longest time from the start of a run to its end; 30 minutes by default.
    pub(super) timeout: Option<Span>,
}

/// A job of Jenkins.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct JenkinsEntry {
    /// The path of the job, with its folders.
    pub(super) job: String,
    /// The address of the server.
    pub(super) url: String,
    /// The user whose API token it is.
    #[serde(default, deserialize_with = "given")]
    pub(super) user: Option<String>,
    /// An absolute path: the file with the API token.
    #[serde(default, deserialize_with = "given")]
    pub(super) token_file: Option<PathBuf>,
    /// The variable of the server with the token, instead of a file.
    #[serde(default, deserialize_with = "given")]
    pub(super) token_env: Option<String>,
    /// The key of a Kubernetes Secret with the token, instead of a file; only in custom resources.
    pub(super) token_secret: Option<SecretReference>,
    /// Further parameters of the job.
    #[serde(default)]
    pub(super) inputs: BTreeMap<String, String>,
    /// The longest time from the start of a run to its end; 30 minutes by default.
    pub(super) timeout: Option<Span>,
}

/// A chain of native objects.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct KubernetesEntry {
    /// The stages, in their order.
    pub(super) stages: Vec<StageEntry>,
}

/// One stage of a chain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct StageEntry {
    /// Its name, distinct in the chain.
    pub(super) name: String,
    /// The row of the timings; by default the one of the preset.
    pub(super) kind: Option<StageKind>,
    /// Conditions for a well-known kind of object.
    pub(super) preset: Option<Preset>,
    /// The template of the object that the stage creates.
    pub(super) create: Option<Value>,
    /// The object of another controller that the stage observes.
    pub(super) observe: Option<ObserveEntry>,
    /// The stage is complete if all of these checks hold; by default those of the preset.
    pub(super) succeeded: Option<Vec<CheckEntry>>,
    /// The stage failed if all of these checks hold; by default those of the preset.
    pub(super) failed: Option<Vec<CheckEntry>>,
    /// JSON paths at which the source commit must be.
    #[serde(default)]
    pub(super) source_commit: Vec<String>,
    /// JSON paths whose values show that earlier results were reused.
    pub(super) reuse: Option<Vec<String>>,
    /// The longest time from the start to the end; 30 minutes by default.
    pub(super) timeout: Option<Span>,
    /// Whether a commit is delivered only if this stage is complete; by default `true`.
    pub(super) required: Option<bool>,
}

/// An object of another controller.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ObserveEntry {
    /// The group and version, such as `apps/v1`.
    pub(super) api_version: String,
    /// The kind, such as `Deployment`.
    pub(super) kind: String,
    /// The namespace; by default that of the controller.
    #[serde(default, deserialize_with = "given")]
    pub(super) namespace: Option<String>,
    /// The name.
    pub(super) name: String,
}
