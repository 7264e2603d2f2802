//! Finds the files of an attempt, whichever server has made it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::attempt_copy::{copy_in, is_complete_copy};
use super::bucket::{Bucket, BucketError};
use crate::attempts::AttemptDirectory;
use crate::model::server_of;
use crate::store::AttemptId;

/// The time between two looks at an attempt of another server that is not copied completely. All who ask for it
/// meanwhile get what the last look has found.
const AGAIN: Duration = Duration::from_secs(2);

/// The files of all attempts.
#[derive(Debug)]
pub struct AttemptFiles {
    attempts: PathBuf,
    /// The place of the attempts of this server.
    own: String,
    bucket: Option<Arc<Bucket>>,
    looks: Mutex<HashMap<AttemptId, Look>>,
}

/// When an attempt was looked at last. The lock lets one look at it at a time.
type Look = Arc<tokio::sync::Mutex<Option<Instant>>>;

impl AttemptFiles {
    /// The files below the directory of all attempts. Those of attempts whose place is not `own` are copied from
    /// `bucket`; without one, they are not found.
    #[must_use]
    pub fn new(attempts: PathBuf, own: String, bucket: Option<Arc<Bucket>>) -> Self {
        Self { attempts, own, bucket, looks: Mutex::default() }
    }

    /// The directory of an attempt, as it is.
    #[must_use]
    pub fn local(&self, attempt: &AttemptId) -> AttemptDirectory {
        AttemptDirectory::of(&self.attempts, attempt)
    }

    /// The directory of an attempt that ran at `place`, with what the object store has of it.
    ///
    /// # Errors
    /// If the object store does not answer. [`Self::local`] has what was copied before.
    pub async fn of(
        &self,
        attempt: &AttemptId,
        place: &str,
    ) -> Result<AttemptDirectory, BucketError> {
        let directory = self.local(attempt);
        let Some(bucket) = &self.bucket else { return Ok(directory) };
        // Its directory can be lost, with the disk of a server whose store is elsewhere.
        let is_here = server_of(place) == self.own && directory.path().exists();
        if is_here || is_complete_copy(&directory) {
            return Ok(directory);
        }
        let look = self.look(attempt);
        let mut last = look.lock().await;
        if last.is_none_or(|last| last.elapsed() >= AGAIN) {
            copy_in(bucket, &attempt.to_string(), &directory).await?;
            *last = Some(Instant::now());
        }
        Ok(directory)
    }

    /// Whether another server has not copied all files of an attempt yet, as far as this one has seen.
    #[must_use]
    pub fn is_awaited(&self, attempt: &AttemptId, place: &str) -> bool {
        let is_of_other = server_of(place) != self.own;
        self.bucket.is_some() && is_of_other && !is_complete_copy(&self.local(attempt))
    }

    fn look(&self, attempt: &AttemptId) -> Look {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nothing waits for, and that would be looked at again.
        looks.retain(|_, look| {
            Arc::strong_count(look) > 1
                || look.try_lock().is_ok_and(|last| last.is_some_and(|last| last.elapsed() < AGAIN))
        });
        Arc::clone(looks.entry(attempt.clone()).or_default())
    }
}
