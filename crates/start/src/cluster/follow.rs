//! Follows a run to its end: its log, what it waits for, and how it ended.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::apply::{Applied, delete};
use super::client::Cluster;
use super::error::ClusterError;
use super::log::{self, Part};
use super::notices::Notices;
use super::outcome::{Outcome, Verdict, endless, verdict};
use super::pod::{Stage, ended, name, stage};
use super::watch::{Selection, Sight, observe};
use butler_base::cancel::{Stop, StopReason};
use butler_base::error::chain;

/// How long a Job may take to say why its pod failed: its controller sees the pod a little later.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);
/// How often the cluster's events are read while nothing has begun.
const EVENTS_EVERY: Duration = Duration::from_secs(3);
/// What a pod's end may take beyond its grace: the kubelet, the watch, the rest of the log.
pub(super) const BEYOND_GRACE: Duration = Duration::from_mins(1);

/// Receives the progress of a run.
pub trait Follower {
    /// A line of the run's own log, as the runner wrote it.
    ///
    /// # Errors
    /// When it cannot be shown; the run is not followed any further.
    fn line(&mut self, line: &str) -> std::io::Result<()>;
    /// What the cluster does.
    fn notice(&mut self, notice: &str);
}

/// Follows the run until it is over. Once asked to stop, deletes the Job, so that the runner in it
/// gets its SIGTERM, and follows it to its end; asked again, leaves.
///
/// # Errors
/// When the cluster cannot be asked any more, or the log cannot be shown. The run goes on.
pub async fn follow(
    cluster: &Cluster,
    applied: &Applied,
    stop: &Stop,
    follower: &mut dyn Follower,
) -> Result<Outcome, ClusterError> {
    let (jobs, job) = watch::channel(Sight::default());
    let (pods, pod) = watch::channel(Sight::default());
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
    let reading = async {
        log::read(cluster, pod.clone(), parts).await;
        std::future::pending::<()>().await;
    };
    let pod = pod.clone();
    let mut attending = Attending {
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
        outcome = attending.run(follower) => match outcome {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        },
        error = observe(cluster, &job_api, &of_job, &applied.name, &jobs) => error,
        error = observe(cluster, &pod_api, &of_pod, &applied.name, &pods) => error,
        () = reading => unreachable!("it waits for ever"),
    };
    if attending.stopped.is_none() {
        return Err(error);
    }
    follower.notice(&format!("cannot follow the run to its end: {}", chain(&error)));
    Ok(attending.left())
}

struct Attending<'run> {
    cluster: &'run Cluster,
    applied: &'run Applied,
    stop: &'run Stop,
    job: watch::Receiver<Sight<Job>>,
    pod: watch::Receiver<Sight<Pod>>,
    received: mpsc::Receiver<Part>,
    notices: Notices,
    /// When a pod that is being deleted should have ended.
    overdue: Option<Instant>,
    /// When and why the Job was to be deleted.
    stopped: Option<(Instant, StopReason)>,
    /// Whether the cluster has said that it deletes it.
    is_deleted: bool,
}

impl Attending<'_> {
    async fn run(&mut self, follower: &mut dyn Follower) -> Result<Outcome, ClusterError> {
        let mut look = interval(EVENTS_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.reset();
        let mut is_complete = false;
        let mut settled: Option<Instant> = None;
        loop {
            let verdict = verdict(&self.job.borrow(), &self.pod.borrow(), &self.notices.seen);
            // Without a pod no log exists; with a pod, the log's reader reports the end.
            let is_read = is_complete || matches!(*self.pod.borrow(), Sight::Nothing);
            match verdict {
                Verdict::Final(outcome) if is_read => {
                    return Ok(self.conclude(outcome));
                }
                Verdict::Provisional(outcome) => {
                    let at = *settled.get_or_insert_with(|| Instant::now() + SETTLE_LIMIT);
                    if at <= Instant::now() && is_read {
                        return Ok(self.conclude(outcome));
                    }
                }
                Verdict::Open => settled = None,
                Verdict::Final(_) => {}
            }
            if let Some(outcome) = self.endless() {
                return Ok(outcome);
            }
            let deadline =
                self.stopped.as_ref().map(|(at, _)| *at + self.applied.grace + BEYOND_GRACE);
            tokio::select! {
                part = self.received.recv(), if !is_complete => match part {
                    Some(Part::Line(line)) => follower.line(&line).map_err(ClusterError::Write)?,
                    Some(Part::Missing(why)) => {
                        follower.notice(&format!("cannot read the rest of the log: {why}"));
                    }
                    None => is_complete = true,
                },
                _ = self.pod.changed() => self.tell(follower),
                _ = self.job.changed() => self.tell(follower),
                _ = look.tick(), if !self.has_begun() => self.warn(follower).await,
                () = until(settled), if settled.is_some_and(|at| at > Instant::now()) => {}
                reason = self.stop.requested(), if self.stopped.is_none() => {
                    self.end(reason, follower).await;
                    if !self.is_deleted {
                        return Ok(self.left());
                    }
                }
                () = self.stop.urgent(), if self.stopped.is_some() => return Ok(self.left()),
                () = until(self.overdue), if self.overdue.is_some() => {}
                () = until(deadline), if deadline.is_some() => return Ok(self.left()),
            }
        }
    }

    /// Whether the runner runs or has run.
    fn has_begun(&self) -> bool {
        let is_begun = |pod: &Pod| stage(pod) == Stage::Running || ended(pod).is_some();
        self.notices.seen.has_run || self.pod.borrow().last().is_some_and(is_begun)
    }

    /// Tells what pod and Job do, once each.
    fn tell(&mut self, follower: &mut dyn Follower) {
        let (job, sight) = (self.job.borrow(), self.pod.borrow());
        let Some(pod) = sight.last() else { return };
        let notice = self.notices.of_pod(pod);
        let Sight::There(pod) = &*sight else { return };
        let of_job = job.last().and_then(|job| self.notices.of_job(job, pod, self.applied.grace));
        for notice in notice.into_iter().chain(of_job) {
            follower.notice(&notice);
        }
    }

    /// Tells what the cluster says about a run that does not begin.
    async fn warn(&mut self, follower: &mut dyn Follower) {
        let pod = self.pod.borrow().last().map(|pod| name(pod).to_owned());
        let name = pod.as_deref().unwrap_or(self.applied.name.as_str());
        for notice in self.notices.of_events(self.cluster, name).await {
            follower.notice(&notice);
        }
    }

    /// What is left to say of a pod whose time to end is long over. The kubelet of a lost node ends
    /// none, and the cluster does not remove what its kubelet has not ended.
    fn endless(&mut self) -> Option<Outcome> {
        let sight = self.pod.borrow();
        let ending = match &*sight {
            Sight::There(pod) if stage(pod) != Stage::Over => Some(pod),
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
        let outcome = (at <= now).then(|| endless(pod, &self.job.borrow()))?;
        let code = if self.stopped.is_some() { self.code_of_stop() } else { outcome.code };
        Some(Outcome { code, ..outcome })
    }

    /// Deletes the Job.
    async fn end(&mut self, reason: StopReason, follower: &mut dyn Follower) {
        let Applied { name, grace, .. } = self.applied;
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

    /// The outcome if this process stops before the end of the run.
    fn left(&self) -> Outcome {
        let (name, namespace) = (&self.applied.name, &self.cluster.namespace);
        if !self.is_deleted {
            return Outcome {
                code: self.code_of_stop(),
                summary: format!(
                    "left before the Job `{name}` in namespace `{namespace}` was deleted: the run goes on"
                ),
                hint: Some(format!("delete it with `kubectl -n {namespace} delete job {name}`")),
            };
        }
        if !self.has_begun() {
            return Outcome {
                code: self.code_of_stop(),
                summary: format!(
                    "left before the Job `{name}` in namespace `{namespace}` was gone; its run had not begun"
                ),
                hint: None,
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
