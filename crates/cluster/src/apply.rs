//! Creates the objects of a run.
//!
//! The Job is created first: its name is the lock against a second start, and the other objects belong
//! to it and are deleted with it. The Secret comes last: the pod cannot start without it, so the
//! network policy exists before. An interruption in between leaves a Job that never starts; its
//! deadline ends it. If a Job of the same name is being deleted, the runner waits; the objects that
//! the old Job owned have other names and do not conflict.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::params::Preconditions;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::JobName;
use crate::client::Cluster;
use crate::error::{ClusterError, Request};
use crate::manifest::Manifests;
use crate::names::{MANAGED_BY, REQUEST};
use butler_base::cancel::Stop;
use butler_base::error::chain;

/// How long the deletion of an earlier Job of the same name may take: its pod has a minute by default, and the
/// cluster removes its objects after that.
const DELETION_LIMIT: Duration = Duration::from_mins(2);
/// The pause between two requests for that Job.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The created resources, as permissions name them.
pub(crate) const JOBS: &str = "jobs.batch";
pub(crate) const POLICIES: &str = "networkpolicies.networking.k8s.io";

/// A Job that was created.
#[derive(Clone, Debug)]
pub struct CreatedJob {
    /// The Job's name.
    pub name: JobName,
    /// The uid, which distinguishes it from other Jobs of that name.
    pub(crate) uid: String,
    /// The grace period of its pod.
    pub(crate) grace: Duration,
}

/// Creates the objects: all of them, or none that could start. After a stop request, it does not wait for
/// the deletion of an earlier Job.
///
/// # Errors
/// If the Job already exists, or the cluster refuses an object.
pub async fn apply(
    cluster: &Cluster,
    mut manifests: Manifests,
    stop: &Stop,
) -> Result<CreatedJob, ClusterError> {
    let name = manifests.name();
    let mark = format!("{:016x}", fastrand::u64(..));
    manifests.set_unique_names(&mark);
    let Manifests { mut secret, token, policy, mut job, .. } = manifests;
    let grace = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let grace = grace.and_then(|pod| pod.termination_grace_period_seconds).unwrap_or_default();
    let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
    set_request_mark(&mut job.metadata, &mark);
    let job = cluster.create_job(&job, &name, &mark, stop).await?;
    let uid = job.metadata.uid.unwrap_or_default();
    let applied = CreatedJob { name: name.clone(), uid: uid.clone(), grace };
    let owned = async {
        if let Some(mut policy) = policy {
            set_owner(&mut policy.metadata, &name, &uid);
            match cluster.post(&policy, POLICIES, &name, &post_parameters(false)).await {
                // The name is unique: the object is from an earlier attempt whose response was lost.
                Ok(_) | Err(ClusterError::Exists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        set_owner(&mut secret.metadata, &name, &uid);
        cluster.create_secret(&secret, &token, &name, &post_parameters(false)).await
    };
    if let Err(error) = owned.await {
        if let Err(left) = delete(cluster, &applied).await {
            let may = if error.is_outcome_unknown() { "may start" } else { "never starts" };
            tracing::warn!(
                "the Job `{name}` stays behind in namespace `{}` and {may}: {}",
                cluster.namespace,
                chain(&left)
            );
        }
        return Err(error);
    }
    Ok(applied)
}

/// Deletes the Job. Its pod gets SIGTERM and its grace period, and the objects that it owns are deleted too.
/// A Job that does not exist any more is not an error.
pub(crate) async fn delete(cluster: &Cluster, applied: &CreatedJob) -> Result<(), ClusterError> {
    let api: Api<Job> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let only = Preconditions { uid: Some(applied.uid.clone()), resource_version: None };
    let parameters = DeleteParams::foreground().preconditions(only);
    let request = Request { verb: "delete", resource: JOBS };
    let name = applied.name.as_str();
    let deleted = cluster.send(request, &applied.name, || async {
        match api.delete(name, &parameters).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            other => other.map(drop),
        }
    });
    deleted.await
}

impl Cluster {
    /// Creates the Job. An existing Job with the same mark is from an earlier attempt whose response was lost.
    /// If another Job of the same name is being deleted, waits until it does not exist any more.
    pub(crate) async fn create_job(
        &self,
        job: &Job,
        name: &JobName,
        mark: &str,
        stop: &Stop,
    ) -> Result<Job, ClusterError> {
        let api: Api<Job> = Api::namespaced(self.client.clone(), &self.namespace);
        let end = Instant::now() + DELETION_LIMIT;
        let mut is_logged = false;
        loop {
            let created = self.post(job, JOBS, name, &post_parameters(false)).await;
            let Err(ClusterError::Exists { .. }) = created else { return created };
            let request = Request { verb: "get", resource: JOBS };
            let found = self.send(request, name, || api.get(name.as_str())).await;
            match found {
                Ok(found) if found.annotations().get(REQUEST).is_some_and(|it| it == mark) => {
                    return Ok(found);
                }
                Ok(found) if found.metadata.deletion_timestamp.is_none() => return created,
                Ok(_) | Err(ClusterError::NoJob { .. }) => {}
                Err(ClusterError::Forbidden { .. }) => return created,
                Err(error) => return Err(error),
            }
            if Instant::now() >= end {
                let (name, namespace) = (name.clone(), self.namespace.clone());
                return Err(ClusterError::BeingDeleted { name, namespace });
            }
            if !std::mem::replace(&mut is_logged, true) {
                tracing::info!(
                    "the Job {name} of an earlier start is being deleted: waiting for it"
                );
            }
            tokio::select! {
                () = sleep(POLL_INTERVAL) => {}
                _ = stop.requested() => return created,
            }
        }
    }

    pub(crate) async fn post<K>(
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
        self.send(request, name, || api.create(parameters, object)).await
    }
}

/// Parameters that create an object, or only validate it.
pub(crate) fn post_parameters(dry_run: bool) -> PostParams {
    PostParams { dry_run, field_manager: Some(MANAGED_BY.to_owned()) }
}

pub(crate) fn set_request_mark(metadata: &mut ObjectMeta, mark: &str) {
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(REQUEST.to_owned(), mark.to_owned());
}

/// Makes the Job the owner of the object, so that the cluster deletes the object with the Job.
fn set_owner(metadata: &mut ObjectMeta, name: &JobName, uid: &str) {
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: name.as_str().to_owned(),
        uid: uid.to_owned(),
        controller: None,
        block_owner_deletion: None,
    }]);
}
