//! Creates the Job of an attempt.

use std::time::Duration;

use butler_base::cancel::Stop;
use butler_base::error::chain;
use butler_cluster::{ClusterError, JobFailure, Manifests, Run, apply};
use tokio::time::{Instant, timeout};

use super::super::directory::RecordedJob;
use super::super::job_options::{job_options, start_timeout};
use super::super::log_writer::LogWriter;
use super::{Shared, job_name, lock};
use crate::event::Event;
use crate::model::{Ending, FailureClass};
use crate::store::AttemptId;

/// The time between two tries to create a Job, while the API server does not answer.
const AGAIN: Duration = Duration::from_secs(15);

/// Why a Job was not created.
pub(super) enum StartError {
    /// What the layer says cannot be used.
    Configuration(String),
    /// The attempt's own files.
    Files(std::io::Error),
    /// The cluster.
    Cluster(ClusterError),
    /// It was asked to stop.
    Stopped,
}

impl StartError {
    fn ending(&self) -> Ending {
        match self {
            Self::Configuration(_) => Ending::Failed(FailureClass::Configuration),
            Self::Files(_) => Ending::Failed(FailureClass::Platform),
            Self::Cluster(error) => Ending::Job(error.failure()),
            Self::Stopped => Ending::Job(JobFailure::Incomplete),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Configuration(problem) => problem.clone(),
            Self::Files(error) => chain(error),
            Self::Cluster(error) => chain(error),
            Self::Stopped => "it was asked to stop".to_owned(),
        }
    }
}

impl Shared {
    /// Creates the objects of an attempt. As long as the API server does not answer, it is tried again, until the
    /// attempt should have begun.
    pub(super) async fn start(
        &self,
        attempt: &AttemptId,
        token: &secrecy::SecretString,
        timeout_of_run: Duration,
        stop: &Stop,
    ) -> Result<(), StartError> {
        let directory = self.directory(attempt);
        let name = job_name(attempt);
        directory.create_for_job().map_err(StartError::Files)?;
        let mut job = RecordedJob {
            namespace: self.cluster.namespace().to_owned(),
            server: self.cluster.server().to_owned(),
            is_complete: false,
        };
        directory.record_job(&job).map_err(StartError::Files)?;
        let Some(layer) = self.layer(attempt) else {
            let problem = format!("the layer `{}` is not in the configuration", attempt.layer);
            return Err(StartError::Configuration(problem));
        };
        let options = job_options(&self.settings, attempt, &layer, timeout_of_run);
        let options = options.map_err(StartError::Configuration)?;
        let end = Instant::now() + start_timeout(&layer.entry);
        loop {
            let run = Run {
                endpoint: self.settings.endpoint.clone(),
                id: attempt.to_string(),
                token: token.clone(),
            };
            if stop.reason().is_some() {
                return Err(StartError::Stopped);
            }
            match Box::pin(apply(&self.cluster, Manifests::new(&options, run), stop)).await {
                Ok(_) => {
                    job.is_complete = true;
                    // The Job exists, so the start has not failed.
                    if let Err(error) = directory.record_job(&job) {
                        tracing::warn!(run = %attempt.run, %error, "cannot record that the Job `{name}` is complete");
                        lock(&self.complete).insert(attempt.clone());
                    }
                    return Ok(());
                }
                // An earlier request had an effect, but it is not known whether all objects exist. If its runner
                // does not begin, the Job is deleted.
                Err(ClusterError::Exists { .. }) => return Ok(()),
                // The answer to an earlier request was lost, but its effect was not.
                Err(_) if directory.has_begun() => return Ok(()),
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
                        // The layer shows it.
                        let _ = self.events.send(Event::Exited(attempt.clone()));
                    }
                    let _ = timeout(AGAIN, stop.requested()).await;
                }
            }
        }
    }

    /// The attempt ends as one that has left this.
    pub(super) fn record_failure(&self, attempt: &AttemptId, error: &StartError) {
        lock(&self.waits).remove(attempt);
        let directory = self.directory(attempt);
        let why = format!("cannot start the attempt: {}", error.text());
        let text = format!("Error: {why}");
        tracing::warn!(run = %attempt.run, "{text}");
        let recorded = LogWriter::default()
            .append_own(&directory.log(), text)
            .and_then(|()| directory.record_failed_start(error.ending(), &why));
        if let Err(error) = recorded {
            tracing::error!(run = %attempt.run, %error, "cannot record why an attempt was not started");
        }
    }
}
