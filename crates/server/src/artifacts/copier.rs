//! Copies the files of this server's attempts into the object store.
//!
//! The directories of attempts are the queue: what is not copied stays there, and is copied when the object store
//! answers again, also by a later server with the same data directory.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use butler_base::blocking::blocking;
use butler_base::error::chain;

use super::attempt_copy::{Copied, copied, copy_log, copy_out, is_copy, remove_plan};
use super::bucket::{Bucket, BucketError};
use crate::attempts::{AttemptDirectory, PlanFiles};
use crate::data::names;
use crate::model::RunId;
use crate::store::Store;

/// The time between two passes: a reader at another server sees lines of a log so much later.
const PASS: Duration = Duration::from_secs(3);

/// The longest time between two passes while the object store does not answer.
const AWAY: Duration = Duration::from_mins(1);

/// Copies the files of attempts.
#[derive(Debug)]
pub struct Copier<S> {
    store: Arc<S>,
    bucket: Arc<Bucket>,
    attempts: PathBuf,
    place: String,
    /// By the names of the attempts' directories.
    progress: HashMap<String, Progress>,
    /// How many attempts could not be copied in the last pass.
    not_copied: Arc<AtomicUsize>,
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

impl<S: Store> Copier<S> {
    /// Copies the attempts at `place`, whose directories are in `attempts`. `not_copied` gets the number of those that
    /// could not be copied.
    #[must_use]
    pub fn new(
        store: Arc<S>,
        bucket: Arc<Bucket>,
        attempts: PathBuf,
        place: String,
        not_copied: Arc<AtomicUsize>,
    ) -> Self {
        Self { store, bucket, attempts, place, progress: HashMap::new(), not_copied }
    }

    /// Copies until the future is dropped.
    pub async fn run(&mut self) {
        let mut wait = PASS;
        loop {
            let is_away = self.pass().await > 0;
            wait = if is_away { (wait * 2).min(AWAY) } else { PASS };
            tokio::time::sleep(wait).await;
        }
    }

    /// Copies what is there. Returns how many attempts could not be copied.
    pub async fn pass(&mut self) -> usize {
        let directory = self.attempts.clone();
        let names = match blocking(move |_| names(&directory)).await {
            Ok(names) => names,
            Err(error) => {
                tracing::warn!(%error, "cannot read which attempts have files to copy");
                return 0;
            }
        };
        // The directories of others were removed.
        let exists: HashSet<&str> = names.iter().map(String::as_str).collect();
        self.progress.retain(|name, _| exists.contains(name.as_str()));
        let (mut failed, mut first) = (0, None);
        for name in names {
            if let Err(error) = self.copy(&name).await {
                failed += 1;
                first.get_or_insert(error);
            }
        }
        if let Some(error) = first {
            let error = chain(&error);
            tracing::warn!(attempts = failed, "files of attempts are copied later: {error}");
        }
        self.not_copied.store(failed, Ordering::Relaxed);
        failed
    }

    /// Copies what is new in a directory, and removes a saved plan that is not needed any more.
    async fn copy(&mut self, name: &str) -> Result<(), BucketError> {
        let directory = AttemptDirectory::at(&self.attempts.join(name));
        let progress = match self.progress.get(name) {
            Some(known @ Progress::Complete(_)) => *known,
            Some(Progress::Log(length)) => self.copy_files(name, &directory, Some(*length)).await?,
            None => self.copy_files(name, &directory, None).await?,
        };
        self.progress.insert(name.to_owned(), progress);
        // It is removed from the directory when it is not needed any more.
        if matches!(progress, Progress::Complete(Copied { has_plan: true }))
            && !PlanFiles::exists(&directory)
        {
            let copied = remove_plan(&self.bucket, name, &directory).await?;
            self.progress.insert(name.to_owned(), Progress::Complete(copied));
        }
        Ok(())
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
                    Some(attempt) if attempt.place != self.place => Attempt::Other,
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
