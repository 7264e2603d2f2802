//! The state of a run's Job, in the registry's terms.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use serde::Serialize;
use tokio::time::Instant;

use crate::JobName;
use crate::apply::{CreatedJob, apply};
use crate::client::Cluster;
use crate::error::{ClusterError, Request};
use crate::follow::BEYOND_GRACE;
use crate::manifest::Manifests;
use crate::outage::OutageRetries;
use crate::outcome::end_condition;
use crate::pod::{Stage, ended, is_on_silent_node, never_started, node, stage, wait_reason};
use butler_base::cancel::Stop;

/// The first and the longest pause between two requests.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// The runner's exit code if the registry cancelled the run.
const CANCELLED: i32 = 3;
/// 128 plus the signals that users and supervisors send: SIGHUP, SIGINT, SIGQUIT, SIGTERM.
const SIGNALLED: [i32; 4] = [129, 130, 131, 143];

/// The state of a run's Job, printed as JSON for the program that tracks runs.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// `NAMESPACE/JOB`.
    pub external_run_id: String,
    /// The address of a page about the run, if a URL template is configured.
    pub external_url: Option<String>,
    /// The status, in the registry's terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// The status in the cluster's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<String>,
}

impl Progress {
    /// A state that only identifies the Job. Replaces `{namespace}` and `{job}` in `page`.
    fn of_created_job(cluster: &Cluster, name: &JobName, page: Option<&str>) -> Self {
        let namespace = cluster.namespace();
        let fill =
            |page: &str| page.replace("{namespace}", namespace).replace("{job}", name.as_str());
        Self {
            external_run_id: format!("{namespace}/{name}"),
            external_url: page.map(fill),
            status: None,
            reported: None,
        }
    }

    /// Whether the status is final.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self.status, None | Some("queued" | "running"))
    }
}

/// Creates the run's objects and returns the identity of the Job.
///
/// # Errors
/// Those of [`apply`].
pub async fn create(
    cluster: &Cluster,
    manifests: Manifests,
    page: Option<&str>,
) -> Result<Progress, ClusterError> {
    let CreatedJob { name, .. } = Box::pin(apply(cluster, manifests, &Stop::new())).await?;
    Ok(Progress::of_created_job(cluster, &name, page))
}

/// Reads the state of the Job. With a `deadline` it waits for the Job's end until then.
///
/// # Errors
/// If the Job does not exist, or the cluster does not respond.
pub async fn status(
    cluster: &Cluster,
    name: &JobName,
    page: Option<&str>,
    deadline: Option<Instant>,
) -> Result<Progress, ClusterError> {
    let mut pause = PAUSES.0;
    let mut logged = BTreeSet::new();
    let mut retries = match deadline {
        Some(deadline) => OutageRetries::for_run().until(deadline),
        None => OutageRetries::for_request(),
    };
    loop {
        let is_time_over = || deadline.is_none_or(|deadline| Instant::now() + pause >= deadline);
        let (status, reported) = read_status(cluster, name, &mut retries).await?;
        retries.mark_accepted();
        if logged.insert(reported.clone()) {
            tracing::info!(%reported, "the run is {status}");
        }
        let mut progress = Progress::of_created_job(cluster, name, page);
        (progress.status, progress.reported) = (Some(status), Some(reported));
        if progress.is_over() || is_time_over() {
            return Ok(progress);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(PAUSES.1);
    }
}

async fn read_status(
    cluster: &Cluster,
    name: &JobName,
    retries: &mut OutageRetries,
) -> Result<(&'static str, String), ClusterError> {
    let jobs: Api<Job> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let request = Request { verb: "get", resource: "jobs.batch" };
    let job = cluster.send_with(retries, request, name, || jobs.get(name.as_str())).await?;
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let labels = format!("batch.kubernetes.io/controller-uid={uid}");
    let parameters = ListParams::default().labels(&labels);
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let request = Request { verb: "list", resource: "pods" };
    let list = cluster.send_with(retries, request, name, || pods.list(&parameters)).await?;
    Ok(status_of(&job, list.items.last(), Timestamp::now()))
}

/// The status in the registry's terms, and in the cluster's words.
fn status_of(job: &Job, pod: Option<&Pod>, now: Timestamp) -> (&'static str, String) {
    let code = pod.and_then(ended).map(|state| state.exit_code);
    if let Some(condition) = end_condition(job) {
        let reason = condition.reason.clone().unwrap_or_else(|| condition.type_.clone());
        let status = match (&*condition.type_, &*reason, code) {
            ("Complete", ..) => "succeeded",
            (_, "DeadlineExceeded", _) => "timed_out",
            (.., Some(CANCELLED)) => "cancelled",
            (.., Some(code)) if SIGNALLED.contains(&code) => "cancelled",
            _ => "failed",
        };
        let ending = pod.filter(|pod| stage(pod) != Stage::Over);
        if condition.type_ == "FailureTarget"
            && let Some(pod) = ending
        {
            let silent = is_on_silent_node(pod).then(|| node(pod).unwrap_or("unknown"));
            let silent = silent.map(|node| format!("node `{node}` is NotReady"));
            // The outcome is not known before the pod ends within its grace period. A lost node never
            // reports the end.
            return if is_overdue(pod, now) {
                let silent = silent.map(|it| format!(": {it}")).unwrap_or_default();
                (status, format!("{reason}, and the pod does not end{silent}"))
            } else {
                let silent = silent.map(|it| format!(", {it}")).unwrap_or_default();
                ("running", format!("ending: {reason}{silent}"))
            };
        }
        let code = code.filter(|code| *code != 0).map(|code| format!(", exit code {code}"));
        let never = pod.is_some_and(never_started).then(|| ", never began".to_owned());
        return (status, format!("{reason}{}", code.or(never).unwrap_or_default()));
    }
    if job.metadata.deletion_timestamp.is_some() {
        return ("cancelled", "Terminating".to_owned());
    }
    match pod.map(|pod| (stage(pod), wait_reason(pod))) {
        Some((Stage::Running | Stage::Over, _)) => ("running", "Running".to_owned()),
        Some((Stage::Waiting, why)) => ("queued", why.unwrap_or_else(|| "Pending".to_owned())),
        None => ("queued", "no pod yet".to_owned()),
    }
}

/// Whether a pod that is being deleted should have ended by now. The deletion timestamp is the end of its
/// grace period.
fn is_overdue(pod: &Pod, now: Timestamp) -> bool {
    let over = pod.metadata.deletion_timestamp.as_ref();
    over.is_some_and(|over| over.0 + BEYOND_GRACE < now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status_text(condition: Option<(&str, &str)>, state: Option<serde_json::Value>) -> String {
        let condition = condition
            .map(|(type_, reason)| json!([{"type": type_, "status": "True", "reason": reason}]));
        let job = json!({"metadata": {}, "status": {"conditions": condition}});
        let pod = state.map(|state| {
            let container = json!({
                "name": "runner", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": state,
            });
            let pod = json!({"metadata": {}, "status": {"containerStatuses": [container]}});
            serde_json::from_value::<Pod>(pod).unwrap()
        });
        let (status, reported) =
            status_of(&serde_json::from_value(job).unwrap(), pod.as_ref(), Timestamp::now());
        format!("{status} ({reported})")
    }

    #[test]
    fn each_state_of_a_job_maps_to_a_status_of_the_registry() {
        let ended = |code: i32| Some(json!({"terminated": {"exitCode": code}}));
        let limit = Some(("Failed", "BackoffLimitExceeded"));
        for (condition, state, expected) in [
            (None, None, "queued (no pod yet)"),
            (None, Some(json!({"waiting": {"reason": "ContainerCreating"}})), "queued (Pending)"),
            (
                None,
                Some(json!({"waiting": {"reason": "ErrImagePull", "message": "denied"}})),
                "queued (ErrImagePull: denied)",
            ),
            (None, Some(json!({"running": {}})), "running (Running)"),
            (None, ended(0), "running (Running)"),
            (Some(("Complete", "CompletionsReached")), ended(0), "succeeded (CompletionsReached)"),
            (limit, ended(1), "failed (BackoffLimitExceeded, exit code 1)"),
            (limit, ended(3), "cancelled (BackoffLimitExceeded, exit code 3)"),
            (limit, ended(143), "cancelled (BackoffLimitExceeded, exit code 143)"),
            (
                Some(("Failed", "DeadlineExceeded")),
                ended(143),
                "timed_out (DeadlineExceeded, exit code 143)",
            ),
            (Some(("Failed", "PodFailurePolicy")), None, "failed (PodFailurePolicy)"),
            (
                Some(("FailureTarget", "DeadlineExceeded")),
                Some(json!({"running": {}})),
                "running (ending: DeadlineExceeded)",
            ),
            (
                Some(("FailureTarget", "DeadlineExceeded")),
                ended(143),
                "timed_out (DeadlineExceeded, exit code 143)",
            ),
        ] {
            assert_eq!(status_text(condition, state), expected);
        }
    }
}
