//! Wakes those who follow a log as soon as lines were written.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::store::AttemptId;

/// Those who follow logs. A wake-up can be lost, so they also look from time to time.
#[derive(Debug, Default)]
pub struct LogWatch(Mutex<HashMap<AttemptId, watch::Sender<()>>>);

impl LogWatch {
    /// Changes when lines were written to the log of an attempt.
    #[must_use]
    pub fn follow(&self, attempt: &AttemptId) -> watch::Receiver<()> {
        let mut followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        followed.retain(|_, sender| sender.receiver_count() > 0);
        followed.entry(attempt.clone()).or_default().subscribe()
    }

    /// Wakes those who follow the log of an attempt.
    pub(super) fn written(&self, attempt: &AttemptId) {
        let followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = followed.get(attempt) {
            sender.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
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
        one.changed().await.unwrap();
        other.changed().await.unwrap();
        assert!(!second.has_changed().unwrap());
        drop((one, other));
        drop(watch.follow(&attempt(2)));
        assert_eq!(watch.0.lock().unwrap().len(), 1);
    }
}
