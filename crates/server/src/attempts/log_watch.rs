//! Wakes those who follow a log as soon as lines were written, and reads the lines once for all of them.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::log::{LogPage, LogPosition};
use crate::store::AttemptId;

/// Those who follow logs. A wake-up can be lost, so they also look from time to time.
#[derive(Debug, Default)]
pub struct LogWatch(Mutex<HashMap<AttemptId, Followed>>);

/// A log that is followed.
#[derive(Debug, Default)]
struct Followed {
    written: watch::Sender<()>,
    last: Arc<LastRead>,
}

/// The page that was read last, and from which position. Lines are never changed, so it stays valid.
type LastRead = tokio::sync::Mutex<Option<(LogPosition, Arc<LogPage>)>>;

/// The log of an attempt, for one of those who follow it.
#[derive(Debug)]
pub struct FollowedLog {
    /// Changes when lines were written.
    pub written: watch::Receiver<()>,
    last: Arc<LastRead>,
}

impl LogWatch {
    /// Follows the log of an attempt.
    #[must_use]
    pub fn follow(&self, attempt: &AttemptId) -> FollowedLog {
        let mut followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        followed.retain(|_, log| log.written.receiver_count() > 0);
        let log = followed.entry(attempt.clone()).or_default();
        FollowedLog { written: log.written.subscribe(), last: Arc::clone(&log.last) }
    }

    /// Wakes those who follow the log of an attempt.
    pub(super) fn written(&self, attempt: &AttemptId) {
        let followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = followed.get(attempt) {
            log.written.send_replace(());
        }
    }
}

impl FollowedLog {
    /// The lines at `position`. Most of those who follow a log wait for the same lines: the first one calls `read`,
    /// and the others get its page.
    ///
    /// # Errors
    /// Those of `read`.
    pub async fn page<E, F: Future<Output = Result<LogPage, E>>>(
        &self,
        position: LogPosition,
        read: impl FnOnce() -> F,
    ) -> Result<Arc<LogPage>, E> {
        let mut last = self.last.lock().await;
        if let Some((from, page)) = &*last {
            if *from == position {
                return Ok(Arc::clone(page));
            }
            // One that reads the beginning of a log does not delay those at its end.
            if position < *from {
                drop(last);
                return read().await.map(Arc::new);
            }
        }
        let page = Arc::new(read().await?);
        if !page.lines.is_empty() {
            *last = Some((position, Arc::clone(&page)));
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use butler_base::event::{LogLine, Stream};

    use super::*;

    #[tokio::test]
    async fn lines_wake_those_who_follow_this_log_and_others_are_forgotten() {
        let watch = LogWatch::default();
        let attempt = |number| AttemptId {
            layer: "a".parse().unwrap(),
            run: crate::model::RunId::new("r"),
            number,
        };
        let (mut one, mut other) = (watch.follow(&attempt(1)), watch.follow(&attempt(1)));
        let second = watch.follow(&attempt(2));
        watch.written(&attempt(1));
        one.written.changed().await.unwrap();
        other.written.changed().await.unwrap();
        assert!(!second.written.has_changed().unwrap());
        drop((one, other));
        drop(watch.follow(&attempt(2)));
        assert_eq!(watch.0.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn those_who_wait_for_the_same_lines_get_them_from_one_read() {
        use std::sync::atomic::{AtomicU32, Ordering};

        let watch = LogWatch::default();
        let attempt = AttemptId {
            layer: "a".parse().unwrap(),
            run: crate::model::RunId::new("r"),
            number: 1,
        };
        let all: Vec<FollowedLog> = (0..20).map(|_| watch.follow(&attempt)).collect();
        let reads = AtomicU32::new(0);
        // A log with this many lines.
        let read = |position: u32, count: u32| {
            let reads = &reads;
            async move || {
                reads.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                let lines = (position + 1..=count).map(|sequence| LogLine {
                    sequence,
                    stream: Stream::Stdout,
                    content: String::new(),
                });
                let (lines, end) = (lines.collect(), LogPosition::after(count));
                Ok::<_, ()>(LogPage { lines, end, has_more: false })
            }
        };
        for (position, count, expected_reads) in [
            // Nothing is there: each of them looks.
            (0, 0, 20),
            (0, 3, 1),
            (3, 4, 1),
            // The beginning again, for some that came later.
            (0, 4, 20),
            (4, 5, 1),
        ] {
            reads.store(0, Ordering::Relaxed);
            let pages =
                all.iter().map(|log| log.page(LogPosition::after(position), read(position, count)));
            for page in futures_util::future::join_all(pages).await {
                let page = page.unwrap();
                let sequences: Vec<u32> = page.lines.iter().map(|line| line.sequence).collect();
                assert_eq!(sequences, (position + 1..=count).collect::<Vec<u32>>());
            }
            assert_eq!(reads.load(Ordering::Relaxed), expected_reads, "{position} {count}");
        }
    }
}
