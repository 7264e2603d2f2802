//! Which attempts wait for the object store. Those who copy tell what begins and ends; a copy that hangs is seen too,
//! because it has begun and not ended.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a copy that goes well takes at most.
const USUAL: Duration = Duration::from_secs(10);

/// The attempts of this server with files that are not in the object store.
#[derive(Debug, Default)]
pub struct NotCopied(Mutex<HashMap<String, Waiting>>);

#[derive(Debug)]
struct Waiting {
    /// When its files were first tried to be copied without success.
    since: Instant,
    has_failed: bool,
}

impl NotCopied {
    /// How many attempts wait: those whose copy has failed, or takes longer than usual.
    #[must_use]
    pub fn count(&self, now: Instant) -> usize {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_late =
            |it: &&Waiting| it.has_failed || now.saturating_duration_since(it.since) > USUAL;
        waiting.values().filter(is_late).count()
    }

    /// A copy begins.
    pub(super) fn begun(&self, attempt: &str, now: Instant) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = || Waiting { since: now, has_failed: false };
        waiting.entry(attempt.to_owned()).or_insert_with(first);
    }

    /// The copy has failed.
    pub(super) fn failed(&self, attempt: &str) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = waiting.get_mut(attempt) {
            waiting.has_failed = true;
        }
    }

    /// All that is there was copied.
    pub(super) fn done(&self, attempt: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(attempt);
    }

    /// Only these attempts still have files.
    pub(super) fn keep(&self, attempts: &HashSet<&str>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|attempt, _| attempts.contains(attempt.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn attempt_waits_if_its_copy_has_failed_or_does_not_end() {
        let (not_copied, begun) = (NotCopied::default(), Instant::now());
        for attempt in ["hangs", "fails", "succeeds", "removed"] {
            not_copied.begun(attempt, begun);
        }
        not_copied.failed("fails");
        not_copied.done("succeeds");
        assert_eq!(not_copied.count(begun + Duration::from_secs(1)), 1, "the one that has failed");
        let later = begun + Duration::from_secs(11);
        assert_eq!(not_copied.count(later), 3);
        not_copied.keep(&["hangs", "fails"].into());
        // The next try does not begin a new wait.
        not_copied.begun("hangs", later);
        assert_eq!(not_copied.count(later), 2);
        not_copied.done("hangs");
        not_copied.done("fails");
        assert_eq!(not_copied.count(later), 0);
    }
}
