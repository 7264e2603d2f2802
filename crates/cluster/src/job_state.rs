//! The state of a run's Job for a server that has started it: whether it waits, runs, or has ended and why.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, ListParams};
use kube::core::params::Preconditions;

use crate::apply::JOBS;
use crate::client::Cluster;
use crate::error::{ClusterError, Request};
use crate::events::Warnings;
use crate::failure::JobFailure;
use crate::names::JobName;
use crate::outage::OutageRetries;
use crate::outcome::{KILLED, RunHistory, Verdict, end_condition, verdict};
use crate::pod::{
    Stage, disruption_reason, ended, is_deleted, is_image_wait, is_on_silent_node, node, stage,
    wait_reason, was_rejected,
};
use crate::watch::ObservedObject;

/// How long the Job's controller may need to see that its pod has ended.
const CONTROLLER_LAG: Duration = Duration::from_mins(1);

/// The reasons of waits for objects that do not exist.
const SETUP: [&str; 4] =
    ["CreateContainerConfigError", "CreateContainerError", "FailedMount", "FailedAttachVolume"];

/// What the cluster knows about the Job of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JobState {
    /// There is no such Job, and no pod of it.
    Missing,
    /// Its runner has not begun.
    Waiting(JobWait),
    /// Its runner runs.
    Running,
    /// Its node does not answer, so it cannot be told whether its runner runs.
    Silent {
        /// The name of the node.
        node: String,
    },
    /// It has ended.
    Ended(JobEnd),
}

/// A Job whose runner has not begun.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobWait {
    /// Since when.
    pub since: Timestamp,
    /// What it waits for, in the cluster's words. `None`: for its normal start.
    pub why: Option<String>,
}

impl JobWait {
    /// What has failed if the wait has been too long.
    #[must_use]
    pub fn failure(&self) -> JobFailure {
        let why = self.why.as_deref().unwrap_or_default();
        let reason = why.split(':').next().unwrap_or_default();
        let is_missing = ["persistentvolumeclaim", "serviceaccount"]
            .iter()
            .any(|kind| why.contains(&format!("{kind} \"")) && why.contains("not found"));
        if is_image_wait(why) {
            JobFailure::Image
        } else if is_missing || SETUP.contains(&reason) {
            JobFailure::Setup
        } else if reason == "FailedCreate" {
            JobFailure::Quota
        } else {
            JobFailure::NoRoom
        }
    }
}

/// A Job that has ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobEnd {
    /// Why, if its runner did not report it.
    pub failure: JobFailure,
    /// One sentence without a full stop, in the cluster's words.
    pub summary: String,
}

impl Cluster {
    /// The state of the Job with this name.
    ///
    /// # Errors
    /// If the API server does not answer, or does not allow the requests.
    pub async fn job_state(&self, name: &JobName) -> Result<JobState, ClusterError> {
        // Both are read from the store of the API server, and not from its cache.
        let pods = self.pods(name).await?;
        let job = match self.job(name).await {
            Ok(job) => Some(job),
            Err(ClusterError::NoJob { .. }) => None,
            Err(error) => return Err(error),
        };
        let mut state = state_of(job.as_ref(), &pods, Timestamp::now());
        if let JobState::Waiting(wait) = &mut state
            && wait.why.is_none()
        {
            // A quota is only in the events of the Job, and a missing volume only in those of the pod.
            let of_pod = pods.first().and_then(|pod| pod.metadata.name.clone());
            let of = of_pod.unwrap_or_else(|| name.as_str().to_owned());
            wait.why = Warnings::default().read_new(self, &of).await.pop();
        }
        Ok(state)
    }

    /// Deletes the Job with this name. Its pod gets SIGTERM and its grace period, and the objects that it owns are
    /// deleted too. A Job that does not exist is not an error.
    ///
    /// # Errors
    /// If the API server does not answer, or does not allow it.
    pub async fn delete_job(&self, name: &JobName) -> Result<(), ClusterError> {
        let job = match self.job(name).await {
            Ok(job) => job,
            Err(ClusterError::NoJob { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let api: Api<Job> = Api::namespaced(self.client.clone(), &self.namespace);
        let only = Preconditions { uid: job.metadata.uid, resource_version: None };
        let parameters = DeleteParams::foreground().preconditions(only);
        let request = Request { verb: "delete", resource: JOBS };
        self.send_with(&mut OutageRetries::none(), request, name, || async {
            match api.delete(name.as_str(), &parameters).await {
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
                other => other.map(drop),
            }
        })
        .await
    }

    async fn job(&self, name: &JobName) -> Result<Job, ClusterError> {
        let api: Api<Job> = Api::namespaced(self.client.clone(), &self.namespace);
        let request = Request { verb: "get", resource: JOBS };
        self.send_with(&mut OutageRetries::none(), request, name, || api.get(name.as_str())).await
    }

    /// The pods of the Job: at most one.
    async fn pods(&self, name: &JobName) -> Result<Vec<Pod>, ClusterError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let request = Request { verb: "list", resource: "pods" };
        let parameters = ListParams::default().labels(&format!("job-name={name}"));
        let retries = &mut OutageRetries::none();
        let list = self.send_with(retries, request, name, || api.list(&parameters)).await?;
        Ok(list.items)
    }
}

/// The state of a Job with these pods at the time `now`.
fn state_of(job: Option<&Job>, pods: &[Pod], now: Timestamp) -> JobState {
    let pod = pods.iter().max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|it| it.0));
    match (job, pod) {
        (None, None) => JobState::Missing,
        // The garbage collector removes the pod next. Until then its runner can run.
        (None, Some(pod)) if stage(pod) == Stage::Over => JobState::Missing,
        (None, Some(pod)) => of_pod(pod),
        (Some(job), pod) => match end_of(job, pod, now) {
            Some(end) => JobState::Ended(end),
            // The Job is removed after its pod.
            None if pod.is_none() && job.metadata.deletion_timestamp.is_some() => JobState::Missing,
            // Its controller says next how the pod has ended.
            None if pod.is_none() && has_counted_pod(job) => JobState::Running,
            None => pod
                .filter(|pod| stage(pod) != Stage::Waiting)
                .map_or_else(|| JobState::Waiting(wait(job, pod, now)), of_pod),
        },
    }
}

/// Whether the controller has counted a pod of the Job.
fn has_counted_pod(job: &Job) -> bool {
    let Some(status) = &job.status else { return false };
    let counts = [status.active, status.succeeded, status.failed];
    counts.into_iter().flatten().any(|count| count > 0)
}

/// The state of a pod that has begun.
fn of_pod(pod: &Pod) -> JobState {
    if is_on_silent_node(pod) {
        JobState::Silent { node: node(pod).unwrap_or("unknown").to_owned() }
    } else {
        JobState::Running
    }
}

fn wait(job: &Job, pod: Option<&Pod>, now: Timestamp) -> JobWait {
    let since = job.metadata.creation_timestamp.as_ref().map_or(now, |since| since.0);
    JobWait { since, why: pod.and_then(wait_reason) }
}

/// How the Job has ended, if it has.
fn end_of(job: &Job, pod: Option<&Pod>, now: Timestamp) -> Option<JobEnd> {
    let observed_job = ObservedObject::There(Box::new(job.clone()));
    let observed_pod =
        pod.map_or(ObservedObject::Nothing, |pod| ObservedObject::There(Box::new(pod.clone())));
    let history = RunHistory { has_run: false, wait: pod.and_then(wait_reason) };
    let outcome = match verdict(&observed_job, &observed_pod, &history) {
        Verdict::Final(outcome) => outcome,
        Verdict::Provisional(outcome) if is_settled(job, pod, now) => outcome,
        Verdict::Open | Verdict::Provisional(_) => return None,
    };
    let summary = if outcome.code == 0 {
        "the runner ended with exit code 0, but its report did not arrive".to_owned()
    } else {
        outcome.summary
    };
    Some(JobEnd { failure: failure(job, pod), summary })
}

/// Whether the Job's controller has had the time to say more about the end of the pod. If the Job has ended and its pod
/// is gone, there is nothing more to say.
fn is_settled(job: &Job, pod: Option<&Pod>, now: Timestamp) -> bool {
    let Some(pod) = pod else { return true };
    let of_pod = ended(pod).and_then(|state| state.finished_at.as_ref());
    let of_job = end_condition(job).and_then(|it| it.last_transition_time.as_ref());
    let since: Option<&Time> = of_pod.or(of_job);
    since.is_none_or(|since| since.0 + CONTROLLER_LAG <= now)
}

/// The class of the failure of a Job that has ended.
fn failure(job: &Job, pod: Option<&Pod>) -> JobFailure {
    let state = pod.and_then(ended);
    if state.is_some_and(|state| state.reason.as_deref() == Some("OOMKilled")) {
        return JobFailure::OutOfMemory;
    }
    let condition = end_condition(job).and_then(|condition| condition.reason.as_deref());
    let of_pod = pod.and_then(disruption_reason);
    if condition == Some("DeadlineExceeded") || of_pod == Some("DeadlineExceeded") {
        // Before its container has started, it is more useful to know what it waited for.
        let waited = pod.and_then(wait_reason);
        return match waited {
            Some(why) => JobWait { since: Timestamp::UNIX_EPOCH, why: Some(why) }.failure(),
            None => JobFailure::Deadline,
        };
    }
    if pod.is_some_and(was_rejected) {
        return JobFailure::NoRoom;
    }
    if let Some(reason) = of_pod {
        let is_of_node =
            matches!(reason, "DeletionByPodGC" | "DeletionByTaintManager" | "NodeLost");
        return if is_of_node { JobFailure::NodeLost } else { JobFailure::Evicted };
    }
    match pod {
        None if condition == Some("PodFailurePolicy") => JobFailure::NodeLost,
        // SIGKILL from outside of the container, without a reason of the cluster: see `outcome_of_runner`.
        Some(pod) if state.is_some_and(|state| state.exit_code == KILLED) && !is_deleted(pod) => {
            JobFailure::OutOfMemory
        }
        _ => JobFailure::Ended,
    }
}

#[cfg(test)]
#[path = "job_state_tests.rs"]
mod tests;
