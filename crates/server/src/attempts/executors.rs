//! Starts attempts as processes or as Jobs, and finds those of both kinds: a server can have been started with the
//! other executor before.

use std::sync::Arc;
use std::time::Duration;

use super::directory::AttemptDirectory;
use super::executor::{ProcessExecutor, has_commit};
use super::jobs::JobExecutor;
use crate::controller::{Executor, ExecutorError, Probe};
use crate::data::DataDirectory;
use crate::model::{AttemptToken, Commit, LayerName, Liveness, as_job, server_of};
use crate::store::AttemptId;

/// Both executors.
#[derive(Debug)]
pub struct Executors {
    data: DataDirectory,
    processes: Arc<ProcessExecutor>,
    /// Starts all attempts, if it is there.
    jobs: Option<JobExecutor>,
    /// The place of what is started.
    place: String,
}

impl Executors {
    /// Starts Jobs if `jobs` is given, and processes otherwise.
    #[must_use]
    pub fn new(
        data: DataDirectory,
        processes: Arc<ProcessExecutor>,
        jobs: Option<JobExecutor>,
    ) -> Self {
        let own = processes.place();
        let place = if jobs.is_some() { as_job(own) } else { own.to_owned() };
        Self { data, processes, jobs, place }
    }

    /// Waits until all processes that were started have ended. Jobs are not waited for.
    pub async fn all_ended(&self) {
        self.processes.all_ended().await;
    }

    fn is_job(&self, attempt: &AttemptId) -> bool {
        AttemptDirectory::of(&self.data.attempts(), attempt).is_job()
    }
}

impl Executor for Executors {
    async fn launch(
        &self,
        attempt: &AttemptId,
        token: &AttemptToken,
        timeout: Duration,
    ) -> Result<(), ExecutorError> {
        match &self.jobs {
            Some(jobs) => {
                jobs.launch(attempt, token, timeout);
                Ok(())
            }
            None => self.processes.launch(attempt, token, timeout).await,
        }
    }

    async fn stop(&self, attempt: &AttemptId) -> Result<(), ExecutorError> {
        match &self.jobs {
            Some(jobs) if self.is_job(attempt) => jobs.stop(attempt).await,
            None if self.is_job(attempt) => {
                let why = "it is a Job, and this server is started without `--executor kubernetes`";
                Err(ExecutorError(why.to_owned()))
            }
            _ => self.processes.stop(attempt).await,
        }
    }

    async fn probe(&self, attempt: &AttemptId) -> Probe {
        match &self.jobs {
            Some(jobs) if self.is_job(attempt) || jobs.is_creating(attempt) => {
                jobs.probe(attempt).await
            }
            None if self.is_job(attempt) => {
                tracing::warn!(
                    run = %attempt.run,
                    "an attempt is a Job, which only a server with `--executor kubernetes` can ask for"
                );
                Probe::Liveness(Liveness::Unknown)
            }
            _ => self.processes.probe(attempt).await,
        }
    }

    fn waits_for(&self, attempt: &AttemptId) -> Option<String> {
        self.jobs.as_ref()?.waits_for(attempt)
    }

    fn remove_plan(&self, attempt: &AttemptId) {
        self.processes.remove_plan(attempt);
    }

    fn move_files(&self, from: &[LayerName], to: &LayerName) -> Result<(), ExecutorError> {
        self.processes.move_files(from, to)
    }

    fn place(&self) -> &str {
        &self.place
    }

    fn reaches(&self, place: &str) -> bool {
        server_of(place) == self.processes.place()
    }

    fn has_commit(&self, repository: &str, commit: &Commit) -> bool {
        has_commit(&self.data, repository, commit)
    }
}
