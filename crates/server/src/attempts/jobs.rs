//! Starts attempts as Jobs of a Kubernetes cluster, which outlive the server.
//!
//! The name of a Job is derived from its attempt, so it is found again after a restart, and the cluster refuses a
//! second one. A watch tells which Jobs are worth to ask about; without it, the server asks when an attempt is silent.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use butler_base::error::chain;
use butler_cluster::{
    Cluster, ClusterError, JobEnd, JobFailure, JobName, JobState, JobWait, Manifests, Run, apply,
    watch_jobs,
};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::directory::AttemptDirectory;
use super::job_options::{JobSettings, LABEL, LAYER, job_options, start_timeout};
use super::log_writer::LogWriter;
use super::outcome::{ignored_drift, left_by};
use crate::controller::{ExecutorError, Probe};
use crate::data::DataDirectory;
use crate::event::Event;
use crate::layers::{Catalog, LayerSource};
use crate::model::{AttemptToken, Ending, FailureClass, Liveness, RunId};
use crate::store::{AttemptId, AttemptResult};

/// How long one question to the API server may take. All decisions wait for it.
const QUESTION: Duration = Duration::from_secs(10);

/// How long an API server that did not answer is not asked again.
const SILENCE: Duration = Duration::from_secs(30);

/// How long after the creation of a Job the server looks at it, also if no watch tells of a change.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// The time between two tries to create a Job, while the API server does not answer.
const AGAIN: Duration = Duration::from_secs(15);

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
    /// The attempts whose Jobs are being created.
    creating: Mutex<HashSet<AttemptId>>,
    /// What attempts wait for that have not begun.
    waits: Mutex<HashMap<AttemptId, String>>,
    /// When the API server did not answer last.
    silent: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for JobExecutor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("JobExecutor").field("settings", &self.shared.settings).finish()
    }
}

/// Why a Job was not created.
enum StartError {
    /// What the layer says cannot be used.
    Configuration(String),
    /// The attempt's own files.
    Files(std::io::Error),
    /// The cluster.
    Cluster(ClusterError),
}

impl StartError {
    fn ending(&self) -> Ending {
        match self {
            Self::Configuration(_) => Ending::Failed(FailureClass::Configuration),
            Self::Files(_) => Ending::Failed(FailureClass::Platform),
            Self::Cluster(error) => Ending::Job(error.failure()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Configuration(problem) => problem.clone(),
            Self::Files(error) => chain(error),
            Self::Cluster(error) => chain(error),
        }
    }
}

impl JobExecutor {
    /// Selects the cluster and the login. Sends no request.
    ///
    /// # Errors
    /// If no cluster is configured, or its configuration cannot be used.
    pub async fn connect(
        settings: JobSettings,
        data: DataDirectory,
        catalog: watch::Receiver<Arc<Catalog>>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<Self, ClusterError> {
        let namespace = settings.namespace.as_deref();
        let cluster = Cluster::connect(&settings.access, namespace).await?;
        let shared = Shared {
            settings,
            cluster,
            data,
            catalog,
            events,
            creating: Mutex::default(),
            waits: Mutex::default(),
            silent: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Tells when Jobs may have ended, or wait for something. Never ends.
    pub fn watch(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            let mut changed = Box::pin(watch_jobs(&shared.cluster, LABEL));
            while let Some(job) = changed.next().await {
                let layer = job.annotations.get(LAYER).and_then(|layer| layer.parse().ok());
                let run = job.run.rsplit_once('-');
                let run = run.and_then(|(run, number)| Some((run, number.parse().ok()?)));
                if let (Some(layer), Some((run, number))) = (layer, run) {
                    let attempt = AttemptId { layer, run: RunId::new(run), number };
                    // The receiver is gone when the server stops.
                    let _ = shared.events.send(Event::Exited(attempt));
                }
            }
        }
    }

    /// Creates the Job of a recorded attempt, beside all else: the API server can be slow.
    pub(super) fn launch(&self, attempt: &AttemptId, token: &AttemptToken) {
        let (shared, attempt) = (Arc::clone(&self.shared), attempt.clone());
        let token = token.secret().clone();
        lock(&shared.creating).insert(attempt.clone());
        tokio::spawn(async move {
            let started = shared.start(&attempt, &token).await;
            if let Err(error) = &started {
                shared.record_failure(&attempt, error);
            }
            lock(&shared.creating).remove(&attempt);
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
        if lock(&self.shared.creating).contains(attempt) {
            return Err(ExecutorError("its Job is being created".to_owned()));
        }
        let name = job_name(attempt);
        let deleted = self.shared.ask(Box::pin(self.shared.cluster.delete_job(&name))).await;
        deleted.map_err(ExecutorError)
    }

    /// Asks the cluster about the Job.
    pub(super) async fn probe(&self, attempt: &AttemptId) -> Probe {
        let shared = &self.shared;
        if lock(&shared.creating).contains(attempt) {
            return Probe::Liveness(Liveness::Alive);
        }
        let directory = shared.directory(attempt);
        // It could not be created, or has reported all but its final status.
        let catalog = shared.catalog.borrow().clone();
        let left = || left_by(&directory, &ignored_drift(&catalog, &attempt.layer));
        let name = job_name(attempt);
        let state = match shared.ask(Box::pin(shared.cluster.job_state(&name))).await {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!(run = %attempt.run, "cannot ask for the Job `{name}`: {error}");
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
            JobState::Missing => left().map_or(Probe::Liveness(Liveness::Gone), ended),
            JobState::Ended(end) => match left() {
                Some(result) if is_interrupted(&result) && end.failure != JobFailure::Ended => {
                    shared.write_end(attempt, &end);
                    ended(AttemptResult { ending: Ending::Job(end.failure), ..result })
                }
                Some(result) => ended(result),
                None => shared.ended_without_report(attempt, &end),
            },
        }
    }

    /// Whether the Job of the attempt is being created.
    pub(super) fn is_creating(&self, attempt: &AttemptId) -> bool {
        lock(&self.shared.creating).contains(attempt)
    }

    /// What the attempt waits for, if it has not begun.
    pub(super) fn waits_for(&self, attempt: &AttemptId) -> Option<String> {
        lock(&self.shared.waits).get(attempt).cloned()
    }
}

impl Shared {
    fn directory(&self, attempt: &AttemptId) -> AttemptDirectory {
        AttemptDirectory::of(&self.data.attempts(), attempt)
    }

    fn layer(&self, attempt: &AttemptId) -> Option<Arc<LayerSource>> {
        self.catalog.borrow().layers.get(&attempt.layer).cloned()
    }

    /// Creates the objects of an attempt. As long as the API server does not answer, it is tried again, until the
    /// attempt should have begun.
    async fn start(
        &self,
        attempt: &AttemptId,
        token: &secrecy::SecretString,
    ) -> Result<(), StartError> {
        let directory = self.directory(attempt);
        let name = job_name(attempt);
        directory.create_for_job().map_err(StartError::Files)?;
        directory.record_job(name.as_str()).map_err(StartError::Files)?;
        let Some(layer) = self.layer(attempt) else {
            let problem = format!("the layer `{}` is not in the configuration", attempt.layer);
            return Err(StartError::Configuration(problem));
        };
        let options =
            job_options(&self.settings, attempt, &layer).map_err(StartError::Configuration)?;
        let end = Instant::now() + start_timeout(&layer.entry);
        loop {
            let run = Run {
                endpoint: self.settings.endpoint.clone(),
                id: attempt.to_string(),
                token: token.clone(),
            };
            // A second request for the same attempt is answered with the Job that exists.
            let stop = butler_base::cancel::Stop::new();
            match Box::pin(apply(&self.cluster, Manifests::new(&options, run), &stop)).await {
                Ok(_) => return Ok(()),
                Err(error) => {
                    let is_temporary = matches!(
                        error.failure(),
                        JobFailure::Unreachable | JobFailure::Access | JobFailure::Quota
                    );
                    if !is_temporary || Instant::now() + AGAIN > end {
                        return Err(StartError::Cluster(error));
                    }
                    let why = chain(&error);
                    if lock(&self.waits).insert(attempt.clone(), why.clone()).as_ref() != Some(&why)
                    {
                        tracing::warn!(run = %attempt.run, "cannot create the Job `{name}` yet: {why}");
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// The attempt ends as one that has left this.
    fn record_failure(&self, attempt: &AttemptId, error: &StartError) {
        lock(&self.waits).remove(attempt);
        let directory = self.directory(attempt);
        let text = format!("Error: cannot start the attempt: {}", error.text());
        tracing::warn!(run = %attempt.run, "{text}");
        let recorded = LogWriter::default()
            .append_own(&directory.log(), text)
            .and_then(|()| directory.record_failed_start(error.ending()));
        if let Err(error) = recorded {
            tracing::error!(run = %attempt.run, %error, "cannot record why an attempt was not started");
        }
    }

    /// A Job whose runner has not begun. If it waits for too long, it is deleted.
    async fn waiting(&self, attempt: &AttemptId, name: &JobName, wait: JobWait) -> Probe {
        if let Some(why) = &wait.why {
            lock(&self.waits).insert(attempt.clone(), why.clone());
        }
        if wait.lacks_token(name) && self.delete(attempt, name).await {
            tracing::warn!(run = %attempt.run, "the server ended before the Job `{name}` had its token");
            return ended(AttemptResult::ended(Ending::NeverStarted));
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
        self.ended_without_report(attempt, &JobEnd { failure: wait.failure(), summary })
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
        self.write_end(attempt, end);
        ended(AttemptResult::ended(Ending::Job(end.failure)))
    }

    /// Writes into the log why the cluster ended an attempt.
    fn write_end(&self, attempt: &AttemptId, end: &JobEnd) {
        let text = format!("Error: {}", end.summary);
        let log = self.directory(attempt).log();
        if let Err(error) = LogWriter::default().append_own(&log, text) {
            tracing::warn!(run = %attempt.run, %error, "cannot write why an attempt ended to its log");
        }
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
        match answer {
            Ok(answer) => answer.map_err(|error| chain(&error)),
            Err(_) => Err(format!("no answer within {} s", QUESTION.as_secs())),
        }
    }
}

/// Whether a signal ended the run, for which its cluster has the reason.
fn is_interrupted(result: &AttemptResult) -> bool {
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
