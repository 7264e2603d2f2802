//! Lets the cluster validate a run's objects without creating them (dry run).
//!
//! A cluster accepts a Job whose pod it would refuse, and a pod whose Secrets are missing. So the pod is
//! validated too, and the objects that it needs are looked up. Without the permission for that, the
//! result lists the skipped checks.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Pod, PodSpec, PodTemplateSpec, Secret,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::Api;
use serde::de::DeserializeOwned;

use crate::JobName;
use crate::apply::{JOBS, POLICIES, post_parameters};
use crate::client::Cluster;
use crate::error::{ClusterError, Request};
use crate::manifest::{Manifests, TOKEN_VOLUME};

/// The checks that are only possible with a started pod.
const NEVER_CHECKED: &str = "whether the image can be pulled, whether a node has room, and whether the network lets the pod reach the registry";

/// Checks all objects. Returns descriptions of the skipped checks.
///
/// # Errors
/// If the cluster refuses an object, or an object that the pod needs does not exist.
pub async fn check(cluster: &Cluster, manifests: &Manifests) -> Result<Vec<String>, ClusterError> {
    let name = manifests.name();
    let dry = post_parameters(true);
    cluster.post(&manifests.job, JOBS, &name, &dry).await?;
    if let Some(policy) = &manifests.policy {
        cluster.post(policy, POLICIES, &name, &dry).await?;
    }
    cluster.create_secret(&manifests.secret, &manifests.token, &name, &dry).await?;
    let mut unchecked = Vec::new();
    let Some(template) = manifests.job.spec.as_ref().map(|spec| &spec.template) else {
        return Ok(unchecked);
    };
    match cluster.post(&pod(template, &name), "pods", &name, &dry).await {
        Ok(_) => {}
        Err(error @ ClusterError::Forbidden { .. }) => unchecked.push(describe_skipped_check(
            "the pod against quotas, limits and the service account",
            &error,
        )),
        Err(error) => return Err(error),
    }
    let mut missing = Vec::new();
    for need in template.spec.as_ref().map(dependencies).unwrap_or_default() {
        match cluster.has_dependency(&need, &name).await {
            Ok(true) => {}
            Ok(false) => missing.push(need.to_string()),
            Err(error @ ClusterError::Forbidden { .. }) => {
                unchecked
                    .push(describe_skipped_check(&format!("whether there is a {need}"), &error));
            }
            Err(error) => return Err(error),
        }
    }
    if !missing.is_empty() {
        let namespace = cluster.namespace.clone();
        return Err(ClusterError::MissingObjects { namespace, what: missing });
    }
    unchecked.push(NEVER_CHECKED.to_owned());
    Ok(unchecked)
}

fn describe_skipped_check(what: &str, error: &ClusterError) -> String {
    match error {
        ClusterError::Forbidden { request: Request { verb, resource }, .. } => {
            format!("{what} (no permission to `{verb}` `{resource}`)")
        }
        other => format!("{what} ({other})"),
    }
}

/// The pod as the Job's controller would create it.
fn pod(template: &PodTemplateSpec, name: &JobName) -> Pod {
    let metadata = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta { generate_name: Some(format!("{name}-")), ..metadata },
        spec: template.spec.clone(),
        status: None,
    }
}

/// An object without which the pod does not start.
#[derive(Debug, Eq, PartialEq)]
enum PodDependency {
    Secret(String),
    ConfigMap(String),
    Claim(String),
}

impl std::fmt::Display for PodDependency {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, name) = match self {
            Self::Secret(name) => ("Secret", name),
            Self::ConfigMap(name) => ("ConfigMap", name),
            Self::Claim(name) => ("PersistentVolumeClaim", name),
        };
        write!(formatter, "{kind} `{name}`")
    }
}

/// The objects that must exist before the pod starts, except the Secret with the token. The kubelet tolerates
/// a missing login for the image's registry, but a user who names one needs it.
fn dependencies(pod: &PodSpec) -> Vec<PodDependency> {
    let logins = pod.image_pull_secrets.iter().flatten();
    let mut dependencies: Vec<_> =
        logins.map(|login| PodDependency::Secret(login.name.clone())).collect();
    let from = pod.containers.iter().flat_map(|container| container.env_from.iter().flatten());
    dependencies.extend(
        from.filter_map(|from| Some(PodDependency::Secret(from.secret_ref.as_ref()?.name.clone()))),
    );
    for volume in pod.volumes.iter().flatten().filter(|volume| volume.name != TOKEN_VOLUME) {
        let secret = volume.secret.as_ref().and_then(|secret| secret.secret_name.clone());
        let config_map = volume.config_map.as_ref().map(|it| it.name.clone());
        let claim = volume.persistent_volume_claim.as_ref().map(|it| it.claim_name.clone());
        dependencies.extend(secret.map(PodDependency::Secret));
        dependencies.extend(config_map.map(PodDependency::ConfigMap));
        dependencies.extend(claim.map(PodDependency::Claim));
    }
    dependencies
}

impl Cluster {
    async fn has_dependency(
        &self,
        need: &PodDependency,
        run: &JobName,
    ) -> Result<bool, ClusterError> {
        match need {
            PodDependency::Secret(name) => self.has_object::<Secret>(name, "secrets", run).await,
            PodDependency::ConfigMap(name) => {
                self.has_object::<ConfigMap>(name, "configmaps", run).await
            }
            PodDependency::Claim(name) => {
                let resource = "persistentvolumeclaims";
                self.has_object::<PersistentVolumeClaim>(name, resource, run).await
            }
        }
    }

    /// Whether the object exists. Requests only its metadata.
    async fn has_object<K>(
        &self,
        name: &str,
        resource: &'static str,
        run: &JobName,
    ) -> Result<bool, ClusterError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let request = Request { verb: "get", resource };
        let found = self.send(request, run, || api.get_metadata_opt(name)).await?;
        Ok(found.is_some())
    }
}
