//! Copies the files of this server's attempts into the object store.
//!
//! The directories of attempts are the queue: what is not copied stays there, and is copied when the object store
//! answers again, also by a later server with the same data directory.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use butler_base::blocking::blocking;
use butler_base::error::chain;

use super::attempt_copy::{Copied, copied, copy_log, copy_out, is_copy, remove_plan};
use super::bucket::{Bucket, BucketError};
use super::pending::Pending;
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
    /// Attempts with nothing left to copy, by the names of their directories.
    done: HashSet<String>,
    /// Attempts whose saved plan is in the object store.
    with_plan: HashSet<String>,
    /// How much of the log of each running attempt is copied.
    logs: HashMap<String, u64>,
    pending: Arc<Pending>,
}

/// What is to be done with the files of an attempt.
enum Attempt {
    /// They are not those of an attempt of this server.
    Other,
    Running,
    Ended,
}

impl<S: Store> Copier<S> {
    /// Copies the attempts at `place`, whose directories are in `attempts`.
    #[must_use]
    pub fn new(
        store: Arc<S>,
        bucket: Arc<Bucket>,
        attempts: PathBuf,
        place: String,
        pending: Arc<Pending>,
    ) -> Self {
        let (done, with_plan, logs) = (HashSet::new(), HashSet::new(), HashMap::new());
        Self { store, bucket, attempts, place, done, with_plan, logs, pending }
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
        self.forget(&names.iter().map(String::as_str).collect());
        let (mut failed, mut first) = (0, None);
        for name in names {
            if self.done.contains(&name) && !self.with_plan.contains(&name) {
                continue;
            }
            if let Err(error) = self.copy(&name).await {
                failed += 1;
                first.get_or_insert(error);
            }
        }
        if let Some(error) = first {
            let error = chain(&error);
            tracing::warn!(attempts = failed, "files of attempts are copied later: {error}");
        }
        self.pending.set(failed);
        failed
    }

    /// Forgets attempts whose directories were removed.
    fn forget(&mut self, names: &HashSet<&str>) {
        self.done.retain(|name| names.contains(name.as_str()));
        self.with_plan.retain(|name| names.contains(name.as_str()));
        self.logs.retain(|name, _| names.contains(name.as_str()));
    }

    async fn copy(&mut self, name: &str) -> Result<(), BucketError> {
        let directory = AttemptDirectory::at(&self.attempts.join(name));
        if !self.done.contains(name)
            && let Some(Copied { has_plan }) = self.copy_files(name, &directory).await?
        {
            self.logs.remove(name);
            self.done.insert(name.to_owned());
            if has_plan {
                self.with_plan.insert(name.to_owned());
            }
        }
        // It is removed from the directory when it is not needed any more.
        if self.with_plan.contains(name) && !PlanFiles::exists(&directory) {
            remove_plan(&self.bucket, name, &directory).await?;
            self.with_plan.remove(name);
        }
        Ok(())
    }

    /// Copies the files in a directory. Returns what was copied if nothing is left to copy.
    async fn copy_files(
        &mut self,
        name: &str,
        directory: &AttemptDirectory,
    ) -> Result<Option<Copied>, BucketError> {
        if is_copy(directory) {
            return Ok(Some(Copied::default()));
        }
        if let Some(copied) = copied(directory)? {
            return Ok(Some(copied));
        }
        match self.find(name).await {
            Attempt::Other => Ok(Some(Copied::default())),
            Attempt::Running => {
                let from = self.logs.get(name).copied();
                let length = copy_log(&self.bucket, name, directory, from).await?;
                self.logs.insert(name.to_owned(), length);
                Ok(None)
            }
            Attempt::Ended => Ok(Some(copy_out(&self.bucket, name, directory).await?)),
        }
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
