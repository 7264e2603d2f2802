//! The secrets that the entries of a configuration name.

use std::path::PathBuf;

use butler_follower::config::SecretReference;

use super::document::{
    EnvironmentValue, LayerEntry, NotificationEntry, RepositoryEntry, SecretSource, WebhookEntry,
};
use super::entries::Placed;
use super::error::ConfigError;
use super::sources::{CredentialsEntry, SecretName};

/// A secret that the configuration names.
#[derive(Debug)]
pub(super) struct NamedSecret {
    /// The key that names it, for messages.
    pub(super) key: String,
    /// Where its value is.
    pub(super) source: SecretSource,
    file: PathBuf,
    at: (u64, u64),
}

impl NamedSecret {
    fn new<T>(
        entry: &Placed<T>,
        at: (u64, u64),
        key: impl Into<String>,
        source: SecretSource,
    ) -> Self {
        Self { key: key.into(), source, file: entry.file.clone(), at }
    }

    /// `message` about this secret.
    pub(super) fn error(&self, message: String) -> ConfigError {
        ConfigError { file: self.file.clone(), at: Some(self.at), message }
    }
}

/// The secrets of a repository.
pub(super) fn of_repository(repository: &Placed<RepositoryEntry>) -> Vec<NamedSecret> {
    let entry = &repository.entry;
    let mut found = Vec::new();
    if let Some(spanned) = &entry.credentials {
        let at = (spanned.referenced.line(), spanned.referenced.column());
        found.extend(of_credentials(repository, at, "", &spanned.value));
    }
    let webhook = entry.webhook.as_ref().and_then(WebhookEntry::source);
    found.extend(webhook.map(|source| {
        let key = match &source {
            SecretSource::Secret(_) => "webhook.secret",
            SecretSource::File(_) | SecretSource::Env(_) => "webhook.secret-file",
        };
        NamedSecret::new(repository, repository.at, key, source)
    }));
    found
}

/// The secrets of credentials. `prefix` comes in front of their keys.
fn of_credentials<T>(
    entry: &Placed<T>,
    at: (u64, u64),
    prefix: &str,
    credentials: &CredentialsEntry,
) -> Vec<NamedSecret> {
    let files = [
        ("token-file", &credentials.token_file),
        ("password-file", &credentials.password_file),
        ("ssh-key-file", &credentials.ssh_key_file),
        ("known-hosts", &credentials.known_hosts),
    ];
    let files = files
        .into_iter()
        .filter_map(|(key, path)| Some((key, path.clone().map(SecretSource::File)?)));
    let variable = credentials.token_env.clone().map(|name| ("token-env", SecretSource::Env(name)));
    let secret = credentials.secret.clone().map(|SecretName { name, namespace }| {
        ("secret", SecretSource::Secret(SecretReference { name, namespace, key: String::new() }))
    });
    let named = files.chain(variable).chain(secret);
    named
        .map(|(key, source)| NamedSecret::new(entry, at, format!("{prefix}{key}"), source))
        .collect()
}

/// The secrets of a layer.
pub(super) fn of_layer(layer: &Placed<LayerEntry>) -> Vec<NamedSecret> {
    let entry = &layer.entry;
    let mut found = Vec::new();
    for (name, secret) in &entry.secrets {
        let at = (secret.referenced.line(), secret.referenced.column());
        found.push(NamedSecret::new(layer, at, format!("secrets.{name}"), secret.value.clone()));
    }
    for (name, value) in &entry.env {
        if let EnvironmentValue::Secret(source) = value {
            found.push(NamedSecret::new(layer, layer.at, format!("env.{name}"), source.clone()));
        }
    }
    if let Some(spanned) = &entry.module_credentials {
        let at = (spanned.referenced.line(), spanned.referenced.column());
        let credentials = spanned.value.credentials();
        found.extend(of_credentials(layer, at, "module-credentials.", &credentials));
    }
    if let Some(backend) = &entry.backend {
        let at = (backend.kind.referenced.line(), backend.kind.referenced.column());
        for (name, value) in &backend.config {
            if let Some(source) = SecretSource::in_backend(value) {
                found.push(NamedSecret::new(layer, at, format!("backend.config.{name}"), source));
            }
        }
    }
    found
}

/// The secrets of a receiver of notifications.
pub(super) fn of_notification(notification: &Placed<NotificationEntry>) -> Vec<NamedSecret> {
    let entry = &notification.entry;
    let files = [("url-file", Some(&entry.url_file)), ("secret-file", entry.secret_file.as_ref())];
    let named = files.into_iter().filter_map(|(key, path)| Some((key, path?)));
    let secret = |(key, path): (&str, &PathBuf)| {
        NamedSecret::new(notification, notification.at, key, SecretSource::File(path.clone()))
    };
    named.map(secret).collect()
}

/// The secrets whose files have relative paths.
pub(super) fn relative(secrets: Vec<NamedSecret>) -> impl Iterator<Item = ConfigError> {
    secrets.into_iter().filter_map(|secret| match &secret.source {
        SecretSource::File(path) if path.is_relative() => Some(secret.error(format!(
            "the file `{}` of `{}` must be an absolute path",
            path.display(),
            secret.key
        ))),
        _ => None,
    })
}
