//! Copies the files of this server's attempts into the object store.
//!
//! The directories of attempts are the queue: what is not copied stays there, and is copied when the object store
//! answers again, also by a later server with the same data directory. Attempts are copied beside each other, so that
//! one whose request is not answered delays no other.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use butler_base::blocking::blocking;
use butler_base::error::chain;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::attempt_copy::{Copied, copied, copy_log, copy_out, is_copy, remove_plan};
use super::bucket::{Bucket, BucketError};
use super::not_copied::NotCopied;
use crate::attempts::{AttemptDirectory, PlanFiles};
use crate::data::names;
use crate::model::{RunId, server_of};
use crate::store::Store;

/// The time between two looks at the attempts: a reader at another server sees lines of a log so much later.
const PASS: Duration = Duration::from_secs(3);

/// The longest time between two copies of an attempt that fail.
const AWAY: Duration = Duration::from_mins(1);

/// How many attempts are copied at the same time. Each has a chunk of a file in memory.
const BESIDE: usize = 8;

/// Copies the files of attempts.
#[derive(Debug)]
pub struct Copier<S> {
    source: Arc<Source<S>>,
    /// By the names of the attempts' directories.
    progress: HashMap<String, Progress>,
    /// When those are copied again whose last copy failed, and the time between these copies.
    failed: HashMap<String, (Instant, Duration)>,
    copies: JoinSet<(String, Result<Progress, BucketError>)>,
    /// Those that are being copied.
    copied_now: HashSet<String>,
    places: Arc<Semaphore>,
}

/// The places of files that are read and written.
#[derive(Debug)]
struct Source<S> {
    store: Arc<S>,
    bucket: Arc<Bucket>,
    attempts: PathBuf,
    place: String,
    not_copied: Arc<NotCopied>,
}

/// How far an attempt is copied.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// It runs, and so many bytes of its log are copied.
    Log(u64),
    /// Nothing is left to copy.
    Complete(Copied),
}

/// What is to be done with the files of an attempt.
enum Attempt {
    /// They are not those of an attempt of this server.
    Other,
    Running,
    Ended,
}

impl<S: Store + 'static> Copier<S> {
    /// Copies the attempts at `place`, whose directories are in `attempts`. `not_copied` gets those that wait.
    #[must_use]
    pub fn new(
        store: Arc<S>,
        bucket: Arc<Bucket>,
        attempts: PathBuf,
        place: String,
        not_copied: Arc<NotCopied>,
    ) -> Self {
        Self {
            source: Arc::new(Source { store, bucket, attempts, place, not_copied }),
            progress: HashMap::new(),
            failed: HashMap::new(),
            copies: JoinSet::new(),
            copied_now: HashSet::new(),
            places: Arc::new(Semaphore::new(BESIDE)),
        }
    }

    /// Copies until the future is dropped.
    pub async fn run(&mut self) {
        loop {
            let now = Instant::now();
            self.begin(|due| due <= now).await;
            let failed = self.ends_until(Some(now + PASS)).await;
            self.log(failed);
        }
    }

    /// Copies what is there. Returns how many attempts could not be copied.
    pub async fn pass(&mut self) -> usize {
        self.begin(|_| true).await;
        let failed = self.ends_until(None).await;
        self.log(failed);
        self.failed.len()
    }

    fn log(&self, failed: Option<BucketError>) {
        if let Some(error) = failed {
            let (attempts, error) = (self.failed.len(), chain(&error));
            tracing::warn!(attempts, "files of attempts are copied later: {error}");
        }
    }

    /// Begins to copy each attempt that is not being copied, and each whose copy failed if it `is_due`.
    async fn begin(&mut self, is_due: impl Fn(Instant) -> bool) {
        let directory = self.source.attempts.clone();
        let names = match blocking(move |_| names(&directory)).await {
            Ok(names) => names,
            Err(error) => {
                tracing::warn!(%error, "cannot read which attempts have files to copy");
                return;
            }
        };
        // The directories of others were removed.
        let exists: HashSet<&str> = names.iter().map(String::as_str).collect();
        self.progress.retain(|name, _| exists.contains(name.as_str()));
        self.failed.retain(|name, _| exists.contains(name.as_str()));
        self.source.not_copied.keep(&exists);
        for name in names {
            let waits = self.failed.get(&name).is_some_and(|(due, _)| !is_due(*due));
            if waits || !self.copied_now.insert(name.clone()) {
                continue;
            }
            let (source, places) = (Arc::clone(&self.source), Arc::clone(&self.places));
            let progress = self.progress.get(&name).copied();
            self.copies.spawn(async move {
                // Nothing closes the semaphore.
                let _place = places.acquire().await;
                let copied = source.copy(&name, progress).await;
                (name, copied)
            });
        }
    }

    /// Records which copies end, until `deadline` or until none is left. Returns the first error.
    async fn ends_until(&mut self, deadline: Option<Instant>) -> Option<BucketError> {
        let mut first = None;
        loop {
            let ended = match deadline {
                None => self.copies.join_next().await,
                Some(deadline) if self.copies.is_empty() => {
                    tokio::time::sleep_until(deadline).await;
                    None
                }
                Some(deadline) => {
                    timeout_at(deadline, self.copies.join_next()).await.unwrap_or_default()
                }
            };
            match ended {
                None => return first,
                Some(Ok((name, copied))) => {
                    first = first.or(self.record(name, copied));
                }
                Some(Err(error)) => tracing::error!(%error, "a copy has failed (a bug)"),
            }
        }
    }

    /// Records the end of a copy. Returns its error.
    fn record(
        &mut self,
        name: String,
        copied: Result<Progress, BucketError>,
    ) -> Option<BucketError> {
        self.copied_now.remove(&name);
        match copied {
            Ok(progress) => {
                self.failed.remove(&name);
                self.progress.insert(name, progress);
                None
            }
            Err(error) => {
                let last = self.failed.get(&name).map_or(PASS, |(_, wait)| *wait);
                let wait = (last * 2).min(AWAY);
                self.failed.insert(name, (Instant::now() + wait, wait));
                Some(error)
            }
        }
    }
}

impl<S: Store> Source<S> {
    /// Copies what is new in a directory, and removes a saved plan that is not needed any more.
    async fn copy(&self, name: &str, known: Option<Progress>) -> Result<Progress, BucketError> {
        let directory = AttemptDirectory::at(&self.attempts.join(name));
        let is_done = |progress: &Progress| match progress {
            // It is removed from the directory when it is not needed any more.
            Progress::Complete(copied) => !copied.has_plan || PlanFiles::exists(&directory),
            Progress::Log(_) => false,
        };
        if let Some(known) = known.filter(is_done) {
            return Ok(known);
        }
        self.not_copied.begun(name, Instant::now());
        let copied = self.copy_directory(name, &directory, known).await;
        match &copied {
            Ok(_) => self.not_copied.done(name),
            Err(_) => self.not_copied.failed(name),
        }
        copied
    }

    async fn copy_directory(
        &self,
        name: &str,
        directory: &AttemptDirectory,
        known: Option<Progress>,
    ) -> Result<Progress, BucketError> {
        let progress = match known {
            Some(known @ Progress::Complete(_)) => known,
            Some(Progress::Log(length)) => self.copy_files(name, directory, Some(length)).await?,
            None => self.copy_files(name, directory, None).await?,
        };
        if matches!(progress, Progress::Complete(Copied { has_plan: true }))
            && !PlanFiles::exists(directory)
        {
            return Ok(Progress::Complete(remove_plan(&self.bucket, name, directory).await?));
        }
        Ok(progress)
    }

    /// Copies the files in a directory. So much of the log is copied, if that is known.
    async fn copy_files(
        &self,
        name: &str,
        directory: &AttemptDirectory,
        log: Option<u64>,
    ) -> Result<Progress, BucketError> {
        if is_copy(directory) {
            return Ok(Progress::Complete(Copied::default()));
        }
        if let Some(copied) = copied(directory)? {
            return Ok(Progress::Complete(copied));
        }
        Ok(match self.find(name).await {
            Attempt::Other => Progress::Complete(Copied::default()),
            Attempt::Running => Progress::Log(copy_log(&self.bucket, name, directory, log).await?),
            Attempt::Ended => Progress::Complete(copy_out(&self.bucket, name, directory).await?),
        })
    }

    /// What the store says about the attempt of a directory.
    async fn find(&self, name: &str) -> Attempt {
        let Some((run, number)) = name.rsplit_once('-') else { return Attempt::Other };
        let Ok(number) = number.parse::<u32>() else { return Attempt::Other };
        match self.store.run(&RunId::new(run)).await {
            Ok(Some((_, run))) => {
                let attempt = run.attempts.iter().find(|attempt| attempt.number == number);
                match attempt {
                    Some(attempt) if server_of(&attempt.place) != self.place => Attempt::Other,
                    Some(attempt) if attempt.end.is_some() => Attempt::Ended,
                    // It may be about to be recorded.
                    _ => Attempt::Running,
                }
            }
            // Its run was removed, and its directory is removed too.
            Ok(None) => Attempt::Other,
            Err(error) => {
                tracing::warn!(%error, name, "cannot read whether an attempt has ended");
                Attempt::Running
            }
        }
    }
}

#[cfg(test)]
#[path = "copier_tests.rs"]
mod tests;
