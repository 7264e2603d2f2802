//! Follows a run to its end: its log, the reasons for its waits, and its outcome.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::apply::{CreatedJob, delete};
use crate::client::Cluster;
use crate::error::ClusterError;
use crate::log::{self, LogPart};
use crate::notices::Notices;
use crate::outcome::{Outcome, OutcomeSource, Verdict, overdue_outcome, verdict};
use crate::pod::{Stage, ended, name, stage};
use crate::watch::{ObservedObject, Selection, observe};
use butler_base::cancel::{Stop, StopReason};
use butler_base::error::chain;

/// How long to wait for the Job's reason after its pod failed, because the controller sees the pod later.
const REASON_LIMIT: Duration = Duration::from_secs(10);
/// The interval at which the cluster's events are read before the run begins.
const EVENTS_INTERVAL: Duration = Duration::from_secs(3);
/// The additional time for a pod's end after its grace period: for the kubelet, the watch and the rest of the log.
pub(crate) const BEYOND_GRACE: Duration = Duration::from_mins(1);

/// Receives the progress of a run.
pub trait Follower {
    /// A line of the run's own log, as the runner wrote it.
    ///
    /// # Errors
    /// If the line cannot be written. The runner then stops following the run.
    fn line(&mut self, line: &str) -> std::io::Result<()>;
    /// A message about the Job or the pod.
    fn notice(&mut self, notice: &str);
    /// The rest of the log cannot be read.
    fn missing(&mut self, why: &str) {
        self.notice(&format!("cannot read the rest of the log: {why}"));
    }
}

/// Follows the run until it is over. After a stop request it deletes the Job, so that the runner in it gets
/// SIGTERM, and follows the run to its end. A second request makes it return at once.
///
/// # Errors
/// If the cluster stays unavailable, or the log cannot be written. The run continues.
pub async fn follow(
    cluster: &Cluster,
    applied: &CreatedJob,
    stop: &Stop,
    follower: &mut dyn Follower,
) -> Result<Outcome, ClusterError> {
    let (jobs, job) = watch::channel(ObservedObject::default());
    let (pods, pod) = watch::channel(ObservedObject::default());
    let (parts, received) = mpsc::channel(256);
    let of_job = Selection {
        labels: None,
        fields: Some(format!("metadata.name={}", applied.name)),
        uid: Some(applied.uid.clone()),
        resource: "jobs.batch",
    };
    let of_pod = Selection {
        labels: Some(format!("batch.kubernetes.io/controller-uid={}", applied.uid)),
        fields: None,
        uid: None,
        resource: "pods",
    };
    let job_api: Api<Job> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let pod_api: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let log_reader = async {
        log::send_log(cluster, pod.clone(), parts).await;
        std::future::pending::<()>().await;
    };
    let pod = pod.clone();
    let mut run = FollowedRun {
        cluster,
        applied,
        stop,
        job,
        pod,
        received,
        notices: Notices::default(),
        overdue: None,
        stopped: None,
        is_deleted: false,
    };
    let error = tokio::select! {
        outcome = run.run(follower) => match outcome {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        },
        error = observe(cluster, &job_api, &of_job, &applied.name, &jobs) => error,
        error = observe(cluster, &pod_api, &of_pod, &applied.name, &pods) => error,
        () = log_reader => unreachable!("the future never completes"),
    };
    if run.stopped.is_none() {
        return Err(error);
    }
    follower.notice(&format!("cannot follow the run to its end: {}", chain(&error)));
    Ok(run.abandoned_outcome())
}

struct FollowedRun<'run> {
    cluster: &'run Cluster,
    applied: &'run CreatedJob,
    stop: &'run Stop,
    job: watch::Receiver<ObservedObject<Job>>,
    pod: watch::Receiver<ObservedObject<Pod>>,
    received: mpsc::Receiver<LogPart>,
    notices: Notices,
    /// The latest expected end of a pod that is being deleted.
    overdue: Option<Instant>,
    /// The time and the reason of the stop request.
    stopped: Option<(Instant, StopReason)>,
    /// Whether the cluster accepted the deletion.
    is_deleted: bool,
}

impl FollowedRun<'_> {
    async fn run(&mut self, follower: &mut dyn Follower) -> Result<Outcome, ClusterError> {
        let mut look = interval(EVENTS_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.reset();
        let mut is_complete = false;
        let mut reason_deadline: Option<Instant> = None;
        loop {
            let verdict = verdict(&self.job.borrow(), &self.pod.borrow(), &self.notices.seen);
            // Without a pod no log exists; with a pod, the log's reader reports the end.
            let is_read = is_complete || matches!(*self.pod.borrow(), ObservedObject::Nothing);
            match verdict {
                Verdict::Final(outcome) if is_read => {
                    return Ok(self.conclude(outcome));
                }
                Verdict::Provisional(outcome) => {
                    let at = *reason_deadline.get_or_insert_with(|| Instant::now() + REASON_LIMIT);
                    if at <= Instant::now() && is_read {
                        return Ok(self.conclude(outcome));
                    }
                }
                Verdict::Open => reason_deadline = None,
                Verdict::Final(_) => {}
            }
            if let Some(outcome) = self.check_overdue() {
                return Ok(outcome);
            }
            let deadline =
                self.stopped.as_ref().map(|(at, _)| *at + self.applied.grace + BEYOND_GRACE);
            tokio::select! {
                part = self.received.recv(), if !is_complete => match part {
                    Some(LogPart::Line(line)) => follower.line(&line).map_err(ClusterError::Write)?,
                    Some(LogPart::Missing(why)) => follower.missing(&why),
                    None => is_complete = true,
                },
                _ = self.pod.changed() => self.report_changes(follower),
                _ = self.job.changed() => self.report_changes(follower),
                _ = look.tick(), if !self.has_begun() => self.report_events(follower).await,
                () = until(reason_deadline), if reason_deadline.is_some_and(|at| at > Instant::now()) => {}
                reason = self.stop.requested(), if self.stopped.is_none() => {
                    self.delete_job(reason, follower).await;
                    if !self.is_deleted {
                        return Ok(self.abandoned_outcome());
                    }
                }
                () = self.stop.urgent(), if self.stopped.is_some() => return Ok(self.abandoned_outcome()),
                () = until(self.overdue), if self.overdue.is_some() => {}
                () = until(deadline), if deadline.is_some() => return Ok(self.abandoned_outcome()),
            }
        }
    }

    /// Whether the runner has started.
    fn has_begun(&self) -> bool {
        let is_begun = |pod: &Pod| stage(pod) == Stage::Running || ended(pod).is_some();
        self.notices.seen.has_run || self.pod.borrow().last().is_some_and(is_begun)
    }

    /// Reports changes of the pod and the Job, each once.
    fn report_changes(&mut self, follower: &mut dyn Follower) {
        let (job, sight) = (self.job.borrow(), self.pod.borrow());
        let Some(pod) = sight.last() else { return };
        let notice = self.notices.about_pod(pod);
        let ObservedObject::There(pod) = &*sight else { return };
        let of_job =
            job.last().and_then(|job| self.notices.about_job(job, pod, self.applied.grace));
        for notice in notice.into_iter().chain(of_job) {
            follower.notice(&notice);
        }
    }

    /// Reports the cluster's events about a run that does not begin.
    async fn report_events(&mut self, follower: &mut dyn Follower) {
        let pod = self.pod.borrow().last().map(|pod| name(pod).to_owned());
        let name = pod.as_deref().unwrap_or(self.applied.name.as_str());
        for notice in self.notices.about_events(self.cluster, name).await {
            follower.notice(&notice);
        }
    }

    /// The outcome if the pod did not end in time. The kubelet of a lost node does not end its pods, and the
    /// cluster does not remove a pod before its kubelet ended it.
    fn check_overdue(&mut self) -> Option<Outcome> {
        let sight = self.pod.borrow();
        let ending = match &*sight {
            ObservedObject::There(pod) if stage(pod) != Stage::Over => Some(pod),
            _ => None,
        };
        let Some(pod) = ending.filter(|pod| pod.metadata.deletion_timestamp.is_some()) else {
            self.overdue = None;
            return None;
        };
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
        let now = Instant::now();
        let at = *self.overdue.get_or_insert(now + grace + BEYOND_GRACE);
        let outcome = (at <= now).then(|| overdue_outcome(pod, &self.job.borrow()))?;
        let code = if self.stopped.is_some() { self.code_of_stop() } else { outcome.code };
        Some(Outcome { code, ..outcome })
    }

    /// Deletes the Job.
    async fn delete_job(&mut self, reason: StopReason, follower: &mut dyn Follower) {
        let CreatedJob { name, grace, .. } = self.applied;
        let what = if self.has_begun() {
            format!("; the run in it has {} s to end", grace.as_secs())
        } else {
            ", whose run has not begun".to_owned()
        };
        follower.notice(&format!("deleting the Job {name}{what} (once more to leave at once)"));
        self.stopped = Some((Instant::now(), reason));
        let deleted = tokio::select! {
            deleted = delete(self.cluster, self.applied) => deleted,
            () = self.stop.urgent() => return,
        };
        match deleted {
            Ok(()) => self.is_deleted = true,
            Err(error) => {
                follower.notice(&format!("the Job cannot be deleted: {}", chain(&error)));
            }
        }
    }

    /// The exit code of the signal if the runner did not report one.
    fn conclude(&self, outcome: Outcome) -> Outcome {
        let is_runners = self.pod.borrow().last().and_then(ended).is_some();
        match self.stopped {
            Some(_) if !is_runners && outcome.code != 0 => {
                Outcome { code: self.code_of_stop(), ..outcome }
            }
            _ => outcome,
        }
    }

    fn code_of_stop(&self) -> u8 {
        match self.stopped.as_ref().map(|(_, reason)| reason) {
            Some(StopReason::Signal(signal)) => 128 + u8::try_from(*signal as i32).unwrap_or(0),
            _ => 1,
        }
    }

    /// The outcome if this process exits before the end of the run.
    fn abandoned_outcome(&self) -> Outcome {
        let (name, namespace) = (&self.applied.name, &self.cluster.namespace);
        if !self.is_deleted {
            return Outcome {
                code: self.code_of_stop(),
                summary: format!(
                    "left before the Job `{name}` in namespace `{namespace}` was deleted: the run goes on"
                ),
                hint: Some(format!("delete it with `kubectl -n {namespace} delete job {name}`")),
                source: OutcomeSource::Open,
            };
        }
        if !self.has_begun() {
            return Outcome {
                code: self.code_of_stop(),
                summary: format!(
                    "left before the Job `{name}` in namespace `{namespace}` was gone; its run had not begun"
                ),
                hint: None,
                source: OutcomeSource::Open,
            };
        }
        Outcome {
            code: self.code_of_stop(),
            summary: format!(
                "left before the run's end: the pod of `{name}` in namespace `{namespace}` may still run for {} s",
                self.applied.grace.as_secs()
            ),
            hint: Some(format!(
                "look with `kubectl -n {namespace} get job,pod -l app.kubernetes.io/instance={name}`"
            )),
            source: OutcomeSource::Open,
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
