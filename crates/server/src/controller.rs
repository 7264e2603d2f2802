//! Decides about layers, and executes what was decided.
//!
//! The controller keeps nothing between two steps: everything is read from the store again. So it
//! can end at any moment, and two of them can work on one store.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::decision::{self, Decision, Input, Step, decide};
use crate::model::{
    Action, AttemptToken, Commit, Facts, Layer, LayerName, Liveness, RepositorySlots, Run, RunId,
    Surroundings,
};
use crate::store::{
    AttemptId, AttemptResult, Note, Outcome, RunningCount, Snapshot, StartRequest, Store,
    StoreError, StoreResult,
};
use crate::windows::{Window, closed_actions};

/// Starts, stops and finds the processes of attempts.
pub trait Executor: Send + Sync {
    /// Starts the process of a recorded attempt. The process itself asks the store before it does
    /// anything, so a start that is late or repeated is harmless. `timeout` is when the attempt is asked to stop.
    ///
    /// # Errors
    /// If the process may not have been started.
    fn launch(
        &self,
        attempt: &AttemptId,
        token: &AttemptToken,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), ExecutorError>> + Send;

    /// Asks the process to stop.
    ///
    /// # Errors
    /// If the request may not have reached the process.
    fn stop(&self, attempt: &AttemptId) -> impl Future<Output = Result<(), ExecutorError>> + Send;

    /// Finds out whether the process exists, or what it left.
    fn probe(&self, attempt: &AttemptId) -> impl Future<Output = Probe> + Send;

    /// Removes the file of the plan that an attempt has saved, if it exists. It is not needed any more. What
    /// cannot be removed is left to a later call.
    fn remove_plan(&self, attempt: &AttemptId);

    /// Moves what is kept below the names of layers, above all their states, to the layer `to`. It can be
    /// repeated after a crash.
    ///
    /// # Errors
    /// If something was not moved, for example because `to` has a state already.
    fn move_files(&self, from: &[LayerName], to: &LayerName) -> Result<(), ExecutorError>;

    /// Where attempts run.
    fn place(&self) -> &str;

    /// Whether an attempt can get the files of this commit. Another server can have read it first.
    fn has_commit(&self, _repository: &str, _commit: &Commit) -> bool {
        true
    }

    /// What an attempt waits for before it begins, if it is known.
    fn waits_for(&self, _attempt: &AttemptId) -> Option<String> {
        None
    }

    /// Whether attempts at this place can be stopped and looked for from here.
    fn reaches(&self, place: &str) -> bool {
        place == self.place()
    }
}

/// The process of an attempt could not be reached.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach the process of the attempt: {0}")]
pub struct ExecutorError(pub String);

/// A step was not executed, or only in part.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The attempt could not be reached.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
}

/// What is known about the process of an attempt.
#[derive(Clone, Debug)]
pub enum Probe {
    /// Whether it exists. If it is gone, it left no result.
    Liveness(Liveness),
    /// It has ended and left this.
    Ended(Box<AttemptResult>),
}

/// A layer of the configuration, with what the store must compare for it.
#[derive(Clone, Debug)]
pub struct ConfiguredLayer {
    /// What the decision needs.
    pub layer: Layer,
    /// The name of its repository.
    pub repository: String,
    /// The identity of its state.
    pub state_key: String,
    /// When actions on it are forbidden.
    pub windows: Vec<Arc<Window>>,
}

/// What this server can run of a layer now.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most attempts at the same time.
    pub concurrency: u32,
    /// The most attempts of layers of its repository at the same time, if that is limited.
    pub repository_concurrency: Option<u32>,
    /// How many more attempts may start this minute: checks for drift, and those of the first pass.
    pub starts_left: u32,
    /// The time until one more may start.
    pub starts_again: Duration,
    /// Whether the layer has not been at rest since the server started.
    pub is_first_pass: bool,
    /// The namespace that may define the layer, if its custom resources are not known yet.
    pub unlisted: Option<String>,
    /// Why nothing is started, for example because the disk is nearly full.
    pub no_starts: Option<String>,
    /// The fence of this server's right to decide, if several servers share the store.
    pub fence: Option<u64>,
}

impl Limits {
    /// At most `concurrency` attempts at the same time.
    #[must_use]
    pub const fn concurrency(concurrency: u32) -> Self {
        Self {
            concurrency,
            repository_concurrency: None,
            starts_left: u32::MAX,
            starts_again: Duration::ZERO,
            is_first_pass: false,
            unlisted: None,
            no_starts: None,
            fence: None,
        }
    }
}

/// Decides about layers and executes what was decided.
#[derive(Debug)]
pub struct Controller<'a, S, E> {
    store: &'a S,
    executor: &'a E,
    limits: Limits,
}

impl<'a, S: Store, E: Executor> Controller<'a, S, E> {
    /// A controller on this store.
    pub const fn new(store: &'a S, executor: &'a E, limits: Limits) -> Self {
        Self { store, executor, limits }
    }

    /// Decides about a layer, on what the store knows now. Returns that too.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn decide(
        &self,
        name: &LayerName,
        configured: Option<&ConfiguredLayer>,
    ) -> StoreResult<(Snapshot, Decision)> {
        let (state_key, after) = configured.map_or_else(
            || (String::new(), Vec::new()),
            |configured| (configured.state_key.clone(), configured.layer.after.clone()),
        );
        let snapshot = self.store.snapshot(name, &state_key, &after).await?;
        let formerly = configured.and_then(|configured| configured.layer.formerly.as_ref());
        let former = match formerly {
            Some(formerly) => self.store.former(name, &formerly.name).await?,
            None => None,
        };
        let (free_slots, free_drift_slots) =
            free_slots(self.limits.concurrency, snapshot.running.total());
        let surroundings = Surroundings {
            upstreams: snapshot.upstreams.clone(),
            free_slots,
            free_drift_slots,
            repository: configured.and_then(|it| self.repository_slots(it, &snapshot)),
            starts_left: self.limits.starts_left,
            is_first_pass: self.limits.is_first_pass,
            starts_again: snapshot.now + self.limits.starts_again,
            closed_windows: configured
                .map(|configured| closed_actions(&configured.windows, snapshot.now))
                .unwrap_or_default(),
            breaker: snapshot.breaker,
            former,
            unlisted: self.limits.unlisted.clone(),
            no_starts: self.limits.no_starts.clone(),
            start_waits_for: snapshot.facts.runs.iter().find_map(|run| {
                let number = run.running()?.number;
                let (layer, run) = (name.clone(), run.id.clone());
                self.executor.waits_for(&AttemptId { layer, run, number })
            }),
            reaches_attempt: snapshot
                .facts
                .runs
                .iter()
                .filter_map(Run::running)
                .all(|attempt| self.executor.reaches(&attempt.place)),
        };
        let input = Input {
            name,
            layer: configured.map(|configured| &configured.layer),
            observation: snapshot.observation.as_ref(),
            facts: &snapshot.facts,
            surroundings: &surroundings,
            now: snapshot.now,
        };
        let decision = decide(&input);
        Ok((snapshot, decision))
    }

    /// Removes the files of the layer's plans that can no longer be applied. Only its newest runs can still have
    /// one, but decisions do not read all of these: a newer digest or a newer plan hides them.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn remove_plans(
        &self,
        name: &LayerName,
        configured: Option<&ConfiguredLayer>,
        snapshot: &Snapshot,
    ) -> StoreResult<()> {
        let layer = configured.map(|configured| &configured.layer);
        let runs = newest_runs(self.store, name).await?;
        let needed = needed_plan_files(name, layer, snapshot, &runs);
        for run in runs.iter().filter(|run| run.action == Action::Plan) {
            for attempt in &run.attempts {
                let (run, number) = (run.id.clone(), attempt.number);
                if !needed.contains(&(run.clone(), number)) {
                    self.executor.remove_plan(&AttemptId { layer: name.clone(), run, number });
                }
            }
        }
        Ok(())
    }

    /// What is left of the limit of a layer's repository.
    fn repository_slots(
        &self,
        configured: &ConfiguredLayer,
        snapshot: &Snapshot,
    ) -> Option<RepositorySlots> {
        let concurrency = self.limits.repository_concurrency?;
        let name = configured.repository.clone();
        let (free, free_drift) = free_slots(concurrency, snapshot.running.of(&name));
        Some(RepositorySlots { name, concurrency, free, free_drift })
    }

    /// Executes a step that was decided for a layer. The store refuses it if the facts have
    /// changed since.
    ///
    /// # Errors
    /// If the store does not answer, or an attempt could not be reached. The step may have been
    /// executed in part; the next decision continues from there.
    pub async fn perform(
        &self,
        name: &LayerName,
        configured: Option<&ConfiguredLayer>,
        step: Step,
    ) -> Result<Outcome, StepError> {
        let attempt = |run, number| AttemptId { layer: name.clone(), run, number };
        match step {
            Step::Create(run) => Ok(self.store.insert_run(name, run).await?),
            Step::TakeOver { from } => Ok(self.store.take_over(name, &from).await?),
            // In this order: without the record, the files are looked for again.
            Step::MoveFiles { from } => {
                self.executor.move_files(&from, name)?;
                Ok(self.store.files_moved(name).await?)
            }
            Step::Close { run, why } => Ok(self.store.close_run(name, &run, why).await?),
            Step::Start { run, attempt: number, timeout } => {
                let Some(configured) = configured else { return Ok(Outcome::Refused) };
                self.start(configured, attempt(run, number), timeout).await
            }
            Step::RequestStop { run, attempt: number, why } => {
                Ok(self.store.note(&attempt(run, number), Note::StopRequested(why)).await?)
            }
            Step::Miss { run, attempt: number, reports } => {
                let unknown = Note::Probed { liveness: Liveness::Unknown, reports };
                Ok(self.store.note(&attempt(run, number), unknown).await?)
            }
            Step::Stop { run, attempt: number, why } => {
                let attempt = attempt(run, number);
                let requested = self.store.note(&attempt, Note::StopRequested(why)).await?;
                if requested == Outcome::Refused {
                    return Ok(Outcome::Refused);
                }
                self.executor.stop(&attempt).await?;
                Ok(self.store.note(&attempt, Note::StopDelivered).await?)
            }
            Step::Probe { run, attempt: number, reports } => {
                let attempt = attempt(run, number);
                Ok(match self.executor.probe(&attempt).await {
                    Probe::Liveness(liveness) => {
                        self.store.note(&attempt, Note::Probed { liveness, reports }).await?
                    }
                    Probe::Ended(result) => self.store.finish(&attempt, *result).await?,
                })
            }
            Step::EndAttempt { run, attempt: number, ending } => {
                let result = AttemptResult::ended(ending);
                Ok(self.store.finish(&attempt(run, number), result).await?)
            }
        }
    }

    /// Records the attempt first: a process without a record could not be found again.
    async fn start(
        &self,
        configured: &ConfiguredLayer,
        id: AttemptId,
        timeout: Duration,
    ) -> Result<Outcome, StepError> {
        let token = AttemptToken::random()
            .map_err(|error| ExecutorError(format!("no token can be made: {error}")))?;
        let request = StartRequest {
            attempt: &id,
            state_key: &configured.state_key,
            after: &configured.layer.after,
            concurrency: self.limits.concurrency,
            repository: &configured.repository,
            repository_concurrency: self.limits.repository_concurrency,
            timeout,
            place: self.executor.place(),
            token: &token.hash(),
            fence: self.limits.fence,
        };
        if self.store.start_attempt(request).await? == Outcome::Refused {
            return Ok(Outcome::Refused);
        }
        self.executor.launch(&id, &token, timeout).await?;
        Ok(self.store.note(&id, Note::Heartbeat).await?)
    }
}

/// How many runs of a layer can have a plan whose file is needed, or was needed a moment ago.
const RUNS_WITH_PLANS: u32 = 20;

/// The newest runs of a layer, the oldest first.
pub(crate) async fn newest_runs<S: Store>(store: &S, layer: &LayerName) -> StoreResult<Vec<Run>> {
    let mut runs = store.history(layer, None, RUNS_WITH_PLANS).await?;
    runs.reverse();
    Ok(runs)
}

/// The attempts of `runs` whose files of saved plans are needed ([`decision::needed_plan_files`]).
pub(crate) fn needed_plan_files(
    name: &LayerName,
    layer: Option<&Layer>,
    snapshot: &Snapshot,
    runs: &[Run],
) -> Vec<(RunId, u32)> {
    let facts = Facts { runs: runs.to_vec(), ..snapshot.facts.clone() };
    decision::needed_plan_files(&Input {
        name,
        layer,
        observation: snapshot.observation.as_ref(),
        facts: &facts,
        surroundings: &Surroundings::default(),
        now: snapshot.now,
    })
}

/// How many more attempts, and how many more checks for drift, can run beside those that do. Half of
/// the slots are enough for drift: commits must not wait for it.
fn free_slots(concurrency: u32, running: RunningCount) -> (u32, u32) {
    let most_drift = (concurrency / 2).max(1);
    (concurrency.saturating_sub(running.attempts), most_drift.saturating_sub(running.drift))
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
