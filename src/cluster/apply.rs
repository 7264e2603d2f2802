//! Creates the objects of a run.
//!
//! First the Job, whose name nobody else can have then; it owns what follows and takes it along. The
//! Secret comes last: the pod cannot start without it, so that the policy is there before. What breaks
//! off in between leaves a Job that never starts and that its deadline ends.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::params::Preconditions;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::JobName;
use super::client::Cluster;
use super::error::{ClusterError, Request};
use super::manifest::Manifests;
use super::names::{MANAGED_BY, REQUEST};

/// A Job that is there.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Its name.
    pub name: JobName,
    /// Which one of all that had that name.
    pub(super) uid: String,
    /// How long its pod may take to end.
    pub(super) grace: Duration,
}

/// Creates the objects; all of them, or none that could start.
///
/// # Errors
/// When there is such a Job already, or the cluster does not take one of them.
pub async fn apply(cluster: &Cluster, manifests: Manifests) -> Result<Applied, ClusterError> {
    let name = manifests.name();
    let Manifests { secret, policy, mut job, .. } = manifests;
    let grace = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let grace = grace.and_then(|pod| pod.termination_grace_period_seconds).unwrap_or_default();
    let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
    let mark = format!("{:016x}", fastrand::u64(..));
    mark_as(&mut job.metadata, &mark);
    let job = cluster.create(&job, "jobs.batch", &name, &mark).await?;
    let uid = job.metadata.uid.clone().unwrap_or_default();
    let applied = Applied { name: name.clone(), uid: uid.clone(), grace };
    let owned = async {
        if let Some(mut policy) = policy {
            belong(&mut policy.metadata, &name, &uid, &mark);
            cluster.create(&policy, "networkpolicies.networking.k8s.io", &name, &mark).await?;
        }
        let mut secret = secret;
        belong(&mut secret.metadata, &name, &uid, &mark);
        cluster.create(&secret, "secrets", &name, &mark).await
    };
    if let Err(error) = owned.await {
        if let Err(left) = delete(cluster, &applied).await {
            tracing::warn!(
                "the Job `{name}` stays behind in namespace `{}` and never starts: {}",
                cluster.namespace,
                crate::error::chain(&left)
            );
        }
        return Err(error);
    }
    Ok(applied)
}

/// Has the cluster check the objects without keeping them.
///
/// # Errors
/// As [`apply`] has them.
pub async fn check(cluster: &Cluster, manifests: &Manifests) -> Result<(), ClusterError> {
    let name = manifests.name();
    let dry = PostParams { dry_run: true, field_manager: Some(MANAGED_BY.to_owned()) };
    cluster.post(&manifests.job, "jobs.batch", &name, &dry).await?;
    if let Some(policy) = &manifests.policy {
        cluster.post(policy, "networkpolicies.networking.k8s.io", &name, &dry).await?;
    }
    cluster.post(&manifests.secret, "secrets", &name, &dry).await?;
    Ok(())
}

/// Deletes the Job: its pod gets SIGTERM and its grace, and what it owns goes with it. A Job that is
/// gone already is no error.
pub(super) async fn delete(cluster: &Cluster, applied: &Applied) -> Result<(), ClusterError> {
    let api: Api<k8s_openapi::api::batch::v1::Job> =
        Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let only = Preconditions { uid: Some(applied.uid.clone()), resource_version: None };
    let parameters = DeleteParams::foreground().preconditions(only);
    let request = Request { verb: "delete", resource: "jobs.batch" };
    let name = applied.name.as_str();
    let deleted = cluster.ask(request, &applied.name, || async {
        match api.delete(name, &parameters).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            other => other.map(drop),
        }
    });
    deleted.await
}

impl Cluster {
    /// Creates `object`. Where the answer to the first request was lost, the object with the same
    /// mark is this one.
    async fn create<K>(
        &self,
        object: &K,
        resource: &'static str,
        name: &JobName,
        mark: &str,
    ) -> Result<K, ClusterError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let parameters = PostParams { dry_run: false, field_manager: Some(MANAGED_BY.to_owned()) };
        let created = self.post(object, resource, name, &parameters).await;
        let Err(ClusterError::Exists { .. }) = created else { return created };
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let is_ours = |found: &K| found.annotations().get(REQUEST).is_some_and(|it| it == mark);
        match api.get(name.as_str()).await {
            Ok(found) if is_ours(&found) => Ok(found),
            _ => created,
        }
    }

    async fn post<K>(
        &self,
        object: &K,
        resource: &'static str,
        name: &JobName,
        parameters: &PostParams,
    ) -> Result<K, ClusterError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let request = Request { verb: "create", resource };
        self.ask(request, name, || api.create(parameters, object)).await
    }
}

fn mark_as(metadata: &mut ObjectMeta, mark: &str) {
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(REQUEST.to_owned(), mark.to_owned());
}

/// Has the Job own the object.
fn belong(metadata: &mut ObjectMeta, name: &JobName, uid: &str, mark: &str) {
    mark_as(metadata, mark);
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: name.as_str().to_owned(),
        uid: uid.to_owned(),
        controller: None,
        block_owner_deletion: None,
    }]);
}
