//! The registry that attempts report to, on the store of the server.

mod plans;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use butler_base::blocking::blocking;
use butler_base::error::{FailureClass, chain};
use butler_base::event::LogLine;
use butler_registry::{
    Found, NoAnswer, PlanReport, Recorded, Registry, RegistryFailure, Report, StatusReport,
};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};

use super::archive_stream::stream;
use super::configuration::{configuration, is_saved, with_state_report};
use super::directory::AttemptDirectory;
use super::failure_text::stored_failure;
use super::log_watch::LogWatch;
use super::log_writer::{LogWriter, most_log};
use super::missing_files;
use super::outcome::{DriftRules, EndOfRun, KeptPlan, drift_of};
use super::plan_file::PlanFiles;
use super::secrets::Secrets;
use super::source::Archive;
use crate::artifacts::AttemptFiles;
use crate::data::DataDirectory;
use crate::event::Event;
use crate::layers::{Catalog, LayerSource};
use crate::model::{Attempt, Ending, LayerName, Run, RunId};
use crate::store::{AttemptId, AttemptResult, Note, Outcome, Store};

/// The time between two stored heartbeats of an attempt. Attempts send their logs more often.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// An attempt that was silent for so long has ended, or what is remembered of it is read again.
const FORGOTTEN: Duration = Duration::from_hours(1);

/// Answers the requests of attempts.
#[derive(Debug)]
pub struct StoreRegistry<S> {
    store: Arc<S>,
    catalog: watch::Receiver<Arc<Catalog>>,
    data: DataDirectory,
    secrets: Secrets,
    plan_files: PlanFiles,
    files: Arc<AttemptFiles>,
    /// Gets the ends of attempts.
    events: mpsc::UnboundedSender<Event>,
    sessions: Mutex<HashMap<AttemptId, Session>>,
    /// Those who follow logs.
    log_watch: Arc<LogWatch>,
}

/// What is remembered of an attempt while it runs. It can be lost.
#[derive(Debug, Default)]
struct Session {
    /// When a heartbeat was last stored.
    heard: Option<Instant>,
    log: LogWriter,
}

/// An attempt that a request is about.
#[derive(Debug)]
pub struct AttemptOfRun {
    id: AttemptId,
    run: Run,
    attempt: Attempt,
}

impl<S: Store + 'static> StoreRegistry<S> {
    /// A registry for the attempts in `store`. It tells `events` which layers to decide about.
    pub fn new(
        store: Arc<S>,
        catalog: watch::Receiver<Arc<Catalog>>,
        data: DataDirectory,
        secrets: Secrets,
        plan_files: PlanFiles,
        files: Arc<AttemptFiles>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let (sessions, log_watch) = (Mutex::default(), Arc::default());
        Self { store, catalog, data, secrets, plan_files, files, events, sessions, log_watch }
    }

    /// Those who follow logs. They are woken when an attempt has sent lines.
    #[must_use]
    pub fn log_watch(&self) -> Arc<LogWatch> {
        Arc::clone(&self.log_watch)
    }

    fn directory(&self, attempt: &AttemptId) -> AttemptDirectory {
        AttemptDirectory::of(&self.data.attempts(), attempt)
    }

    /// The layer of an attempt. If the configuration no longer has it, the attempt fails.
    async fn layer(&self, attempt: &AttemptId) -> Result<Arc<LayerSource>, RegistryFailure> {
        let catalog = self.catalog.borrow().clone();
        if let Some(layer) = catalog.layers.get(&attempt.layer) {
            return Ok(Arc::clone(layer));
        }
        // The server was just started. The attempt asks again.
        if catalog.may_be_missing(&attempt.layer) {
            let why = format!("what defines the layer `{}` has not been read yet", attempt.layer);
            return Err(NoAnswer::NotYet(why).into());
        }
        let why = format!("the layer `{}` is no longer in the configuration", attempt.layer);
        Err(self.refuse(attempt, FailureClass::Configuration, why).await)
    }

    /// The limit of the log of an attempt, in bytes.
    fn most_log(&self, name: &LayerName) -> u64 {
        most_log(&self.catalog.borrow(), name)
    }

    /// Changes what is remembered of an attempt.
    fn session<T>(&self, attempt: &AttemptId, change: impl FnOnce(&mut Session) -> T) -> T {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if !sessions.contains_key(attempt) {
            // Attempts whose process was found to be gone report no end.
            sessions.retain(|_, session| {
                session.heard.is_some_and(|heard| heard.elapsed() < FORGOTTEN)
            });
        }
        change(sessions.entry(attempt.clone()).or_default())
    }

    /// Stores that the attempt was heard of, if that was not done just before. Returns whether the
    /// attempt still counts.
    async fn hear(&self, attempt: &AttemptId) -> Result<Outcome, RegistryFailure> {
        let is_recent =
            |session: &mut Session| session.heard.is_some_and(|heard| heard.elapsed() < HEARTBEAT);
        if self.session(attempt, is_recent) {
            return Ok(Outcome::Made);
        }
        let made = self.store.note(attempt, Note::Heartbeat).await?;
        if made == Outcome::Made {
            self.session(attempt, |session| session.heard = Some(Instant::now()));
        }
        Ok(made)
    }

    async fn append(
        &self,
        attempt: &AttemptId,
        lines: Vec<LogLine>,
    ) -> Result<Recorded, RegistryFailure> {
        if self.hear(attempt).await? == Outcome::Refused {
            return Ok(Recorded::Over);
        }
        let (directory, limit) = (self.directory(attempt), self.most_log(&attempt.layer));
        let log = self.session(attempt, |session| session.log.clone());
        let write = move || log.append(&directory.log(), &lines, limit);
        tokio::task::spawn_blocking(write).await??;
        self.log_watch.written(attempt);
        Ok(Recorded::Recorded)
    }

    /// Ends an attempt that cannot get its configuration or its files, and would ask for hours. Returns
    /// the answer to its request.
    async fn refuse(
        &self,
        attempt: &AttemptId,
        class: FailureClass,
        why: String,
    ) -> RegistryFailure {
        let result = AttemptResult::ended(Ending::Failed(class));
        self.end_early(attempt, result, why).await
    }

    async fn end_early(
        &self,
        attempt: &AttemptId,
        result: AttemptResult,
        why: String,
    ) -> RegistryFailure {
        let result = AttemptResult { failure: stored_failure(&why), ..result };
        match self.fail(attempt, result, &why).await {
            Ok(()) => NoAnswer::Ended(format!("attempt {attempt}: {why}")).into(),
            Err(error) => error,
        }
    }

    async fn fail(
        &self,
        attempt: &AttemptId,
        result: AttemptResult,
        why: &str,
    ) -> Result<(), RegistryFailure> {
        let directory = self.directory(attempt);
        let text = format!("Error: {why}");
        let log = self.session(attempt, |session| session.log.clone());
        tokio::task::spawn_blocking(move || log.append_own(&directory.log(), text)).await??;
        if self.store.finish(attempt, result).await? == Outcome::Made {
            self.forget(attempt);
        }
        Ok(())
    }

    /// Adds to the log of an attempt that has failed which files it missed that its commit has.
    async fn explain_missing_files(&self, attempt: &AttemptOfRun) {
        let Some(layer) = self.catalog.borrow().layers.get(&attempt.id.layer).cloned() else {
            return;
        };
        let (directory, mirror) =
            (self.directory(&attempt.id), self.data.mirror(&layer.configured.repository));
        let commit = attempt.run.commit().clone();
        let log = self.session(&attempt.id, |session| session.log.clone());
        let explain = move || {
            let advice = missing_files::advice(&directory, &layer, &mirror, &commit)?;
            let mut advice = advice.into_iter();
            advice.try_for_each(|sentence| log.append_own(&directory.log(), sentence))
        };
        let explained = tokio::task::spawn_blocking(explain).await.map_err(io::Error::other);
        if let Err(error) = explained.flatten() {
            tracing::warn!(%error, "cannot look for files that an attempt missed");
        }
    }

    /// Forgets an attempt that has ended, and tells others that they may start.
    fn forget(&self, attempt: &AttemptId) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(attempt);
        // The receiver is gone when the server stops.
        let _ = self.events.send(Event::Finished(attempt.layer.clone()));
    }

    async fn keep_plan(
        &self,
        attempt: &AttemptId,
        plan: PlanReport,
    ) -> Result<Recorded, RegistryFailure> {
        if self.hear(attempt).await? == Outcome::Refused {
            return Ok(Recorded::Over);
        }
        let directory = self.directory(attempt);
        tokio::task::spawn_blocking(move || {
            let json = plan.plan_json.as_deref().map(serde_json::value::RawValue::get);
            // The document can be a string that contains it.
            let unpacked = json.and_then(|json| serde_json::from_str::<String>(json).ok());
            directory.write_plan(unpacked.as_deref().or(json), plan.plan_text.as_deref())
        })
        .await??;
        Ok(Recorded::Recorded)
    }

    async fn keep_result(
        &self,
        attempt: &AttemptId,
        account: Box<RawValue>,
    ) -> Result<Recorded, RegistryFailure> {
        if self.hear(attempt).await? == Outcome::Refused {
            return Ok(Recorded::Over);
        }
        let directory = self.directory(attempt);
        tokio::task::spawn_blocking(move || directory.write_result(account.get())).await??;
        Ok(Recorded::Recorded)
    }

    async fn status_reported(
        &self,
        attempt: &AttemptOfRun,
        report: StatusReport,
    ) -> Result<Recorded, RegistryFailure> {
        let AttemptOfRun { id, run, attempt: known } = attempt;
        let end = EndOfRun::reported(report);
        let status = end.status.clone();
        let is_job = self.directory(id).is_job();
        if end.leaves_reason_to_cluster() && known.stop.is_none() && is_job {
            // Only the cluster knows why it sent the signal, or what its node lacks. The account of the run is there already.
            let noted = self.hear(id).await?;
            let _ = self.events.send(Event::Exited(id.clone()));
            return Ok(match noted {
                Outcome::Made => Recorded::Recorded,
                Outcome::Refused => Recorded::Over,
            });
        }
        let made = if end.is_final() {
            let (directory, limit) = (self.directory(id), self.most_log(&id.layer));
            let log = self.session(id, |session| session.log.clone());
            let (action, rules) = (run.action, DriftRules::of(&self.catalog.borrow(), &id.layer));
            let compared = end.compared(&rules);
            let (plan, drift) = tokio::task::spawn_blocking(move || {
                // The server was away for too long for some lines, but not for the end.
                if let Err(error) = log.take_up(&directory, limit) {
                    let path = directory.path().display();
                    tracing::warn!(%path, %error, "cannot take up undelivered log lines");
                }
                let drift = drift_of(&directory, action, &rules, compared);
                (KeptPlan::of(&directory), drift)
            })
            .await?;
            match end.result(run.action, plan, drift, compared) {
                Some(result) => {
                    let result = if is_job { result.of_job() } else { result };
                    if matches!(result.ending, Ending::Failed(_)) {
                        self.explain_missing_files(attempt).await;
                    }
                    let reported = Some(status);
                    self.store.finish(id, AttemptResult { reported, ..result }).await?
                }
                None => Outcome::Refused,
            }
        } else {
            self.store.note(id, Note::Heartbeat).await?
        };
        if made == Outcome::Made && end.is_final() {
            self.forget(id);
        }
        Ok(match made {
            Outcome::Made => Recorded::Recorded,
            Outcome::Refused => Recorded::Over,
        })
    }
}

impl<S: Store + 'static> Registry for StoreRegistry<S> {
    type Run = AttemptOfRun;

    async fn find(&self, id: &str) -> Result<Option<Found<AttemptOfRun>>, RegistryFailure> {
        let Some((run, number)) = id.rsplit_once('-') else { return Ok(None) };
        let Ok(number) = number.parse::<u32>() else { return Ok(None) };
        let Some((layer, run)) = self.store.run(&RunId::new(run)).await? else { return Ok(None) };
        let known = run.attempts.iter().find(|attempt| attempt.number == number);
        let Some(attempt) = known.cloned() else { return Ok(None) };
        let id = AttemptId { layer, run: run.id.clone(), number };
        let (token, is_over) = (attempt.token, attempt.end.is_some());
        let reported = attempt.reported.clone();
        Ok(Some(Found { run: AttemptOfRun { id, run, attempt }, token, is_over, reported }))
    }

    async fn status(&self, attempt: &AttemptOfRun) -> Result<String, RegistryFailure> {
        let AttemptOfRun { id, attempt: known, .. } = attempt;
        // A process that shows up after it was asked to stop has missed the signal.
        let missed_stop = known.stop.is_some() && !known.launched;
        if known.end.is_some() || missed_stop || self.hear(id).await? == Outcome::Refused {
            return Ok("cancelled".to_owned());
        }
        Ok("running".to_owned())
    }

    async fn configuration(&self, attempt: &AttemptOfRun) -> Result<Value, RegistryFailure> {
        let AttemptOfRun { id, run, .. } = attempt;
        let _ = self.hear(id).await?;
        let layer = self.layer(id).await?;
        let directory = self.directory(id);
        let is_job = directory.is_job();
        if is_job {
            directory.record_begin()?;
        }
        let known = self.store.snapshot(&id.layer, "", &[]).await?.facts.state;
        let compare = layer.configured.layer.drift.map(|it| it.compare).unwrap_or_default();
        let made = {
            let (layer, id, run) = (Arc::clone(&layer), id.clone(), run.clone());
            let (data, secrets) = (self.data.clone(), self.secrets.clone());
            let made = move |_: &_| configuration(&layer, &id, &run, &data, &secrets, is_job);
            blocking(made).await.map(|made| with_state_report(made, known.as_ref(), compare))
        };
        let configuration = match made {
            Ok(configuration) => configuration,
            Err(error) => {
                let class = if error.is_temporary() {
                    FailureClass::Network
                } else {
                    FailureClass::Credentials
                };
                return Err(self.refuse(id, class, chain(&error)).await);
            }
        };
        if is_saved(&layer, run) {
            self.keep_inputs(id, &configuration).await?;
        }
        self.check_inputs(attempt, &layer, &configuration).await?;
        Ok(configuration)
    }

    async fn source(&self, attempt: &AttemptOfRun) -> Result<Option<Body>, RegistryFailure> {
        let layer = self.layer(&attempt.id).await?;
        let mirror = self.data.mirror(&layer.configured.repository);
        let commit = attempt.run.commit().clone();
        let find = move || Archive::of(&mirror, &layer, &commit);
        match tokio::task::spawn_blocking(find).await? {
            Ok(archive) => Ok(Some(stream(move |output| archive.write(output)))),
            Err(error) => Err(self.refuse(&attempt.id, error.class(), chain(&error)).await),
        }
    }

    async fn plan_file(&self, attempt: &AttemptOfRun) -> Result<Option<Body>, RegistryFailure> {
        self.plan_to_apply(attempt).await
    }

    async fn save_plan_file(
        &self,
        attempt: &AttemptOfRun,
        file: Body,
    ) -> Result<Option<Recorded>, RegistryFailure> {
        self.save_plan(attempt, file).await
    }

    async fn record(
        &self,
        attempt: &AttemptOfRun,
        report: Report,
    ) -> Result<Recorded, RegistryFailure> {
        match report {
            Report::Status(report) => self.status_reported(attempt, report).await,
            Report::Logs(lines) => self.append(&attempt.id, lines).await,
            Report::Plan(plan) => self.keep_plan(&attempt.id, plan).await,
            // Values of outputs can be secret, and nothing reads them.
            Report::Outputs(_) => Ok(Recorded::Recorded),
            Report::Result(account) => self.keep_result(&attempt.id, account).await,
        }
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
