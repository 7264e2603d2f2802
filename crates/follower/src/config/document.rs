//! What a registry file can contain. Unknown keys are refused.

use serde::Deserialize;
use serde_json::Value;

use super::check_entry::CheckEntry;
use super::preset::Preset;
use super::span::Span;
use super::stage::StageKind;

/// The registry file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Document {
    #[serde(default)]
    pub(super) controller: ControllerEntry,
    #[serde(default)]
    pub(super) followers: Vec<FollowerEntry>,
}

/// The settings of the controller.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ControllerEntry {
    /// The namespace of objects whose templates have none.
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
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RetryEntry {
    /// The wait after the first failure. It doubles with each further failure.
    pub(super) first: Option<Span>,
    /// The longest wait.
    pub(super) longest: Option<Span>,
}

/// A follower.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FollowerEntry {
    pub(super) id: String,
    pub(super) source: SourceEntry,
    pub(super) adapter: AdapterEntry,
    /// How long a source change should take.
    pub(super) budget: Option<Span>,
    #[serde(default)]
    pub(super) paused: bool,
    /// References to the configurations that own what is delivered. They are only shown.
    #[serde(default)]
    pub(super) config_refs: Vec<String>,
}

/// The branch that is followed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SourceEntry {
    /// The address of the repository, or its name in the server's configuration.
    pub(super) repository: String,
    pub(super) branch: String,
}

/// What delivers a commit.
#[derive(Debug, Deserialize)]
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
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TerraformEntry {
    pub(super) layer: String,
    pub(super) timeout: Option<Span>,
}

/// A workflow of GitHub Actions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct GithubActionsEntry {
    /// `OWNER/REPOSITORY`.
    pub(super) repository: String,
    pub(super) workflow: String,
    pub(super) timeout: Option<Span>,
}

/// A pipeline of GitLab CI.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct GitlabCiEntry {
    pub(super) project: String,
    pub(super) timeout: Option<Span>,
}

/// A job of Jenkins.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct JenkinsEntry {
    pub(super) job: String,
    pub(super) timeout: Option<Span>,
}

/// A chain of native objects.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct KubernetesEntry {
    pub(super) stages: Vec<StageEntry>,
}

/// One stage of a chain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct StageEntry {
    pub(super) name: String,
    /// The row of the timings; by default the one of the preset.
    pub(super) kind: Option<StageKind>,
    /// Conditions for a well-known kind of object.
    pub(super) preset: Option<Preset>,
    /// The template of the object that the stage creates.
    pub(super) create: Option<Value>,
    /// The object of another controller that the stage observes.
    pub(super) observe: Option<ObserveEntry>,
    pub(super) succeeded: Option<Vec<CheckEntry>>,
    pub(super) failed: Option<Vec<CheckEntry>>,
    #[serde(default)]
    pub(super) source_commit: Vec<String>,
    pub(super) reuse: Option<Vec<String>>,
    pub(super) timeout: Option<Span>,
    /// Whether a commit is delivered only if this stage is complete; by default `true`.
    pub(super) required: Option<bool>,
}

/// An object of another controller.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ObserveEntry {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}
