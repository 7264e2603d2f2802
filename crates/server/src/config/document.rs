//! What a configuration file can contain.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::span::Span;
use crate::model::Strategy;

/// One file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Document {
    pub(super) repositories: BTreeMap<String, Spanned<RepositoryEntry>>,
    pub(super) defaults: Option<Spanned<LayerEntry>>,
    pub(super) layers: BTreeMap<String, Spanned<LayerEntry>>,
    pub(super) windows: Vec<Spanned<WindowEntry>>,
    pub(super) notifications: Vec<Spanned<NotificationEntry>>,
}

/// A repository.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RepositoryEntry {
    /// An https, ssh or file address.
    pub url: Spanned<String>,
    /// How the server reads it.
    pub credentials: Option<Spanned<CredentialsEntry>>,
    /// The time between two polls.
    pub poll: Option<Span>,
    /// How the git host tells the server about commits.
    pub webhook: Option<WebhookEntry>,
    /// The most attempts of its layers at the same time.
    pub concurrency: Option<u32>,
}

/// Credentials of a repository: a token, a user with a password, or an SSH key.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CredentialsEntry {
    /// The file with a token.
    pub token_file: Option<PathBuf>,
    /// The variable with a token.
    pub token_env: Option<String>,
    /// The user, with `password-file`.
    pub username: Option<String>,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
    /// The file with an SSH key, with `known-hosts`.
    pub ssh_key_file: Option<PathBuf>,
    /// The file with the host keys.
    pub known_hosts: Option<PathBuf>,
}

/// How a git host signs its webhooks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WebhookEntry {
    /// Whose format they have.
    pub provider: WebhookProvider,
    /// The file with the shared secret.
    pub secret_file: PathBuf,
}

/// The format of webhooks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
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
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LayerEntry {
    /// The module's path in the repository.
    pub path: Option<Spanned<String>>,
    /// Globs; each directory that matches and has a module is a layer.
    pub paths: Vec<Spanned<String>>,
    /// The earlier name, whose history is taken over.
    pub formerly: Option<Spanned<String>>,
    /// The name of the repository.
    pub repository: Option<Spanned<String>>,
    /// The branch or tag.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The version of Terraform, OpenTofu or Terragrunt.
    pub tool: Option<Spanned<String>>,
    /// What happens to plans.
    pub strategy: Option<Strategy>,
    /// Variables of the module.
    pub variables: BTreeMap<String, Value>,
    /// Sensitive variables of the module.
    pub secrets: BTreeMap<String, Spanned<SecretSource>>,
    /// Environment variables of attempts.
    pub env: BTreeMap<String, EnvironmentValue>,
    /// The state backend.
    pub backend: Option<BackendEntry>,
    /// The workspace.
    pub workspace: Option<String>,
    /// Further files that the layer depends on.
    pub triggers: Vec<Spanned<String>>,
    /// The layers that must be applied first.
    pub after: Vec<Spanned<String>>,
    /// Checks for drift.
    pub drift: Option<DriftEntry>,
    /// The most deletions and replacements of a plan that needs no approval.
    pub destroy_limit: Option<u64>,
    /// How often failures are retried.
    pub retries: Option<RetriesEntry>,
    /// The limits of attempts.
    pub timeout: Option<TimeoutEntry>,
    /// How much history is kept.
    pub history: Option<HistoryEntry>,
    /// How long a plan may wait.
    pub plan_lifetime: Option<Span>,
}

/// Where a secret is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum SecretSource {
    /// In this file, which is read for each attempt.
    File(PathBuf),
    /// In this variable of the server.
    Env(String),
}

/// The value of an environment variable.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(untagged)]
pub enum EnvironmentValue {
    /// This text.
    Text(String),
    /// A secret.
    Secret(SecretSource),
}

/// A state backend.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BackendEntry {
    /// The type, for example `s3`.
    #[serde(rename = "type")]
    pub kind: Spanned<String>,
    /// Its settings.
    #[serde(default)]
    pub config: BTreeMap<String, Value>,
}

/// Checks for drift.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DriftEntry {
    /// The time between two checks.
    pub every: Option<Span>,
    /// Whether drift is planned.
    pub repair: Option<bool>,
    /// Addresses and attributes that do not count.
    pub ignore: Vec<String>,
}

/// How often failures are retried.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetriesEntry {
    /// The most attempts for one digest and action.
    pub max: u32,
}

/// The limits of attempts.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutEntry {
    /// For plans and checks for drift.
    pub plan: Option<Span>,
    /// For applies and destroys.
    pub apply: Option<Span>,
}

/// How much history is kept, for each action.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryEntry {
    /// Runs.
    pub runs: Option<u32>,
    /// Days.
    pub days: Option<u32>,
}

/// A time in which actions are forbidden.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowEntry {
    /// The actions.
    pub deny: Vec<String>,
    /// The layers: names with `*`.
    pub layers: Vec<String>,
    /// When it begins: a cron expression.
    pub schedule: Spanned<String>,
    /// How long it takes.
    #[serde(rename = "for")]
    pub duration: Span,
    /// The time zone of the schedule.
    pub timezone: Option<Spanned<String>>,
}

/// A receiver of notifications.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NotificationEntry {
    /// The file with the address, which is a secret.
    pub url_file: PathBuf,
    /// The format of the messages.
    pub format: NotificationFormat,
    /// What is sent.
    pub on: Vec<NotificationEvent>,
    /// The file with the key that signs generic messages.
    pub key_file: Option<PathBuf>,
}

/// The format of notifications.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
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
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum NotificationEvent {
    /// A run failed.
    Failed,
    /// A plan waits for approval.
    Waiting,
    /// Drift was found.
    Drift,
    /// Drift is gone.
    Resolved,
}
