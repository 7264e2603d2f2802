//! Commands that lock the state, and what is done about a lock that one of them leaves.
//!
//! Which lock is a command's own is decided in [`super::lock`]. A lock is asked for with `state rm
//! -dry-run` of something that does not exist: it takes the lock, changes nothing in any case, and
//! gives it back. (`force-unlock` with a wrong id would not do: the `http` backend of Terraform
//! removes the lock whatever the id.)

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;

use super::arguments;
use super::commands::Engine;
use super::error::EngineError;
use super::lock::{Killed, LeftLock, StateLock, own_name};
use super::watching::{Asking, Watch};
use crate::cancel::Stop;
use crate::process::{Command, Exit, Output, Sink, supervise};

/// How long the backend may take to say who holds the lock, or to remove it.
const ANSWER: Duration = Duration::from_secs(30);

/// The same once the run has to stop: a platform that sent a signal kills soon.
const ANSWER_AFTER_STOP: Duration = Duration::from_secs(3);

/// What becomes of the lock of a tool that is killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KilledLock {
    /// It ends with the tool's process, as those of `local` and `pg` do.
    EndsWithTool,
    /// It stays, and is reported.
    Report,
    /// It stays, and is removed where it is surely the tool's own.
    Remove,
}

impl KilledLock {
    /// For a backend of this type.
    #[must_use]
    pub fn of(backend: &str, remove: bool) -> Self {
        match backend {
            "local" | "pg" => Self::EndsWithTool,
            _ if remove => Self::Remove,
            _ => Self::Report,
        }
    }
}

/// How a command that locks the state ended.
pub(super) struct Locked {
    pub(super) exit: Exit,
    pub(super) headline: Option<String>,
    /// The lock that kept it from its work.
    pub(super) foreign: Option<StateLock>,
    /// What became of its lock, where it was killed and its lock outlives it.
    pub(super) left: Option<LeftLock>,
}

impl<S: Sink> Engine<'_, S> {
    /// Runs a command that locks the state; `operation` is the tool's word for it.
    pub(super) async fn run_locking(
        &self,
        name: &'static str,
        operation: &str,
        command: &Command,
    ) -> Result<Locked, EngineError> {
        let watch = Watch::new(self.log);
        let begun = SystemTime::now();
        let (exit, observed) = self.observed(name, command, &watch).await?;
        let seen = watch.into_seen();
        let mut left = None;
        // A tool that dies of being asked to stop was not ready yet, and has locked nothing.
        let asked = [Signal::SIGTERM as i32, Signal::SIGINT as i32];
        let killed = exit.status.signal().is_some_and(|signal| !asked.contains(&signal));
        if killed && self.killed_lock != KilledLock::EndsWithTool {
            let who = own_name();
            let killed = Killed {
                operation,
                begun,
                working: seen.working.filter(|_| !seen.ended),
                observed: observed.as_ref(),
                who: who.as_deref(),
            };
            left = Some(self.settle_lock(&killed).await);
        }
        Ok(Locked { exit, headline: seen.headline, foreign: seen.lock.lock(), left })
    }

    /// Runs the command, and where it does not stop when it is asked to, finds out which lock is
    /// held meanwhile: not every backend tells afterwards whose a lock is.
    async fn observed(
        &self,
        name: &'static str,
        command: &Command,
        watch: &Watch<'_, S>,
    ) -> Result<(Exit, Option<StateLock>), EngineError> {
        let running = self.supervise_any(name, command, watch);
        tokio::pin!(running);
        tokio::select! {
            exit = &mut running => return Ok((exit?, None)),
            () = self.hanging(watch) => {}
        }
        let ended = AtomicBool::new(false);
        // The answer is waited for even when the command ends: who asks may hold the lock itself.
        let (exit, lock) = tokio::join!(
            async {
                let exit = running.await;
                ended.store(true, Ordering::Relaxed);
                exit
            },
            async {
                let lock = self.ask_for_lock().await;
                lock.flatten().filter(|_| !ended.load(Ordering::Relaxed))
            }
        );
        Ok((exit?, lock))
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

    /// Finds out what became of the lock of a command that was killed, and removes it where that
    /// is wanted and surely right.
    async fn settle_lock(&self, killed: &Killed<'_>) -> LeftLock {
        let lock = match self.ask_for_lock().await {
            None => return LeftLock::Unknown,
            Some(None) => return LeftLock::Free,
            Some(Some(lock)) => lock,
        };
        let id = match &lock.id {
            Some(id) if lock.is_left_by(killed) => id.clone(),
            _ => return LeftLock::Unsure(lock),
        };
        if self.killed_lock != KilledLock::Remove {
            return LeftLock::Own { id, failure: None };
        }
        let command = self.command(arguments::force_unlock(&id), Output::Lines);
        match self.bounded(self.undisturbed("force-unlock", &command)).await {
            Some(Ok(_)) => LeftLock::Removed { id },
            Some(Err(error)) => LeftLock::Own { id, failure: Some(crate::error::chain(&error)) },
            None => LeftLock::Own { id, failure: Some("it took too long".to_owned()) },
        }
    }

    /// The lock that is held, or that none is; nothing where that cannot be found out. Deaf to the
    /// stop, but bounded.
    async fn ask_for_lock(&self) -> Option<Option<StateLock>> {
        let command = self.command(arguments::ask_for_lock(), Output::Lines);
        let asking = Asking::default();
        let stop = Stop::new();
        let asked = supervise(&command, &asking, &stop, self.grace);
        let exit = self.bounded(asked).await?.ok()?;
        let answer = asking.into_answer();
        match answer.lock.lock() {
            Some(lock) => Some(Some(lock)),
            None if exit.status.success() || answer.without_state => Some(None),
            None => None,
        }
    }

    /// `state push` of a file, which the backend refuses where the state has gone on since. Deaf
    /// to the stop: drop the future instead.
    ///
    /// # Errors
    /// When it fails.
    pub async fn push_state(&self, file: &Path) -> Result<(), EngineError> {
        let arguments = arguments::push_state(file, self.lock_timeout);
        self.undisturbed("state push", &self.command(arguments, Output::Lines)).await.map(drop)
    }

    /// Waits for `work`, but not for long.
    async fn bounded<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = tokio::time::sleep(ANSWER) => None,
            () = async {
                self.stop.requested().await;
                tokio::time::sleep(ANSWER_AFTER_STOP).await;
            } => None,
        }
    }
}
