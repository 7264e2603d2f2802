//! The last question to the host of a repository whether the repository has moved.

use std::time::{Duration, Instant};

/// The time between two questions. Each is a request in addition to those of git.
const AGAIN: Duration = Duration::from_mins(1);

/// The last question to a host. `Desired` keeps the answer.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The address that the host was asked about.
    url: String,
    at: Instant,
}

impl Asked {
    /// A question about `url` that the host has just answered.
    pub(super) fn now(url: &str) -> Self {
        Self { url: url.to_owned(), at: Instant::now() }
    }

    /// Whether it is about `url` and recent.
    pub(super) fn is_recent(&self, url: &str) -> bool {
        self.url == url && self.at.elapsed() < AGAIN
    }
}
