//! Starts attempts as Jobs of a Kubernetes cluster, which outlive the server.
//!
//! The name of a Job is derived from its attempt, so it is found again after a restart, and the cluster refuses a
//! second one. A watch tells which Jobs have changed; without it, the server asks when an attempt is silent.

mod outage;
mod start;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use butler_base::cancel::{Stop, StopReason};
use butler_base::error::chain;
use butler_cluster::{
    ChangedJob, Cluster, ClusterError, JobEnd, JobFailure, JobName, JobNews, JobState, JobWait,
    watch_jobs,
};
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::directory::AttemptDirectory;
use super::failure_text::stored_failure;
use super::job_options::{JobSettings, LABEL, LAYER, start_timeout};
use super::log_writer::LogWriter;
use super::outcome::{DriftRules, left_by};
use crate::controller::{ExecutorError, Probe};
use crate::data::DataDirectory;
use crate::event::Event;
use crate::layers::{Catalog, LayerSource};
use crate::model::{AttemptToken, Ending, FailureClass, Liveness, RunId};
use crate::serve::Ailing;
use crate::store::{AttemptId, AttemptResult};
use outage::{JobsOutage, QUESTIONS};

/// How long one question to the API server may take. All decisions wait for it.
const QUESTION: Duration = Duration::from_secs(10);

/// How long an API server that did not answer is not asked again.
const SILENCE: Duration = Duration::from_secs(30);

/// How many changes of Jobs can wait to be heard.
const NEWS: usize = 64;

/// How long after the creation of a Job the server looks at it, also if no watch tells of a change.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// Starts Jobs.
pub struct JobExecutor {
    shared: Arc<Shared>,
}

struct Shared {
    settings: JobSettings,
    cluster: Cluster,
    data: DataDirectory,
    catalog: watch::Receiver<Arc<Catalog>>,
    /// Gets the attempts whose Jobs may have ended.
    events: mpsc::UnboundedSender<Event>,
    /// The attempts whose Jobs are being created, with what ends that.
    creating: Mutex<HashMap<AttemptId, Stop>>,
    /// The attempts whose objects all exist, although their directories could not be told.
    complete: Mutex<HashSet<AttemptId>>,
    /// What attempts wait for that have not begun.
    waits: Mutex<HashMap<AttemptId, String>>,
    /// When the API server did not answer last.
    silent: Mutex<Option<Instant>>,
    outage: JobsOutage,
}

impl std::fmt::Debug for JobExecutor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("JobExecutor").field("settings", &self.shared.settings).finish()
    }
}

impl JobExecutor {
    /// Starts Jobs in this cluster. Sends no request yet.
    #[must_use]
    pub fn new(
        settings: JobSettings,
        cluster: Cluster,
        data: DataDirectory,
        catalog: watch::Receiver<Arc<Catalog>>,
        events: mpsc::UnboundedSender<Event>,
        ailing: Arc<Ailing>,
    ) -> Self {
        let shared = Shared {
            settings,
            cluster,
            data,
            catalog,
            events,
            creating: Mutex::default(),
            complete: Mutex::default(),
            waits: Mutex::default(),
            silent: Mutex::default(),
            outage: JobsOutage::new(ailing),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Tells when Jobs may have ended, or wait for something. Never ends.
    pub fn watch(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            let (sender, mut news) = mpsc::channel(NEWS);
            let hear = async {
                while let Some(news) = news.recv().await {
                    shared.hear(news);
                }
            };
            tokio::join!(watch_jobs(&shared.cluster, LABEL, &sender), hear, shared.ask_again());
        }
    }

    /// Creates the Job of a recorded attempt, beside all else: the API server can be slow.
    pub(super) fn launch(&self, attempt: &AttemptId, token: &AttemptToken, timeout: Duration) {
        let (shared, attempt) = (Arc::clone(&self.shared), attempt.clone());
        let token = token.secret().clone();
        let stop = Stop::new();
        lock(&shared.creating).insert(attempt.clone(), stop.clone());
        tokio::spawn(async move {
            let started = shared.start(&attempt, &token, timeout, &stop).await;
            if let Err(error) = &started {
                shared.record_failure(&attempt, error);
            }
            lock(&shared.creating).remove(&attempt);
            // A stop that came while the objects were created. Later ones delete the Job themselves.
            if stop.reason().is_some() {
                shared.delete(&attempt, &job_name(&attempt)).await;
            }
            // The pod may have changed before the server asked about it.
            let _ = shared.events.send(Event::Exited(attempt.clone()));
            if started.is_ok() {
                // A Job without a pod causes no events of a pod.
                let limit = shared.layer(&attempt).map(|layer| start_timeout(&layer.entry));
                let limit = limit.unwrap_or_default();
                tokio::time::sleep(FIRST_LOOK.min(limit)).await;
                let _ = shared.events.send(Event::Exited(attempt.clone()));
                // If its pod has not begun by then, the attempt has failed.
                tokio::time::sleep(limit.saturating_sub(FIRST_LOOK)).await;
                let _ = shared.events.send(Event::Exited(attempt));
            }
        });
    }

    /// Deletes the Job. Its runner gets SIGTERM, and reports how it ended.
    pub(super) async fn stop(&self, attempt: &AttemptId) -> Result<(), ExecutorError> {
        if let Some(stop) = lock(&self.shared.creating).get(attempt) {
            stop.request(StopReason::RunOver { status: "cancelled".to_owned() });
            return Ok(());
        }
        let name = job_name(attempt);
        if let Some(place) = self.shared.other_place(attempt) {
            return Err(ExecutorError(format!("its Job is in {place}")));
        }
        let deleted = self.shared.ask(Box::pin(self.shared.cluster.delete_job(&name))).await;
        deleted.map_err(ExecutorError)
    }

    /// Asks the cluster about the Job.
    pub(super) async fn probe(&self, attempt: &AttemptId) -> Probe {
        let shared = &self.shared;
        if self.is_creating(attempt) {
            return Probe::Liveness(Liveness::Alive);
        }
        let directory = shared.directory(attempt);
        // The server has not created the Job, or has deleted it. The pod can take its time to disappear. A runner that
        // has begun all the same is asked about: the answer to the creation can be lost.
        if let Some(result) = directory.failed_start().filter(|_| !directory.has_begun()) {
            return ended(result);
        }
        // All that it has reported but its final status.
        let catalog = shared.catalog.borrow().clone();
        let left = || {
            left_by(&directory, &DriftRules::of(&catalog, &attempt.layer))
                .map(AttemptResult::of_job)
        };
        let name = job_name(attempt);
        let state = match shared.ask(Box::pin(shared.cluster.job_state(&name))).await {
            Ok(state) => state,
            Err(error) => {
                // Each attempt asks several times a minute. The outage is told once.
                tracing::debug!(run = %attempt.run, "cannot ask for the Job `{name}`: {error}");
                return Probe::Liveness(Liveness::Unknown);
            }
        };
        if !matches!(state, JobState::Waiting(_)) {
            lock(&shared.waits).remove(attempt);
        }
        match state {
            JobState::Running => Probe::Liveness(Liveness::Alive),
            JobState::Silent { node } => {
                tracing::warn!(
                    run = %attempt.run, "the node `{node}` does not answer; the Job `{name}` may run there"
                );
                Probe::Liveness(Liveness::Unknown)
            }
            JobState::Waiting(wait) => shared.waiting(attempt, &name, wait).await,
            JobState::Missing => match (left(), shared.other_place(attempt)) {
                (Some(result), _) => ended(result),
                (None, None) => Probe::Liveness(Liveness::Gone),
                (None, Some(place)) => {
                    tracing::warn!(run = %attempt.run, "the Job `{name}` is in {place}, where this server does not look");
                    Probe::Liveness(Liveness::Unknown)
                }
            },
            JobState::Ended(end) => match left() {
                Some(result)
                    if leaves_reason_to_cluster(&result) && end.failure != JobFailure::Ended =>
                {
                    let of_cluster = shared.end(attempt, &end);
                    let failure = of_cluster.failure.or(result.failure);
                    ended(AttemptResult { ending: of_cluster.ending, failure, ..result })
                }
                Some(result) => ended(result),
                None => shared.ended_without_report(attempt, &end),
            },
        }
    }

    /// Whether the Job of the attempt is being created.
    pub(super) fn is_creating(&self, attempt: &AttemptId) -> bool {
        lock(&self.shared.creating).contains_key(attempt)
    }

    /// What the attempt waits for, if it has not begun.
    pub(super) fn waits_for(&self, attempt: &AttemptId) -> Option<String> {
        lock(&self.shared.waits).get(attempt).cloned()
    }
}

impl Shared {
    /// Asks again while questions have failed, also if no attempt has one any more: the outage would never end. Never ends.
    async fn ask_again(&self) {
        let nothing = JobName::for_run("nothing");
        loop {
            tokio::time::sleep(SILENCE).await;
            if self.outage.has(QUESTIONS) {
                // What comes of it is noted.
                let _ = self.ask(Box::pin(self.cluster.job_state(&nothing))).await;
            }
        }
    }

    fn hear(&self, news: JobNews) {
        match news {
            JobNews::Changed(job) => {
                if let Some(attempt) = attempt_of(&job) {
                    // The receiver is gone when the server stops.
                    let _ = self.events.send(Event::Exited(attempt));
                }
            }
            JobNews::Unwatched { objects, why } => {
                let sentence = format!(
                    "cannot watch {objects} in the namespace `{}`: {why}; the server notices the end of an attempt up \
                     to a minute late",
                    self.cluster.namespace()
                );
                self.outage.begins(&objects, &sentence);
            }
            JobNews::Watched { objects } => self.outage.ends(&objects),
        }
    }

    fn directory(&self, attempt: &AttemptId) -> AttemptDirectory {
        AttemptDirectory::of(&self.data.attempts(), attempt)
    }

    /// Where the Job of an attempt was created, if that is not where this server creates Jobs.
    fn other_place(&self, attempt: &AttemptId) -> Option<String> {
        let job = self.directory(attempt).job().ok().flatten()?;
        let is_here =
            job.namespace == self.cluster.namespace() && job.server == self.cluster.server();
        (!is_here).then(|| format!("the namespace `{}` of {}", job.namespace, job.server))
    }

    fn layer(&self, attempt: &AttemptId) -> Option<Arc<LayerSource>> {
        self.catalog.borrow().layers.get(&attempt.layer).cloned()
    }

    /// A Job whose runner has not begun. If it waits for too long, it is deleted.
    async fn waiting(&self, attempt: &AttemptId, name: &JobName, wait: JobWait) -> Probe {
        if let Some(why) = &wait.why {
            lock(&self.waits).insert(attempt.clone(), why.clone());
        }
        let directory = self.directory(attempt);
        if directory.has_begun() {
            // Its node may not have told the cluster.
            return Probe::Liveness(Liveness::Unknown);
        }
        // If the record cannot be read, only the limit counts.
        let is_incomplete = !lock(&self.complete).contains(attempt)
            && directory.job().is_ok_and(|job| job.is_none_or(|job| !job.is_complete));
        if is_incomplete && self.delete(attempt, name).await {
            tracing::warn!(run = %attempt.run, "the Job `{name}` is deleted: its token may not exist");
            let ending = Ending::Job(JobFailure::Incomplete);
            record_end(&directory, attempt, ending, "");
            return ended(AttemptResult::ended(ending));
        }
        let limit = self.layer(attempt).map(|layer| start_timeout(&layer.entry));
        let waited = Duration::try_from(Timestamp::now().duration_since(wait.since));
        if limit.is_none_or(|limit| waited.is_ok_and(|waited| waited < limit)) {
            return Probe::Liveness(Liveness::Alive);
        }
        if !self.delete(attempt, name).await {
            return Probe::Liveness(Liveness::Alive);
        }
        // If its runner begins at this moment, it is told that the attempt is over.
        let limit = humantime::format_duration(limit.unwrap_or_default());
        let why = wait.why.as_deref().unwrap_or("the cluster does not say why");
        let summary = format!("the pod did not begin within {limit}: {why}");
        let end = JobEnd { failure: wait.failure(), summary };
        record_end(&directory, attempt, Ending::Job(end.failure), &end.summary);
        self.ended_without_report(attempt, &end)
    }

    /// Deletes a Job whose runner has not begun. Returns whether that worked.
    async fn delete(&self, attempt: &AttemptId, name: &JobName) -> bool {
        match self.ask(Box::pin(self.cluster.delete_job(name))).await {
            Ok(()) => {
                lock(&self.waits).remove(attempt);
                true
            }
            Err(error) => {
                tracing::warn!(run = %attempt.run, "cannot delete the Job `{name}`: {error}");
                false
            }
        }
    }

    fn ended_without_report(&self, attempt: &AttemptId, end: &JobEnd) -> Probe {
        ended(self.end(attempt, end))
    }

    /// The end of an attempt that the cluster has ended, whose reason is written into its log.
    fn end(&self, attempt: &AttemptId, end: &JobEnd) -> AttemptResult {
        let advice = end.failure.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
        let why = format!("{}{advice}", end.summary);
        let log = self.directory(attempt).log();
        if let Err(error) = LogWriter::default().append_own(&log, format!("Error: {why}")) {
            tracing::warn!(run = %attempt.run, %error, "cannot write why an attempt ended to its log");
        }
        let failure = stored_failure(&why);
        AttemptResult { failure, ..AttemptResult::ended(Ending::Job(end.failure)) }
    }

    /// Asks the API server, unless it did not answer a moment ago.
    async fn ask<T>(
        &self,
        question: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, String> {
        let is_silent = lock(&self.silent).is_some_and(|at| at.elapsed() < SILENCE);
        if is_silent {
            return Err("the API server did not answer a moment ago".to_owned());
        }
        let answer = timeout(QUESTION, question).await;
        let is_unanswered = match &answer {
            Err(_) => true,
            Ok(Err(error)) => error.is_outcome_unknown(),
            Ok(Ok(_)) => false,
        };
        if is_unanswered {
            *lock(&self.silent) = Some(Instant::now());
        }
        let answer = match answer {
            Ok(answer) => answer.map_err(|error| chain(&error)),
            Err(_) => Err(format!("no answer within {} s", QUESTION.as_secs())),
        };
        match &answer {
            Ok(_) => self.outage.ends(QUESTIONS),
            Err(why) => {
                let sentence = format!(
                    "cannot ask the cluster for Jobs in the namespace `{}`: {why}; attempts go on, and their ends are \
                     noticed later",
                    self.cluster.namespace()
                );
                self.outage.begins(QUESTIONS, &sentence);
            }
        }
        answer
    }
}

/// The attempt of a Job.
fn attempt_of(job: &ChangedJob) -> Option<AttemptId> {
    let layer = job.annotations.get(LAYER)?.parse().ok()?;
    let (run, number) = job.run.rsplit_once('-')?;
    Some(AttemptId { layer, run: RunId::new(run), number: number.parse().ok()? })
}

/// Records why a Job was deleted, for the next probe.
fn record_end(directory: &AttemptDirectory, attempt: &AttemptId, ending: Ending, why: &str) {
    if let Err(error) = directory.record_failed_start(ending, why) {
        tracing::error!(run = %attempt.run, %error, "cannot record why a Job was deleted");
    }
}

/// Whether a signal or its machine ended the run, for which its cluster has the reason.
fn leaves_reason_to_cluster(result: &AttemptResult) -> bool {
    result.ending == Ending::Failed(FailureClass::Platform)
}

fn ended(result: AttemptResult) -> Probe {
    Probe::Ended(Box::new(result))
}

fn job_name(attempt: &AttemptId) -> JobName {
    JobName::for_run(&attempt.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
