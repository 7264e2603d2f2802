//! What followers of resources may be, and the names that resources use.

use butler_cluster::{ResourceKey, ResourceKind};
use butler_follower::config::{CiJob, Controller, ExternalRun, Follower, StageWork};
use serde_json::{Value, json};

use crate::config::{Config, SecretSource, Trust};

/// What stages can create. The server may do more in the cluster than people who write resources.
const CREATED: [(&str, &str); 3] =
    [("batch/v1", "Job"), ("tekton.dev/v1", "PipelineRun"), ("tekton.dev/v1", "TaskRun")];

/// What stages can observe in addition. A record keeps values of observed objects, so none is a Secret.
const OBSERVED: [(&str, &str); 4] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("argoproj.io/v1alpha1", "Application"),
    ("v1", "ConfigMap"),
];

/// The entry with full names: what resources name is in their own namespace.
pub(super) fn with_own_names(key: &ResourceKey, mut entry: Value) -> Value {
    let full = |name: &mut Value| {
        if let Some(given) = name.as_str() {
            *name = json!(format!("{}.{given}", key.namespace));
        }
    };
    // Secrets of other namespaces cannot be named.
    let own_secret = |secret: &mut Value| {
        if secret.is_object() {
            secret["namespace"] = json!(key.namespace);
        }
    };
    match key.kind {
        ResourceKind::Repository => {
            for pointer in ["/credentials/secret", "/webhook/secret"] {
                entry.pointer_mut(pointer).into_iter().for_each(own_secret);
            }
        }
        ResourceKind::Layer => {
            entry.pointer_mut("/module-credentials/secret").into_iter().for_each(own_secret);
            for pointer in ["/secrets", "/env", "/backend/config"] {
                let values = entry.pointer_mut(pointer).and_then(Value::as_object_mut);
                for (_, value) in values.into_iter().flatten() {
                    value.get_mut("secret").into_iter().for_each(own_secret);
                }
            }
            entry.get_mut("repository").into_iter().for_each(full);
            let after = entry.get_mut("after").and_then(Value::as_array_mut);
            after.into_iter().flatten().for_each(full);
        }
        ResourceKind::Follower => {
            for pointer in ["/source/repository", "/adapter/terraform/layer"] {
                entry.pointer_mut(pointer).into_iter().for_each(full);
            }
            for adapter in ["github-actions", "gitlab-ci", "jenkins"] {
                for field in ["token-secret", "api-token-secret"] {
                    let pointer = format!("/adapter/{adapter}/{field}");
                    entry.pointer_mut(&pointer).into_iter().for_each(own_secret);
                }
            }
            entry["id"] = json!(key.full_name());
        }
    }
    entry
}

/// The follower of an entry in a namespace, whose repositories and layers `config` has.
///
/// # Errors
/// What is wrong, or is not allowed to people who can write resources.
pub(super) fn follower(
    namespace: &str,
    entry: &Value,
    config: &Config,
    trust: &Trust,
) -> Result<Follower, String> {
    let controller = Controller { namespace: namespace.to_owned(), ..Controller::default() };
    let follower = Follower::of_resource(entry, &controller).map_err(|errors| {
        errors
            .iter()
            .map(butler_follower::config::ConfigError::within_follower)
            .collect::<Vec<_>>()
            .join("; ")
    })?;
    let repository = &follower.source.repository;
    if !config.repositories.contains_key(repository) {
        let name = within(namespace, repository);
        return Err(format!("the namespace has no `Repository` `{name}` that the server uses"));
    }
    for stage in &follower.stages {
        let object = match &stage.work {
            StageWork::Create(template) => template.kind_of_object(),
            StageWork::Observe(object) => object.clone(),
            StageWork::Run(ExternalRun::Terraform { layer }) => {
                if !config.layers.contains_key(layer) {
                    let name = within(namespace, layer);
                    return Err(format!(
                        "the namespace has no `Layer` `{name}` that the server uses"
                    ));
                }
                continue;
            }
            StageWork::Run(ExternalRun::Ci(job)) => {
                ci_problem(job, trust).map_or(Ok(()), Err)?;
                continue;
            }
        };
        let kind = (object.api_version.as_str(), object.kind.as_str());
        let allowed: &[(&str, &str)] = if stage.creates() { &CREATED } else { &OBSERVED };
        let is_allowed = allowed.contains(&kind) || (!stage.creates() && CREATED.contains(&kind));
        if !is_allowed {
            let names = allowed.iter().map(|(_, kind)| format!("`{kind}`"));
            return Err(format!(
                "stage `{}`: a follower of a custom resource cannot use `{}` of `{}`; it can use {}",
                stage.name,
                object.kind,
                object.api_version,
                names.collect::<Vec<_>>().join(", ")
            ));
        }
        if object.namespace.as_deref() != Some(namespace) {
            return Err(format!(
                "stage `{}`: objects must be in the namespace of the follower, `{namespace}`",
                stage.name
            ));
        }
    }
    Ok(follower)
}

/// The name in the namespace.
fn within<'a>(namespace: &str, name: &'a str) -> &'a str {
    name.strip_prefix(namespace).and_then(|name| name.strip_prefix('.')).unwrap_or(name)
}

/// What a CI system must not be.
fn ci_problem(job: &CiJob, trust: &Trust) -> Option<String> {
    let of_url = job.url.as_ref().and_then(|url| trust.limits()?.url_problem(url));
    let tokens = [("token", Some(&job.token)), ("api-token", job.api_token.as_ref())];
    let of_tokens = tokens.into_iter().find_map(|(key, token)| {
        let source = SecretSource::from(token?);
        let form = match &source {
            SecretSource::File(_) => "file",
            SecretSource::Env(_) => "env",
            SecretSource::Secret(_) => "secret",
        };
        trust.secret_problem(&source).map(|problem| format!("`{key}-{form}` {problem}"))
    });
    of_url.or(of_tokens)
}
