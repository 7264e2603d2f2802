//! Commands that lock the state, and what is done about a lock that one of them leaves.
//!
//! Which lock is a command's own is decided in [`super::lock`]. A lock is asked for with `state rm
//! -dry-run` of something that does not exist: it takes the lock, changes nothing in any case, and
//! gives it back. (`force-unlock` with a wrong id would not do: the `http` backend of Terraform
//! removes the lock whatever the id.)
//!
//! What may hold a lock is deaf to the run's stop and has a time of its own; when that is over it is
//! first asked to end, so that it can give its lock back.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;

use super::killed_lock::KilledLock;
use super::lock::{LeftLock, StateLock, Trace, own_name};
use crate::engine::arguments;
use crate::engine::error::{EngineError, Failed};
use crate::engine::invocation::Engine;
use crate::engine::plan::reported::Reported;
use crate::engine::watching::{Alone, Asking, Watch};
use butler_base::cancel::{Step, Stop, StopReason};
use butler_base::platform::Signal;
use butler_base::process::{Command, Exit, Output, Sink, supervise};

/// How long the backend may take to say who holds the lock, or to remove it. After a signal it is
/// [`Step::Lock`].
const ANSWER: Duration = Duration::from_secs(30);

/// The tool's word for what an apply does.
pub(in crate::engine) const APPLY: &str = "OperationTypeApply";

/// How a command that locks the state ended.
pub(in crate::engine) struct Locked {
    pub(in crate::engine) exit: Exit,
    pub(in crate::engine) headline: Option<String>,
    /// The lock that kept it from its work.
    pub(in crate::engine) foreign: Option<StateLock>,
    /// What became of its lock, where it did not give it back by itself.
    pub(in crate::engine) left: Option<LeftLock>,
    pub(in crate::engine) trace: Trace,
    /// What it printed about resources.
    pub(in crate::engine) reported: Reported,
}

/// A command that did not get to its end, and what is known of the lock that it may have left.
#[derive(Debug)]
pub struct Unfinished {
    /// Why.
    pub error: EngineError,
    /// What it printed about resources.
    pub reported: Reported,
    pub(in crate::engine) trace: Option<Trace>,
}

impl From<EngineError> for Box<Unfinished> {
    /// A command of which nothing is known but why it ended.
    fn from(error: EngineError) -> Self {
        Self::new(Unfinished { error, reported: Reported::default(), trace: None })
    }
}

impl Unfinished {
    /// Says what became of the lock. That it is free is worth a word only after a doubt.
    pub fn set_left(&mut self, left: LeftLock) {
        if left != LeftLock::Free || self.error.left().is_some() {
            self.error.set_left(left);
        }
    }
}

impl<S: Sink> Engine<'_, S> {
    /// Runs a command that locks the state; `operation` is the tool's word for it.
    pub(in crate::engine) async fn run_locking(
        &self,
        name: &'static str,
        operation: &'static str,
        command: &Command,
    ) -> Result<Locked, EngineError> {
        let watch = Watch::new(self.log);
        let begun = SystemTime::now();
        let (exit, observed) = self.observed(name, command, &watch).await?;
        let seen = watch.into_seen();
        let trace = Trace {
            begun,
            working: seen.working.filter(|_| !seen.ended),
            observed,
            named: seen.named,
            ..self.trace(operation)
        };
        // What wraps the tool may have an exit code of its own where the tool died without a word.
        let died = self.wrapper.is_some()
            && !exit.status.success()
            && trace.working.is_some()
            && seen.headline.is_none();
        let killed = self.was_killed(&exit) || died;
        let left = match (self.killed_lock, killed || seen.unreleased) {
            (KilledLock::EndsWithTool, _) => exit.killed.then_some(LeftLock::Ended),
            (_, false) => None,
            (..) => match &trace.observed {
                // An apply prints its result before it gives its lock back. One that was killed
                // without any had it to the end, and there may be no time to ask once more.
                Some(id)
                    if trace.locks
                        && trace.working.is_some()
                        && operation == APPLY
                        && seen.headline.is_none() =>
                {
                    Some(LeftLock::Own { id: id.clone(), failure: None })
                }
                _ => Some(self.find_left(&trace).await),
            },
        };
        Ok(Locked {
            exit,
            headline: seen.headline,
            foreign: seen.lock.lock(),
            left,
            trace,
            reported: seen.reported,
        })
    }

    /// What is known of a command before it begins.
    fn trace(&self, operation: &'static str) -> Trace {
        Trace {
            operation,
            locks: self.killed_lock != KilledLock::NeverOwn,
            begun: SystemTime::now(),
            working: None,
            observed: None,
            named: None,
            who: own_name(),
        }
    }

    /// Runs the command, and where it does not stop when it is asked to, finds out the id of the lock
    /// that is held meanwhile: not every backend tells afterwards whose a lock is.
    async fn observed(
        &self,
        name: &'static str,
        command: &Command,
        watch: &Watch<'_, S>,
    ) -> Result<(Exit, Option<String>), EngineError> {
        let running = self.supervise_any(name, command, watch);
        tokio::pin!(running);
        tokio::select! {
            exit = &mut running => return Ok((exit?, None)),
            () = self.hanging(watch) => {}
        }
        let ended = AtomicBool::new(false);
        // The answer is waited for even when the command ends: who asks may hold the lock itself.
        let (exit, id) = tokio::join!(
            async {
                let exit = running.await;
                ended.store(true, Ordering::Relaxed);
                exit
            },
            async {
                let lock = self.ask_for_lock().await;
                lock.flatten()?.id.filter(|_| !ended.load(Ordering::Relaxed))
            }
        );
        Ok((exit?, id))
    }

    /// Completes when a command at work has used up half of the grace; never where its lock ends
    /// with it.
    async fn hanging(&self, watch: &Watch<'_, S>) {
        self.stop.requested().await;
        tokio::select! {
            () = tokio::time::sleep(self.grace.normal / 2) => {}
            () = async {
                self.stop.urgent().await;
                tokio::time::sleep(self.grace.urgent / 2).await;
            } => {}
        }
        if self.killed_lock == KilledLock::EndsWithTool || !watch.is_at_work() {
            std::future::pending::<()>().await;
        }
    }

    /// Finds out whether a command that has ended without giving it back has left its lock.
    async fn find_left(&self, trace: &Trace) -> LeftLock {
        let lock = match self.ask_for_lock().await {
            None => return LeftLock::Unknown,
            Some(None) => return LeftLock::Free,
            Some(Some(lock)) => lock,
        };
        match &lock.id {
            Some(id) if lock.is_left_by(trace) => LeftLock::Own { id: id.clone(), failure: None },
            _ => LeftLock::Unsure(lock),
        }
    }

    /// Finds out once more what became of the lock of a command that has ended: its backend may
    /// not have answered before.
    pub async fn settle(&self, unfinished: &mut Unfinished) {
        let Some(trace) = &unfinished.trace else { return };
        if self.killed_lock == KilledLock::EndsWithTool {
            return;
        }
        let left = self.find_left(trace).await;
        unfinished.set_left(left);
    }

    /// Removes the lock that a command has left, where that is wanted and surely right.
    pub async fn release(&self, unfinished: &mut Unfinished) {
        let id = match unfinished.error.left() {
            Some(LeftLock::Own { id, failure: None }) if self.killed_lock == KilledLock::Remove => {
                id.clone()
            }
            _ => return,
        };
        let command = self.command(arguments::force_unlock(&id), Output::Lines);
        let watch = Watch::new(self.log);
        let failure = match self.in_time("force-unlock", &command, &watch).await {
            Ok(Some(exit)) => {
                let headline = watch.into_seen().headline;
                self.check("force-unlock", &exit, headline, None).err()
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

    /// The lock that is held, or that none is; nothing where that cannot be found out.
    async fn ask_for_lock(&self) -> Option<Option<StateLock>> {
        let command = self.command(arguments::ask_for_lock(), Output::Lines);
        let asking = Asking::default();
        let exit = self.in_time("state rm", &command, &asking).await.ok()??;
        let answer = asking.into_answer();
        match answer.lock.lock() {
            Some(lock) => Some(Some(lock)),
            None if exit.status.success() || answer.without_state => Some(None),
            None => None,
        }
    }

    /// `state push` of a file, which the backend refuses where the state has gone on since; under the
    /// lock that `unfinished` has left, where it surely has. That one keeps everybody else out, and
    /// nobody works under it any more, so to push without another is as safe as with one of its own.
    /// Deaf to the stop: it has until `late`. Returns what became of a lock of its own that it did
    /// not give back.
    ///
    /// # Errors
    /// When it fails. Such a lock is in the error then.
    pub async fn push_state(
        &self,
        file: &Path,
        unfinished: &Unfinished,
        late: impl Future<Output = ()>,
    ) -> Result<Option<LeftLock>, EngineError> {
        const NAME: &str = "state push";
        let locked = matches!(unfinished.error.left(), Some(LeftLock::Own { .. }));
        let arguments = arguments::push_state(file, locked, self.lock_timeout);
        let command = self.command(arguments, Output::Lines);
        let (watch, trace) = (Watch::new(self.log), self.trace("state-push"));
        let exit = self.until(NAME, &command, &watch, (Step::State, late)).await?;
        let seen = watch.into_seen();
        let may_be_left = (exit.is_none() || seen.unreleased)
            && !locked
            && self.killed_lock != KilledLock::EndsWithTool;
        let left = if may_be_left { Some(self.find_left(&trace).await) } else { None };
        let checked = match exit {
            Some(exit) => self.check(NAME, &exit, seen.headline, seen.lock.lock()),
            None => Err(EngineError::Failed {
                product: self.said_program(),
                command: NAME,
                failed: Box::new(Failed {
                    headline: Some("it took too long and was killed".to_owned()),
                    ..Failed::default()
                }),
            }),
        };
        match (checked, left) {
            (Ok(()), left) => Ok(left),
            (Err(mut error), left) => {
                if let Some(left) = left {
                    error.set_left(left);
                }
                Err(error)
            }
        }
    }

    /// Runs a command about a lock for as long as there is time for that; nothing if it was killed.
    async fn in_time(
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
                () = tokio::time::sleep(ANSWER) => {}
                () = self.stop.overdue(Step::Lock) => {}
            }
        };
        self.until(name, command, sink, (Step::Lock, late)).await
    }

    /// Runs a command until it is late for its step. Then it is asked to end, as it may hold the
    /// lock, and killed only when it does not: then nothing is returned.
    async fn until(
        &self,
        name: &'static str,
        command: &Command,
        sink: &impl Sink,
        (step, late): (Step, impl Future<Output = ()>),
    ) -> Result<Option<Exit>, EngineError> {
        let own = Stop::new();
        let alone = Alone(sink);
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
