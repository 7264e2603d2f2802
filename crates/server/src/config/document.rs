//! What a configuration file can contain.
//!
//! The comments on fields are their descriptions in the JSON Schema, and in `docs/server-
//! configuration.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use butler_base::yaml::given;
use butler_follower::config::{SecretReference, TokenSource};
use butler_protocol::backend::DriftComparison;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::name::generated_name;
use super::schema::{
    Address, CronExpression, EnvironmentName, Glob, LayerName, LayerPattern, TimeZone, ToolVersion,
    VariableName,
};
use super::size::Size;
use super::sources::{
    Checkout, CredentialsEntry, IncludeEntry, ModuleCredentialsEntry, SubmoduleChoice,
};
use super::span::Span;
use crate::model::Strategy;

/// The JSON Schema (draft 2020-12) of a configuration file.
#[must_use]
pub fn schema() -> Schema {
    let mut schema =
        SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Document>();
    schema.insert("title".to_owned(), "Configuration of butler-runner serve".into());
    schema
}

/// The configuration of `butler-runner serve`: one file, or one of several.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Document {
    /// The repositories by name.
    #[schemars(with = "BTreeMap<LayerName, RepositoryEntry>")]
    pub(super) repositories: BTreeMap<String, Spanned<RepositoryEntry>>,
    /// What layers say unless they say otherwise. `path`, `paths`, `after` and `formerly` cannot be
    /// defaults.
    #[schemars(with = "Option<LayerEntry>")]
    pub(super) defaults: Option<Spanned<LayerEntry>>,
    /// The layers and layer sets by name.
    #[schemars(with = "BTreeMap<LayerName, LayerEntry>")]
    pub(super) layers: BTreeMap<String, Spanned<LayerEntry>>,
    /// Times in which actions are forbidden. A window of an include is about the layers of that include only.
    #[schemars(with = "Vec<WindowEntry>")]
    pub(super) windows: Vec<Spanned<WindowEntry>>,
    /// Receivers of notifications.
    #[schemars(with = "Vec<NotificationEntry>")]
    pub(super) notifications: Vec<Spanned<NotificationEntry>>,
    /// Further configuration in repositories, which others than the administrator of the server can write.
    #[schemars(with = "Vec<IncludeEntry>")]
    pub(super) include: Vec<Spanned<IncludeEntry>>,
}

/// A repository.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RepositoryEntry {
    /// The address: `https://`, `http://`, `ssh://` or `file://`.
    #[schemars(with = "Address")]
    pub url: Spanned<String>,
    /// How the server reads the repository. Files are read at each poll.
    #[serde(default)]
    #[schemars(with = "Option<CredentialsEntry>")]
    pub credentials: Option<Spanned<CredentialsEntry>>,
    /// The time between two polls, at least 1s; by default 1m. One poll is one listing of the
    /// repository's references.
    pub poll: Option<Span>,
    /// Which submodules the server fetches: `needed`, those that a layer reaches; `all`, and a submodule that cannot be
    /// fetched then stops all layers of the repository; or `none`. By default `needed`.
    pub submodules: Option<SubmoduleChoice>,
    /// How the git host tells the server about commits; by default, the server only polls.
    pub webhook: Option<WebhookEntry>,
    /// The most attempts of its layers at the same time, at least 1; without it, only `--concurrency`
    /// limits them. Checks for drift use at most half of them, but at least one.
    pub concurrency: Option<u32>,
}

/// How a git host signs its webhooks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WebhookEntry {
    /// Whose format the webhooks have: `github`, `gitlab`, `bitbucket`, `gitea` or `generic`.
    pub provider: WebhookProvider,
    /// An absolute path: the file with the shared secret, which is read at each delivery.
    #[serde(default, deserialize_with = "given")]
    pub secret_file: Option<PathBuf>,
    /// The key of a Kubernetes Secret with the shared secret, instead of a file; only in custom resources.
    pub secret: Option<SecretReference>,
}

impl WebhookEntry {
    /// Where the shared secret is; `None` if that is not said, or said twice.
    #[must_use]
    pub fn source(&self) -> Option<SecretSource> {
        match (&self.secret_file, &self.secret) {
            (Some(path), None) => Some(SecretSource::File(path.clone())),
            (None, Some(key)) => Some(SecretSource::Secret(key.clone())),
            (Some(_), Some(_)) | (None, None) => None,
        }
    }
}

/// The format of webhooks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum WebhookProvider {
    /// GitHub.
    Github,
    /// GitLab.
    Gitlab,
    /// Bitbucket.
    Bitbucket,
    /// Gitea and Forgejo.
    Gitea,
    /// Any other sender.
    Generic,
}

/// A layer, a set of layers, or the defaults of all layers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LayerEntry {
    /// The name of the repository.
    #[schemars(with = "Option<String>")]
    #[serde(default, deserialize_with = "given")]
    pub repository: Option<Spanned<String>>,
    /// The branch, tag or commit; without it, the default branch.
    #[serde(rename = "ref", default, deserialize_with = "given")]
    pub reference: Option<String>,
    /// The directory of the module in the repository.
    #[schemars(with = "Option<String>")]
    #[serde(default, deserialize_with = "given")]
    pub path: Option<Spanned<String>>,
    /// Globs: each directory that matches one and contains a module is a layer.
    #[schemars(with = "Vec<Glob>")]
    pub paths: Vec<Spanned<String>>,
    /// The most layers of a layer set; by default 1,000. If more directories match, the set has no
    /// layers, and `layer list` says so.
    #[schemars(range(min = 1))]
    pub max_layers: Option<u32>,
    /// The version of Terraform, OpenTofu or Terragrunt: `1.11.4`, `opentofu-1.8.3`, `tofu@1.8`,
    /// `~> 1.9`. Without it, the module's own files and constraints decide.
    #[schemars(with = "Option<ToolVersion>")]
    #[serde(default, deserialize_with = "given")]
    pub tool: Option<Spanned<String>>,
    /// What happens to a plan that has changes: `plan-only`, it is never applied; `approve`, the default, it
    /// is applied after an approval; `auto`, it is applied at once. Layers of Terragrunt
    /// are always `plan-only`: their plans cannot be saved.
    pub strategy: Option<Strategy>,
    /// Globs of further files that the layer depends on.
    #[schemars(with = "Vec<Glob>")]
    pub triggers: Vec<Spanned<String>>,
    /// Which files of the commit an attempt gets: `needed`, what the layer depends on; or `full`, all
    /// files. Layers of Terragrunt always get all files. By default `needed`.
    pub checkout: Option<Checkout>,
    /// Credentials for private modules in git that `init` downloads; by default none.
    #[schemars(with = "Option<ModuleCredentialsEntry>")]
    pub module_credentials: Option<Spanned<ModuleCredentialsEntry>>,
    /// Layers or layer sets that must be applied first, at the same commit. An apply of one that changed
    /// something plans this layer again.
    #[schemars(with = "Vec<String>")]
    pub after: Vec<Spanned<String>>,
    /// Variables of the module. Values can be of any type.
    #[schemars(with = "BTreeMap<VariableName, Value>")]
    pub variables: BTreeMap<String, Value>,
    /// Sensitive variables of the module: `{file: PATH}` or `{env: NAME}`. They are read at each
    /// attempt, and never stored.
    #[schemars(with = "BTreeMap<VariableName, SecretSource>")]
    pub secrets: BTreeMap<String, Spanned<SecretSource>>,
    /// Environment variables of attempts: texts, or secrets as in `secrets`.
    #[schemars(with = "BTreeMap<EnvironmentName, EnvironmentValue>")]
    pub env: BTreeMap<String, EnvironmentValue>,
    /// Environment variables of the server that attempts get too, if they are set. They are read at
    /// each attempt. `env` overrides them.
    #[schemars(with = "Vec<EnvironmentName>")]
    pub pass_env: Vec<Spanned<String>>,
    /// Names of environment variables with credentials of providers, beside those that the server knows. A plan
    /// stays valid when their values change.
    #[schemars(with = "Vec<EnvironmentName>")]
    pub credential_env: Vec<Spanned<String>>,
    /// The state backend.
    pub backend: Option<BackendEntry>,
    /// The workspace. It is created if it does not exist.
    #[serde(default, deserialize_with = "given")]
    pub workspace: Option<String>,
    /// Checks for drift of an applied layer.
    pub drift: Option<DriftEntry>,
    /// The most resources that a plan deletes, replaces or forgets if it needs no approval (`auto`); by default any number.
    /// With a limit, a plan that executes `action` blocks needs an approval.
    pub destroy_limit: Option<u64>,
    /// How often failures are retried.
    pub retries: Option<RetriesEntry>,
    /// How long attempts may take. An attempt that takes longer is stopped.
    pub timeout: Option<TimeoutEntry>,
    /// How much history is kept.
    pub history: Option<HistoryEntry>,
    /// The most that an attempt may log; by default 64 MiB. What follows is only counted.
    #[schemars(with = "Option<Size>")]
    pub max_log: Option<Spanned<Size>>,
    /// Paths outside of its own directory that an attempt can use.
    pub isolation: Option<IsolationEntry>,
    /// The pods of its attempts, if they are Jobs of a Kubernetes cluster.
    pub job: Option<JobEntry>,
    /// A program with arguments that checks each plan of the layer: its absolute path and words separated by
    /// spaces, as in `--after-plan`.
    #[schemars(with = "Option<String>")]
    #[serde(default, deserialize_with = "given")]
    pub after_plan: Option<Spanned<String>>,
    /// How long a plan may wait for its apply; by default 7d. Then the layer is planned again.
    pub plan_lifetime: Option<Span>,
    /// The earlier name of the layer, whose history and state in the data directory it takes over.
    #[schemars(with = "Option<LayerName>")]
    #[serde(default, deserialize_with = "given")]
    pub formerly: Option<Spanned<String>>,
}

impl LayerEntry {
    /// Whether the layer is planned through Terragrunt.
    #[must_use]
    pub fn is_terragrunt(&self) -> bool {
        self.tool.as_ref().is_some_and(|tool| tool.value.starts_with("terragrunt"))
    }
}

/// Where a secret is: in a file, in a variable of the server, or in a Secret of the cluster. Its value is read at each attempt,
/// without the line end
/// of the file, and never stored.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum SecretSource {
    /// An absolute path: the file with the secret, at most 1 MiB.
    File(PathBuf),
    /// The variable of the server with the secret.
    Env(String),
    /// The key of a Kubernetes Secret; only in custom resources.
    Secret(SecretReference),
}

impl From<&TokenSource> for SecretSource {
    fn from(token: &TokenSource) -> Self {
        match token {
            TokenSource::File(path) => Self::File(path.clone()),
            TokenSource::Variable(name) => Self::Env(name.clone()),
            TokenSource::Secret(secret) => Self::Secret(secret.clone()),
        }
    }
}

impl SecretSource {
    /// The secret that a value in `backend.config` is: `{file: …}`, `{env: …}` or `{secret: …}`.
    pub(crate) fn in_backend(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }
}

/// The value of an environment variable: a text or a secret.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
pub enum EnvironmentValue {
    /// This text.
    Text(String),
    /// A secret.
    Secret(SecretSource),
}

/// A state backend.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BackendEntry {
    /// The type, for example `s3`. `local` without a path keeps the state in the data directory.
    #[serde(rename = "type")]
    #[schemars(with = "String", length(min = 1))]
    pub kind: Spanned<String>,
    /// The settings of the backend. Values can be secrets as in `secrets`.
    #[serde(default)]
    pub config: BTreeMap<String, Value>,
}

/// Checks for drift.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DriftEntry {
    /// The time between two checks, at least 1m; by default 4h.
    pub every: Option<Span>,
    /// Whether drift is repaired: the layer is planned when drift was found, and the plan is applied as the
    /// strategy says.
    pub repair: Option<bool>,
    /// The comparison of a check with the state: `state` compares the infrastructure, `code` makes a normal plan of the
    /// applied revision; by default `state`.
    pub compare: Option<DriftComparison>,
    /// Addresses of modules, resources and attributes that do not count as drift: `module.web`,
    /// `aws_instance.web`, `aws_instance.web.tags`. `[*]` means all instances: `aws_instance.web[*].tags`.
    pub ignore: Vec<String>,
}

/// How often failures are retried.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RetriesEntry {
    /// The most attempts for one digest and action, at most 100; by default 5.
    #[schemars(range(max = 100))]
    pub max: u32,
}

/// The limits of attempts.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutEntry {
    /// For plans and checks for drift; by default 1h.
    pub plan: Option<Span>,
    /// For applies and destroys; by default 4h.
    pub apply: Option<Span>,
}

/// How much history is kept, for each action.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryEntry {
    /// The most runs of each action; by default 10.
    pub runs: Option<u32>,
    /// The most days; by default 90.
    pub days: Option<u32>,
}

/// Paths that an isolated attempt can use, in addition to those of `--isolation-read` and
/// `--isolation-write`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct IsolationEntry {
    /// Absolute paths that the programs of an attempt can read. They must exist, and must not lead to
    /// the data directory.
    #[schemars(with = "Vec<PathBuf>")]
    pub read: Vec<Spanned<PathBuf>>,
    /// Absolute paths that the programs of an attempt can read and write. They must exist, and must
    /// not lead to the data directory.
    #[schemars(with = "Vec<PathBuf>")]
    pub write: Vec<Spanned<PathBuf>>,
}

/// The pods of a layer's attempts. Without `--executor kubernetes` it has no effect.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobEntry {
    /// The CPU that a pod requests; by default 500m.
    #[schemars(with = "Option<String>")]
    #[serde(default, deserialize_with = "given")]
    pub cpu: Option<Spanned<String>>,
    /// The memory that a pod requests, which is its limit too; by default 2Gi.
    #[schemars(with = "Option<String>")]
    #[serde(default, deserialize_with = "given")]
    pub memory: Option<Spanned<String>>,
    /// Labels of the nodes on which pods may run.
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that pods tolerate: `KEY[=VALUE][:EFFECT]`.
    #[schemars(with = "Vec<String>")]
    pub tolerations: Vec<Spanned<String>>,
    /// The service account of the pods, which clouds can trust; by default that of the namespace. Pods get no
    /// token for the cluster itself.
    #[schemars(with = "Option<String>")]
    #[serde(default, deserialize_with = "given")]
    pub service_account: Option<Spanned<String>>,
    /// Secrets whose keys become variables of the attempt, such as credentials of a cloud.
    #[schemars(with = "Vec<String>")]
    pub env_from: Vec<Spanned<String>>,
    /// A volume claim for tools and providers, which pods share; by default each pod has a volume of its own.
    #[schemars(with = "Option<String>")]
    #[serde(default, deserialize_with = "given")]
    pub cache_claim: Option<Spanned<String>>,
    /// Ports that pods may connect to, in addition to DNS, 443 and that of the server.
    pub egress_ports: Vec<u16>,
    /// How long a pod may wait for its start: for a node, its image, a quota; by default 10m. Then the attempt has
    /// failed.
    pub start_timeout: Option<Span>,
    /// How long the cluster keeps an ended Job and its log; by default 1h.
    pub keep: Option<Span>,
}

/// A time in which actions are forbidden.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowEntry {
    /// The actions: `plan`, `apply`, `drift`, `destroy`.
    #[schemars(extend("items" = {"enum": super::windows::ACTIONS}))]
    pub deny: Vec<String>,
    /// Names of layers and layer sets, in which `*` matches any text. Each must match a layer or a
    /// layer set.
    #[schemars(with = "Vec<LayerPattern>")]
    pub layers: Vec<String>,
    /// When the window begins: a cron expression of five fields.
    #[schemars(with = "CronExpression")]
    pub schedule: Spanned<String>,
    /// How long the window takes.
    #[serde(rename = "for")]
    pub duration: Span,
    /// The time zone of the schedule, such as `Europe/Berlin`; by default `UTC`.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<TimeZone>")]
    pub timezone: Option<Spanned<String>>,
}

/// A receiver of notifications.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NotificationEntry {
    /// The name of the receiver, for the log, the metrics and the position in the journal; by default made
    /// from the file name of `url-file`. A receiver with another name is a new receiver.
    #[schemars(with = "Option<LayerName>")]
    #[serde(default, deserialize_with = "given")]
    pub name: Option<String>,
    /// An absolute path: the file with the address, which is a secret. It is read at each delivery. The
    /// address begins with `https://`, or with `http://` and a loopback address.
    pub url_file: PathBuf,
    /// The format of the messages: `slack`, `teams` or `generic`.
    pub format: NotificationFormat,
    /// What is sent, at least one of `failed`, `waiting`, `drift`, `resolved`, `applied` and `breaker`.
    #[schemars(length(min = 1))]
    pub on: Vec<NotificationEvent>,
    /// Names of layers and layer sets, in which `*` matches any text; by default all. Each must match a
    /// layer or a layer set. `breaker` is sent for all layers.
    #[serde(default)]
    #[schemars(with = "Vec<LayerPattern>")]
    pub layers: Vec<String>,
    /// An absolute path: the file with the key that signs `generic` messages, which need one. It is read at
    /// each delivery.
    #[serde(default, deserialize_with = "given")]
    pub secret_file: Option<PathBuf>,
}

impl NotificationEntry {
    /// The name of the receiver, if it has a valid one.
    #[must_use]
    pub fn receiver(&self) -> Option<String> {
        let of_file = || generated_name(None, &self.url_file.file_name()?.to_string_lossy()).ok();
        match &self.name {
            Some(name) => Some(name.clone()),
            None => of_file().map(String::from),
        }
    }
}

/// The format of notifications.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum NotificationFormat {
    /// Slack.
    Slack,
    /// Microsoft Teams.
    Teams,
    /// JSON with a signature.
    Generic,
}

/// What a notification is about.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "lowercase")]
pub enum NotificationEvent {
    /// A run failed, and gets no further attempt.
    Failed,
    /// A plan waits for approval.
    Waiting,
    /// New drift was found.
    Drift,
    /// Drift is gone, or a run succeeded after one that had failed.
    Resolved,
    /// An apply or a destroy succeeded.
    Applied,
    /// The breaker opened: automatic applies of all layers are stopped.
    Breaker,
    /// Checks of the module fail that held before.
    Checks,
}

impl NotificationEvent {
    /// The name, as in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Waiting => "waiting",
            Self::Drift => "drift",
            Self::Resolved => "resolved",
            Self::Applied => "applied",
            Self::Breaker => "breaker",
            Self::Checks => "checks",
        }
    }
}
