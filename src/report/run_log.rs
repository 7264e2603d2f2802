//! The log of one run: redacts each line, numbers it, and hands it to every reader.
//!
//! Nothing gets in unredacted, because the redactor is part of the way in. One counter runs over
//! both streams, from 1, in order of arrival (registry API, POST logs).

use std::sync::{Arc, Mutex, PoisonError};

use super::spool::Sender;
use crate::event::{LogLine, Stream};
use crate::process::Sink;
use crate::secret::Redactor;

/// The log of one run; clones share it.
#[derive(Clone, Debug)]
pub struct RunLog {
    redactor: Arc<Redactor>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    last: u32,
    readers: Vec<Sender>,
}

impl RunLog {
    /// An empty log whose lines go to `readers`.
    #[must_use]
    pub fn new(redactor: Arc<Redactor>, readers: Vec<Sender>) -> Self {
        Self { redactor, state: Arc::new(Mutex::new(State { last: 0, readers })) }
    }

    /// What the lines are redacted with.
    #[must_use]
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// Adds what the runner itself has to say, one entry per line of `text`.
    pub fn say(&self, text: &str) {
        for line in text.lines() {
            self.line(Stream::Stdout, line.as_bytes());
        }
    }

    /// Ends the log: readers meet the end after the lines that are in it. What comes later is lost.
    pub fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).readers.clear();
    }
}

impl Sink for RunLog {
    fn line(&self, stream: Stream, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let content = self.redactor.redact(line);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.last = state.last.saturating_add(1);
        let line = LogLine { sequence: state.last, stream, content };
        for reader in &state.readers {
            reader.send(line.clone());
        }
    }

    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        let showable = self.redactor.showable(pending);
        if showable > 0 {
            self.line(stream, &pending[..showable]);
        }
        showable
    }
}
