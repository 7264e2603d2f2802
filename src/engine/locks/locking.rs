//! Commands that lock the state, and the handling of a lock that one of them leaves.
//!
//! [`super::trace`] decides whether a lock is a command's own. The runner queries the lock with `state rm
//! -dry-run` of a resource that does not exist: this takes the lock, changes nothing, and releases it.
//! (`force-unlock` with a wrong id is not an alternative: Terraform's `http` backend removes the lock for any
//! id.)
//!
//! A command that may hold a lock ignores the run's stop and has a time limit of its own. When the limit is
//! over, the command gets a signal first, so that it can release its lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;

use super::killed_lock::KilledLock;
use super::lock::LeftLock;
use super::lock_output::LockSeeker;
use super::trace::{LockTrace, own_name};
use crate::engine::arguments;
use crate::engine::error::EngineError;
use crate::engine::failures::printed::PrintedErrors;
use crate::engine::invocation::{CommandEnd, Engine};
use crate::engine::plan::reported::ReportedResources;
use crate::engine::watching::{LockQuery, OutputWatch, WithoutAcknowledgement};
use butler_base::cancel::{Step, Stop, StopReason};
use butler_base::platform::Signal;
use butler_base::process::{Command, Exit, Output, Sink, supervise};
use butler_protocol::backend::StateLock;

/// How long the backend may take to report the holder of the lock or to remove the lock. After a signal the
/// limit is that of [`Step::Lock`].
const LOCK_COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// The tool's name of an apply.
pub(in crate::engine) const APPLY: &str = "OperationTypeApply";

/// The end of a command that locks the state.
pub(in crate::engine) struct LockingExit {
    pub(in crate::engine) exit: Exit,
    /// The errors that it printed, and the lock of another command, because of which it failed.
    pub(in crate::engine) end: CommandEnd,
    /// Its own lock, if it did not release it.
    pub(in crate::engine) left: Option<LeftLock>,
    pub(in crate::engine) trace: LockTrace,
    /// What it printed about resources.
    pub(in crate::engine) reported: ReportedResources,
}

/// The backend did not report which lock is held.
pub(super) struct NoAnswer {
    /// The errors that the query printed.
    pub(super) errors: PrintedErrors,
}

/// A command that failed or was stopped, and may have left its lock.
#[derive(Debug)]
pub struct UnfinishedCommand {
    /// The reason.
    pub error: EngineError,
    /// What it printed about resources.
    pub reported: ReportedResources,
    pub(in crate::engine) trace: Option<LockTrace>,
}

impl From<EngineError> for Box<UnfinishedCommand> {
    /// A command that did not take a lock.
    fn from(error: EngineError) -> Self {
        Self::new(UnfinishedCommand { error, reported: ReportedResources::default(), trace: None })
    }
}

impl UnfinishedCommand {
    /// Stores what is known about the lock. A free lock is reported only if another result was stored before.
    pub fn set_left(&mut self, left: LeftLock) {
        if left != LeftLock::Free || self.error.left().is_some() {
            self.error.set_left(left);
        }
    }
}

impl<S: Sink> Engine<'_, S> {
    /// Runs a command that locks the state; `operation` is the tool's name of it.
    pub(in crate::engine) async fn run_locking(
        &self,
        name: &'static str,
        operation: &'static str,
        command: &Command,
    ) -> Result<LockingExit, EngineError> {
        let watch = OutputWatch::new(self.log, &self.remote_runs);
        let seeker = LockSeeker::now();
        let (exit, observed) = self.run_and_observe_lock(name, command, &watch).await?;
        let seen = watch.into_observed();
        let trace = LockTrace {
            begun: seeker.begun,
            working: seen.working.filter(|_| !seen.ended),
            observed,
            named: seen.named,
            ..self.trace(operation)
        };
        // Terragrunt may exit with a code of its own if the tool died without an error message.
        let died = self.wrapper.is_some()
            && !exit.status.success()
            && trace.working.is_some()
            && seen.errors.is_empty();
        let killed = self.was_killed(&exit) || died;
        let mut reported = seen.reported;
        if killed {
            reported.set_killed();
        }
        let left = match (self.killed_lock, killed || seen.unreleased) {
            (KilledLock::EndsWithTool, _) => exit.killed.then_some(LeftLock::Ended),
            (_, false) => None,
            (..) => match &trace.observed {
                // An apply prints its result before it releases its lock. If it was killed before it printed
                // a result, it still held the lock, and there may not be time for another query.
                Some(id)
                    if trace.locks
                        && trace.working.is_some()
                        && operation == APPLY
                        && seen.errors.is_empty() =>
                {
                    Some(LeftLock::Own { id: id.clone(), failure: None })
                }
                _ => Some(self.find_left_lock(&trace).await),
            },
        };
        Ok(LockingExit {
            exit,
            end: CommandEnd { errors: seen.errors, lock: seen.lock.lock(&seeker) },
            left,
            trace,
            reported,
        })
    }

    /// The observations before a command starts.
    pub(super) fn trace(&self, operation: &'static str) -> LockTrace {
        LockTrace {
            operation,
            locks: self.killed_lock != KilledLock::NeverOwn,
            begun: SystemTime::now(),
            working: None,
            observed: None,
            named: None,
            who: own_name(),
        }
    }

    /// Runs the command. If it does not stop when it is asked to, also returns the id of the lock that is held
    /// meanwhile, because not all backends report the holder later.
    async fn run_and_observe_lock(
        &self,
        name: &'static str,
        command: &Command,
        watch: &OutputWatch<'_, S>,
    ) -> Result<(Exit, Option<String>), EngineError> {
        let running = self.supervise_to_exit(name, command, watch);
        tokio::pin!(running);
        tokio::select! {
            exit = &mut running => return Ok((exit?, None)),
            () = self.wait_until_unresponsive(watch) => {}
        }
        let ended = AtomicBool::new(false);
        // The query is completed even if the command ends, because the query itself may hold the lock.
        let (exit, id) = tokio::join!(
            async {
                let exit = running.await;
                ended.store(true, Ordering::Relaxed);
                exit
            },
            async {
                let lock = self.query_lock().await;
                lock.ok().flatten()?.id.filter(|_| !ended.load(Ordering::Relaxed))
            }
        );
        Ok((exit?, id))
    }

    /// Completes when a stopped command still works after half of the grace period. Never completes if the
    /// lock ends with the command's process.
    async fn wait_until_unresponsive(&self, watch: &OutputWatch<'_, S>) {
        self.stop.requested().await;
        tokio::select! {
            () = tokio::time::sleep(self.grace.normal / 2) => {}
            () = async {
                self.stop.urgent().await;
                tokio::time::sleep(self.grace.urgent / 2).await;
            } => {}
        }
        if self.killed_lock == KilledLock::EndsWithTool || !watch.is_working() {
            std::future::pending::<()>().await;
        }
    }

    /// Queries the lock after a command has ended without releasing its own.
    pub(super) async fn find_left_lock(&self, trace: &LockTrace) -> LeftLock {
        let lock = match self.query_lock().await {
            Err(_) => return LeftLock::Unknown,
            Ok(None) => return LeftLock::Free,
            Ok(Some(lock)) => lock,
        };
        match &lock.id {
            Some(id) if trace.has_left(&lock) => LeftLock::Own { id: id.clone(), failure: None },
            _ => LeftLock::Unsure(lock),
        }
    }

    /// Queries the lock of a command that has ended again, because the backend may not have answered before.
    pub async fn recheck_lock(&self, unfinished: &mut UnfinishedCommand) {
        let Some(trace) = &unfinished.trace else { return };
        if self.killed_lock == KilledLock::EndsWithTool {
            return;
        }
        let left = self.find_left_lock(trace).await;
        unfinished.set_left(left);
    }

    /// Removes the lock that a command has left, if it is certainly its own and `--force-unlock-own` is set.
    pub async fn release_lock(&self, unfinished: &mut UnfinishedCommand) {
        let id = match unfinished.error.left() {
            Some(LeftLock::Own { id, failure: None }) if self.killed_lock == KilledLock::Remove => {
                id.clone()
            }
            _ => return,
        };
        let command = self.command(arguments::force_unlock(&id), Output::Lines);
        let watch = OutputWatch::new(self.log, &self.remote_runs);
        let failure = match self.run_in_time("force-unlock", &command, &watch).await {
            Ok(Some(exit)) => {
                let end = CommandEnd::of(watch.into_observed(), &LockSeeker::now());
                self.check_exit("force-unlock", &exit, end).err()
            }
            Ok(None) => {
                let failure = Some("it took too long".to_owned());
                return unfinished.error.set_left(LeftLock::Own { id, failure });
            }
            Err(error) => Some(error),
        };
        unfinished.error.set_left(match failure.map(|error| butler_base::error::chain(&error)) {
            Some(failure) => LeftLock::Own { id, failure: Some(failure) },
            None => LeftLock::Removed { id },
        });
    }

    /// The lock that is held; none if the state is not locked.
    ///
    /// # Errors
    /// If the backend does not answer.
    pub(super) async fn query_lock(&self) -> Result<Option<StateLock>, NoAnswer> {
        let command = self.command(arguments::query_lock(), Output::Lines);
        let (query, seeker) = (LockQuery::default(), LockSeeker::now());
        let exit = self.run_in_time("state rm", &command, &query).await;
        let Ok(Some(exit)) = exit else {
            return Err(NoAnswer { errors: PrintedErrors::default() });
        };
        let result = query.into_result();
        match result.lock.lock(&seeker) {
            Some(lock) => Ok(Some(lock)),
            None if exit.status.success() || result.without_state => Ok(None),
            None => Err(NoAnswer { errors: result.errors }),
        }
    }

    /// Runs a command about a lock within its time limit; none if it was killed.
    pub(super) async fn run_in_time(
        &self,
        name: &'static str,
        command: &Command,
        sink: &impl Sink,
    ) -> Result<Option<Exit>, EngineError> {
        if self.stop.overdue(Step::Lock).now_or_never().is_some() {
            return Ok(None);
        }
        let late = async {
            tokio::select! {
                () = tokio::time::sleep(LOCK_COMMAND_TIMEOUT) => {}
                () = self.stop.overdue(Step::Lock) => {}
            }
        };
        self.run_until(name, command, sink, (Step::Lock, late)).await
    }

    /// Runs a command until `late`. It then gets a signal, because it may hold the lock, and is killed if it
    /// does not end; then returns none.
    pub(super) async fn run_until(
        &self,
        name: &'static str,
        command: &Command,
        sink: &impl Sink,
        (step, late): (Step, impl Future<Output = ()>),
    ) -> Result<Option<Exit>, EngineError> {
        let own = Stop::new();
        let alone = WithoutAcknowledgement(sink);
        let running = supervise(command, &alone, &own, self.grace);
        tokio::pin!(running);
        let ended = tokio::select! {
            ended = &mut running => Some(ended),
            () = late => {
                own.request(self.stop.reason().unwrap_or(StopReason::Signal(Signal::SIGTERM)));
                tokio::time::timeout(self.stop.last_grace(step), running).await.ok()
            }
        };
        ended.transpose().map_err(|source| EngineError::Process { command: name, source })
    }
}
