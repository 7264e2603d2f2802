//! The redacted lines of a command that wait for the next line, because it may complete a secret.

use std::sync::{Mutex, MutexGuard, PoisonError};

use butler_base::event::Stream;
use butler_base::secret::LineRedactor;

/// Redacts the lines of standard output and of standard error, each with their own successors.
#[derive(Debug, Default)]
pub struct WaitingLines([Mutex<LineRedactor>; 2]);

impl WaitingLines {
    /// The lines of `stream`. They stay locked while the result is used, so that they keep their order.
    pub fn of(&self, stream: Stream) -> MutexGuard<'_, LineRedactor> {
        let lines = match stream {
            Stream::Stdout => &self.0[0],
            Stream::Stderr => &self.0[1],
        };
        lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
