//! The log of one run: redacts each line, numbers it, and hands it to every reader.
//!
//! Nothing gets in unredacted, because the redactor is part of the way in. One counter runs over
//! both streams, from 1, in order of arrival (registry API, POST logs). A line that needs no
//! masking is copied once for each reader and nowhere else.

use std::sync::{Arc, Mutex, PoisonError};

use super::block::Entry;
use super::spool::Sender;
use crate::event::Stream;
use crate::process::Sink;
use crate::secret::Redactor;

/// The largest number that the registry can store, a signed 32-bit integer.
const LARGEST_SEQUENCE: u32 = i32::MAX.unsigned_abs();

/// Who a line comes from.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Origin {
    Child,
    Runner,
}

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

    /// Adds what the runner itself has to say, one entry per line of `text`. Readers of
    /// [`Sender::children_only`] do not get it.
    pub fn say(&self, text: &str) {
        for line in text.lines() {
            self.add(Origin::Runner, Stream::Stdout, line.as_bytes());
        }
    }

    /// Ends the log: readers meet the end after the lines that are in it. What comes later is lost.
    pub fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).readers.clear();
    }

    fn add(&self, origin: Origin, stream: Stream, line: &[u8]) {
        // Windows programs end their lines with it; one inside a line is a progress bar's.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let content = self.redactor.redact(line);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last == LARGEST_SEQUENCE {
            return;
        }
        state.last += 1;
        let entry = Entry { sequence: state.last, stream, content: &content };
        for reader in &state.readers {
            if origin == Origin::Child || !reader.is_children_only() {
                reader.send(entry);
            }
        }
    }
}

impl Sink for RunLog {
    fn line(&self, stream: Stream, line: &[u8]) {
        self.add(Origin::Child, stream, line);
    }

    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        let showable = self.redactor.showable(pending);
        if showable > 0 {
            self.line(stream, &pending[..showable]);
        }
        showable
    }
}
