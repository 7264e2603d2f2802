//! What is known about the address of a repository.

use std::time::{Duration, Instant};

/// The time between two questions. Each is a request in addition to those of git.
const AGAIN: Duration = Duration::from_mins(1);

/// What is known about the address of a repository.
#[derive(Clone, Debug, Default)]
pub(super) struct Address {
    /// The address that the host was asked about, and when.
    asked: Option<(String, Instant)>,
    /// What people should know, in one sentence.
    pub(super) moved: Option<String>,
}

impl Address {
    /// What the host of `url` has just answered.
    pub(super) fn answered(url: &str, moved: Option<String>) -> Self {
        Self { asked: Some((url.to_owned(), Instant::now())), moved }
    }

    /// Whether it is about `url` and recent.
    pub(super) fn is_known(&self, url: &str) -> bool {
        self.asked.as_ref().is_some_and(|(asked, at)| asked == url && at.elapsed() < AGAIN)
    }
}
